/* The regions of a host over time: producers in this process, served between
 * two looks of the watch; the clock is the test's. */
#include "fake_collectd.h"

#include "plugin/config.h"
#include "plugin/region_watch.h"

#include "region_unit.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#define SECOND UINT64_C(1000000000)
#define HOST "percore_host_unit_"

static struct config config;
static struct region_watch *watch;
static struct region_watch_options options;
static struct region_moment now;
static struct region_snapshot *snapshot; /* of the last round */
static struct percore_region *served[4];

/* ---------------------------------------------------------------------------
 * A host
 */

static bool serve_all(void *argument, uint64_t ns) {
  (void)argument;
  (void)ns;
  for (size_t i = 0; i < COUNT_OF(served); i++)
    if (served[i] != NULL)
      percore_serve(served[i]);
  return true;
}

static bool is_wanted(void *argument) {
  (void)argument;
  return true;
}

static uint64_t boottime_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_BOOTTIME, &time);
  return (uint64_t)time.tv_sec * SECOND + (uint64_t)time.tv_nsec;
}

/* With lines of <Plugin percore>; what was created before this began long
 * before the first round. */
static void start_watch(const char *lines) {
  oconfig_item_t *block = fake_config(lines);
  assert_int_equal(config_read(&config, block), 0);
  fake_config_free(block);
  options = (struct region_watch_options){.configs = &config.regions,
                                          .interval_ns = 1,
                                          .values_max = 10000,
                                          .wait = serve_all,
                                          .is_wanted = is_wanted};
  now = (struct region_moment){.stamp_ns = 1000 * SECOND,
                               .monotonic_ns = 50 * SECOND,
                               .boottime_ns = boottime_ns()};
  watch = region_watch_new(&options, &now);
  assert_non_null(watch);
}

static void play_round(uint64_t after_ns) {
  region_snapshot_free(snapshot);
  now.stamp_ns += after_ns;
  now.monotonic_ns += after_ns;
  now.boottime_ns = boottime_ns();
  snapshot = region_watch_round(watch, &now);
  assert_non_null(snapshot);
  assert_false(snapshot->memory_short);
}

static int set_up(void **state) {
  (void)state;
  fake_reset();
  config_init(&config);
  memset(served, 0, sizeof(served));
  snapshot = NULL;
  watch = NULL;
  return 0;
}

static void end_producer(unsigned place) {
  if (served[place] != NULL)
    assert_int_equal(percore_destroy(served[place]), 0);
  served[place] = NULL;
}

static int tear_down(void **state) {
  (void)state;
  region_snapshot_free(snapshot);
  region_watch_free(watch);
  for (unsigned i = 0; i < COUNT_OF(served); i++)
    end_producer(i);
  config_free(&config);
  fake_reset();
  return 0;
}

static struct percore_region *create(unsigned place, const char *instance,
                                     const struct percore_table *tables,
                                     uint32_t len) {
  struct percore_options create = {.size = sizeof(create),
                                   .serving = PERCORE_SERVE_POLLED,
                                   .instance = instance,
                                   .cores = 4,
                                   .extra_slots = 2};
  assert_return_code(
      percore_create(&served[place], "unit", tables, len, &create), 0);
  return served[place];
}

static struct percore_region *create_usual(unsigned place,
                                           const char *instance) {
  return create(place, instance, unit_tables, TABLES);
}

/* ---------------------------------------------------------------------------
 * Updates and values
 */

static uint32_t row_of(struct percore_region *region, unsigned table,
                       const char *name) {
  uint32_t row;
  if (percore_row_add(region, table, name, &row) != 0)
    assert_int_equal(errno, EEXIST);
  return row;
}

/* Adds to a row of `port`; the slot is given back, so that the region can be
 * destroyed. */
