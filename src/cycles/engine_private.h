/* engine_private: the engine itself, for the files that make it up:
 *
 *   engine.c          open, sample
 *   engine_stat.c     /proc/stat
 *   engine_judge.c    whether sources are still right
 *   engine_sources.c  which source serves which core, and saying so
 *   engine_proof.c    when and where sources are put to the proof
 */
#ifndef PERCORE_ENGINE_PRIVATE_H
#define PERCORE_ENGINE_PRIVATE_H

#include "btf.h"
#include "candidate.h"
#include "core.h"
#include "engine.h"

/* Members of the kernel's structures that tell how it accounts for time. */
enum kernel_member {
  KERNEL_IDLE_STEALTIME, /* time stolen while idle is taken off idle */
  KERNEL_IDLE_DYNTICK,   /* idle is counted from tick stop to tick restart */
  KERNEL_PREV_IRQ_TIME,  /* interrupts may be timed, and are then not in idle */
  KERNEL_MEMBERS,
};

struct engine {
  struct engine_options options;
  struct core_set wanted; /* options.cores, copied */
  char *event;
  struct topology topology;
  bool kernel_has[KERNEL_MEMBERS];
  struct candidate candidates[CANDIDATES_MAX];
  int candidates_len;
  uint64_t prove_at_ns[CANDIDATES_MAX];
  uint64_t prove_wait_ns[CANDIDATES_MAX];
  int prove_tries[CANDIDATES_MAX]; /* so that each goes to another core */
  struct proof_run *proof_run;     /* under way; NULL: none is */
  atomic_bool closing;             /* a proof under way is to end soon */

  size_t cores_len;
  struct engine_core *states; /* in rising core numbers */
  struct core *cores;         /* beside it */

  struct procstat stat;
  bool stat_valid;
  bool lxcfs;           /* makes /proc/stat and the list of cores */
  bool stat_withheld;   /* said */
  bool stat_unreadable; /* rows of some cores: said */
  bool stat_failed;     /* said */
  bool no_source;       /* said */
  bool short_of_room;   /* said */
  bool softirq_said;
  bool sharing_said;
  bool ipc_said;
  uint64_t time_ns;
  bool has_offset;
  int64_t offset_ns; /* BOOTTIME - MONOTONIC */
  int64_t bracket_ns;
  uint64_t judge_at_ns;
  uint64_t isolated_at_ns;
  bool isolated_said; /* that counters could measure them */
  struct perf_event ipc_events[2];
  struct perf_room room;
  struct engine_counts counts;
};

static inline uint64_t engine_clock(const struct engine *engine,
                                    clockid_t clock) {
  const struct machine *machine = engine->options.machine;
  return machine->clock_ns(machine->context, clock);
}

/* Finds out which cores came and went. */
int engine_look_for_hotplug(struct engine *engine);

/* Finds out whether LXCFS shows this container a /proc/stat and a list of cores
 * of its own. Once is enough: such files are mounted before a container runs.
 */
void engine_find_lxcfs(struct engine *engine);

/* Reads /proc/stat, and decides whether it is fit for the source idle. Returns
 * 0 or -errno. */
int engine_read_stat(struct engine *engine);

struct core_context engine_core_context(struct engine *engine);

/* How the kernel accounts for time; unknown for a kernel without BTF. */
void engine_find_accounting(struct engine *engine);

/* Every LOADAVG_INTERVAL_NS: condemns sources that read wrong, and has sources
 * proven again if the TSC has changed its rate. */
void engine_judge(struct engine *engine);

/* Waits for a proof that runs aside. */
void engine_prove_end(struct engine *engine);

/* Gives every online core the best source that is available now. */
void engine_choose_sources(struct engine *engine);

#endif
