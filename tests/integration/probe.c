/* probe: a collectd plugin for the tests. It logs when its init and shutdown
 * are called, so that two copies, loaded before and after percore, show how
 * long percore's init and shutdown took. It can also block a read thread for
 * random times, like a plugin that waits for a slow device.
 *
 *   LoadPlugin "probe"
 *   <Plugin "probe">
 *     BlockMax 2.5       # in seconds; without it, there is no read callback
 *   </Plugin>
 */
#include "collectd.h"

#include "plugin.h"
#include "utils/common/common.h"

#include <time.h>

static char name[DATA_MAX_NAME_LEN];
static double block_max_s;
static unsigned seed = 1;

static void say_when(const char *what) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  INFO("%s: %s at %lld.%09ld", name, what, (long long)now.tv_sec, now.tv_nsec);
}

static int probe_read(__attribute__((unused)) user_data_t *user_data) {
  double delay_s = block_max_s * rand_r(&seed) / RAND_MAX;
  time_t seconds = (time_t)delay_s;
  struct timespec delay = {.tv_sec = seconds,
                           .tv_nsec = (long)((delay_s - seconds) * 1e9)};
  nanosleep(&delay, NULL);
  return 0;
}

static int probe_init(void) {
  say_when("init");
  return block_max_s > 0
             ? plugin_register_complex_read(NULL, name, probe_read, 0, NULL)
             : 0;
}

static int probe_shutdown(void) {
  say_when("shutdown");
  return 0;
}

static int probe_config(oconfig_item_t *block) {
  for (int i = 0; i < block->children_num; i++)
    if (strcasecmp(block->children[i].key, "BlockMax") == 0 &&
        cf_util_get_double(&block->children[i], &block_max_s) != 0)
      return -1;
  return 0;
}

/* Registers the callbacks under the name of this copy of the plugin. */
void module_register(void) {
  plugin_ctx_t context = plugin_get_ctx();
  sstrncpy(name, context.name, sizeof(name));
  plugin_register_complex_config(name, probe_config);
  plugin_register_init(name, probe_init);
  plugin_register_shutdown(name, probe_shutdown);
}
