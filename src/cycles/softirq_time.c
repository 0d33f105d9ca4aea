#include "softirq_time.h"

#include "base/bpf.h"
#include "engine_private.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#ifdef PERCORE_BPF
#include "cycles/softirq_time.lskel.h"
#endif

struct softirq_time {
  const struct engine *engine;
  struct softirq_time_bpf *bpf;
  int map;
  /* The words of the possible cores, in ascending order, at both ends of the
   * window. Pages that are never written take no memory. */
  struct softirq_words words[2][CORES_MAX];
  int last; /* which of them were read last */
  uint64_t time_ns, window_ns;
};

/* ---------------------------------------------------------------------------
 * Loading
 */

/* Returns why the programs must not be loaded, or NULL. */
static const char *find_obstacle(const struct engine *engine) {
  uint64_t realtime;
  if (!engine->options.hardware)
    return MACHINE_NOT_OURS;
  if (machine_read_u64(engine->options.machine, &realtime,
                       "/sys/kernel/realtime") == 0 &&
      realtime != 0)
    return "tasks preempt softirqs on this kernel (PREEMPT_RT); remove "
           "ReportSoftirq";
  if (topology_any_isolated(&engine->topology))
    return "loading its programs would interrupt isolated cores; remove "
           "ReportSoftirq";
  return bpf_missing_capability() != NULL
             ? "loading its programs needs CAP_BPF and CAP_PERFMON"
             : NULL;
}

/* Returns the descriptor of their map, or -errno. */
static int load(struct softirq_time *time) {
#ifdef PERCORE_BPF
  time->bpf = softirq_time_bpf__open_and_load();
  if (time->bpf == NULL || softirq_time_bpf__attach(time->bpf) != 0)
    return -errno;
  return time->bpf->maps.softirq_time.map_fd;
#else
  (void)time;
  return -ENOSYS;
#endif
}

struct softirq_time *softirq_time_open(const struct engine *engine) {
  struct softirq_time *time = calloc(1, sizeof(*time));
  if (time == NULL)
    return NULL;
  time->engine = engine;
  const char *obstacle = find_obstacle(engine);
  if (obstacle == NULL && (time->map = load(time)) >= 0)
    return time;
  journal_say(&engine->options.journal, JOURNAL_WARNING,
              "time in softirqs is not known: %s",
              obstacle != NULL ? obstacle : strerror(-time->map));
  softirq_time_close(time);
  return NULL;
}

void softirq_time_close(struct softirq_time *time) {
#ifdef PERCORE_BPF
  if (time != NULL && time->bpf != NULL)
    softirq_time_bpf__destroy(time->bpf);
#endif
  free(time);
}

/* ---------------------------------------------------------------------------
 * Reading
 */

void softirq_time_read(struct softirq_time *time) {
  if (time == NULL)
    return;
  uint64_t before_ns = time->time_ns;
  uint32_t key = 0;
  union bpf_attr attr = {.map_fd = (uint32_t)time->map,
                         .key = (uintptr_t)&key,
                         .value = (uintptr_t)time->words[1 - time->last]};
  time->time_ns = time->window_ns = 0;
  if (bpf_call(BPF_MAP_LOOKUP_ELEM, &attr) != 0)
    return;
  time->last = 1 - time->last;
  time->time_ns =
      machine_now_ns(time->engine->options.machine, CLOCK_MONOTONIC);
  time->window_ns = before_ns > 0 ? time->time_ns - before_ns : 0;
}

struct softirq_shares softirq_shares(const struct softirq_words *from,
                                     const struct softirq_words *to,
                                     double wall_ns) {
  struct softirq_shares shares = {0};
  for (int i = 0; i < SOFTIRQ_KINDS; i++) {
    double share = fmin((double)(to->ns[i] - from->ns[i]) / wall_ns, 1);
    shares.kind[i] = to->ns[i] > 0 ? share : NAN;
    if (i != SOFTIRQ_HARD)
      shares.all = fmin(shares.all + share, 1);
  }
  return shares;
}

struct softirq_shares softirq_time_core(const struct softirq_time *time,
                                        int core) {
  struct softirq_shares unknown = {.all = NAN};
  int place = 0;
  for (int i = 0; i < SOFTIRQ_KINDS; i++)
    unknown.kind[i] = NAN;
  if (time == NULL || time->window_ns == 0 ||
      !core_set_has(&time->engine->topology.possible, core))
    return unknown;
  for (int i = 0; i < core; i++)
    place += core_set_has(&time->engine->topology.possible, i);
  return softirq_shares(&time->words[1 - time->last][place],
                        &time->words[time->last][place],
                        (double)time->window_ns);
}
