/* Tests the life cycle of the plugin: config, init, read, shutdown. Stubs
 * replace the samplers and their threads. */
#include "fake_collectd.h"

#include "cycles/sampler.h"
#include "plugin/region_thread.h"
#include "plugin/region_workers.h"
#include "poller/poller.h"

#include <semaphore.h>
#include <unistd.h>

#include "unit.h"

#define SECOND UINT64_C(1000000000)

/* ---------------------------------------------------------------------------
 * A fake sampler without a thread
 */

static struct {
  int start_status; /* what sampler_start returns */
  unsigned starts, stops;
  struct sampler_options options;
  bool has_source;
} stub;

int sampler_start(struct sampler **sampler,
                  const struct sampler_options *options) {
  stub.starts++;
  stub.options = *options;
  if (stub.start_status == 0)
    *sampler = (struct sampler *)(void *)&stub;
  return stub.start_status;
}

void sampler_stop(struct sampler *sampler) {
  if (sampler != NULL)
    stub.stops++;
}

bool sampler_has_source(struct sampler *sampler) {
  assert_non_null(sampler);
  return stub.has_source;
}

/* Records the calls of the fake region thread. */
static struct {
  int status; /* what region_thread_keep returns */
  unsigned news, keeps, stops;
  uint64_t interval_ns;
  struct empty_polls *polls;
} region_stub;

struct region_thread *
region_thread_new(const struct region_watch_options *options,
                  uint64_t began_boottime_ns) {
  assert_true(began_boottime_ns > 0);
  region_stub.news++;
  region_stub.interval_ns = options->interval_ns;
  region_stub.polls = options->empty_polls;
  return (struct region_thread *)(void *)&region_stub;
}

int region_thread_keep(struct region_thread *thread) {
  assert_ptr_equal(thread, &region_stub);
  region_stub.keeps++;
  return region_stub.status;
}

bool region_thread_stop(struct region_thread *thread) {
  if (thread != NULL)
    region_stub.stops++;
  return region_stub.status != -EBUSY;
}

/* Records the calls of the fake thread of pollers. */
static struct {
  unsigned starts, closes;
  struct pollers_options options;
} poller_stub;

int pollers_start(struct pollers **pollers,
                  const struct pollers_options *options) {
  poller_stub.starts++;
  poller_stub.options = *options;
  *pollers = (struct pollers *)(void *)&poller_stub;
  return 0;
}

void pollers_close(struct pollers *pollers) {
  if (pollers != NULL)
    poller_stub.closes++;
}

/* Records the calls of the fake board. */
static struct { unsigned publishes, closes; } board_stub;

struct board *board_open(enum board_readers readers,
                         const struct journal *journal) {
  assert_int_equal(readers, BOARD_GROUP);
  assert_non_null(journal->write);
  return (struct board *)(void *)&board_stub;
}

void board_publish(struct board *board, const struct snapshot *snapshot,
                   const struct topology *topology) {
  assert_ptr_equal(board, &board_stub);
  assert_true(snapshot != NULL && topology != NULL);
  board_stub.publishes++;
}

void board_close(struct board *board) { board_stub.closes += board != NULL; }

/* What the thread of the sampler does at the end of each interval. */
static void publish(uint64_t time_s) {
  struct snapshot snapshot = {.time_ns = time_s * SECOND};
  const struct topology none = {0};
  stub.options.publish(stub.options.context, &snapshot, &none);
}

/* ---------------------------------------------------------------------------
 */

