/* watch: an engine with its journal, which measures loads over windows. */
#ifndef TESTBED_WATCH_H
#define TESTBED_WATCH_H

#include "burner.h"

#include "cycles/core.h"
#include "cycles/engine.h"

#include <stdbool.h>
#include <stddef.h>

/* If a guest that runs in real time is halted during a sample, it reads
 * /proc/stat long after the clock. If the delay exceeds the resolution of two
 * columns, idle time may exceed the window, which causes an error and a window
 * without a load. */
#define HALT_NS UINT64_C(20000000)

struct watch {
  struct engine *engine;
  /* This computer, unless the options specify a machine. */
  struct machine *machine;
  char *said; /* all lines of the journal */
  size_t said_len;
  uint64_t slowest_ns; /* longest sample since this was set to 0 */
};

/* Opens an engine and runs the proofs that are due. If options.machine is NULL,
 * the machine is this computer. Uses the watch's own journal. Returns the
 * status of engine_open. */
int watch_open(struct watch *watch, struct engine_options options);
void watch_close(struct watch *watch);

/* True if one line of the journal contains all of `words`; NULL ends the
 * list. */
bool watch_said(const struct watch *watch, const char *const words[]);

/* Returns NULL if the engine does not know the core. */
const struct core *watch_core(const struct watch *watch, int core);

/* Takes a sample. Returns the totals of a core, all zero for an unknown core.
 */
struct core_totals watch_total(struct watch *watch, int core);

/* The figures of a window, as shares of its wall time. */
struct window {
  double load;  /* from the engine; NAN: unknown */
  double truth; /* from the burner's record */
  double edges; /* the time that the two samples took */
  double late;  /* the uncertainty: burner_late_ns and the edges */
  double busy_columns, idle_columns, sum_columns; /* of /proc/stat */
};

/* Takes a sample, waits, and takes another. If burner is NULL, the truth is 0.
 */
struct window watch_window(struct watch *watch, int core, struct burner *burner,
                           uint64_t length_ns);
/* Like watch_window, but takes each sample just after a round of the burner, so
 * that the truth does not change during a sample. Samples take long in guests
 * that run their cores alternately. */
struct window watch_window_at_rest(struct watch *watch, int core,
                                   struct burner *burner, uint64_t length_ns);

/* Like watch_window, but starts a burner with `pattern`, which runs during the
 * window. */
struct window watch_pattern(struct watch *watch, int core,
                            const struct pattern *pattern, uint64_t length_ns);

/* Returns the number of this process's open descriptors. */
int descriptors_open(void);

#endif
