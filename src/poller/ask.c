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
#define LEAD_NS (NS_PER_S / 4)   /* before the end of an interval */
#define ANSWER_NS (NS_PER_S / 5) /* for all answers together */
#define SOON_NS (NS_PER_S / 4)   /* intervals are not quite equally long */
#define AWAY_NS (60 * NS_PER_S)
enum { MISSES = 3 };

#define OVS(method, parameter)                                                 \
  "{\"id\":0,\"method\":\"dpif-netdev/" method "\",\"params\":[" parameter "]" \
  "}"

static const struct {
  int type;
  uint64_t period_ns; /* it is asked at most this often */
  const char *question, *nothing;
} dialects[] = {
    [POLLER_DPDK] = {SOCK_SEQPACKET, 0, "/eal/lcore/usage",
                     "it does not tell how busy its lcores are; this takes "
                     "DPDK 23.03 and rte_lcore_register_usage_cb (testpmd "
                     "--record-core-cycles), or percore_poll"},
    /* Its main thread answers, which has other work. */
    [POLLER_OVS] = {SOCK_STREAM, 5 * NS_PER_S, OVS("pmd-stats-show", ""),
                    "none of its threads polls"},
    /* Each of its reactors reads /proc/stat for an answer. */
    [POLLER_SPDK] = {SOCK_STREAM, 5 * NS_PER_S,
                     "{\"jsonrpc\":\"2.0\",\"id\":1,"
                     "\"method\":\"framework_get_reactors\"}",
                     "none of its threads polls"},
};

static void hang_up(struct poller_server *server) {
  if (server->fd >= 0)
    close(server->fd);
  server->fd = -1;
}

static void say(struct pollers *pollers, struct poller_server *server,
                const char *said) {
  if (server->said == NULL || strcmp(server->said, said) != 0)
    journal_say(&pollers->options.journal, JOURNAL_INFO, "%s (pid %d): %s",
                server->name, (int)server->pid, said);
  server->said = said;
}

static const char *put(struct poller_server *server, const char *question) {
  return send(server->fd, question, strlen(question),
              MSG_DONTWAIT | MSG_NOSIGNAL) < 0
             ? strerror(errno)
             : NULL;
}

/* Reads an answer. What has come already is read even if it is too late to
 * wait. Returns NULL, or what failed. */
static const char *hear(struct pollers *pollers, struct poller_server *server,
                        uint64_t end_ns) {
  struct pollfd polled = {.fd = server->fd, .events = POLLIN};
  size_t length = 0;
  while (length < sizeof(pollers->answer) - 1) {
    uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);
    int rest_ms = now_ns < end_ns ? (int)((end_ns - now_ns) / 1000000) : 0;
    if (poll(&polled, 1, rest_ms) <= 0)
      return "it does not answer within 200 ms";
    ssize_t got = recv(server->fd, pollers->answer + length,
                       sizeof(pollers->answer) - 1 - length, MSG_DONTWAIT);
    if (got <= 0)
      return got < 0 ? strerror(errno)
                     : "it closes the connection, as if it had enough clients";
    length += (size_t)got;
    pollers->answer[length] = '\0';
    if (poller_answer_is_complete(pollers->answer, length))
      return NULL;
  }
  return "it answers more than 1 MiB";
}

/* Asks for cycles. A connection to DPDK is kept, because DPDK makes a thread
 * for each. Returns NULL, or what failed. */
static const char *begin(struct pollers *pollers,
                         struct poller_server *server) {
  const char *why = poller_inspect(pollers, server);
  server->greets = server->fd < 0 && server->dialect == POLLER_DPDK;
  if (why == NULL && server->fd < 0)
    why = poller_connect(server, dialects[server->dialect].type);
  return why != NULL ? why : put(server, dialects[server->dialect].question);
}

/* Takes the answer, and asks what it does not tell. Returns NULL, or what
 * failed.
 */
static const char *finish(struct pollers *pollers, struct poller_server *server,
                          uint64_t end_ns) {
  bool is_dpdk = server->dialect == POLLER_DPDK;
  const char *why = server->greets ? hear(pollers, server, end_ns) : NULL;
  if (why == NULL)
    why = hear(pollers, server, end_ns);
  if (why == NULL && poller_answer_take(server, pollers->answer) == 0 &&
      server->dialect == POLLER_OVS) {
    /* Since Open vSwitch 4.0, it tells only percents of the last seconds. */
    why = put(server, OVS("pmd-rxq-show", "\"-secs\",\"5\""));
    if (why == NULL)
      why = hear(pollers, server, end_ns);
    if (why == NULL)
      poller_answer_take(server, pollers->answer);
  }
  for (size_t i = 0; i < server->len && is_dpdk && why == NULL; i++) {
    struct poller_thread *thread = &server->threads[i];
    char question[64];
    if (thread->core >= 0)
      continue;
    snprintf(question, sizeof(question), "/eal/lcore/info,%" PRIu64,
             thread->id);
    why = put(server, question);
    if (why == NULL)
      why = hear(pollers, server, end_ns);
    if (why == NULL)
      thread->core = poller_answer_core(pollers->answer);
  }
  return why;
}

