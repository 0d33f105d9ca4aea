/* map_sampler: a thread that reads the BPF maps of <Map> and publishes them as
 * regions, which region_sampler then reads like any other region. The thread
 * finishes shortly before each multiple of the plugin's interval, when the
 * regions are read. */
#ifndef PERCORE_PLUGIN_MAP_SAMPLER_H
#define PERCORE_PLUGIN_MAP_SAMPLER_H

#include "map_config.h"

struct map_sampler;

/* Starts the thread, unless no map is configured: *sampler is then NULL. The
 * configuration must live until map_sampler_stop. Returns 0 or -errno. */
int map_sampler_start(struct map_sampler **sampler,
                      const struct map_configs *configs, uint64_t interval_ns);

/* Stops the thread and removes its regions. Accepts NULL. */
void map_sampler_stop(struct map_sampler *sampler);

#endif
