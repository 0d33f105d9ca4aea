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

bool poller_answer_is_complete(const char *text, size_t length) {
  int depth = 0;
  bool is_string = false;
  for (size_t i = 0; i < length && depth <= DEPTH_MAX; i++) {
    char c = text[i];
    if (is_string && c == '\\')
      i++;
    else if (c == '"')
      is_string = !is_string;
    else if (!is_string && (c == '{' || c == '['))
      depth++;
    else if (!is_string && (c == '}' || c == ']') && --depth == 0)
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

static yajl_val at(yajl_val array, size_t i) {
  return i < length_of(array) ? YAJL_GET_ARRAY(array)->values[i] : NULL;
}

/* yajl's own integers end at 2^63. */
static uint64_t number(yajl_val value) {
  return YAJL_IS_NUMBER(value) ? strtoull(YAJL_GET_NUMBER(value), NULL, 10) : 0;
}

/* {"/eal/lcore/usage":{"lcore_ids":[7],"total_cycles":[9],"busy_cycles":[3]}}
 */
static void take_dpdk(struct poller_server *server, yajl_val root) {
  yajl_val usage = get(root, "/eal/lcore/usage");
  yajl_val ids = get(usage, "lcore_ids"), busy = get(usage, "busy_cycles"),
           total = get(usage, "total_cycles");
  bool fits =
      length_of(busy) == length_of(ids) && length_of(total) == length_of(ids);
  for (size_t i = 0; fits && i < length_of(ids); i++)
    poller_thread_tell(server, number(at(ids, i)), number(at(busy, i)),
                       number(at(total, i)));
}

/* {"result":{"reactors":[{"lcore":0,"busy":3,"idle":6}]}} */
static void take_spdk(struct poller_server *server, yajl_val root) {
  yajl_val reactors = get(get(root, "result"), "reactors");
  for (size_t i = 0; i < length_of(reactors); i++) {
    yajl_val reactor = at(reactors, i);
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
 *   processing cycles: 3 (33%)\n"}, or of pmd-rxq-show: "  port: p0  queue-id:
 *   0 (enabled)  pmd usage: 33 %\n  overhead:  1 %\n" */
static void take_ovs(struct poller_server *server, yajl_val root) {
  char *rest = YAJL_GET_STRING(get(root, "result"));
  uint64_t core = UINT64_MAX, value, busy = 0, idle = 0;
  server->is_percent = false;
  for (char *line; rest != NULL;) {
    line = strsep(&rest, "\n");
    bool is_last = rest == NULL || strstr(line, " thread") != NULL;
    if (is_last && core != UINT64_MAX && busy + idle > 0)
      poller_thread_tell(server, core, busy, busy + idle);
    if (is_last) {
      busy = idle = 0;
      if (strncmp(line, "pmd", 3) != 0 ||
          !number_after(line, "core_id ", &core))
        core = UINT64_MAX; /* the main thread does not only poll */
    } else if (number_after(line, "idle cycles:", &value))
      idle = value;
    else if (number_after(line, "processing cycles:", &value))
      busy = value;
    else if (number_after(line, "pmd usage:", &value) ||
             number_after(line, "overhead:", &value)) {
      server->is_percent = true;
      busy += value < 100 - busy ? value : 100 - busy;
      idle = 100 - busy;
    }
  }
}

size_t poller_answer_take(struct poller_server *server, const char *text) {
  static void (*const take[])(struct poller_server *,
                              yajl_val) = {[POLLER_DPDK] = take_dpdk,
                                           [POLLER_OVS] = take_ovs,
                                           [POLLER_SPDK] = take_spdk};
  yajl_val root = yajl_tree_parse(text, NULL, 0);
  server->told = 0;
  if (root != NULL)
    take[server->dialect](server, root);
  yajl_tree_free(root);
  return server->told;
}

int poller_answer_core(const char *text) {
  yajl_val root = yajl_tree_parse(text, NULL, 0);
  yajl_val cpus = get(get(root, "/eal/lcore/info"), "cpuset");
  uint64_t core = length_of(cpus) == 1 ? number(at(cpus, 0)) : CORES_MAX;
  yajl_tree_free(root);
  return core < CORES_MAX ? (int)core : -1;
}