static const char *what_is_read(const struct poller_server *server) {
  bool all = true;
  for (size_t i = 0; i < server->len; i++)
    all &= server->threads[i].core >= 0;
  return server->told == 0 ? dialects[server->dialect].nothing
         : !all ? "not all of its threads are read, because some may run on "
                  "several cores; bind each to one"
         : server->is_percent ? "its threads are read, in whole percents"
                              : "its threads are read";
}

/* A program may miss an interval or two if it is busy. One that does not
 * answer, or has nothing to tell, is left alone for a while. */
static void conclude(struct pollers *pollers, struct poller_server *server,
                     const char *why, uint64_t now_ns) {
  bool is_read = why == NULL && server->told > 0;
  server->misses = is_read ? 0 : why == NULL ? MISSES : server->misses + 1;
  bool is_away = server->misses >= MISSES;
  if (is_read || is_away || server->said == NULL)
    say(pollers, server, why != NULL ? why : what_is_read(server));
  if (!is_read || server->dialect != POLLER_DPDK)
    hang_up(server);
  server->is_waited_for = false;
  server->due_ns = now_ns - SOON_NS +
                   (is_away ? AWAY_NS : dialects[server->dialect].period_ns);
  for (size_t i = 0; i < server->len; i++)
    if (server->threads[i].told_ns < now_ns)
      poller_thread_forget(pollers, &server->threads[i]);
}

void pollers_ask(struct pollers *pollers) {
  uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);
  for (struct poller_server *s = pollers->servers; s != NULL; s = s->next) {
    if (now_ns < s->due_ns)
      continue;
    const char *why = begin(pollers, s);
    s->is_waited_for = why == NULL;
    if (why != NULL)
      conclude(pollers, s, why, now_ns);
  }
  for (struct poller_server *s = pollers->servers; s != NULL; s = s->next) {
    if (s->is_waited_for)
      conclude(pollers, s, finish(pollers, s, now_ns + ANSWER_NS), now_ns);
    for (size_t i = 0; i < s->len; i++)
      if (s->threads[i].told_ns != 0)
        poller_thread_count(pollers, s, &s->threads[i]);
  }
}

/* ---------------------------------------------------------------------------
 * The thread
 */

/* Frees those that have ended, or all. */
static void free_servers(struct pollers *pollers, bool all) {
  for (struct poller_server **link = &pollers->servers; *link != NULL;) {
    struct poller_server *server = *link;
    bool is_alive =
        server->is_given || kill(server->pid, 0) == 0 || errno == EPERM;
    if (is_alive && !all) {
      link = &server->next;
      continue;
    }
    *link = server->next;
    for (size_t i = 0; i < server->len; i++)
      poller_thread_forget(pollers, &server->threads[i]);
    hang_up(server);
    free(server->threads);
    free(server);
  }
}

/* While no program is asked, the thread only looks for some. */
static void *run(void *argument) {
  struct pollers *pollers = argument;
  uint64_t look_ns = 0, rest_ns;
  do {
    uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);
    if (now_ns >= look_ns) {
      pollers_find(pollers);
      look_ns = now_ns + LOOK_NS - SOON_NS;
    }
    pollers_ask(pollers);
    free_servers(pollers, false);
    rest_ns = MAX(pollers->options.interval_ns, LOOK_NS);
    for (struct poller_server *s = pollers->servers; s != NULL; s = s->next)
      if (s->misses < MISSES)
        rest_ns = pollers->options.interval_ns;
  } while (sampling_thread_sleep_to_grid(&pollers->sampling, rest_ns,
                                         MIN(LEAD_NS, rest_ns / 2)));
  return NULL;
}

struct pollers *pollers_open(const struct pollers_options *options) {
  struct pollers *pollers = calloc(1, sizeof(*pollers));
  if (pollers == NULL)
    return NULL;
  pollers->options = *options;
  for (int d = 0; d < POLLER_DIALECTS; d++)
    for (size_t i = 0; i < options->sockets[d].len; i++)
      poller_add(pollers, (enum poller_dialect)d, 0,
                 options->sockets[d].list[i]);
  return pollers;
}

int pollers_start(struct pollers **pollers,
                  const struct pollers_options *options) {
  bool any = false;
  for (int d = 0; d < POLLER_DIALECTS; d++)
    any |= options->wanted[d] || options->sockets[d].len > 0;
  *pollers = any ? pollers_open(options) : NULL;
  if (*pollers == NULL)
    return any ? -ENOMEM : 0;
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
