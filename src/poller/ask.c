/* ask.c: asks programs, in a thread of its own. All of them are asked before
 * the first answer is read, so that one that does not answer delays no other.
 */
#include "poller.h"

#include "base/clock.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <sys/socket.h>
#include <unistd.h>

#define LOOK_NS (30 * NS_PER_S)
#define LEAD_NS (NS_PER_S / 2) /* before the end of an interval */
#define ANSWER_NS (NS_PER_S / 5)
#define SOON_NS (NS_PER_S / 4) /* intervals are not quite equally long */
#define AWAY_NS (60 * NS_PER_S)
#define ENDS "it ends the connection; perhaps it has enough clients"
enum { MISSES = 3 };

#define OVS(method, parameter)                                                 \
  "{\"id\":0,\"method\":\"dpif-netdev/" method "\",\"params\":[" parameter "]" \
  "}"
/* What Open vSwitch tells since 4.0: percents of the last seconds. */
#define OVS_PERCENTS OVS("pmd-rxq-show", "\"-secs\",\"5\"")

static const struct {
  uint64_t period_ns; /* it is asked at most this often */
  const char *question, *nothing;
} dialects[] = {
    [POLLER_DPDK] = {0, "/eal/lcore/usage",
                     "it does not tell how busy its lcores are; this takes "
                     "DPDK 23.03 and rte_lcore_register_usage_cb (testpmd: "
                     "--record-core-cycles), or percore_poll"},
    /* Its main thread answers, which has other work. */
    [POLLER_OVS] = {5 * NS_PER_S, OVS("pmd-stats-show", ""),
                    "none of its threads polls"},
    /* Each of its reactors reads /proc/stat for an answer. */
    [POLLER_SPDK] = {5 * NS_PER_S,
                     "{\"jsonrpc\":\"2.0\",\"id\":1,"
                     "\"method\":\"framework_get_reactors\"}",
                     "none of its threads polls"},
};

static void hang_up(struct poller_server *server) {
  if (server->fd >= 0)
    close(server->fd);
  server->fd = -1;
}

static const char *what_is_read(struct poller_server *server) {
  bool all = true;
  for (size_t i = 0; i < server->len; i++)
    if (server->threads[i].is_told)
      all &= poller_thread_find(server, &server->threads[i]);
  return server->told == 0 ? dialects[server->dialect].nothing
         : server->pid == 0
             ? "its threads cannot be seen from this container; start it with "
               "the host's processes"
         : !all ? "its useful load is read in part: some threads may run on "
                  "several cores; bind each to one"
         : server->is_percent ? "its useful load is read, in whole percents"
                              : "its useful load is read";
}

/* From now on, no thread of the program is counted until an answer names it. */
static void forget_answer(struct poller_server *server) {
  for (size_t i = 0; i < server->len; i++)
    server->threads[i].is_told = false;
}

/* Ends a conversation. why: what failed, or NULL. A busy program may leave one
 * or two questions unanswered: its threads then count with the shares of the
 * last answer. After the third, or if it has nothing to tell, the program is
 * left alone for a while. A connection to DPDK is kept, because DPDK makes a
 * thread for each. */
static void conclude(struct poller_server *server, const char *why) {
  bool is_read = why == NULL && server->told > 0;
  server->misses = is_read ? 0 : why == NULL ? MISSES : server->misses + 1;
  bool is_away = server->misses >= MISSES;
  uint64_t away_ns = server->asked_ns - SOON_NS + AWAY_NS;
  const char *said = why != NULL ? why : what_is_read(server);
  if (server->said == NULL ||
      ((is_away || (is_read && server->asked_ns >= server->say_ns)) &&
       strcmp(server->said, said) != 0)) {
    const struct journal *journal = &server->pollers->options.journal;
    if (server->pid != 0)
      journal_say(journal, JOURNAL_INFO, "%s, pid %d: %s", server->name,
                  (int)server->pid, said);
    else
      journal_say(journal, JOURNAL_INFO, "%s: %s", server->path, said);
    server->said = said;
    server->say_ns = away_ns;
  }
  if (!is_read || server->dialect != POLLER_DPDK)
    hang_up(server);
  server->is_asked = false;
  server->is_percent &= !is_away;
  if (is_away)
    forget_answer(server);
  server->due_ns = is_away ? away_ns
                           : server->asked_ns - SOON_NS +
                                 dialects[server->dialect].period_ns;
}

