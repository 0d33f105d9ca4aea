/* plugin/ is the face that percore shows collectd: options in, values and
 * notifications out. It is the only folder that includes collectd's headers,
 * and no other folder knows it. How a load is learnt is none of its business;
 * it takes snapshots of figures from cycles/ and gives them names.
 *
 *   config    the options of <Plugin percore>, read before collectd forks;
 *             config_option: how tables of options are read
 *   plugin    the life cycle: module_register, init, read, shutdown
 *   dispatch  a snapshot becomes value lists; put: one of them
 *   notify    what changed since the last snapshot becomes notifications
 *   region_*  the same for regions: config, dispatch, and a thread of its own
 *             (sampler) that finds producers (watch, meet, instance, health),
 *             reads tables (read, parts, candidates) into sums over instances
 *             (sum, rows, top) and makes values of them (values, workers)
 */
#ifndef PERCORE_PLUGIN_CONFIG_H
#define PERCORE_PLUGIN_CONFIG_H

#include "collectd.h"

#include "plugin.h"

#include "config_option.h"
#include "cycles/sampler.h"
#include "map_config.h"
#include "region_config.h"

/* Load averages are always kept over 60, 300 and 900 s (type `load`). */
#define CONFIG_PERIODS_STANDARD 3

/* All of <Plugin percore>; one block of options is one struct. */
struct config {
  bool cores_given; /* else: all, looked up anew at each sample */
  struct core_set cores;
  struct figures_group *groups;
  size_t groups_len;
  char *sys_root; /* absolute, without a slash at its end; NULL: "/" */
  bool host_perf;
  int max_values;
  double max_memory; /* bytes, of the regions */
  bool send_notifications;

  struct {
    enum source source;
    enum denominator denominator;
    enum isolated_cores isolated_cores;
    struct core_set also_isolated;
    double sample_interval_s; /* 0: the sampler's default */
    char *event;
    double base_frequency_hz; /* 0: find out */
    bool report_per_core;
    bool report_host;
    bool report_minimum;
    bool report_hidden;
    bool report_time;
    bool report_frequency;
    bool report_ipc;
    bool report_smi;
    bool report_throttles;
    bool report_schedstat;
    bool report_cstates;
    bool report_residency;
    bool report_power;
  } load;

  struct {
    double period_s[FIGURES_PERIODS_MAX];
    size_t periods_len;
    bool run_queue;
    bool count_blocked;
  } load_average;

  struct region_configs regions;
  struct map_configs maps;
};

/* Sets every option to its default. */
void config_init(struct config *config);
void config_free(struct config *config);

/* Takes one <Plugin percore> block; further blocks add to it. Unknown options
 * are warned of and left alone.
 * Returns 0, or -1 after an error that names the option, its value and what is
 * allowed. */
int config_read(struct config *config, const oconfig_item_t *block);

/* What the sampler needs to know; pointers into *config, which must live as
 * long as *options is used. interval_ns, machine and journal are left to the
 * caller. */
void config_sampler_options(const struct config *config,
                            struct sampler_options *options);

#endif