static void add(struct percore_region *region, const char *name, int core,
                unsigned column, uint64_t n) {
  percore_core_table_t port;
  percore_slot_t slot;
  uint32_t row = row_of(region, PORT, name);
  assert_int_equal(percore_core_table(region, PORT, &port), 0);
  assert_int_equal(percore_attach(region, "unit", core, &slot), 0);
  percore_add(percore_core_row(slot, port, row), column, n);
  assert_int_equal(percore_detach(region, slot), 0);
}

static void add_slow(struct percore_region *region, const char *name,
                     unsigned column, uint64_t n) {
  percore_shared_table_t slow;
  uint32_t row = row_of(region, SLOW, name);
  assert_int_equal(percore_shared_table(region, SLOW, &slow), 0);
  percore_shared_add(percore_shared_row(slow, row), column, n);
}

static const struct region_value *find(const char *plugin, const char *instance,
                                       const char *row) {
  for (int rank = 0; rank < REGION_RANKS; rank++)
    for (size_t i = 0; i < snapshot->values[rank].len; i++) {
      const struct region_value *value = &snapshot->values[rank].list[i];
      if (strcmp(value->plugin, plugin) == 0 &&
          strcmp(value->plugin_instance, instance) == 0 &&
          strcmp(value->type_instance, row) == 0)
        return value;
    }
  return NULL;
}

static void assert_count(const char *plugin, const char *instance,
                         const char *row, int64_t expected) {
  const struct region_value *value = find(plugin, instance, row);
  if (value == NULL)
    fail_msg("no %s-%s/%s", plugin, instance, row);
  assert_int_equal(value->type, REGION_DERIVE);
  if (value->derive != expected)
    fail_msg("%s-%s/%s is %lld, not %lld", plugin, instance, row,
             (long long)value->derive, (long long)expected);
}

static void assert_none(const char *plugin, const char *instance,
                        const char *row) {
  if (find(plugin, instance, row) != NULL)
    fail_msg("there is %s-%s/%s", plugin, instance, row);
}

static double gauge(const char *plugin, const char *instance, const char *row) {
  const struct region_value *value = find(plugin, instance, row);
  if (value == NULL)
    fail_msg("no %s-%s/%s", plugin, instance, row);
  assert_int_not_equal(value->type, REGION_DERIVE);
  return value->gauge;
}

static bool told(const char *text) {
  for (size_t i = 0; i < snapshot->events_len; i++)
    if (strstr(snapshot->events[i].text, text) != NULL)
      return true;
  return false;
}

/* ---------------------------------------------------------------------------
 * Counting
 */

static void a_region_is_read_in_the_round_that_finds_it(void **state) {
  (void)state;
  struct percore_region *region = create_usual(0, NULL);
  add(region, "eth0", 1, PACKETS, 7);
  add(region, "eth0", 2, PACKETS, 5);
  start_watch("");
  play_round(SECOND);
  assert_int_equal(snapshot->regions, 1);
  assert_count(HOST "port_packets", "all", "eth0", 12);
  assert_count("percore_unit_port_packets", "1", "eth0", 7);
  assert_count("percore_unit_port_packets", "2", "eth0", 5);
  assert_none("percore_unit_port_packets", "3", "eth0");
}

static void without_a_region_there_is_no_value(void **state) {
  (void)state;
  start_watch("");
  play_round(SECOND);
  for (int rank = 0; rank < REGION_RANKS; rank++)
    assert_int_equal(snapshot->values[rank].len, 0);
}

static void an_instance_that_ends_leaves_its_counts_in_the_sum(void **state) {
  (void)state;
  struct percore_region *east = create_usual(0, "east");
  struct percore_region *west = create_usual(1, "west");
  add(east, "eth0", 0, PACKETS, 100);
  add(west, "eth0", 0, PACKETS, 10);
  start_watch("");
  play_round(SECOND);
  assert_count(HOST "port_packets", "all", "eth0", 110);
  add(west, "eth0", 0, PACKETS, 3);
  end_producer(1);
  play_round(SECOND);
  assert_count(HOST "port_packets", "all", "eth0", 113);
  add(east, "eth0", 0, PACKETS, 1);
  play_round(SECOND);
  assert_count(HOST "port_packets", "all", "eth0", 114);
}

