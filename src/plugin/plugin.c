/* The life cycle of the plugin. collectd forks after it has read the options,
 * so files must not be opened and threads must not be started before init.
 * config.h says what each file of this folder does. */
#include "config.h"
#include "dispatch.h"
#include "map_sampler.h"
#include "put.h"
#include "region_thread.h"
#include "region_workers.h"
#include "wake_sampler.h"

#include "base/clock.h"
#include "cycles/aggregate.h"
#include "cycles/sampling_thread.h"
#include "region/name.h"

#include "utils/common/common.h"

#include <dirent.h>

#define PLUGIN_NAME "percore"

/* The sampler, and regions, are tried again this often if they could not be
 * started. */
#define RETRY_INTERVAL TIME_T_TO_CDTIME_T_STATIC(10)

/* The state of the plugin. It needs no lock: collectd's main thread calls
 * config, init and shutdown; the sampler's thread is the last to start, except
 * that it starts the thread of regions, and the first to end; and reads use
 * only the sampler, if it runs. */
static struct {
  struct config config;
  plugin_ctx_t context;
  uint64_t interval_ns;
  struct machine *machine;
  struct sampler *sampler; /* NULL: not started; the next read tries again */
  struct board *board;     /* NULL: none is wanted */
  struct dispatch dispatch;
  struct empty_polls empty_polls;
  struct region_thread *region_thread; /* NULL: out of memory */
  uint64_t began_boottime_ns;
  struct map_sampler *map_sampler;   /* NULL: no <Map> */
  struct wake_sampler *wake_sampler; /* NULL: no WakeLatency */
  struct pollers *pollers;           /* NULL: there is no block <Pollers> */
  c_complain_t regions_unread, unmeasured;
  bool has_read;
} plugin;

/* ---------------------------------------------------------------------------
 * Regions
 */

static void watch_regions(void) {
  const struct region_watch_options options = {
      .config = &plugin.config,
      .empty_polls = &plugin.empty_polls,
      .interval_ns = plugin.interval_ns,
  };
  if (plugin.region_thread == NULL)
    plugin.region_thread =
        region_thread_new(&options, plugin.began_boottime_ns);
  int status = plugin.region_thread != NULL
                   ? region_thread_keep(plugin.region_thread)
                   : -ENOMEM;
  if (status == 0)
    c_release(LOG_INFO, &plugin.regions_unread,
              "percore: regions are read again.");
  else if (status == -EBUSY)
    c_complain_once(LOG_WARNING, &plugin.regions_unread,
                    "percore: regions are not read: their thread has been "
                    "blocked for %d s, perhaps by a notification plugin; loads "
                    "go on. /proc/%d/task/*/wchan shows where it waits.",
                    (int)(REGION_THREAD_HANGS_NS / 1000000000), (int)getpid());
  else
    c_complain_once(LOG_ERR, &plugin.regions_unread,
                    "percore: regions are not read: their thread cannot be "
                    "started: %s; trying again at each interval.",
                    STRERROR(-status));
}

/* ---------------------------------------------------------------------------
 * The sampler
 */

static void write_journal(__attribute__((unused)) void *context,
                          enum journal_level level, const char *line) {
  plugin_log((int)level, "percore: %s", line);
}

static void *send_notification(void *note) {
  put_notification(note, INSTANCE_SELF, "source");
  free(note);
  return NULL;
}

/* Notifies of a change of source, in a thread of its own, because a
 * notification plugin may block for minutes. */
static void notify(__attribute__((unused)) void *context,
                   enum journal_level level, const char *line) {
  static const int severity[] = {
      [JOURNAL_ERROR] = NOTIF_FAILURE,
      [JOURNAL_WARNING] = NOTIF_WARNING,
      [JOURNAL_NOTICE] = NOTIF_OKAY,
  };
  pthread_t thread;
  notification_t *note = calloc(1, sizeof(*note));
  if (note == NULL)
    return;
  note->severity = severity[level];
  note->time = cdtime();
  sstrncpy(note->message, line, sizeof(note->message));
  if (thread_start(&thread, send_notification, note) == 0)
    pthread_detach(thread);
  else
    free(note);
}

/* Runs in the sampler's thread. No output can delay it: values wait in
 * collectd's queue, and notifications have threads of their own. */
static void publish(__attribute__((unused)) void *context,
                    struct snapshot *snapshot,
                    const struct topology *topology) {
  plugin_set_ctx(plugin.context);
  if (empty_polls_add(&plugin.empty_polls, snapshot))
    (void)aggregate_all(snapshot, topology, plugin.config.groups,
                        plugin.config.groups_len);
  if (plugin.board != NULL)
    board_publish(plugin.board, snapshot, topology);
  if (dispatch_snapshot(&plugin.dispatch, snapshot))
    wake_sampler_tell(plugin.wake_sampler, snapshot);
  watch_regions();
}

static void open_board(void) {
  const struct config *config = &plugin.config;
  if (config->load.board != BOARD_OFF && machine_is_ours(config->sys_root))
    plugin.board = board_open(config->load.board,
                              &(struct journal){.write = write_journal});
}

