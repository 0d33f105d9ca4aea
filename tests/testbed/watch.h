/* watch: an engine, whose journal (the lines that it reports) is recorded, for
 * measuring loads over windows. */
#ifndef TESTBED_WATCH_H
#define TESTBED_WATCH_H

#include "burner.h"

#include "cycles/core.h"
#include "cycles/engine.h"

#include <stdbool.h>
#include <stddef.h>

/* If a guest that runs in real time is halted during a sample, the sample may
 * read /proc/stat long after the clock. If this delay exceeds the resolution of
 * two columns (HALT_NS), idle time may exceed the window, which causes an error
 * and a window without a load. */
#define HALT_NS UINT64_C(20000000)

struct watch {
  struct engine *engine;
  /* The machine that watch_open opened for this computer; NULL if the options
   * specified a machine. */
  struct machine *machine;
  char *said; /* all lines of the journal */
  size_t said_len;
  uint64_t slowest_ns; /* longest sample since the caller set this to 0 */
};

/* Opens an engine and runs the proofs (tests of its sources) that are due. If
 * options.machine is NULL, the machine is this computer. The watch replaces
 * options.journal with its own. Returns the status of engine_open: 0 or a
 * negative errno. */
int watch_open(struct watch *watch, struct engine_options options);
void watch_close(struct watch *watch);

/* Returns true if one line of the journal contains all of `words`, a list that
 * ends with NULL. */
bool watch_said(const struct watch *watch, const char *const words[]);

/* Returns a core of the engine, or NULL if the engine does not know the
 * core. */
const struct core *watch_core(const struct watch *watch, int core);

/* Takes a sample. Returns the totals of a core; all are 0 for an unknown core.
 */
struct core_totals watch_total(struct watch *watch, int core);

/* The figures of a window, as shares of its wall time. */
struct window {
  double load;  /* measured by the engine; NAN if unknown */
  double truth; /* from the burner's record */
  double edges; /* the time that the two samples took */
  double late;  /* uncertainty of truth: burner_late_ns plus edges */
  double busy_columns, idle_columns, sum_columns; /* of /proc/stat */
};

/* Takes two samples, length_ns apart. Returns the figures of the window between
 * them. If burner is NULL, the truth is 0.
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

/* Returns the number of entries in /proc/self/fd, which grows by one with each
 * open descriptor. Returns -1 on error. */
int descriptors_open(void);

#endif
