/* map_config: the options of <Map>, which select BPF maps and the regions in
 * which they become tables. <Region> selects what is reported from these
 * tables. */
#ifndef PERCORE_PLUGIN_MAP_CONFIG_H
#define PERCORE_PLUGIN_MAP_CONFIG_H

#include "map/publish.h"
#include "region_config.h"

/* The options of one <Map> block. */
struct map_config {
  bool is_pattern; /* the last component of table.path is a glob pattern */
  char *region;    /* [a-z][a-z0-9]* */
  struct map_table table; /* if `name` is NULL, the table is named after the pin
                           */
};

struct map_configs {
  struct map_config *list;
  size_t len;
};

/* Reads one <Map> block and adds its region to the regions to read
 * (region_config_publish). Returns 0, or -1 after logging an error that names
 * the option, its value and the allowed values. */
int map_config_read(struct map_configs *configs, struct region_configs *regions,
                    const struct config_option *option,
                    const oconfig_item_t *block);

#endif
