/* answer.c: finds numbers in answers of DPDK's telemetry and Open vSwitch,
 * which are untrusted: whatever the text is, it yields some numbers or none. */
#include "poller.h"

#include "base/core_set.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Reads the list after a key, such as "lcore_ids":[7,9]. */
static size_t read_list(const char *text, const char *key,
                        uint64_t list[POLLER_THREADS_MAX]) {
  const char *at = strstr(text, key);
  size_t len = 0;
  if (at != NULL)
    at = strchr(at, '[');
  for (char *end; at != NULL && len < POLLER_THREADS_MAX; len++) {
    list[len] = strtoull(at + 1, &end, 10);
    if (end == at + 1)
      break;
    at = *end == ',' ? end : NULL;
  }
  return len;
}

static bool number_after(const char *line, const char *what, uint64_t *value) {
  const char *found = strstr(line, what);
  return found != NULL && sscanf(found + strlen(what), "%" SCNu64, value) == 1;
}

/* {"/eal/lcore/usage":{"lcore_ids":[7],"total_cycles":[9],"busy_cycles":[3]}},
 * or {"/eal/lcore/info":{"lcore_id":7,"cpuset":[1]}} */
static void take_dpdk(struct poller_server *server, const char *text) {
  uint64_t ids[POLLER_THREADS_MAX], busy[POLLER_THREADS_MAX];
  uint64_t total[POLLER_THREADS_MAX], id;
  size_t len = read_list(text, "\"lcore_ids\"", ids);
  if (read_list(text, "\"busy_cycles\"", busy) == len &&
      read_list(text, "\"total_cycles\"", total) == len)
    for (size_t i = 0; i < len; i++)
      poller_thread_tell(server, ids[i], busy[i], total[i]);
  if (!number_after(text, "\"lcore_id\":", &id) ||
      read_list(text, "\"cpuset\"", total) != 1 || total[0] >= CORES_MAX)
    return;
  for (size_t i = 0; i < server->len; i++)
    if (server->threads[i].id == id)
      server->threads[i].core = (int)total[0];
}

/* {"result":"pmd thread numa_id 0 core_id 1:\n  idle cycles: 6 (67%)\n
 *   processing cycles: 3 (33%)\n"}, or with a line "port: p0  queue-id: 0
 * (enabled)  pmd usage: 33 %\n" for each queue, and "overhead:  1 %\n". In its
 * first seconds, a thread has "NOT AVAIL" instead of percents. */
static void take_ovs(struct poller_server *server, char *text) {
  uint64_t core = UINT64_MAX, value, busy = 0, idle = 0;
  bool has_queue = false;
  for (char *line = text, *next; line != NULL; line = next) {
    next = strstr(line, "\\n");
    if (next != NULL) {
      *next = '\0';
      next += 2;
    }
    bool is_end = next == NULL || strstr(line, " thread") != NULL;
    if (is_end && core != UINT64_MAX && (has_queue || busy + idle > 0))
      poller_thread_tell(server, core, busy, busy + idle);
    has_queue = !is_end && (has_queue || strstr(line, "pmd usage:") != NULL);
    if (is_end) { /* the main thread does not only poll */
      busy = idle = 0;
      if (strstr(line, "pmd thread") == NULL ||
          !number_after(line, "core_id ", &core))
        core = UINT64_MAX;
    } else if (number_after(line, "idle cycles:", &value))
      idle = value;
    else if (number_after(line, "processing cycles:", &value))
      busy = value;
    else if (number_after(line, "pmd usage:", &value) ||
             number_after(line, "overhead:", &value)) {
      busy = value < 100 - busy ? busy + value : 100;
      idle = 100 - busy;
    }
  }
}

void poller_answer_take(struct poller_server *server, char *text) {
  if (server->is_dpdk)
    take_dpdk(server, text);
  else
    take_ovs(server, text);
}