static void
a_further_instance_brings_nothing_that_it_counted_long_before(void **state) {
  (void)state;
  struct percore_region *east = create_usual(0, "east");
  struct percore_region *west = create_usual(1, "west");
  served[1] = NULL; /* does not answer yet */
  add(east, "eth0", 0, PACKETS, 100);
  add(west, "eth0", 0, PACKETS, 1000000);
  start_watch("");
  play_round(SECOND);
  assert_count(HOST "port_packets", "all", "eth0", 100);
  served[1] = west;
  percore_serve(west);
  play_round(SECOND);
  assert_count(HOST "port_packets", "all", "eth0", 100);
  add(west, "eth0", 0, PACKETS, 2);
  play_round(SECOND);
  assert_count(HOST "port_packets", "all", "eth0", 102);
}

static void
a_further_instance_that_has_just_begun_brings_all_it_counted(void **state) {
  (void)state;
  struct percore_region *east = create_usual(0, "east");
  add(east, "eth0", 0, PACKETS, 100);
  start_watch("");
  play_round(SECOND);
  struct percore_region *west = create_usual(1, "west");
  add(west, "eth0", 0, PACKETS, 20);
  play_round(SECOND);
  assert_count(HOST "port_packets", "all", "eth0", 120);
}

static void a_producer_started_again_goes_on_where_it_was(void **state) {
  (void)state;
  struct percore_region *region = create_usual(0, NULL);
  add(region, "eth0", 0, PACKETS, 100);
  start_watch("");
  play_round(SECOND);
  add(region, "eth0", 0, PACKETS, 5);
  end_producer(0);
  region = create_usual(0, NULL);
  add(region, "eth0", 0, PACKETS, 1);
  play_round(SECOND);
  assert_count(HOST "port_packets", "all", "eth0", 106);
  assert_count("percore_unit_port_packets", "0", "eth0", 106);
  assert_true(told("gone and back"));
}

static const struct percore_field swapped_fields[] = {
    {.name = "bytes", .unit = "bytes"},
    {.name = "packets", .unit = "packets"},
    {.name = "errors", .unit = "errors"},
};
static const struct percore_table swapped_tables[] = {
    {.name = "globals", .fields = swapped_fields, .field_count = 1},
    {.name = "port",
     .fields = swapped_fields,
     .field_count = 3,
     .max_rows = 4,
     .row_name_size = 24},
};

static void another_schema_goes_on_with_the_fields_of_its_names(void **state) {
  (void)state;
  struct percore_region *region = create_usual(0, NULL);
  add(region, "eth0", 0, PACKETS, 100);
  add(region, "eth0", 0, BYTES, 7000);
  start_watch("");
  play_round(SECOND);
  add(region, "eth0", 0, PACKETS, 1);
  end_producer(0);
  region = create(0, NULL, swapped_tables, 2);
  add(region, "eth0", 0, 0, 50); /* bytes */
  add(region, "eth0", 0, 1, 2);  /* packets */
  add(region, "eth0", 0, 2, 3);  /* errors */
  play_round(SECOND);
  assert_count(HOST "port_packets", "all", "eth0", 101);
  play_round(SECOND);
  assert_count(HOST "port_packets", "all", "eth0", 103);
  assert_count(HOST "port_bytes", "all", "eth0", 7050);
  assert_count(HOST "port_errors", "all", "eth0", 3);
}

static void a_producer_that_is_gone_is_reported_once_more(void **state) {
  (void)state;
  struct percore_region *region = create_usual(0, NULL);
  add(region, "eth0", 0, PACKETS, 100);
  start_watch("");
  play_round(SECOND);
  add(region, "eth0", 0, PACKETS, 5);
  end_producer(0);
  play_round(SECOND);
  assert_count(HOST "port_packets", "all", "eth0", 105);
  assert_true(told("unit is gone"));
  assert_int_equal(snapshot->regions, 0);
  play_round(SECOND);
  assert_none(HOST "port_packets", "all", "eth0");
  assert_false(told("unit is gone"));
}

