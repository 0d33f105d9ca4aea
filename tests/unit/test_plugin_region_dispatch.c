/* Tests how a snapshot of the regions is dispatched as value lists and
 * notifications. */
#include "plugin_unit.h"

#include "plugin/region_dispatch.h"

#include <math.h>

#define SECOND UINT64_C(1000000000)

static struct region_dispatch dispatch;

static int set_up(void **state) {
  plugin_unit_set_up(state);
  dispatch = (struct region_dispatch){
      .config = &config, .interval = TIME_T_TO_CDTIME_T_STATIC(10)};
  return 0;
}

static struct region_snapshot *snapshot_at(uint64_t time_s) {
  struct region_snapshot *snapshot =
      region_snapshot_new(time_s, time_s * SECOND, 100000);
  assert_non_null(snapshot);
  return snapshot;
}

static void put(struct region_snapshot *snapshot, enum region_rank rank,
                enum region_type type, const char *row, double number) {
  struct region_value value = {.plugin = "percore_gtpu_port_packets",
                               .plugin_instance = "3",
                               .type_instance = row,
                               .type = type,
                               .gauge = number};
  if (type == REGION_DERIVE)
    value.derive = (int64_t)number;
  region_snapshot_put(snapshot, rank, &value);
}

static void dispatch_and_free(struct region_snapshot *snapshot,
                              size_t values_max) {
  region_dispatch_snapshot(&dispatch, snapshot, values_max);
  region_snapshot_free(snapshot);
}

static void each_value_has_its_identifier_time_and_interval(void **state) {
  (void)state;
  struct region_snapshot *snapshot = snapshot_at(1000);
  put(snapshot, REGION_RANK_CORE, REGION_DERIVE, "eth0", 42);
  put(snapshot, REGION_RANK_HOST, REGION_GAUGE, "eth0_p50", 1.5);
  put(snapshot, REGION_RANK_USEFUL, REGION_PERCENT, "useful", 30);
  dispatch_and_free(snapshot, 100);
  assert_int_equal(fake.values_len, 3);
  const struct fake_value *value =
      fake_find("percore_gtpu_port_packets-3/derive-eth0");
  assert_non_null(value);
  assert_int_equal(value->values[0].derive, 42);
  assert_true(value->list.time == TIME_T_TO_CDTIME_T_STATIC(1000));
  assert_true(value->list.interval == TIME_T_TO_CDTIME_T_STATIC(10));
  value = fake_find("percore_gtpu_port_packets-3/gauge-eth0_p50");
  assert_true(value->values[0].gauge == 1.5);
  value = fake_find("percore_gtpu_port_packets-3/percent-useful");
  assert_true(value->values[0].gauge == 30);
}

static void put_counter(struct region_snapshot *snapshot, const char *row,
                        int64_t count, uint64_t first) {
  struct region_value value = {
      .plugin = "percore_gtpu_port_packets",
      .plugin_instance = "3",
      .type_instance = row,
      .type = REGION_DERIVE,
      .derive = count,
      .first = {.snapshot = first, .zero_ns = 990 * SECOND}};
  region_snapshot_put(snapshot, REGION_RANK_CORE, &value);
}

static void zeros_of_new_counters_go_before_all_points(void **state) {
  (void)state;
  struct region_snapshot *snapshot = snapshot_at(1000);
  put_counter(snapshot, "eth0", 5, 1000);
  put_counter(snapshot, "eth1", 7, 1000);
  dispatch_and_free(snapshot, 100);
  assert_int_equal(fake.values_len, 4);
  for (size_t i = 0; i < 4; i++) {
    assert_true(fake.values[i].list.time ==
                TIME_T_TO_CDTIME_T_STATIC(i < 2 ? 990 : 1000));
    assert_int_equal(fake.values[i].values[0].derive, i < 2    ? 0
                                                      : i == 2 ? 5
                                                               : 7);
  }
}

