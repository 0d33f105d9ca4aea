/* The life cycle of the plugin. collectd forks after it has read the options,
 * so files must not be opened and threads must not be started before init.
 * config.h says what each file of this folder does. */
#include "config.h"
#include "dispatch.h"
#include "map_sampler.h"
#include "notify.h"
#include "region_thread.h"
#include "wake_sampler.h"

#include "base/clock.h"

#include "utils/common/common.h"

#define PLUGIN_NAME "percore"

#define RETRY_FIRST TIME_T_TO_CDTIME_T_STATIC(1)
#define RETRY_LAST TIME_T_TO_CDTIME_T_STATIC(60)

/* The state of the plugin. It needs no lock, because collectd's main thread
 * calls config and init before any read, reads never overlap, and shutdown is
 * called after the last read. */
static struct {
  struct config config;
  struct machine *machine;
  struct sampler *sampler; /* NULL: not started; the next read tries again */
  struct board *board;     /* NULL: none is wanted */
  struct dispatch dispatch;
  struct region_room room;
  struct notify notify;
  struct region_thread
      *region_thread; /* NULL: no regions, or it cannot start */
  uint64_t began_boottime_ns;
  struct map_sampler *map_sampler;   /* NULL: no <Map> */
  struct wake_sampler *wake_sampler; /* NULL: no <WakeLatency> */
  c_complain_t regions_unread, regions_hang;
  struct region_thread *ended_region_thread; /* its memory is not freed */
  bool region_thread_is_left; /* it hangs at the end, and may use the config */
  bool has_read;
  cdtime_t retry_time;
  cdtime_t retry_delay;
} plugin;

/* ---------------------------------------------------------------------------
 * The sampler
 */

static void write_journal(__attribute__((unused)) void *context,
                          enum journal_level level, const char *line) {
  static const int severity[] = {
      [JOURNAL_ERROR] = LOG_ERR,
      [JOURNAL_WARNING] = LOG_WARNING,
      [JOURNAL_NOTICE] = LOG_NOTICE,
      [JOURNAL_INFO] = LOG_INFO,
  };
  plugin_log(severity[level], "percore: %s", line);
}

/* Returns the interval in nanoseconds. collectd's unit of time is 2^-30 s,
 * which cannot represent 0.1 s exactly; rounding to microseconds makes the
 * interval exact again. */
static uint64_t interval_ns(cdtime_t interval) {
  return CDTIME_T_TO_US(interval) * 1000;
}

/* Runs in the sampler's thread. */
static void publish(__attribute__((unused)) void *context,
                    struct snapshot *snapshot,
                    const struct topology *topology) {
  region_room_set(&plugin.room, snapshot);
  if (plugin.board != NULL)
    board_publish(plugin.board, snapshot, topology);
}

/* With SysRoot, the cores may be those of another kernel. */
static void open_board(void) {
  const struct config *config = &plugin.config;
  if (config->load.board != BOARD_OFF &&
      (config->sys_root == NULL || config->host_perf))
    plugin.board = board_open(config->load.board,
                              &(struct journal){.write = write_journal});
}

/* Starts the sampler of loads. Returns 0 or -errno. */
static int start_sampler(void) {
  const char *sys_root = plugin.config.sys_root;
  plugin.machine = machine_linux(sys_root != NULL ? sys_root : "/");
  if (plugin.machine == NULL)
    return -errno;

  struct sampler_options options;
  config_sampler_options(&plugin.config, &options);
  options.interval_ns = interval_ns(plugin.dispatch.interval);
  options.engine.machine = plugin.machine;
  options.engine.journal = (struct journal){.write = write_journal};
  options.publish = publish;

  int status = sampler_start(&plugin.sampler, &options);
  if (status != 0) {
    plugin.sampler = NULL;
    machine_linux_close(plugin.machine);
    plugin.machine = NULL;
  }
  return status;
}

/* Starts the sampler. If this fails, the reads try again after 1, 2, 4 ... 60
 * s. */
static void try_to_start(void) {
  int status = start_sampler();
  if (status == 0)
    return;
  plugin.retry_delay = plugin.retry_delay == 0
                           ? RETRY_FIRST
                           : MIN(2 * plugin.retry_delay, RETRY_LAST);
  plugin.retry_time = cdtime() + plugin.retry_delay;
  ERROR("percore: no core can be measured under \"%s\": %s; trying again in "
        "%.0f s.",
        plugin.config.sys_root != NULL ? plugin.config.sys_root : "/",
        STRERROR(-status), CDTIME_T_TO_DOUBLE(plugin.retry_delay));
}

/* ---------------------------------------------------------------------------
 * Regions
 */

/* This fails only for lack of memory, threads or processes. */
static void start_region_thread(void) {
  struct region_watch_options options = {
      .config = &plugin.config,
      .room = &plugin.room,
      .interval = plugin.dispatch.interval,
  };
  int status = region_thread_start(&plugin.region_thread, &options,
                                   plugin.began_boottime_ns);
  if (status == 0) {
    c_release(LOG_INFO, &plugin.regions_unread,
              "percore: regions are read again.");
    return;
  }
  c_complain_once(LOG_ERR, &plugin.regions_unread,
                  "percore: regions are not read: their thread or process "
                  "cannot be started: %s; trying again at each read.",
                  STRERROR(-status));
}

