/* core: the state of one core of the machine, and how it is sampled. A failure
 * on one core does not affect the other cores. */
#ifndef PERCORE_CORE_H
#define PERCORE_CORE_H

#include "cpuidle.h"
#include "perf_event.h"
#include "source.h"
#include "source_kind.h"
#include "totals.h"

#include <stdbool.h>
#include <stdint.h>

struct engine;

/* The current sample of one core. It is added to the totals only when the whole
 * sample is known to be good. */
struct core_sample {
  /* What the sample adds to the totals. `wall` is 0 if the sample produced no
   * load. */
  struct core_totals growth;
  uint64_t begin_ns, end_ns; /* CLOCK_MONOTONIC, of growth.wall */
  bool stat_valid;           /* growth includes the columns of /proc/stat */
  uint64_t stat_begin_ns;
  /* how long /proc/stat was read at the begin or the end, whichever is longer
   */
  double bracket_ns;
  /* How much later than /proc/stat the time of polling was read; true if its
   * window began earlier. */
  double polled_late_ns;
  bool polled_began_early;
  double interrupts; /* of all cores */
  double switches;   /* of contexts, of all cores */
  bool filled; /* growth.wall comes from the idle columns instead of the source
                */
  /* How far the core's own clocks advanced (-1: unknown) while CLOCK_MONOTONIC
   * advanced by monotonic_ns. */
  double progress_ns, monotonic_ns;
};

/* What a source read of a core, in addition to the growth in core->sample. */
struct source_reading {
  uint64_t time_ns;            /* CLOCK_MONOTONIC */
  double off_ns;               /* the growth may be off by this much */
  uint64_t halted_ns;          /* by the idle clock */
  struct perf_reading counter; /* of a counter */
};

#define NEVER_ANNOUNCED (-2)

struct core {
  int number;
  bool online;
  enum source_kind
      source;       /* the source in use; SOURCE_NONE: the load is unknown */
  enum proof proof; /* result of proving `source` (source.h) */
  struct core_totals total;
  uint64_t total_end_ns; /* CLOCK_MONOTONIC; 0: no window in this epoch yet */
  enum source_kind total_end_kind; /* the source of the last window */

  /* The members below are private to the engine. */
  uint64_t identity; /* of its directory in sysfs; 0: unknown */
  int source_index;  /* in engine.sources, or -1 */
  /* The index of the source last named in the journal, -1 for none, or
   * NEVER_ANNOUNCED. */
  int announced;
  /* For each source: delays the next attempt after a failure on this
   * core. */
  struct backoff backoff[SOURCES_MAX];
  struct perf_group group;
  struct perf_reading reading; /* the group's last reading */
  uint64_t reading_time_ns;    /* of the source; 0: none yet */
  int refused; /* consecutive readings with an impossible load */

  uint64_t halted_ns; /* halted time at reading_time_ns, for the bpf source */
  /* At most this much has been stolen from the core until steal_at_ns (0: the
   * columns were never read), and until reading_time_ns. */
  double steal_ns, reading_steal_ns;
  uint64_t steal_at_ns;

  struct procstat_row row; /* the start of the next /proc/stat window */
  uint64_t row_time_ns;    /* 0: there is no row yet */
  double row_bracket_ns;   /* how long its read took */
  /* How long the core had polled in the idle loop, which the columns count as
   * idle, until polled_at_ns (0: unknown), right after `row` was read. */
  uint64_t polled_ns, polled_at_ns;
  bool polls; /* it polls, or may have begun to */
  struct idle_driver driver;
  int64_t interrupts, switches; /* of all cores, at `row` */
  /* How often the core had entered an idle state at halts_ns (0: unknown). */
  uint64_t halts, halts_ns;
  /* At most this much unhalted time until steal_at_ns is outside of the idle
   * clock's programs; the same until reading_time_ns. */
  double blind_ns, reading_blind_ns;
  /* highest idle + iowait so far; the kernel's sum may decrease */
  uint64_t idle_ns;
  int refusals;                     /* consecutive impossible windows */
  double carry_ns, steal_before_ns; /* see source_idle.c */
  uint64_t stolen_from_ns;          /* the last sample with steal; 0: none */
  unsigned condemned; /* sources, by index, that read too low here */
  unsigned allowed;   /* the sources that the core may use, as a bit mask */

  struct core_sample sample;
  struct core_totals judged; /* the totals at the last engine_judge */
  struct core_totals before; /* the totals at the engine_judge before it */
  bool late; /* a sample has been late since the last window ended */
  /* How far the core's own clocks advanced in the last window, as a share of
   * CLOCK_MONOTONIC. Columns that miss work advance less. */
  double progress_share;
  double tsc_per_ns;        /* in the last window that was judged */
  double window_tsc_per_ns; /* in the last window; 0: none */
  int low_windows;          /* consecutive windows that contradict the source */
};

/* Switches the core to the best available source among the sources in the
 * bit mask `allowed`, and opens its counters. */
void core_choose(struct engine *engine, struct core *core, unsigned allowed);

/* Makes the next window begin with the last reading. */
void core_begin_epoch(struct core *core);

/* Closes the core's counters. Its next window begins at its next reading. */
void core_close(struct core *core);

/* Closes the counters of a core that was offline, and forgets earlier failures,
 * so that the next sample tries the counters again. */
void core_restart(struct core *core);

/* Reads the counters and the /proc/stat columns into core->sample. */
void core_read(struct engine *engine, struct core *core);

/* Adds core->sample to the totals. */
void core_commit(struct engine *engine, struct core *core);

#endif
