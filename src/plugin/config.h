/* plugin/ connects percore to collectd: it reads options, and dispatches values
 * and notifications. Only this folder includes collectd's headers, and no other
 * folder depends on it. The other folders measure and supply figures; plugin/
 * gives the figures names.
 *
 *   config        the options of <Plugin percore>; config_option reads them
 *                 according to tables of options
 *   plugin        the life cycle: module_register, init, read, shutdown
 *   dispatch      turns a snapshot into value lists; put dispatches one value
 *   wake_sampler  a thread that measures how fast cores wake
 *   map_config    the options of <Map>
 *   map_sampler   a thread that publishes BPF maps as regions
 *   region_*      reads regions: region_thread runs a round of region_watch
 *                 each interval, in which region_list finds sockets,
 *                 region_input reads cells and adds their growth to rows of
 *                 region_sum, and region_put dispatches these. The picture and
 *                 the words are in regions.h
 *
 * Errors: functions that read options, and callbacks of collectd, return 0, or
 * -1 after logging the error. All other functions return 0 or -errno; those
 * that can fail only for lack of memory may return false or NULL instead. */
#ifndef PERCORE_PLUGIN_CONFIG_H
#define PERCORE_PLUGIN_CONFIG_H

#include "board/publish.h"
#include "cycles/sampler.h"
#include "map_config.h"
#include "poller/poller.h"
#include "region_config.h"

/* The options of <Plugin percore>. */
struct config {
  struct core_set cores; /* empty: all cores, looked up again at each sample */
  struct figures_group *groups;
  size_t groups_len;
  char *sys_root; /* absolute, without a trailing slash; NULL: "/" */
  int max_values;
  double max_memory; /* for regions, in bytes */

  /* The options of <Load> that the sampler itself needs are stored directly in
   * its options, which config_sampler_options completes. */
  struct sampler_options sampler;

  /* All other options of <Load>. */
  struct {
    double sample_interval_s; /* 0: peaks and troughs are not measured */
    bool report_per_core;
    bool report_host;
    bool report_self; /* all figures of percore itself */
    bool report_hidden;
    bool report_time;
    enum board_readers board; /* who may read the board */
  } load;

  bool wake_latency; /* whether to measure how fast cores wake */
  /* The cores to probe. Empty: all measured cores or, if any core is isolated,
   * none. */
  struct core_set wake_cores;

  struct region_configs regions;
  struct map_configs maps;
  struct pollers_options pollers; /* but for interval_ns and journal */
};

/* Sets every option to its default. What the options allocate is never freed,
 * because they are in use until the process ends. */
void config_init(struct config *config);

/* Reads one <Plugin percore> block; the options of several blocks are combined.
 * Unknown options are ignored with a warning. If a value is not allowed, logs
 * an error that names the option, its value and the allowed values, and returns
 * -1. */
int config_read(struct config *config, const oconfig_item_t *block);

/* Returns the cores, or NULL if the option was not given. The option does not
 * accept an empty list, so an empty set means that the option was not given. */
static inline const struct core_set *
config_cores(const struct core_set *cores) {
  return core_set_next(cores, -1) >= 0 ? cores : NULL;
}

/* Fills in the options of the sampler except interval_ns, machine and journal.
 * The pointers in *options point into *config. */
void config_sampler_options(const struct config *config,
                            struct sampler_options *options);

#endif