static void percentiles_are_of_the_interval_alone(void **state) {
  (void)state;
  struct percore_region *region = create_usual(0, NULL);
  add(region, "eth0", 0, LATENCY_COLUMN + 3, 1000);
  start_watch("");
  play_round(SECOND);
  assert_none(HOST "port_latency", "all", "eth0_p50");
  add(region, "eth0", 0, LATENCY_COLUMN + 2, 9);
  add(region, "eth0", 1, LATENCY_COLUMN + 1, 1);
  play_round(SECOND);
  assert_true(gauge(HOST "port_latency", "all", "eth0_p50") == 2);
  assert_true(gauge(HOST "port_latency", "all", "eth0_max") == 2);
  assert_true(gauge("percore_unit_port_latency", "1", "eth0_p99") == 1);
  play_round(SECOND);
  assert_none(HOST "port_latency", "all", "eth0_p50");
}

static void a_state_of_several_instances_is_no_value(void **state) {
  (void)state;
  struct percore_region *east = create_usual(0, "east");
  add_slow(east, "gate", 0, 5);
  add_slow(east, "gate", 1, 1);
  start_watch("");
  play_round(SECOND);
  assert_true(gauge(HOST "slow_link", "all", "gate") == 1);
  add_slow(create_usual(1, "west"), "gate", 0, 4);
  play_round(SECOND);
  assert_none(HOST "slow_link", "all", "gate");
  assert_count(HOST "slow_requests", "all", "gate", 9);
}

/* ---------------------------------------------------------------------------
 * Choosing
 */

static void top_puts_each_count_into_one_row(void **state) {
  (void)state;
  struct percore_region *region = create_usual(0, NULL);
  for (int i = 0; i < 4; i++)
    row_of(region, PORT, ((const char *[]){"a", "b", "c", "d"})[i]);
  start_watch("<Region \"unit\">\n<Table \"port\">\nTop 1 \"packets\"\n"
              "Field \"packets\" \"depth\"\n</Table>\n</Region>\n");
  play_round(SECOND);
  add(region, "a", 0, PACKETS, 10);
  add(region, "b", 0, PACKETS, 3);
  add(region, "c", 1, DEPTH, 2);
  play_round(SECOND);
  assert_count(HOST "port_packets", "all", "a", 10);
  assert_count(HOST "port_packets", "all", "other", 3);
  assert_none(HOST "port_packets", "all", "b");
  assert_true(gauge(HOST "port_depth", "all", "other") == 2);
  add(region, "b", 0, PACKETS, 5);
  add(region, "a", 0, PACKETS, 4);
  play_round(SECOND);
  assert_count(HOST "port_packets", "all", "b", 5);
  assert_count(HOST "port_packets", "all", "other", 7);
  assert_none(HOST "port_packets", "all", "a");
  assert_none(HOST "port_bytes", "all", "b");
  /* Among equals the one that was shown stays. */
  play_round(SECOND);
  assert_count(HOST "port_packets", "all", "b", 5);
}

static void a_top_field_that_is_not_there_reports_all_rows(void **state) {
  (void)state;
  struct percore_region *region = create_usual(0, NULL);
  add(region, "a", 0, PACKETS, 10);
  add(region, "b", 0, PACKETS, 3);
  start_watch("<Region \"unit\">\n<Table \"port\">\nTop 1 \"drops\"\n"
              "</Table>\n</Region>\n");
  play_round(SECOND);
  assert_count(HOST "port_packets", "all", "a", 10);
  assert_count(HOST "port_packets", "all", "b", 3);
  assert_non_null(fake_logged(LOG_WARNING, "\"drops\""));
}

