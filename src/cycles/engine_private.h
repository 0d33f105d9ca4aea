/* engine_private: the engine object, shared by the files that implement it.
 * Each file calls only files listed below it:
 *
 *   engine.c          open, sample, close; cores, answers
 *   engine_prove.c    when and where sources are proven
 *   engine_judge.c    whether sources are still correct
 *   engine_sources.c  which source each core uses
 *   core.c            one core: choose a source, read it, add up
 *   source_*.c        one source: find it, open it on a core, read it there,
 *                     and how far its reading may be from the truth
 */
#ifndef PERCORE_ENGINE_PRIVATE_H
#define PERCORE_ENGINE_PRIVATE_H

#include "base/clock.h"
#include "core.h"
#include "engine.h"
#include "idle_clock.h"
#include "source.h"

/* Members of kernel structures that show how the kernel accounts for time,
 * found in the kernel's BTF type information. Without BTF, the kernel is
 * assumed to be old. */
enum kernel_member {
  KERNEL_IDLE_STEALTIME, /* idle time excludes time stolen while idle */
  KERNEL_IDLE_DYNTICK,   /* idle time is measured from tick stop to restart */
  KERNEL_PREV_IRQ_TIME,  /* idle time excludes interrupts that are timed */
  KERNEL_MEMBERS,
};

/* Conditions that the journal reports once when they begin. */
enum condition {
  CONDITION_STAT_WITHHELD,
  CONDITION_NO_SOURCE,
  CONDITION_POLLS,
  /* The conditions below never end. */
  CONDITION_SOFTIRQ_IS_IDLE,
  CONDITION_SHORT_OF_DESCRIPTORS,
  CONDITION_DOUBT, /* a source read less work than the kernel measured */
  CONDITIONS,
};

struct engine {
  struct engine_options options;
  struct core_set wanted; /* options.cores, or all cores */
  struct topology topology;
  bool kernel_has[KERNEL_MEMBERS];
  struct source sources[SOURCES_MAX];
  int sources_len;
  struct idle_clock *clock; /* the clock that the bpf source reads, or NULL */
  bool clock_read;          /* true if this sample has read the clock */
  /* Why the clock is loaded although no option names the bpf source, or NULL.
   */
  const char *clock_purpose;
  struct backoff clock_backoff;
  struct probe *probe;   /* the running proof, or NULL */
  struct source *proven; /* the source that it tests */
  atomic_bool closing;   /* makes a running proof end soon */

  size_t cores_len;
  struct core *cores; /* in ascending order of their numbers */

  /* /proc/stat as of the last sample. Not valid if it could not be read, or if
   * an online core is missing in it, as may happen in a container. */
  struct procstat stat;
  bool stat_valid;
  bool stat_still;        /* no column has moved since the sample before */
  uint64_t stat_digest;   /* of that sample */
  uint64_t stat_moved_ns; /* when a column was last seen to have moved */
  bool idle_misses;       /* engine_softirq_is_idle */
  bool lxcfs;             /* LXCFS provides /proc/stat */
  bool lxcfs_cores;       /* and the directories of cores */
  bool never_halts;       /* cpuidle_never_halts */
  double idle_loop_ns;    /* at most what the idle loop needs around a halt */
  double blind_ns;        /* at most what the idle clock misses of a halt */
  bool conditions[CONDITIONS];
  uint64_t time_ns; /* CLOCK_MONOTONIC of the last sample */
  uint64_t uevents; /* at the last sample */
  bool has_offset;
  int64_t offset_ns;    /* CLOCK_BOOTTIME - CLOCK_MONOTONIC */
  int64_t bracket_ns;   /* how long reading the clocks for offset_ns took */
  uint64_t judge_at_ns; /* when to check the sources against the kernel again */
  uint64_t look_at_ns;  /* when to read again what seldom changes */
  struct engine_counts counts;
};

#define engine_say(engine, ...)                                                \
  journal_say(&(engine)->options.journal, __VA_ARGS__)

/* Returns the source of this kind, which must be SOURCE_IDLE or SOURCE_BPF:
 * there is always exactly one of each. */
static inline struct source *engine_source(struct engine *engine,
                                           enum source_kind kind) {
  struct source *source = engine->sources;
  while (source->kind != kind)
    source++;
  return source;
}

/* True if the idle columns do not include steal. See engine.h. */
static inline bool engine_steal_is_apart(const struct engine *engine) {
  return engine->kernel_has[KERNEL_IDLE_STEALTIME];
}

/* True if a hypervisor has ever stolen time from the core. */
static inline bool core_has_steal(const struct core *core) {
  return core->row.ns[PROCSTAT_STEAL] > 0;
}

/* True if a hypervisor has stolen time from the core in the last minute, and so
 * may have it in its hands now. The columns do not yet have that time. */
static inline bool core_is_stolen_from(const struct engine *engine,
                                       const struct core *core) {
  return core->stolen_from_ns > 0 &&
         engine->time_ns - core->stolen_from_ns < 60 * NS_PER_S;
}

/* Returns the next online core after `core` (NULL: the first), or NULL. */
static inline struct core *engine_next_online(const struct engine *engine,
                                              const struct core *core) {
  size_t i = core != NULL ? (size_t)(core - engine->cores) + 1 : 0;
  while (i < engine->cores_len && !engine->cores[i].online)
    i++;
  return i < engine->cores_len ? &engine->cores[i] : NULL;
}

