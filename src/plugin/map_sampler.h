/* map_sampler: a thread that reads the BPF maps of <Map> and publishes them as
 * regions, which region_thread then reads like any other region. Regions are
 * read at multiples of the plugin's interval, so the thread completes each
 * round over the maps shortly before the next multiple. */
#ifndef PERCORE_PLUGIN_MAP_SAMPLER_H
#define PERCORE_PLUGIN_MAP_SAMPLER_H

#include "map_config.h"

struct map_sampler;

/* Starts the thread. If no map is configured, starts nothing and sets *sampler
 * to NULL. `configs` must stay valid until map_sampler_stop. Returns 0 or
 * -errno. */
int map_sampler_start(struct map_sampler **sampler,
                      const struct map_configs *configs, uint64_t interval_ns);

/* Stops the thread and removes its regions. Accepts NULL. */
void map_sampler_stop(struct map_sampler *sampler);

#endif