static void rows_that_are_not_wanted_are_left_out(void **state) {
  (void)state;
  struct percore_region *region = create_usual(0, NULL);
  add(region, "eth0", 0, PACKETS, 10);
  add(region, "lo", 0, PACKETS, 3);
  start_watch("<Region \"*\">\n<Table \"port\">\nRow \"/^eth/\"\n"
              "</Table>\n</Region>\n");
  play_round(SECOND);
  assert_count(HOST "port_packets", "all", "eth0", 10);
  assert_none(HOST "port_packets", "all", "lo");
}

static void rows_that_fall_together_are_told_once_and_left_out(void **state) {
  (void)state;
  struct percore_region *region = create_usual(0, NULL);
  add(region, "a/b", 0, PACKETS, 10);
  add(region, "a b", 0, PACKETS, 3);
  add(region, "c", 0, PACKETS, 1);
  start_watch("");
  play_round(SECOND);
  play_round(SECOND);
  assert_none(HOST "port_packets", "all", "a_b");
  assert_count(HOST "port_packets", "all", "c", 1);
  assert_int_equal(fake_count_logged(LOG_WARNING), 1);
}

/* ---------------------------------------------------------------------------
 * Workers
 */

static void a_worker_that_stands_still_for_two_seconds_is_stuck(void **state) {
  (void)state;
  struct percore_region *region = create_usual(0, NULL);
  percore_slot_t first, second;
  assert_int_equal(percore_attach(region, "first", 1, &first), 0);
  assert_int_equal(percore_attach(region, "second", 2, &second), 0);
  start_watch("");
  for (int tenths = 0; tenths <= 40; tenths++) {
    percore_poll(first, 1);
    if (tenths == 0 || tenths > 30)
      percore_poll(second, 1);
    play_round(SECOND / 10);
    assert_int_equal(snapshot->workers_stuck, tenths >= 20 && tenths <= 30);
    assert_int_equal(told("unit stand still on cores 2"), tenths == 20);
    assert_int_equal(told("no longer stand still on cores 2"), tenths == 31);
    assert_int_equal(snapshot->regions_stale, 0);
  }
  for (int tenths = 0; tenths <= 21; tenths++)
    play_round(SECOND / 10);
  assert_int_equal(snapshot->workers_stuck, 2);
  assert_int_equal(snapshot->regions_stale, 1);
  percore_detach(region, first);
  percore_detach(region, second);
  play_round(SECOND / 10);
  assert_int_equal(snapshot->workers_stuck, 0);
}

static void a_worker_that_sleeps_is_not_stuck_and_of_no_use(void **state) {
  (void)state;
  struct percore_region *region = create_usual(0, NULL);
  percore_slot_t slot;
  assert_int_equal(percore_attach(region, "first", 1, &slot), 0);
  start_watch("");
  percore_poll(slot, 1);
  play_round(SECOND);
  percore_poll(slot, 1);
  play_round(SECOND);
  assert_true(gauge("percore", "1", "useful") == 100);
  assert_true(gauge("percore_host", "all", "cores_useful_mean") == 100);
  percore_sleep(slot);
  play_round(SECOND);
  for (int i = 0; i < 5; i++) {
    play_round(SECOND);
    assert_int_equal(snapshot->workers_stuck, 0);
    assert_true(gauge("percore", "1", "useful") == 0);
  }
  percore_wake(slot);
  percore_detach(region, slot);
  play_round(SECOND);
  play_round(SECOND);
  assert_none("percore", "1", "useful");
}

/* ---------------------------------------------------------------------------
 * What goes wrong
 */

static void who_does_not_answer_for_a_second_is_silent(void **state) {
  (void)state;
  struct percore_region *region = create_usual(0, NULL);
  served[0] = NULL;
  start_watch("");
  play_round(SECOND / 2);
  assert_int_equal(snapshot->regions_silent, 0);
  play_round(SECOND);
  assert_int_equal(snapshot->regions_silent, 1);
  play_round(SECOND);
  assert_int_equal(fake_count_logged(LOG_WARNING), 1);
  served[0] = region;
  percore_serve(region);
  play_round(SECOND);
  assert_int_equal(snapshot->regions_silent, 0);
  assert_int_equal(snapshot->regions, 1);
}