static void a_counter_that_was_dispatched_before_needs_no_zero(void **state) {
  (void)state;
  struct region_snapshot *snapshot = snapshot_at(1000);
  put_counter(snapshot, "eth0", 5, 1000);
  dispatch_and_free(snapshot, 100);
  snapshot = snapshot_at(1010);
  put_counter(snapshot, "eth0", 6, 1000);
  put_counter(snapshot, "eth1", 1,
              1005); /* the first point of eth1 was in a dropped snapshot */
  dispatch_and_free(snapshot, 100);
  assert_int_equal(fake.values_len, 2 + 3);
  assert_int_equal(fake.values[2].values[0].derive, 0);
  assert_int_equal(fake.values[3].values[0].derive, 6);
}

static void a_gauge_that_is_no_number_is_left_out(void **state) {
  (void)state;
  struct region_snapshot *snapshot = snapshot_at(1000);
  put(snapshot, REGION_RANK_HOST, REGION_GAUGE, "a", NAN);
  put(snapshot, REGION_RANK_HOST, REGION_GAUGE, "b", INFINITY);
  put(snapshot, REGION_RANK_HOST, REGION_GAUGE, "c", -1e19);
  dispatch_and_free(snapshot, 100);
  assert_int_equal(fake.values_len, 0);
}

static void beyond_max_values_single_cores_go_first(void **state) {
  (void)state;
  struct region_snapshot *snapshot = snapshot_at(1000);
  for (int i = 0; i < 5; i++) {
    put(snapshot, REGION_RANK_CORE, REGION_GAUGE, "core", i);
    put(snapshot, REGION_RANK_HOST, REGION_GAUGE, "host", i);
  }
  put(snapshot, REGION_RANK_SELF, REGION_GAUGE, "self", 1);
  dispatch_and_free(snapshot, 7);
  assert_int_equal(fake.values_len, 7);
  assert_string_equal(fake.values[0].list.type_instance, "self");
  for (int i = 1; i < 6; i++)
    assert_string_equal(fake.values[i].list.type_instance, "host");
  assert_string_equal(fake.values[6].list.type_instance, "core");
  assert_int_equal(dispatch.values_dropped, 4);
}

static void values_that_a_snapshot_did_not_keep_are_counted(void **state) {
  (void)state;
  struct region_snapshot *snapshot = region_snapshot_new(1, 1000 * SECOND, 10);
  assert_non_null(snapshot);
  for (int i = 0; i < 25; i++)
    put(snapshot, REGION_RANK_HOST, REGION_GAUGE, "row", i);
  dispatch_and_free(snapshot, 10);
  assert_int_equal(fake.values_len, 10);
  assert_int_equal(dispatch.values_dropped, 15);
}

static void
a_snapshot_is_dispatched_if_all_values_of_the_host_are(void **state) {
  (void)state;
  for (unsigned time = 1000; time <= 1004; time++) {
    struct region_snapshot *snapshot = snapshot_at(time);
    put(snapshot, REGION_RANK_HOST, REGION_GAUGE, "host", 1);
    put(snapshot, REGION_RANK_CORE, REGION_GAUGE, "core", 1);
    if (time == 1002) /* simulates a dropped snapshot */
      region_snapshot_free(snapshot);
    else
      dispatch_and_free(snapshot, time == 1003 ? 0 : 1);
  }
  assert_int_equal(dispatch.last_number, 1004);
  assert_int_equal(dispatch.before_it & 31, 1 | 8 | 16); /* 1004, 1001, 1000 */
}

static void cut_values_are_logged_once(void **state) {
  (void)state;
  for (unsigned time = 1000; time < 1003; time++) {
    struct region_snapshot *snapshot = snapshot_at(time);
    put(snapshot, REGION_RANK_CORE, REGION_GAUGE, "row", 1);
    dispatch_and_free(snapshot, time < 1002 ? 0 : 1);
  }
  assert_int_equal(fake_count_logged(LOG_WARNING), 1);
  assert_non_null(fake_logged(LOG_INFO, "fit into MaxValues"));
}

static void a_partial_snapshot_does_not_end_the_warning(void **state) {
  (void)state;
  for (int i = 1; i <= 6; i++) {
    struct region_snapshot *snapshot = snapshot_at(1000 + (uint64_t)i);
    put(snapshot, REGION_RANK_HOST, REGION_DERIVE, "eth0", 42);
    snapshot->partial = i % 2 == 0;
    snapshot->values[REGION_RANK_HOST].cut = (size_t)(i % 2);
    dispatch_and_free(snapshot, 100);
  }
  assert_int_equal(fake_count_logged(LOG_WARNING), 1);
}

