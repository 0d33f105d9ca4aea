/* engine_private: the engine itself, for the files that make it up. Each calls
 * only those below it:
 *
 *   engine.c          open, sample, close
 *   engine_prove.c    when and where sources are proven
 *   engine_judge.c    whether sources are still right
 *   engine_sources.c  which source serves which core
 *   engine_stat.c     /proc/stat
 *   engine_clock.c    the idle clock
 *   engine_cores.c    cores that come and go
 *   core.c            one core: choose a source, open, read
 *   core_columns.c    one core: the columns of /proc/stat
 *   engine_state.c    what callers may ask after a sample
 */
#ifndef PERCORE_ENGINE_PRIVATE_H
#define PERCORE_ENGINE_PRIVATE_H

#include "base/clock.h"
#include "candidate.h"
#include "core.h"
#include "engine.h"
#include "idle_clock.h"

/* Members of the kernel's structures that tell how it accounts for time, found
 * in its BTF. Without BTF the kernel is taken for an old one. */
enum kernel_member {
  KERNEL_IDLE_STEALTIME, /* idle does not contain time stolen while idle */
  KERNEL_IDLE_DYNTICK,   /* idle is counted from tick stop to tick restart */
  KERNEL_PREV_IRQ_TIME,  /* interrupts may be timed; idle then excludes them */
  KERNEL_MEMBERS,
};

/* Conditions that the journal reports when they begin. */
enum condition {
  CONDITION_STAT_FAILED,
  CONDITION_STAT_WITHHELD,
  CONDITION_STAT_UNREADABLE, /* rows of some cores */
  CONDITION_NO_SOURCE,
  CONDITION_SHORT_OF_DESCRIPTORS,
  CONDITION_ISOLATED_ON_IDLE, /* though a counter could measure them */
  /* These never end. */
  CONDITION_SOFTIRQ_IS_IDLE,
  CONDITION_COUNTERS_SHARED,
  CONDITION_NO_IPC,
  CONDITIONS,
};

/* How many counters may be opened in this sample. Computed when the first
 * counter is about to be opened. */
struct perf_room {
  long wanted; /* by all cores together */
  bool computed;
  long left;
  long missing; /* of those wanted */
};

struct engine {
  struct engine_options options;
  struct core_set wanted; /* options.cores, copied */
  char *event;            /* options.event, copied */
  struct topology topology;
  bool kernel_has[KERNEL_MEMBERS];
  struct candidate candidates[CANDIDATES_MAX];
  int candidates_len;
  struct backoff tsc_backoff; /* of measuring its rate */
  struct idle_clock *clock;   /* of the source bpf, or NULL */
  bool clock_read;            /* in this sample */
  bool load_clock;            /* although it is not named */
  char clock_purpose[128];    /* why */
  struct backoff clock_backoff;
  struct proof_run *proof_run; /* under way, or NULL */
  atomic_bool closing;         /* a proof under way must end soon */

  size_t cores_len;
  struct core *cores; /* in rising numbers */

  struct procstat stat;
  bool stat_valid;
  bool lxcfs; /* LXCFS provides /proc/stat and the list of cores */
  bool conditions[CONDITIONS];
  uint64_t time_ns; /* CLOCK_MONOTONIC of the last sample */
  bool has_offset;
  int64_t offset_ns; /* BOOTTIME - MONOTONIC */
  int64_t bracket_ns;
  uint64_t judge_at_ns;
  uint64_t isolated_at_ns; /* when to read isolated cores again */
  struct perf_event ipc_events[2];
  struct perf_room room;
  struct engine_counts counts;
};

#define engine_say(engine, ...)                                                \
  journal_say(&(engine)->options.journal, __VA_ARGS__)

/* The candidate of the source idle or bpf, of which every machine has one. */
static inline struct candidate *engine_candidate(struct engine *engine,
                                                 enum source source) {
  struct candidate *candidate = engine->candidates;
  while (candidate->source != source)
    candidate++;
  return candidate;
}

static inline uint64_t engine_clock(const struct engine *engine,
                                    clockid_t clock) {
  const struct machine *machine = engine->options.machine;
  return machine->clock_ns(machine->context, clock);
}

/* Returns true if the condition holds now and did not hold before. */
static inline bool engine_begins(struct engine *engine,
                                 enum condition condition, bool holds) {
  bool begins = holds && !engine->conditions[condition];
  engine->conditions[condition] = holds;
  return begins;
}

/* ---------------------------------------------------------------------------
 * engine_cores.c
 */

/* Handles the cores that came and went since the last call. Returns 0 or
 * -errno. */
int engine_find_hotplug(struct engine *engine);

/* Handles the present list of online cores. Returns 0 or -ENOMEM. */
int engine_apply_online(struct engine *engine, const struct core_set *changed);

/* Reads which cores are isolated. */
void engine_find_isolated(struct engine *engine);

/* ---------------------------------------------------------------------------
 * engine_stat.c
 */

/* Reads /proc/stat, and decides whether the source idle can use it. Returns 0
 * or -errno. */
int engine_read_stat(struct engine *engine);

/* ---------------------------------------------------------------------------
 * engine_clock.c
 */

/* Opens the idle clock if it is wanted and a try is due, and reads it. A clock
 * that no longer runs is closed, and its source is given up. */
void engine_read_clock(struct engine *engine);

/* Decides whether `auto` loads the clock: no counter serves, and the source
 * idle is known to miss work. */
void engine_consider_clock(struct engine *engine);

/* ---------------------------------------------------------------------------
 * engine_sources.c
 */

/* Gives every online core the best source that is available now. */
void engine_choose_sources(struct engine *engine);

/* ---------------------------------------------------------------------------
 * engine_judge.c
 */

/* A source is condemned after this many consecutive windows, each
 * LOADAVG_INTERVAL_NS long, ... */
#define CONDEMN_WINDOWS 3
/* ... in which the counter saw this much less work than the idle clock of the
 * kernel, which runs from entering idle to leaving it and so misses nothing. */
#define CONDEMN_POINTS 0.05
/* How long a condemned source is not used. */
#define CONDEMN_REST_NS (900 * NS_PER_S)

/* Judges one window of a core on a hardware source: its load, the kernel's
 * lower bound 1 - (idle + iowait + steal + guest) / wall and steal / wall over
 * the same time, how long the read of /proc/stat took, and whether the kernel's
 * idle time is tick-sampled (it then proves nothing). Guest time is subtracted
 * because the kernel counts a guest that halts by itself as running. Windows
 * that prove nothing neither count nor interrupt the sequence. A counter that
 * reads more than the kernel saw is never condemned for it: a core that does
 * XDP in softirq looks like that. Returns true when the source is condemned;
 * *low_windows is then 0 again. */
bool engine_condemns(int *low_windows, double hardware, double kernel,
                     double steal, uint64_t bracket_ns, bool tick_sampled);

/* Every LOADAVG_INTERVAL_NS: condemns sources that read wrong, and has sources
 * proven again if the TSC has changed its rate. */
void engine_judge(struct engine *engine);

/* Measures the rate of the TSC if a source needs it and a try is due. */
void engine_measure_tsc(struct engine *engine);

/* Finds out how the kernel accounts for time. Without BTF this is unknown. */
void engine_find_accounting(struct engine *engine);

/* ---------------------------------------------------------------------------
 * engine_prove.c
 */

/* Waits for the proof under way, if any. */
void engine_prove_end(struct engine *engine);

#endif