/* Starts the sampler of loads. Returns 0 or -errno. */
static int start_sampler(void) {
  const char *sys_root = plugin.config.sys_root;
  plugin.machine = machine_linux(sys_root);
  if (plugin.machine == NULL)
    return -errno;

  struct sampler_options options;
  config_sampler_options(&plugin.config, &options);
  options.interval_ns = plugin.interval_ns;
  options.engine.machine = plugin.machine;
  options.engine.journal =
      (struct journal){.write = write_journal, .change = notify};
  options.publish = publish;

  int status = sampler_start(&plugin.sampler, &options);
  if (status != 0) {
    plugin.sampler = NULL;
    machine_linux_close(plugin.machine);
    plugin.machine = NULL;
  }
  return status;
}

static void try_to_start(void) {
  int status = start_sampler();
  if (status != 0)
    c_complain_once(
        LOG_ERR, &plugin.unmeasured,
        "percore: no core can be measured under \"%s\": %s; trying again "
        "every 10 s.",
        plugin.config.sys_root != NULL ? plugin.config.sys_root : "/",
        STRERROR(-status));
}

/* ---------------------------------------------------------------------------
 * Maps, wake latency and pollers
 */

/* Logs an error with the consequence if a thread could not be started. */
static void check_started(int status, const char *consequence) {
  if (status != 0)
    ERROR("percore: %s: cannot start a thread: %s; restart collectd.",
          consequence, STRERROR(-status));
}

/* Pollers of another machine, which SysRoot may show, are not those of /proc.
 */
static int start_pollers(void) {
  struct pollers_options *options = &plugin.config.pollers;
  options->interval_ns = plugin.interval_ns;
  options->journal = (struct journal){.write = write_journal};
  if (machine_is_ours(plugin.config.sys_root))
    return pollers_start(&plugin.pollers, options);
  return 0;
}

static void start_optional_samplers(void) {
  check_started(map_sampler_start(&plugin.map_sampler, &plugin.config.maps,
                                  plugin.interval_ns),
                "no map is read");
  check_started(wake_sampler_start(&plugin.wake_sampler, &plugin.config,
                                   plugin.interval_ns),
                "wake latency is not measured");
  check_started(start_pollers(), "no poller is asked");
}

/* ---------------------------------------------------------------------------
 * Callbacks
 */

/* Threads of the plugin do its work. Reads only try again to start what could
 * not be started, and end when it is. The first read fails if no source of load
 * works, because `collectd -T` reads once and reports the failure. Later
 * failures would make collectd call the plugin less and less often. */
static int percore_read(__attribute__((unused)) user_data_t *user_data) {
  bool first = !plugin.has_read;
  plugin.has_read = true;
  if (!first && plugin.sampler == NULL) {
    watch_regions();
    try_to_start();
  }
  if (plugin.sampler != NULL)
    plugin_unregister_read(PLUGIN_NAME);
  if (!first || (plugin.sampler != NULL && sampler_has_source(plugin.sampler)))
    return 0;
  ERROR("percore: no source of load works on this machine; the plugin keeps "
        "looking for one. `percore doctor` says what is missing.");
  return -1;
}

/* If init failed, collectd would unload the plugin for good, so it always
 * succeeds. collectd's unit of time is 2^-30 s, which cannot represent 0.1 s
 * exactly; rounding to microseconds makes the interval exact again. */
static int percore_init(void) {
  plugin.context = plugin_get_ctx();
  plugin.interval_ns = CDTIME_T_TO_US(plugin_get_interval()) * 1000;
  plugin.dispatch.config = &plugin.config;
  plugin.began_boottime_ns = clock_now_ns(CLOCK_BOOTTIME);
  open_board();
  watch_regions();
  start_optional_samplers();
  try_to_start();
  return plugin_register_complex_read(NULL, PLUGIN_NAME, percore_read,
                                      RETRY_INTERVAL, NULL);
}

static void *list_directory(void *unused) {
  DIR *directory = opendir(region_runtime_dir());
  if (directory != NULL) {
    (void)readdir(directory);
    closedir(directory);
  }
  return unused;
}

/* Removing files waits for the lock of their directory, and the process cannot
 * end meanwhile. Listing the directory waits as well, but does not keep the
 * process from ending. */
static bool can_remove_files(void) {
  static struct sampling_thread lister;
  return sampling_thread_start(&lister, list_directory, NULL) == 0 &&
         sampling_thread_stop(&lister,
                              clock_now_ns(CLOCK_MONOTONIC) + NS_PER_S / 4);
}

/* The end of the process ends the plugin's own regions as well, but leaves
 * their files. */
static int percore_shutdown(void) {
  sampler_stop(plugin.sampler);
  if (can_remove_files()) {
    board_close(plugin.board);
    map_sampler_stop(plugin.map_sampler);
    pollers_close(plugin.pollers);
  }
  machine_linux_close(plugin.machine);
  wake_sampler_stop(plugin.wake_sampler);
  region_thread_stop(plugin.region_thread);
  return 0;
}

static int percore_config(oconfig_item_t *block) {
  return config_read(&plugin.config, block);
}

void module_register(void) {
  memset(&plugin, 0, sizeof(plugin));
  config_init(&plugin.config);
  plugin_register_complex_config(PLUGIN_NAME, percore_config);
  plugin_register_init(PLUGIN_NAME, percore_init);
  plugin_register_shutdown(PLUGIN_NAME, percore_shutdown);
}