/* collectd calls this after the last read, and before it stops the threads that
 * write values. */
static void stop_region_thread(__attribute__((unused)) void *unused) {
  plugin.region_thread_is_left |= !region_thread_stop(plugin.region_thread);
  if (plugin.region_thread != NULL)
    plugin.ended_region_thread = plugin.region_thread;
  plugin.region_thread = NULL;
}

static void watch_region_thread(void) {
  if (plugin.region_thread == NULL) {
    if (region_watch_is_needed(&plugin.config))
      start_region_thread();
  } else if (region_thread_hangs(plugin.region_thread)) {
    c_complain_once(LOG_WARNING, &plugin.regions_hang,
                    "percore: regions are not read: their thread has been "
                    "blocked for %d s, perhaps by a notification plugin; loads "
                    "go on. "
                    "/proc/%d/task/*/wchan shows where it waits.",
                    (int)(REGION_THREAD_HANGS_NS / 1000000000), (int)getpid());
  } else {
    c_release(LOG_INFO, &plugin.regions_hang,
              "percore: the thread that reads regions goes on.");
  }
}

/* ---------------------------------------------------------------------------
 * Maps and wake latency
 */

/* Logs an error with the consequence if a thread could not be started. */
static void check_started(int status, const char *consequence) {
  if (status != 0)
    ERROR("percore: %s: cannot start a thread: %s; restart collectd.",
          consequence, STRERROR(-status));
}

static void start_optional_samplers(void) {
  uint64_t interval = interval_ns(plugin.dispatch.interval);
  check_started(
      map_sampler_start(&plugin.map_sampler, &plugin.config.maps, interval),
      "no map is read");
  check_started(
      wake_sampler_start(&plugin.wake_sampler, &plugin.config, interval),
      "wake latency is not measured");
}

/* ---------------------------------------------------------------------------
 * Callbacks
 */

/* Dispatches all new snapshots, the oldest first, so that a late or early read
 * neither loses nor repeats an interval. */
static void dispatch_new(void) {
  struct snapshot *snapshot;
  while ((snapshot = sampler_take(plugin.sampler)) != NULL) {
    struct wake_figures *wake = wake_sampler_take(plugin.wake_sampler);
    plugin.dispatch.wake = wake;
    dispatch_snapshot(&plugin.dispatch, snapshot);
    plugin.dispatch.wake = NULL;
    free(wake);
    notify_snapshot(&plugin.notify, snapshot, plugin.config.send_notifications);
    wake_sampler_tell(plugin.wake_sampler, snapshot);
    snapshot_free(snapshot);
  }
}

/* Only the first read fails if no source of load works, because `collectd -T`
 * reads once and reports the failure. Later failures would make collectd call
 * the plugin less and less often, so the plugin then waits for a source
 * instead. */
static int percore_read(__attribute__((unused)) user_data_t *user_data) {
  bool first = !plugin.has_read;
  plugin.has_read = true;

  if (plugin.sampler == NULL && cdtime() >= plugin.retry_time)
    try_to_start();
  if (plugin.sampler != NULL)
    dispatch_new();
  watch_region_thread();

  if (!first || (plugin.sampler != NULL && sampler_has_source(plugin.sampler)))
    return 0;
  ERROR("percore: no source of load works on this machine; the plugin keeps "
        "looking for one. `percore doctor` says what is missing.");
  return -1;
}

/* If init failed, collectd would unload the plugin for good. So init always
 * succeeds, and each read tries again to start what could not be started. */
static int percore_init(void) {
  plugin.dispatch = (struct dispatch){.config = &plugin.config,
                                      .interval = plugin_get_interval()};
  memset(&plugin.notify, 0, sizeof(plugin.notify));
  plugin.regions_unread = (c_complain_t)C_COMPLAIN_INIT_STATIC;
  plugin.regions_hang = (c_complain_t)C_COMPLAIN_INIT_STATIC;
  plugin.has_read = false;
  plugin.retry_delay = 0;
  plugin.began_boottime_ns = clock_now_ns(CLOCK_BOOTTIME);
  open_board();
  try_to_start();
  watch_region_thread();
  start_optional_samplers();
  user_data_t end = {.free_func = stop_region_thread};
  return plugin_register_complex_read(NULL, PLUGIN_NAME, percore_read, 0, &end);
}

static int percore_shutdown(void) {
  sampler_stop(plugin.sampler);
  plugin.sampler = NULL;
  board_close(plugin.board);
  plugin.board = NULL;
  machine_linux_close(plugin.machine);
  plugin.machine = NULL;
  map_sampler_stop(plugin.map_sampler);
  plugin.map_sampler = NULL;
  wake_sampler_stop(plugin.wake_sampler);
  plugin.wake_sampler = NULL;
  stop_region_thread(NULL);
  if (!plugin.region_thread_is_left)
    config_free(&plugin.config);
  return 0;
}

static int percore_config(oconfig_item_t *block) {
  return config_read(&plugin.config, block);
}

void module_register(void) {
  config_init(&plugin.config);
  plugin_register_complex_config(PLUGIN_NAME, percore_config);
  plugin_register_init(PLUGIN_NAME, percore_init);
  plugin_register_shutdown(PLUGIN_NAME, percore_shutdown);
}