#define engine_for_each_online(name, engine)                                   \
  for (struct core *name = engine_next_online((engine), NULL); name != NULL;   \
       name = engine_next_online((engine), name))

/* Records whether the condition holds. Returns true if it holds now and did not
 * hold before. */
static inline bool condition_begins(struct engine *engine,
                                    enum condition condition, bool holds) {
  bool begins = holds && !engine->conditions[condition];
  engine->conditions[condition] = holds;
  return begins;
}

/* ---------------------------------------------------------------------------
 * engine.c and engine_sources.c
 */

/* Applies changes of cores. If `must_look` is set, also compares the list of
 * online cores. */
int engine_find_hotplug(struct engine *engine, bool must_look);

/* Chooses the best available source for every online core. */
void engine_choose_sources(struct engine *engine);

/* ---------------------------------------------------------------------------
 * source_idle.c
 */

/* True if something is seen to trace the idle loop, which takes time there. */
bool idle_is_traced(const struct engine *engine);
/* Finds out what idle time is on this kernel. */
void idle_find(struct engine *engine);
/* Reads /proc/stat. Returns 0 or -errno. */
int idle_begin(struct engine *engine);
/* Reads the columns of a core, whatever its source is. */
void idle_read_columns(struct engine *engine, struct core *core);
/* Computes the load from the columns. */
void idle_read(struct engine *engine, struct core *core);
/* Does so in place of the core's source, which has no load. */
void idle_fill(struct engine *engine, struct core *core);
/* Makes the next window of /proc/stat begin at the next reading. */
void idle_forget(struct core *core);

/* ---------------------------------------------------------------------------
 * source_counter.c
 */

/* A source that has windows of its own has two functions. The first adds its
 * growth since the last reading to core->sample, and returns 0, -EAGAIN if this
 * sample has no reading, so that the next window includes it, or another
 * -errno, with the reason in source->reason, if the core must give the source
 * up. The second makes the reading the begin of the next window and, if
 * core->sample has the end of a window, sets its bounds. */

int counter_open(struct engine *engine, const struct core *core,
                 struct source *source, struct perf_group *group);
int counter_read(struct engine *engine, struct core *core,
                 struct source_reading *reading);
void counter_keep(struct engine *engine, struct core *core,
                  const struct source_reading *reading);

/* ---------------------------------------------------------------------------
 * source_bpf.c
 */

/* Opens the idle clock if it is wanted and an attempt is due, and reads it. If
 * the clock no longer runs, closes it and makes the bpf source unavailable. */
void bpf_begin(struct engine *engine);
int bpf_open(struct engine *engine, const struct core *core,
             struct source *source);
int bpf_read(struct engine *engine, struct core *core,
             struct source_reading *reading);
void bpf_keep(struct engine *engine, struct core *core,
              const struct source_reading *reading);
/* With the option Source "auto", has the idle clock loaded if no core uses a
 * counter and the idle source is known to miss work. */
void bpf_consider(struct engine *engine);

/* ---------------------------------------------------------------------------
 * engine_judge.c
 */

/* A source is condemned after CONDEMN_WINDOWS consecutive windows of
 * LOADAVG_INTERVAL_NS in which its load was lower than the kernel's figure by
 * more than CONDEMN_POINTS. The kernel's figure is a lower bound, so a source
 * that reads less misses work. The core uses the source again only after a new
 * proof, which is due after CONDEMN_REST_NS, and later if it is condemned
 * again. */
#define CONDEMN_WINDOWS 3
#define CONDEMN_POINTS 0.05
#define CONDEMN_REST_NS (900 * NS_PER_S)
#define CONDEMN_REST_MAX_NS (4 * 3600 * NS_PER_S)

/* Checks one window of a core that does not use the idle source. `hardware` is
 * the load in that window, `kernel` is the kernel's lower bound of the load,
 * 1 - (idle + iowait + steal + guest) / wall, and `steal` is steal / wall.
 * Guest time is subtracted because the kernel counts a guest that halts without
 * leaving guest mode as running. `bracket_ns` is how long reading /proc/stat
 * took; both widen the margin. If `tick_sampled`, the kernel samples idle time
 * at the tick, and its figures prove nothing. Windows that prove nothing
 * neither count nor interrupt a sequence. A source is never condemned for
 * reading more than the kernel saw, because the kernel may miss softirqs, such
 * as XDP. Returns true if the source is condemned, and then resets *low_windows
 * to 0. */
bool engine_condemns(int *low_windows, double hardware, double kernel,
                     double steal, uint64_t bracket_ns, bool tick_sampled);

/* Every LOADAVG_INTERVAL_NS, condemns sources that read too low, and has the
 * sources in use proven again if the rate of the TSC has changed. */
void engine_judge(struct engine *engine);

/* ---------------------------------------------------------------------------
 * engine_prove.c
 */

/* Sets the result of a proof of a source. A proven source may be used again on
 * the cores on which it was condemned. */
void engine_set_proof(struct engine *engine, struct source *source,
                      enum proof proof);

/* True if a source could not be proven, and no core is idle enough to try
 * again. */
bool engine_has_no_room(const struct engine *engine,
                        const struct source *source);

/* If a proof is running, waits until it has ended, and applies its result. */
void engine_prove_end(struct engine *engine);

#endif
