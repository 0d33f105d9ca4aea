/* ask.c: asks programs, in a thread of its own. All of them are asked before
 * the first answer is read, so that one that does not answer delays no other.
 */
#include "poller.h"

#include "base/clock.h"
#include "base/descriptors.h"
#include "base/utf8.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
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
#define LATE "it does not answer within 200 ms; it may hang, or be very busy"
#define LONG "its answer is longer than 1 MiB"
#define OVS_NS (5 * NS_PER_S) /* its main thread answers */
enum { QUESTIONS = 32 };      /* at once */

#define OVS(method, parameter)                                                 \
  "{\"id\":0,\"method\":\"dpif-netdev/" method "\",\"params\":[" parameter "]" \
  "}"
/* What Open vSwitch tells since 4.0: percents of the last seconds. */
#define OVS_PERCENTS OVS("pmd-rxq-show", "\"-secs\",\"5\"")

/* ---------------------------------------------------------------------------
 * A conversation
 */

static void ask(struct poller_server *server, const char *question) {
  server->owed++;
  if (send(server->fd, question, strlen(question),
           MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
    poller_refuse(server, ENDS);
}

/* DPDK tells its version first. */
static void begin(struct poller_server *server, uint64_t now_ns) {
  server->told = server->length = 0;
  server->asked_ns = now_ns;
  server->why[0] = '\0';
  if (server->fd < 0)
    server->owed = server->is_dpdk;
  if (poller_connect(server))
    ask(server, server->is_dpdk      ? "/eal/lcore/usage"
                : server->is_percent ? OVS_PERCENTS
                                     : OVS("pmd-stats-show", ""));
  else
    poller_forget(server);
}

/* Asks for what was missing in an answer: the cores of lcores, or percents if
 * there were no cycles. */
static void ask_more(struct poller_server *server) {
  char question[64];
  if (!server->is_dpdk && !server->is_percent && server->told == 0) {
    server->is_percent = true;
    ask(server, OVS_PERCENTS);
  }
  for (size_t i = 0; i < server->len && server->is_dpdk; i++)
    if (server->threads[i].core < 0 && server->owed < QUESTIONS) {
      snprintf(question, sizeof(question), "/eal/lcore/info,%" PRIu64,
               server->threads[i].id);
      ask(server, question);
    }
}

/* Reads a part of an answer. The last character of each is the bracket that no
 * other part of it has at its end. */
static void hear(struct poller_server *server) {
  size_t told = server->told,
         room = sizeof(server->answer) - 1 - server->length;
  ssize_t got =
      recv(server->fd, server->answer + server->length, room, MSG_DONTWAIT);
  if (got <= 0) {
    poller_refuse(server, "%s", room > 0 ? ENDS : LONG);
    return;
  }
  server->length += (size_t)got;
  server->answer[server->length] = '\0';
  if (server->answer[server->length - 1] != '}')
    return;
  server->owed--;
  server->length = 0;
  poller_answer_take(server, server->answer);
  if (server->owed == 0 && (!server->is_dpdk || server->told > told))
    ask_more(server);
}

/* Waits for answers. Returns false if all have come, or it is too late: then
 * only those that have come already are read. */
static bool hear_all(struct pollers *pollers, uint64_t end_ns) {
  struct pollfd polled[POLLER_SERVERS_MAX];
  uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);
  bool any = false, is_late = now_ns >= end_ns;
  int wait_ms = is_late ? 0 : (int)((end_ns - now_ns) / 1000000) + 1;
  for (size_t i = 0; i < pollers->len; i++) {
    const struct poller_server *server = pollers->servers[i];
    bool waits = server->owed > 0 && server->why[0] == '\0';
    any |= waits;
    polled[i].fd = waits ? server->fd : -1;
    polled[i].events = POLLIN;
  }
  if (!any || poll(polled, pollers->len, wait_ms) <= 0)
    return false;
  for (size_t i = 0; i < pollers->len; i++)
    if (polled[i].revents != 0)
      hear(pollers->servers[i]);
  return !is_late;
}

/* ---------------------------------------------------------------------------
 * A round
 */

/* A busy program may leave one or two questions unanswered: its threads then
 * count with the shares of the last answer. After the third, or if it has
 * nothing to tell, the program is left alone for a while, and its connection
 * ended: DPDK serves few. */
static void conclude(struct poller_server *server) {
  bool is_read = server->why[0] == '\0' && server->told > 0;
  server->misses = is_read                  ? 0
                   : server->why[0] != '\0' ? server->misses + 1
                                            : POLLER_MISSES;
  bool is_away = server->misses >= POLLER_MISSES;
  if (!is_read && server->fd >= 0) {
    close(server->fd);
    server->fd = -1;
  }
  server->is_percent &= !is_away;
  for (size_t i = 0; i < server->len && (is_read || is_away); i++)
    server->threads[i].is_told =
        is_read && server->threads[i].told_ns >= server->asked_ns;
  server->due_ns = server->asked_ns - SOON_NS +
                   (is_away           ? AWAY_NS
                    : server->is_dpdk ? 0
                                      : OVS_NS);
}

static const char *what_is_read(const struct poller_server *server) {
  bool all = true;
  for (size_t i = 0; i < server->len; i++) {
    const struct poller_thread *thread = &server->threads[i];
    all &= !thread->is_told || thread->tid != 0 || thread->found > 1;
  }
  return server->why[0] != '\0' ? server->why
         : server->told == 0
             ? server->is_dpdk
                   ? "it does not tell how busy its lcores are; this takes "
                     "DPDK 23.03 and rte_lcore_register_usage_cb (testpmd: "
                     "--record-core-cycles), or percore_poll"
                   : "none of its threads polls"
         : server->peer.pid == 0
             ? "its threads cannot be seen from this container; start it with "
               "the host's processes"
         : !all ? "its useful load is read in part: some threads may run on "
                  "several cores; bind each to one"
         : server->is_percent ? "its useful load is read, in whole percents"
                              : "its useful load is read";
}

/* A program that is read has news once in a while only, and a miss or two are
 * none. */
static void tell(struct poller_server *server) {
  const char *text = what_is_read(server);
  char path[256], process[64] = "";
  bool is_news = server->said[0] == '\0' || server->misses >= POLLER_MISSES ||
                 (server->misses == 0 && server->asked_ns >= server->say_ns);
  if (!is_news || strcmp(server->said, text) == 0)
    return;
  if (server->peer.pid != 0)
    snprintf(process, sizeof(process), ", pid %d, user %u",
             (int)server->peer.pid, (unsigned)server->peer.uid);
  utf8_clean(path, sizeof(path), server->path, strlen(server->path), "?", "");
  journal_say(&server->pollers->options.journal, JOURNAL_INFO,
              "poller %s at %s%s: %s",
              server->is_dpdk ? "DPDK" : "Open vSwitch", path, process, text);
  snprintf(server->said, sizeof(server->said), "%s", text);
  server->say_ns = server->asked_ns - SOON_NS + AWAY_NS;
}

void pollers_ask(struct pollers *pollers) {
  uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);
  for (size_t i = 0; i < pollers->len; i++)
    if (now_ns >= pollers->servers[i]->due_ns)
      begin(pollers->servers[i], now_ns);
  uint64_t end_ns = clock_now_ns(CLOCK_MONOTONIC) + pollers->answer_ns;
  while (hear_all(pollers, end_ns))
    ;
  for (size_t i = 0; i < pollers->len; i++) {
    struct poller_server *server = pollers->servers[i];
    if (server->owed > 0 && server->told == 0 && server->why[0] == '\0')
      poller_refuse(server, LATE);
    if (server->asked_ns == now_ns)
      conclude(server);
    poller_join(server);
    if (server->asked_ns == now_ns)
      tell(server);
  }
}