/* For the sanitizer: a plugin keeps its configuration until collectd ends, but
 * here it is loaded anew for each test. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) {
  return "leak:config_append\nleak:config_copy\n";
}

static void set_up(void) {
  fake_reset();
  memset(&stub, 0, sizeof(stub));
  memset(&region_stub, 0, sizeof(region_stub));
  memset(&poller_stub, 0, sizeof(poller_stub));
  memset(&board_stub, 0, sizeof(board_stub));
  stub.has_source = true;
  fake.read = NULL;
  fake.interval = TIME_T_TO_CDTIME_T_STATIC(10);
  fake.now = TIME_T_TO_CDTIME_T_STATIC(1000);
  module_register();
}

static void tear_down(void) {
  if (fake.shutdown != NULL)
    fake.shutdown();
  fake_reset();
}

static void shut_down(void) {
  assert_int_equal(fake.shutdown(), 0);
  fake.shutdown = NULL;
}

static int read_once(void) {
  user_data_t none = {.data = NULL};
  return fake.read(&none);
}

TEST(no_thread_is_started_before_init) {
  oconfig_item_t *block = fake_config("Cores \"0\"");
  assert_int_equal(fake.config(block), 0);
  fake_config_free(block);
  assert_int_equal(stub.starts, 0);
  assert_null(fake.read);
  assert_int_equal(fake.init(), 0);
  assert_int_equal(stub.starts, 1);
  assert_non_null(fake.read);
}

TEST(a_bad_value_makes_the_config_callback_fail) {
  oconfig_item_t *block = fake_config("Cores \"x\"");
  assert_int_not_equal(fake.config(block), 0);
  fake_config_free(block);
}

TEST(the_sampler_runs_at_the_interval_of_the_plugin) {
  fake.interval = MS_TO_CDTIME_T(100);
  assert_int_equal(fake.init(), 0);
  assert_int_equal(stub.options.interval_ns, 100000000);
}

TEST(each_snapshot_is_dispatched_without_a_read) {
  assert_int_equal(fake.init(), 0);
  publish(1000);
  size_t values_len = fake.values_len;
  assert_true(values_len > 0);
  assert_true(fake.values[0].list.time == TIME_T_TO_CDTIME_T_STATIC(1000));
  assert_true(fake.values[0].list.interval == fake.interval);
  publish(1010);
  assert_int_equal(fake.values_len, 2 * values_len);
  assert_int_equal(read_once(), 0);
  assert_int_equal(fake.values_len, 2 * values_len);
}

/* Of two cores that poll all the time, one without finding work. */
TEST(what_the_thread_of_regions_tells_of_empty_polls_is_room) {
  struct core_figures cores[] = {{.core = 0, .online = true, .load = 1},
                                 {.core = 1, .online = true, .load = 1}};
  struct snapshot snapshot = {
      .time_ns = 1000 * SECOND, .cores_len = 2, .cores = cores};
  struct topology topology = {0};
  core_set_add(&topology.possible, 0);
  core_set_add(&topology.possible, 1);
  assert_int_equal(fake.init(), 0);
  region_stub.polls->stamp_ns = snapshot.time_ns;
  region_stub.polls->end = 1;
  region_stub.polls->polled_empty[0] = 1;
  stub.options.publish(stub.options.context, &snapshot, &topology);
  assert_near(cores[0].room, 1, 0);
  assert_near(cores[1].room, 0, 0);
  assert_near(snapshot.aggregates[0].room.mean, 0.5, 0);
  free(snapshot.aggregates);
}

TEST(without_a_source_the_only_read_fails) {
  stub.has_source = false;
  assert_int_equal(fake.init(), 0);
  assert_int_not_equal(read_once(), 0);
  assert_int_equal(fake_count_logged(LOG_ERR), 1);
  assert_null(fake.read);
}

TEST(a_failed_start_is_tried_again_every_10_s) {
  stub.start_status = -ENOENT;
  assert_int_equal(fake.init(), 0);
  assert_true(fake.read_interval == TIME_T_TO_CDTIME_T_STATIC(10));
  assert_int_not_equal(read_once(), 0);
  for (unsigned i = 1; i < 4; i++) {
    assert_int_equal(stub.starts, i);
    assert_int_equal(read_once(), 0);
  }
  assert_int_equal(fake_count_logged(LOG_ERR),
                   2); /* once, and the first read */
  stub.start_status = 0;
  assert_int_equal(read_once(), 0);
  assert_int_equal(stub.starts, 5);
  assert_null(fake.read);
}

TEST(shutdown_stops_the_sampler) {
  assert_int_equal(fake.init(), 0);
  shut_down();
  assert_int_equal(stub.stops, 1);
}

TEST(regions_are_read_by_a_thread_of_their_own) {
  assert_int_equal(fake.init(), 0);
  assert_int_equal(region_stub.news, 1);
  assert_int_equal(region_stub.keeps, 1);
  assert_int_equal(region_stub.interval_ns, 10 * SECOND);
  publish(1000);
  assert_int_equal(region_stub.keeps, 2);
  shut_down();
  assert_int_equal(region_stub.stops, 1);
}

static void configure(const char *lines) {
  oconfig_item_t *block = fake_config(lines);
  assert_int_equal(fake.config(block), 0);
  fake_config_free(block);
}