/* Asks, or concludes if that fails. */
static void ask(struct poller_server *server, const char *question) {
  server->is_asked = true;
  server->length = 0;
  if (send(server->fd, question, strlen(question),
           MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
    conclude(server, ENDS);
}

static void begin(struct poller_server *server, uint64_t now_ns) {
  const char *why = poller_connect(server, now_ns);
  server->told = server->asked_on = 0;
  server->asked_ns = now_ns;
  if (why == NULL) {
    ask(server,
        server->is_percent ? OVS_PERCENTS : dialects[server->dialect].question);
  } else {
    forget_answer(server);
    conclude(server, why);
  }
}

/* Takes an answer, and asks for what is missing in it: percents, if it has no
 * cycles; of DPDK, the core of each lcore. */
static void take(struct poller_server *server) {
  char question[64];
  if (server->told == 0)
    forget_answer(server);
  poller_answer_take(server, server->answer);
  if (server->dialect == POLLER_OVS && server->told == 0 &&
      !server->is_percent) {
    server->is_percent = true;
    ask(server, OVS_PERCENTS);
    return;
  }
  while (server->dialect == POLLER_DPDK && server->asked_on < server->len) {
    const struct poller_thread *thread = &server->threads[server->asked_on++];
    if (thread->core >= 0)
      continue;
    snprintf(question, sizeof(question), "/eal/lcore/info,%" PRIu64,
             thread->id);
    ask(server, question);
    return;
  }
  conclude(server, NULL);
}

/* Reads a part of an answer. DPDK tells its version before the first. */
static void hear(struct poller_server *server) {
  ssize_t got = recv(server->fd, server->answer + server->length,
                     sizeof(server->answer) - 1 - server->length, MSG_DONTWAIT);
  if (got <= 0) {
    conclude(server, ENDS);
    return;
  }
  server->length += (size_t)got;
  server->answer[server->length] = '\0';
  if (!poller_answer_is_whole(server->answer, server->length)) {
    if (server->length == sizeof(server->answer) - 1)
      conclude(server, "its answer is longer than 1 MiB");
  } else if (strstr(server->answer, "\"max_output_len\"") != NULL)
    server->length = 0;
  else
    take(server);
}

/* Waits for answers. Returns false if all have come, or it is too late. */
static bool wait_for_answers(struct pollers *pollers, uint64_t end_ns) {
  struct pollfd polled[POLLER_SERVERS_MAX];
  uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);
  bool any = false;
  for (size_t i = 0; i < pollers->len; i++) {
    const struct poller_server *server = pollers->servers[i];
    any |= server->is_asked;
    polled[i] = (struct pollfd){.fd = server->is_asked ? server->fd : -1,
                                .events = POLLIN};
  }
  if (!any || now_ns >= end_ns ||
      poll(polled, pollers->len, (int)((end_ns - now_ns) / 1000000) + 1) <= 0)
    return false;
  for (size_t i = 0; i < pollers->len; i++)
    if (polled[i].revents != 0)
      hear(pollers->servers[i]);
  return true;
}

void pollers_ask(struct pollers *pollers) {
  uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);
  for (size_t i = 0; i < pollers->len; i++)
    if (now_ns >= pollers->servers[i]->due_ns)
      begin(pollers->servers[i], now_ns);
  uint64_t end_ns = clock_now_ns(CLOCK_MONOTONIC) + pollers->answer_ns;
  while (wait_for_answers(pollers, end_ns))
    ;
  for (size_t i = 0; i < pollers->len; i++) {
    struct poller_server *server = pollers->servers[i];
    if (server->is_asked)
      conclude(
          server,
          "it does not answer within 200 ms; it may hang, or be very busy");
    for (size_t t = 0; t < server->len; t++)
      poller_thread_count(server, &server->threads[t]);
  }
}

/* ---------------------------------------------------------------------------
 * The thread
 */

/* Frees the programs that have ended, or all. */
static void free_servers(struct pollers *pollers, bool all) {
  size_t kept = 0;
  for (size_t i = 0; i < pollers->len; i++) {
    struct poller_server *server = pollers->servers[i];
    if (!all &&
        (server->is_given || kill(server->pid, 0) == 0 || errno == EPERM)) {
      pollers->servers[kept++] = server;
      continue;
    }
    for (size_t t = 0; t < server->len; t++)
      poller_thread_forget(&server->threads[t]);
    hang_up(server);
    free(server);
  }
  pollers->len = kept;
}

/* Without a program to ask, the thread wakes every 30 s, or in each interval if
 * that is longer, and looks for programs. */
static void *run(void *argument) {
  struct pollers *pollers = argument;
  uint64_t look_ns = 0, rest_ns = 0;
  do {
    uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);
    if (now_ns >= look_ns || rest_ns >= LOOK_NS) {
      pollers_find(pollers);
      look_ns = now_ns + LOOK_NS - SOON_NS;
    }
    pollers_ask(pollers);
    free_servers(pollers, false);
    rest_ns = MAX(pollers->options.interval_ns, LOOK_NS);
    for (size_t i = 0; i < pollers->len; i++)
      if (pollers->servers[i]->misses < MISSES)
        rest_ns = pollers->options.interval_ns;
  } while (sampling_thread_sleep_to_grid(&pollers->sampling, rest_ns,
                                         MIN(LEAD_NS, rest_ns / 2)));
  return NULL;
}

int pollers_start(struct pollers **pollers,
                  const struct pollers_options *options) {
  bool any = false;
  for (int d = 0; d < POLLER_DIALECTS; d++)
    any |= options->wanted[d] || options->sockets[d].len > 0;
  *pollers = any ? calloc(1, sizeof(**pollers)) : NULL;
  if (*pollers == NULL)
    return any ? -ENOMEM : 0;
  (*pollers)->options = *options;
  (*pollers)->answer_ns = ANSWER_NS;
  return sampling_thread_start(&(*pollers)->sampling, run, *pollers);
}

/* If the thread hangs in a file system, it is left to the end of the process.
 */
void pollers_close(struct pollers *pollers) {
  if (pollers == NULL ||
      !sampling_thread_stop(&pollers->sampling,
                            clock_now_ns(CLOCK_MONOTONIC) + NS_PER_S))
    return;
  free_servers(pollers, true);
  if (pollers->region != NULL)
    percore_destroy(pollers->region);
  if (pollers->proc != NULL)
    closedir(pollers->proc);
  free(pollers);
}
