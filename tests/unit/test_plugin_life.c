/* Tests the life cycle of the plugin: config, init, read, shutdown. Stubs
 * replace the samplers and their threads. */
#include "fake_collectd.h"

#include "cycles/sampler.h"
#include "plugin/region_thread.h"

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
  struct snapshot *queue[4];
  size_t queue_len;
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

struct snapshot *sampler_take(struct sampler *sampler) {
  assert_non_null(sampler);
  if (stub.queue_len == 0)
    return NULL;
  struct snapshot *oldest = stub.queue[0];
  memmove(&stub.queue[0], &stub.queue[1], 3 * sizeof(stub.queue[0]));
  stub.queue_len--;
  return oldest;
}

void snapshot_free(struct snapshot *snapshot) { free(snapshot); }

/* Records the calls of the fake region thread. */
static struct {
  int start_status;
  unsigned starts, stops;
  bool hangs, is_needed;
  cdtime_t interval;
} region_stub;

int region_thread_start(struct region_thread **thread,
                        const struct region_watch_options *options,
                        uint64_t began_boottime_ns) {
  assert_true(began_boottime_ns > 0);
  region_stub.starts++;
  region_stub.interval = options->interval;
  if (region_stub.start_status == 0)
    *thread = (struct region_thread *)(void *)&region_stub;
  return region_stub.start_status;
}

bool region_watch_is_needed(const struct config *config) {
  assert_non_null(config);
  return region_stub.is_needed;
}

bool region_thread_stop(struct region_thread *thread) {
  if (thread != NULL)
    region_stub.stops++;
  return !region_stub.hangs;
}

bool region_thread_hangs(struct region_thread *thread) {
  assert_non_null(thread);
  return region_stub.hangs;
}

static void queue_snapshot(uint64_t time_s) {
  struct snapshot *snapshot = calloc(1, sizeof(*snapshot));
  assert_non_null(snapshot);
  snapshot->time_ns = time_s * SECOND;
  stub.queue[stub.queue_len++] = snapshot;
}

/* ---------------------------------------------------------------------------
 */

static int set_up(void **state) {
  (void)state;
  fake_reset();
  memset(&stub, 0, sizeof(stub));
  memset(&region_stub, 0, sizeof(region_stub));
  stub.has_source = region_stub.is_needed = true;
  fake.read = NULL;
  fake.interval = TIME_T_TO_CDTIME_T_STATIC(10);
  fake.now = TIME_T_TO_CDTIME_T_STATIC(1000);
  module_register();
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  fake.shutdown();
  fake_reset();
  return 0;
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

TEST(the_first_read_without_history_succeeds) {
  assert_int_equal(fake.init(), 0);
  assert_int_equal(read_once(), 0);
  assert_int_equal(fake.values_len, 0);
}

TEST(a_read_dispatches_all_new_snapshots_the_oldest_first) {
  assert_int_equal(fake.init(), 0);
  queue_snapshot(1000);
  queue_snapshot(1010);
  assert_int_equal(read_once(), 0);
  size_t values_len = fake.values_len;
  assert_true(values_len > 0);
  assert_true(fake.values[0].list.time == TIME_T_TO_CDTIME_T_STATIC(1000));
  assert_true(fake.values[values_len - 1].list.time ==
              TIME_T_TO_CDTIME_T_STATIC(1010));
  assert_int_equal(read_once(), 0);
  assert_int_equal(fake.values_len, values_len);
}

TEST(without_a_source_only_the_first_read_fails) {
  stub.has_source = false;
  assert_int_equal(fake.init(), 0);
  assert_int_not_equal(read_once(), 0);
  assert_int_equal(fake_count_logged(LOG_ERR), 1);
  for (int i = 0; i < 3; i++)
    assert_int_equal(read_once(), 0);
  assert_int_equal(fake_count_logged(LOG_ERR), 1);
}

TEST(a_failed_start_is_tried_again_after_1_2_4_to_60_s) {
  static const unsigned delays_s[] = {1, 2, 4, 8, 16, 32, 60, 60};
  stub.start_status = -ENOENT;
  assert_int_equal(fake.init(), 0);
  assert_int_not_equal(read_once(), 0);
  for (unsigned i = 0; i < sizeof(delays_s) / sizeof(delays_s[0]); i++) {
    fake.now += TIME_T_TO_CDTIME_T(delays_s[i]) - 1;
    assert_int_equal(read_once(), 0);
    assert_int_equal(stub.starts, 1 + i);
    fake.now += 1;
    assert_int_equal(read_once(), 0);
    assert_int_equal(stub.starts, 2 + i);
  }
  stub.start_status = 0;
  fake.now += TIME_T_TO_CDTIME_T_STATIC(60);
  queue_snapshot(2000);
  assert_int_equal(read_once(), 0);
  assert_true(fake.values_len > 0);
}

TEST(shutdown_stops_the_sampler) {
  assert_int_equal(fake.init(), 0);
  assert_int_equal(fake.shutdown(), 0);
  assert_int_equal(stub.stops, 1);
}

TEST(regions_are_read_by_a_thread_of_their_own) {
  assert_int_equal(region_stub.starts, 0);
  assert_int_equal(fake.init(), 0);
  assert_int_equal(region_stub.starts, 1);
  assert_int_equal(region_stub.interval, TIME_T_TO_CDTIME_T_STATIC(10));
  assert_int_equal(fake.shutdown(), 0);
  assert_int_equal(region_stub.stops, 1);
}

TEST(without_regions_there_is_no_thread_for_them) {
  region_stub.is_needed = false;
  assert_int_equal(fake.init(), 0);
  assert_int_equal(read_once(), 0);
  assert_int_equal(region_stub.starts, 0);
  region_stub.is_needed = true;
  assert_int_equal(read_once(), 0);
  assert_int_equal(region_stub.starts, 1);
  region_stub.is_needed = false;
  assert_int_equal(read_once(), 0);
  assert_int_equal(region_stub.stops, 0);
}

TEST(each_read_tries_again_to_start_regions) {
  region_stub.start_status = -EAGAIN;
  assert_int_equal(fake.init(), 0);
  assert_int_equal(read_once(), 0);
  assert_int_equal(region_stub.starts, 2);
  region_stub.start_status = 0;
  assert_int_equal(read_once(), 0);
  assert_int_equal(read_once(), 0);
  assert_int_equal(region_stub.starts, 3);
}

TEST(a_blocked_region_thread_is_reported_once) {
  assert_int_equal(fake.init(), 0);
  region_stub.hangs = true;
  for (int i = 0; i < 3; i++)
    assert_int_equal(read_once(), 0);
  assert_int_equal(fake_count_logged(LOG_WARNING), 1);
  assert_non_null(fake_logged(LOG_WARNING, "loads go on"));
  region_stub.hangs = false;
  assert_int_equal(read_once(), 0);
  assert_non_null(fake_logged(LOG_INFO, "reads regions goes on"));
}

TEST(messages_of_the_sampler_are_logged_at_their_level) {
  assert_int_equal(fake.init(), 0);
  const struct journal *journal = &stub.options.engine.journal;
  journal->write(journal->context, JOURNAL_WARNING, "a line");
  assert_non_null(fake_logged(LOG_WARNING, "percore: a line"));
}

const struct unit_fixtures unit_fixtures = {.before_each = set_up,
                                            .after_each = tear_down};
