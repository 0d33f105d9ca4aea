/* load_options: what `percore load` was asked for, and how its three ways of
 * measuring (live, --compare, -- COMMAND) use it. */
#ifndef PERCORE_LOAD_OPTIONS_H
#define PERCORE_LOAD_OPTIONS_H

#include "cycles/engine.h"
#include "cycles/figures.h"

struct load_options {
  double interval_s;     /* 0: not given */
  uint64_t count;        /* of tables; 0: no end */
  struct core_set cores; /* empty: all */
  const char *source, *denominator, *event;
  double base_frequency_hz;
  bool json, compare;
};

struct engine_options load_engine_options(const struct load_options *options,
                                          struct machine *machine,
                                          struct journal journal);
extern const struct figures_options load_figures;

/* Windows for minimum and maximum: a quarter of the interval, but not so short
 * that the 10 ms steps of /proc/stat would make the extremes, and not longer
 * than the plugin's. */
uint64_t load_sample_interval_ns(double interval_s);

/* Why there is nothing to show. */
#define LOAD_NO_SOURCE                                                         \
  "no source of loads works here: see 'percore doctor' for reasons and advice"

/* `percore load --compare`. */
int compare_run(const struct load_options *options, struct machine *machine);

/* `percore load -- COMMAND`. Returns the exit status of the command. */
int load_command_run(const struct load_options *options,
                     struct machine *machine, char **words);

#endif
