/* bare: a collectd plugin for benchmarks. It accepts all values and discards
 * them, so that the figures do not include the cost of an output plugin. It can
 * also dispatch values itself, as cheaply as possible, for comparison. On
 * SIGUSR1 it logs how many numbers it has received; a load average is three.
 *
 *   LoadPlugin "bare"
 *   <Plugin "bare">
 *     Rows 25000         # of four fields each; default: 0, no read callback
 *   </Plugin> */
#include "collectd.h"

#include "plugin.h"
#include "utils/common/common.h"

#include <stdatomic.h>

static const char *const fields[] = {"packets", "bytes", "drops", "errors"};

static int rows;
static char (*names)[DATA_MAX_NAME_LEN];
static derive_t counter;
static atomic_ullong written;

static int bare_read(__attribute__((unused)) user_data_t *user_data) {
  value_t value = {.derive = counter++};
  value_list_t list = {.values = &value, .values_len = 1};
  list.time = cdtime();
  list.interval = plugin_get_interval();
  strcpy(list.plugin_instance, "all");
  strcpy(list.type, "derive");
  for (size_t f = 0; f < STATIC_ARRAY_SIZE(fields); f++) {
    ssnprintf(list.plugin, sizeof(list.plugin), "percore_host_gtpu_session_%s",
              fields[f]);
    for (int row = 0; row < rows; row++) {
      strcpy(list.type_instance, names[row]);
      plugin_dispatch_values(&list);
    }
  }
  return 0;
}

static int bare_write(const data_set_t *set,
                      __attribute__((unused)) const value_list_t *list,
                      __attribute__((unused)) user_data_t *user_data) {
  atomic_fetch_add(&written, set->ds_num);
  return 0;
}

static int bare_init(void) {
  if (rows == 0)
    return 0;
  names = calloc((size_t)rows, sizeof(*names));
  if (names == NULL)
    return -1;
  for (int row = 0; row < rows; row++)
    ssnprintf(names[row], sizeof(names[row]), "s%d", row);
  return plugin_register_complex_read(NULL, "bare", bare_read, 0, NULL);
}

static int bare_flush(__attribute__((unused)) cdtime_t timeout,
                      __attribute__((unused)) const char *identifier,
                      __attribute__((unused)) user_data_t *user_data) {
  INFO("bare: %llu values", (unsigned long long)written);
  return 0;
}

static int bare_shutdown(void) {
  free(names);
  return 0;
}

static int bare_config(oconfig_item_t *block) {
  for (int i = 0; i < block->children_num; i++)
    if (strcasecmp(block->children[i].key, "Rows") == 0 &&
        cf_util_get_int(&block->children[i], &rows) != 0)
      return -1;
  return 0;
}

void module_register(void) {
  plugin_register_complex_config("bare", bare_config);
  plugin_register_init("bare", bare_init);
  plugin_register_write("bare", bare_write, NULL);
  plugin_register_flush("bare", bare_flush, NULL);
  plugin_register_shutdown("bare", bare_shutdown);
}