/* ---------------------------------------------------------------------------
 * The thread
 */

static void *run(void *argument) {
  struct pollers *pollers = argument;
  uint64_t interval_ns = pollers->options.interval_ns, look_ns = 0;
  do {
    uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);
    if (now_ns >= look_ns) {
      pollers_find(pollers);
      look_ns = now_ns + LOOK_NS - SOON_NS;
    }
    pollers_ask(pollers);
  } while (sampling_thread_sleep_to_grid(&pollers->sampling, interval_ns,
                                         MIN(LEAD_NS, interval_ns / 2)));
  return NULL;
}

/* Each program takes two descriptors, and all of them a quarter of those that
 * are left. */
int pollers_start(struct pollers **pollers,
                  const struct pollers_options *options) {
  struct pollers *made = options->wanted ? calloc(1, sizeof(*made)) : NULL;
  *pollers = made;
  if (made == NULL)
    return options->wanted ? -ENOMEM : 0;
  made->options = *options;
  made->answer_ns = ANSWER_NS;
  made->most = (size_t)MIN(descriptors_available() / 8, POLLER_SERVERS_MAX);
  if (options->interval_ns > 0)
    return sampling_thread_start(&made->sampling, run, made);
  pollers_find(made);
  pollers_ask(made);
  return 0;
}

/* If the thread hangs in a file system, it is left to the end of the process.
 */
void pollers_close(struct pollers *pollers) {
  if (pollers == NULL ||
      !sampling_thread_stop(&pollers->sampling,
                            clock_now_ns(CLOCK_MONOTONIC) + NS_PER_S))
    return;
  pollers_sweep(pollers);
  if (pollers->region != NULL)
    percore_destroy(pollers->region);
  free(pollers);
}
