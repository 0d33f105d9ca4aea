/* A collectd plugin for the tests: dispatches many counters of many cores in
 * each interval, like a large region.
 *
 *   <Plugin flood>
 *     Cores 128     plugin instances
 *     Counters 200  type instances of each plugin instance
 *     Reads 20      number of reads, so that all values can be counted
 *   </Plugin>
 */
#include "collectd.h"

#include "plugin.h"
#include "utils/common/common.h"

static int cores = 1, counters = 1, reads = 1, reads_done;

static int flood_config(oconfig_item_t *block) {
  for (int i = 0; i < block->children_num; i++) {
    oconfig_item_t *option = &block->children[i];
    int *target = strcasecmp(option->key, "Cores") == 0      ? &cores
                  : strcasecmp(option->key, "Counters") == 0 ? &counters
                  : strcasecmp(option->key, "Reads") == 0    ? &reads
                                                             : NULL;
    if (target == NULL || cf_util_get_int(option, target) != 0) {
      ERROR("flood: option %s", option->key);
      return -1;
    }
  }
  return 0;
}

static int flood_read(void) {
  if (reads_done == reads)
    return 0;
  value_t value = {.derive = reads_done * 1000};
  value_list_t list = VALUE_LIST_INIT;
  list.values = &value;
  list.values_len = 1;
  list.time = cdtime();
  sstrncpy(list.plugin, "flood", sizeof(list.plugin));
  sstrncpy(list.type, "derive", sizeof(list.type));
  for (int core = 0; core < cores; core++) {
    snprintf(list.plugin_instance, sizeof(list.plugin_instance), "%d", core);
    for (int counter = 0; counter < counters; counter++) {
      snprintf(list.type_instance, sizeof(list.type_instance), "counter_%d",
               counter);
      plugin_dispatch_values(&list);
    }
  }
  if (++reads_done == reads)
    NOTICE("flood: all %d reads are done", reads);
  return 0;
}

void module_register(void) {
  plugin_register_complex_config("flood", flood_config);
  plugin_register_read("flood", flood_read);
}
