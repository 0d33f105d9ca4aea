/* watch: an engine, what it said in its journal, and loads over windows. */
#ifndef TESTBED_WATCH_H
#define TESTBED_WATCH_H

#include "burner.h"

#include "cycles/core.h"
#include "cycles/engine.h"

#include <stdbool.h>
#include <stddef.h>

/* A guest in real time that is halted in a sample reads the clock long before
 * /proc/stat. Longer than this, which is what columns may be wrong by, it can
 * see more idle time than there was time: an error, and a window without value.
 */
#define HALT_NS UINT64_C(20000000)

struct watch {
  struct engine *engine;
  struct machine *machine; /* ours, unless the options brought one */
  char *said;              /* all lines of the journal so far */
  size_t said_len;
  uint64_t slowest_ns; /* of all samples since this was last set to 0 */
};

/* Opens an engine (options->machine NULL: this computer; the journal is ours)
 * and runs the proofs that are due. Returns engine_open's status. */
int watch_open(struct watch *watch, struct engine_options options);
void watch_close(struct watch *watch);

/* True if one line of the journal holds all the words (NULL-terminated). */
bool watch_said(const struct watch *watch, const char *const words[]);

/* NULL for a core that the engine does not know. */
const struct core *watch_core(const struct watch *watch, int core);

/* One sample, and the totals of a core after it (all zero for an unknown one).
 */
struct core_totals watch_total(struct watch *watch, int core);

/* What a window showed. Shares of its wall time. */
struct window {
  double load;  /* of the engine; NAN: no value */
  double truth; /* of the burner's log */
  double edges; /* how long the two samples took: it began and ended in them */
  double late;  /* what is not known: burner_late_ns and the edges */
  double busy_columns, idle_columns, sum_columns; /* of /proc/stat */
};

/* Samples, waits, samples again. burner NULL: nothing runs, truth is 0. */
struct window watch_window(struct watch *watch, int core, struct burner *burner,
                           uint64_t length_ns);
/* The same, but both samples are taken just after a round of the burner: then
 * the truth does not change while a sample is taken, which is not short where
 * the cores of a guest take turns. */
struct window watch_window_at_rest(struct watch *watch, int core,
                                   struct burner *burner, uint64_t length_ns);

/* The same with a burner of this pattern, for this long. */
struct window watch_pattern(struct watch *watch, int core,
                            const struct pattern *pattern, uint64_t length_ns);

/* The number of this process's open descriptors. */
int descriptors_open(void);

#endif