static void a_region_that_is_too_large_is_refused_once(void **state) {
  (void)state;
  create_usual(0, NULL);
  start_watch("<Region \"*\">\nMaxRegionSize 8192\n</Region>\n");
  for (int i = 0; i < 3; i++)
    play_round(SECOND);
  assert_int_equal(snapshot->regions, 0);
  assert_int_equal(fake_count_logged(LOG_WARNING), 1);
  assert_non_null(fake_logged(LOG_WARNING, "unit is not read"));
}

static void no_more_than_256_sockets_are_looked_at(void **state) {
  (void)state;
  char path[256];
  for (int i = 0; i < 300; i++) {
    snprintf(path, sizeof(path), "%s/many@%d.sock",
             getenv("PERCORE_RUNTIME_DIR"), i);
    close(open(path, O_CREAT | O_WRONLY, 0600));
  }
  start_watch("");
  play_round(SECOND);
  play_round(SECOND);
  assert_int_equal(fake_count_logged(LOG_WARNING), 1);
  for (int i = 0; i < 300; i++) {
    snprintf(path, sizeof(path), "%s/many@%d.sock",
             getenv("PERCORE_RUNTIME_DIR"), i);
    unlink(path);
  }
}

static void
names_are_forgotten_after_10_minutes_and_nothing_counts_twice(void **state) {
  (void)state;
  struct percore_region *region = create_usual(0, NULL);
  add(region, "a", 0, PACKETS, 10);
  start_watch("<Region \"unit\">\n<Table \"port\">\nTop 1 \"packets\"\n"
              "</Table>\n</Region>\n");
  play_round(SECOND);
  add(region, "a", 0, PACKETS, 5);
  add(region, "b", 0, PACKETS, 1);
  play_round(SECOND);
  assert_count(HOST "port_packets", "all", "other", 1);
  percore_row_remove(region, PORT, row_of(region, PORT, "a"),
                     PERCORE_NO_UPDATE_IN_FLIGHT);
  for (int minutes = 0; minutes < 50; minutes += 5)
    play_round(300 * SECOND);
  add(region, "a", 0, PACKETS, 2);
  add(region, "b", 0, PACKETS, 4);
  play_round(SECOND);
  assert_count(HOST "port_packets", "all", "b", 4);
  assert_count(HOST "port_packets", "all", "other", 3);
}

int main(void) {
#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      TEST(a_region_is_read_in_the_round_that_finds_it),
      TEST(without_a_region_there_is_no_value),
      TEST(an_instance_that_ends_leaves_its_counts_in_the_sum),
      TEST(a_further_instance_brings_nothing_that_it_counted_long_before),
      TEST(a_further_instance_that_has_just_begun_brings_all_it_counted),
      TEST(a_producer_started_again_goes_on_where_it_was),
      TEST(another_schema_goes_on_with_the_fields_of_its_names),
      TEST(a_producer_that_is_gone_is_reported_once_more),
      TEST(percentiles_are_of_the_interval_alone),
      TEST(a_state_of_several_instances_is_no_value),
      TEST(top_puts_each_count_into_one_row),
      TEST(a_top_field_that_is_not_there_reports_all_rows),
      TEST(rows_that_are_not_wanted_are_left_out),
      TEST(rows_that_fall_together_are_told_once_and_left_out),
      TEST(a_worker_that_stands_still_for_two_seconds_is_stuck),
      TEST(a_worker_that_sleeps_is_not_stuck_and_of_no_use),
      TEST(who_does_not_answer_for_a_second_is_silent),
      TEST(a_region_that_is_too_large_is_refused_once),
      TEST(no_more_than_256_sockets_are_looked_at),
      TEST(names_are_forgotten_after_10_minutes_and_nothing_counts_twice),
  };
  return cmocka_run_group_tests_name("plugin_region_watch", tests,
                                     unit_make_runtime_dir,
                                     unit_remove_runtime_dir);
}
