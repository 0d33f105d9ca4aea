/* answer.c: reads answers of DPDK's telemetry, Open vSwitch and SPDK, which are
 * untrusted. */
#include "poller.h"

#include "cycles/core_set.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yajl/yajl_tree.h>

enum { DEPTH_MAX = 64 }; /* yajl frees trees by recursion */

/* yajl skips comments, in which quotes and brackets mean nothing. JSON has
 * none, so an answer with a slash outside of strings never ends. */
bool poller_answer_is_whole(const char *text, size_t length) {
  int depth = 0;
  bool is_string = false;
  for (size_t i = 0; i < length && depth <= DEPTH_MAX; i++) {
    char c = text[i];
    if (c == '"')
      is_string = !is_string;
    else if (is_string)
      i += c == '\\';
    else if (c == '/')
      return false;
    else if (c == '{' || c == '[')
      depth++;
    else if ((c == '}' || c == ']') && --depth == 0)
      return true;
  }
  return false;
}

static yajl_val get(yajl_val object, const char *key) {
  const char *path[] = {key, NULL};
  return object != NULL ? yajl_tree_get(object, path, yajl_t_any) : NULL;
}

static size_t length_of(yajl_val array) {
  return YAJL_IS_ARRAY(array) ? YAJL_GET_ARRAY(array)->len : 0;
}

/* yajl's own integers end at 2^63. */
static uint64_t number(yajl_val value) {
  return YAJL_IS_NUMBER(value) ? strtoull(YAJL_GET_NUMBER(value), NULL, 10) : 0;
}

static uint64_t number_at(yajl_val array, size_t i) {
  return number(YAJL_GET_ARRAY(array)->values[i]);
}

/* {"/eal/lcore/usage":{"lcore_ids":[7],"total_cycles":[9],"busy_cycles":[3]}},
 * or {"/eal/lcore/info":{"lcore_id":7,"cpuset":[1]}} */
static void take_dpdk(struct poller_server *server, yajl_val root) {
  yajl_val usage = get(root, "/eal/lcore/usage");
  yajl_val ids = get(usage, "lcore_ids"), busy = get(usage, "busy_cycles"),
           total = get(usage, "total_cycles");
  size_t len = length_of(ids);
  for (size_t i = 0;
       i < len && length_of(busy) == len && length_of(total) == len; i++)
    poller_thread_tell(server, number_at(ids, i), number_at(busy, i),
                       number_at(total, i));
  yajl_val info = get(root, "/eal/lcore/info"), cpus = get(info, "cpuset");
  for (size_t i = 0; i < server->len && length_of(cpus) == 1; i++)
    if (server->threads[i].id == number(get(info, "lcore_id")) &&
        number_at(cpus, 0) < CORES_MAX)
      server->threads[i].core = (int)number_at(cpus, 0);
}

/* {"result":{"reactors":[{"lcore":0,"busy":3,"idle":6}]}} */
static void take_spdk(struct poller_server *server, yajl_val root) {
  yajl_val reactors = get(get(root, "result"), "reactors");
  for (size_t i = 0; i < length_of(reactors); i++) {
    yajl_val reactor = YAJL_GET_ARRAY(reactors)->values[i];
    uint64_t busy = number(get(reactor, "busy"));
    poller_thread_tell(server, number(get(reactor, "lcore")), busy,
                       busy + number(get(reactor, "idle")));
  }
}

static bool number_after(const char *line, const char *what, uint64_t *value) {
  const char *found = strstr(line, what);
  return found != NULL && sscanf(found + strlen(what), "%" SCNu64, value) == 1;
}

/* {"result":"pmd thread numa_id 0 core_id 1:\n  idle cycles: 6 (67%)\n
 *   processing cycles: 3 (33%)\n"}, or with a line "port: p0  queue-id: 0
 * (enabled)  pmd usage: 33 %\n" for each queue, and "overhead:  1 %\n". In its
 * first seconds, a thread has "NOT AVAIL" instead of percents. */
static void take_ovs(struct poller_server *server, yajl_val root) {
  char *rest = YAJL_GET_STRING(get(root, "result"));
  uint64_t core = UINT64_MAX, value, busy = 0, idle = 0;
  bool has_queue = false;
  for (char *line; (line = strsep(&rest, "\n")) != NULL;) {
    bool is_end = rest == NULL || strstr(line, " thread") != NULL;
    if (is_end && core != UINT64_MAX && (has_queue || busy + idle > 0))
      poller_thread_tell(server, core, busy, busy + idle);
    has_queue = !is_end && (has_queue || strstr(line, "pmd usage:") != NULL);
    if (is_end) { /* the main thread does not only poll */
      busy = idle = 0;
      if (line[0] != 'p' || !number_after(line, "core_id ", &core))
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

void poller_answer_take(struct poller_server *server, const char *text) {
  static void (*const take[])(struct poller_server *,
                              yajl_val) = {[POLLER_DPDK] = take_dpdk,
                                           [POLLER_OVS] = take_ovs,
                                           [POLLER_SPDK] = take_spdk};
  yajl_val root = yajl_tree_parse(text, NULL, 0);
  take[server->dialect](server, root);
  yajl_tree_free(root);
}