static void no_time_is_dispatched_twice_or_backwards(void **state) {
  (void)state;
  static const uint64_t times_s[] = {1000, 1000, 990, 1010};
  for (size_t i = 0; i < sizeof(times_s) / sizeof(times_s[0]); i++) {
    struct region_snapshot *snapshot = snapshot_at(times_s[i]);
    put(snapshot, REGION_RANK_CORE, REGION_GAUGE, "row", 1);
    dispatch_and_free(snapshot, 10);
  }
  assert_int_equal(fake.values_len, 2);
}

static void an_event_is_logged_and_notified_once(void **state) {
  (void)state;
  struct region_snapshot *snapshot = snapshot_at(1000);
  region_snapshot_tell(snapshot, REGION_FAILURE, "gtpu@east",
                       "Region %s is gone.", "gtpu@east");
  region_snapshot_tell(snapshot, REGION_OKAY, "gtpu", "Region %s is back.",
                       "gtpu");
  dispatch_and_free(snapshot, 10);
  assert_int_equal(fake.notifications_len, 2);
  assert_string_equal(fake.notifications[0].message,
                      "Region gtpu@east is gone.");
  assert_int_equal(fake.notifications[0].severity, NOTIF_FAILURE);
  assert_int_equal(fake.notifications[1].severity, NOTIF_OKAY);
  assert_non_null(fake_logged(LOG_WARNING, "gtpu@east is gone"));
  assert_non_null(fake_logged(LOG_NOTICE, "gtpu is back"));
}

static void the_plugin_instance_of_a_notification_is_the_region(void **state) {
  (void)state;
  struct region_snapshot *snapshot = snapshot_at(1000);
  region_snapshot_tell(snapshot, REGION_FAILURE, "gtpu@east",
                       "Region gtpu@east is gone.");
  dispatch_and_free(snapshot, 10);
  assert_int_equal(fake.notifications_len, 1);
  assert_string_equal(fake.notifications[0].plugin, "percore_host");
  assert_string_equal(fake.notifications[0].plugin_instance, "gtpu@east");
  assert_string_equal(fake.notifications[0].type, "gauge");
  assert_string_equal(fake.notifications[0].type_instance, "regions");
}

static void without_send_notifications_an_event_is_only_logged(void **state) {
  (void)state;
  config.send_notifications = false;
  struct region_snapshot *snapshot = snapshot_at(1000);
  region_snapshot_tell(snapshot, REGION_WARNING, "gtpu",
                       "Region gtpu is stale.");
  dispatch_and_free(snapshot, 10);
  assert_int_equal(fake.notifications_len, 0);
  assert_non_null(fake_logged(LOG_WARNING, "gtpu is stale"));
}

int main(void) {
#define TEST(test)                                                             \
  cmocka_unit_test_setup_teardown(test, set_up, plugin_unit_tear_down)
  const struct CMUnitTest tests[] = {
      TEST(each_value_has_its_identifier_time_and_interval),
      TEST(zeros_of_new_counters_go_before_all_points),
      TEST(a_counter_that_was_dispatched_before_needs_no_zero),
      TEST(a_gauge_that_is_no_number_is_left_out),
      TEST(beyond_max_values_single_cores_go_first),
      TEST(values_that_a_snapshot_did_not_keep_are_counted),
      TEST(a_snapshot_is_dispatched_if_all_values_of_the_host_are),
      TEST(cut_values_are_logged_once),
      TEST(a_partial_snapshot_does_not_end_the_warning),
      TEST(no_time_is_dispatched_twice_or_backwards),
      TEST(an_event_is_logged_and_notified_once),
      TEST(the_plugin_instance_of_a_notification_is_the_region),
      TEST(without_send_notifications_an_event_is_only_logged),
  };
  return cmocka_run_group_tests_name("plugin_region_dispatch", tests, NULL,
                                     NULL);
}
