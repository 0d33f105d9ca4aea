/* load_options: the options of `percore load`, used by its three ways of
 * measuring (live, --compare, -- COMMAND). */
#ifndef PERCORE_LOAD_OPTIONS_H
#define PERCORE_LOAD_OPTIONS_H

#include "cycles/engine.h"
#include "cycles/figures.h"

struct load_options {
  double interval_s;     /* 0 if not given */
  uint64_t count;        /* number of tables; 0: no limit */
  struct core_set cores; /* empty: all */
  const char *source, *denominator, *event;
  double base_frequency_hz;
  bool json, compare;
};

struct engine_options load_engine_options(const struct load_options *options,
                                          struct machine *machine,
                                          struct journal journal);
extern const struct figures_options load_figures;

/* Returns the length of the windows for minimum and maximum: a quarter of the
 * interval, but long enough that the 10 ms steps of /proc/stat do not dominate
 * the extremes, and no longer than the plugin's windows. */
uint64_t load_sample_interval_ns(double interval_s);

/* Error message if nothing can be shown. */
#define LOAD_NO_SOURCE                                                         \
  "no source of loads works here: see 'percore doctor' for reasons and advice"

/* Runs `percore load --compare`. */
int compare_run(const struct load_options *options, struct machine *machine);

/* Runs `percore load -- COMMAND`. Returns the exit status of the command. */
int load_command_run(const struct load_options *options,
                     struct machine *machine, char **words);

#endif