TEST(pollers_are_asked_at_the_interval_of_the_plugin) {
  configure("<Pollers>\n</Pollers>");
  assert_int_equal(fake.init(), 0);
  assert_int_equal(poller_stub.starts, 1);
  assert_int_equal(poller_stub.options.interval_ns, 10 * SECOND);
  assert_true(poller_stub.options.wanted);
  shut_down();
  assert_int_equal(poller_stub.closes, 1);
}

TEST(pollers_of_another_machine_are_not_asked) {
  configure("SysRoot \"/host\"");
  assert_int_equal(fake.init(), 0);
  assert_int_equal(poller_stub.starts, 0);
}

TEST(pollers_of_this_machine_in_a_container_are_asked) {
  configure("SysRoot \"/proc/self/root\"");
  assert_int_equal(fake.init(), 0);
  assert_int_equal(poller_stub.starts, 1);
}

TEST(loads_are_on_the_board_until_the_plugin_ends) {
  assert_int_equal(fake.init(), 0);
  publish(1000);
  assert_int_equal(board_stub.publishes, 1);
  shut_down();
  assert_int_equal(board_stub.closes, 1);
}

TEST(a_board_that_is_off_has_no_loads) {
  configure("<Load>\nBoard \"off\"\n</Load>");
  assert_int_equal(fake.init(), 0);
  publish(1000);
  assert_int_equal(board_stub.publishes, 0);
}

TEST(loads_of_another_machine_are_not_on_the_board) {
  configure("SysRoot \"/host\"");
  assert_int_equal(fake.init(), 0);
  publish(1000);
  assert_int_equal(board_stub.publishes, 0);
}

TEST(regions_are_read_although_no_core_can_be_measured) {
  stub.start_status = -ENOENT;
  assert_int_equal(fake.init(), 0);
  read_once();
  assert_int_equal(region_stub.keeps, 1);
  read_once();
  assert_int_equal(region_stub.keeps, 2);
}

TEST(each_interval_tries_again_to_start_regions) {
  region_stub.status = -EAGAIN;
  assert_int_equal(fake.init(), 0);
  publish(1000);
  assert_int_equal(fake_count_logged(LOG_ERR), 1);
  region_stub.status = 0;
  publish(1010);
  assert_int_equal(region_stub.keeps, 3);
  assert_non_null(fake_logged(LOG_INFO, "regions are read again"));
}

TEST(a_blocked_region_thread_is_reported_once) {
  assert_int_equal(fake.init(), 0);
  region_stub.status = -EBUSY;
  for (uint64_t i = 0; i < 3; i++)
    publish(1000 + i);
  assert_int_equal(fake_count_logged(LOG_WARNING), 1);
  assert_non_null(fake_logged(LOG_WARNING, "loads go on"));
  region_stub.status = 0;
  publish(1010);
  assert_non_null(fake_logged(LOG_INFO, "regions are read again"));
}

TEST(messages_of_the_sampler_are_logged_at_their_level) {
  assert_int_equal(fake.init(), 0);
  const struct journal *journal = &stub.options.engine.journal;
  journal->write(journal->context, JOURNAL_WARNING, "a line");
  assert_non_null(fake_logged(LOG_WARNING, "percore: a line"));
}

static sem_t may_go_on;

static void block(const notification_t *note) {
  (void)note;
  sem_wait(&may_go_on);
}

TEST(a_change_of_source_is_notified_aside_with_the_line_of_the_log) {
  int threads = unit_count_threads();
  sem_init(&may_go_on, 0, 0);
  fake.notified = block;
  assert_int_equal(fake.init(), 0);
  const struct journal *journal = &stub.options.engine.journal;
  journal->change(journal->context, JOURNAL_WARNING, "core 1: mperf, idle");
  sem_post(&may_go_on);
  while (unit_count_threads() > threads)
    usleep(100);
  assert_int_equal(fake.notifications_len, 1);
  const notification_t *note = &fake.notifications[0];
  assert_string_equal(note->message, "core 1: mperf, idle");
  assert_int_equal(note->severity, NOTIF_WARNING);
  assert_string_equal(note->plugin, "percore_host");
  assert_string_equal(note->plugin_instance, "self");
  fake.notified = NULL;
}

const struct unit_fixtures unit_fixtures = {.before_each = set_up,
                                            .after_each = tear_down};
