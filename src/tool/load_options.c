#include "load_options.h"

#include "tool.h"

#include <math.h>

struct engine_options load_engine_options(const struct load_options *options,
                                          struct machine *machine,
                                          struct journal journal) {
  struct engine_options engine = {
      .cores = core_set_count(&options->cores) > 0 ? &options->cores : NULL,
      .machine = machine,
      .hardware = true,
      .event = options->event,
      .base_frequency_hz = options->base_frequency_hz,
      .isolated_cores = ISOLATED_CORES_IDLE,
      .frequency = options->json,
      .raise_limit = true,
      .journal = journal,
      .cancel = stop_flag(),
  };
  source_parse(&engine.source, options->source);
  denominator_parse(&engine.denominator, options->denominator);
  return engine;
}

uint64_t load_sample_interval_ns(double interval_s) {
  double longest_s = (double)LOADAVG_INTERVAL_NS / 4e9;
  double window_s = fmax(interval_s / 4, fmin(interval_s, 0.5));
  return (uint64_t)(fmin(window_s, longest_s) * 1e9);
}

const struct figures_options load_figures = {.run_queue = true,
                                             .count_blocked = true};
