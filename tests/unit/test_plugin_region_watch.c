/* Tests how the regions of a host change over time. Producers run in the test's
 * process. The test controls the clock. */
#include "calls.h"
#include "region_host.h"
#include "unit.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plugin/regions.h"
#include "region/writer.h"

/* Writes the path of a file that has the name of a region's. */
static void file_path(char *path, size_t size, int number) {
  snprintf(path, size, "%s/many@%d.%016x", getenv("PERCORE_RUNTIME_DIR"),
           number, (unsigned)number);
}

static void write_file(const char *path) {
  int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  assert_return_code(fd, errno);
  assert_int_equal(write(fd, "no region", 9), 9);
  close(fd);
}

/* ---------------------------------------------------------------------------
 * Counting
 */

TEST(a_table_that_no_region_has_is_a_warning) {
  create_usual(0, NULL);
  begin_watch("<Region \"unit\">\n<Table \"nosuch\">\nField \"x\"\n"
              "</Table>\n<Table \"port\">\nField \"packets\"\n</Table>\n"
              "</Region>\n");
  assert_non_null(fake_logged(
      LOG_WARNING,
      "Table \"nosuch\" is ignored: region unit has no such table."));
  assert_null(fake_logged(LOG_WARNING, "Table \"port\""));
}

TEST(a_region_is_read_in_the_round_that_finds_it) {
  struct percore_region *region = create_usual(0, NULL);
  add(region, "eth0", 1, PACKETS, 7);
  add(region, "eth0", 2, PACKETS, 5);
  begin_watch("");
  assert_int_equal(snapshot->regions, 1);
  assert_count(HOST "port_packets", "all", "eth0", 12);
  assert_count("percore_unit_port_packets", "1", "eth0", 7);
  assert_count("percore_unit_port_packets", "2", "eth0", 5);
  assert_none("percore_unit_port_packets", "3", "eth0");
}

TEST(without_a_region_there_is_no_value) {
  begin_watch("");
  assert_int_equal(fake.values_len, 0);
}

TEST(an_instance_that_ends_leaves_its_counts_in_the_sum) {
  struct percore_region *east = create_usual(0, "east");
  struct percore_region *west = create_usual(1, "west");
  add(east, "eth0", 0, PACKETS, 100);
  add(west, "eth0", 0, PACKETS, 10);
  begin_watch("");
  assert_count(HOST "port_packets", "all", "eth0", 110);
  add(west, "eth0", 0, PACKETS, 3);
  end_producer(1);
  play_round(SECOND);
  assert_count(HOST "port_packets", "all", "eth0", 113);
  add(east, "eth0", 0, PACKETS, 1);
  play_round(SECOND);
  assert_count(HOST "port_packets", "all", "eth0", 114);
}

/* Returns how many times this process has the memory of a region open. */
static int count_memories(void) {
  char path[64], target[PATH_MAX];
  const char *dir = getenv("PERCORE_RUNTIME_DIR");
  int memories = 0;
  for (int fd = 0; fd < 256; fd++) {
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    ssize_t length = readlink(path, target, sizeof(target) - 1);
    target[length > 0 ? length : 0] = '\0';
    memories += strncmp(target, dir, strlen(dir)) == 0;
  }
  return memories;
}

TEST(the_memory_of_a_producer_that_has_ended_is_given_back) {
  struct percore_region *region = create_usual(0, NULL);
  add(region, "eth0", 1, PACKETS, 7);
  begin_watch("");
  add(region, "eth0", 1, PACKETS, 2);
  end_producer(0);
  play_round(SECOND);
  assert_count(HOST "port_packets", "all", "eth0", 9);
  play_round(SECOND);
  assert_int_equal(count_memories(), 0);
  region = create_usual(0, NULL);
  add(region, "eth0", 1, PACKETS, 1);
  play_round(SECOND);
  assert_count(HOST "port_packets", "all", "eth0", 10);
  end_producer(0);
  for (int rounds = 0; rounds < 4; rounds++)
    play_round(REGION_FORGET_NS);
  assert_true(gauge("percore_host", "self", "regions_memory") == 0);
}

TEST(negative_gauges_of_instances_are_less_than_others) {
  static const char *const names[] = {"east", "west", "north"};
  static const int64_t queues[] = {-8, 3, -5};
  struct percore_region *regions[COUNT_OF(names)];
  percore_slot_t slots[COUNT_OF(names)];
  for (unsigned i = 0; i < COUNT_OF(names); i++) {
    regions[i] = create_usual(i, names[i]);
    slots[i] = unit_attach(regions[i], 1);
    uint32_t globals = GLOBALS;
    percore_set(percore_row(percore_table(slots[i], globals), 0), 1, queues[i]);
  }
  begin_watch("");
  assert_true(gauge(HOST "globals_queue", "all", "all") == 3);
  uint32_t globals = GLOBALS;
  percore_set(percore_row(percore_table(slots[1], globals), 0), 1, -7);
  play_round(SECOND);
  assert_true(gauge(HOST "globals_queue", "all", "all") == -5);
  assert_true(gauge("percore_unit_globals_queue", "1", "all") == -5);
  for (unsigned i = 0; i < COUNT_OF(names); i++)
    assert_int_equal(percore_detach(slots[i]), 0);
}

/* A data store may have received a higher value of the counter from an earlier
 * collectd. It would take a lower value for a restart from 0, and would count
 * all of the lower value as new. */
TEST(counts_from_before_the_watch_began_are_not_reported) {
  struct percore_region *region = create_usual(0, NULL);
  add(region, "eth0", 1, PACKETS, 1000000);
  began_ns = boottime_ns();
  begin_watch("");
  assert_count(HOST "port_packets", "all", "eth0", 0);
  assert_count("percore_unit_port_packets", "1", "eth0", 0);
  add(region, "eth0", 1, PACKETS, 7);
  add(region, "eth1", 2, PACKETS, 5);
  play_round(SECOND);
  assert_count(HOST "port_packets", "all", "eth0", 7);
  assert_count("percore_unit_port_packets", "1", "eth0", 7);
  assert_count(HOST "port_packets", "all", "eth1", 5);
}

TEST(a_further_instance_that_has_just_begun_brings_all_it_counted) {
  struct percore_region *east = create_usual(0, "east");
  add(east, "eth0", 0, PACKETS, 100);
  begin_watch("");
  struct percore_region *west = create_usual(1, "west");
  add(west, "eth0", 0, PACKETS, 20);
  play_round(SECOND);
  assert_count(HOST "port_packets", "all", "eth0", 120);
}

/* The round begins before the producer starts, but still finds the producer. */
TEST(all_counts_of_a_producer_that_began_in_this_round_are_reported) {
  add(create_usual(0, "east"), "eth0", 0, PACKETS, 100);
  begin_watch("");
  add(create_usual(1, "west"), "eth0", 0, PACKETS, 20);
  play_round_begun_before(SECOND);
  assert_count(HOST "port_packets", "all", "eth0", 120);
}

TEST(counters_continue_when_a_producer_restarts) {
  struct percore_region *region = create_usual(0, NULL);
  add(region, "eth0", 0, PACKETS, 100);
  begin_watch("");
  add(region, "eth0", 0, PACKETS, 5);
  end_producer(0);
  region = create_usual(0, NULL);
  add(region, "eth0", 0, PACKETS, 1);
  play_round(SECOND);
  assert_count(HOST "port_packets", "all", "eth0", 106);
  assert_count("percore_unit_port_packets", "0", "eth0", 106);
  assert_true(told("was gone and is back"));
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

TEST(a_new_schema_continues_the_fields_with_the_same_names) {
  struct percore_region *region = create_usual(0, NULL);
  add(region, "eth0", 0, PACKETS, 100);
  add(region, "eth0", 0, BYTES, 7000);
  begin_watch("");
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

TEST(a_table_that_was_left_out_counts_from_its_first_reading) {
  add(create_usual(0, "east"), "eth0", 0, PACKETS, 100);
  begin_watch("");
  struct percore_region *west = create(1, "west", swapped_tables, 2);
  add(west, "eth0", 0, 1, 1000); /* packets */
  play_round(SECOND);
  play_round(SECOND);
  assert_non_null(fake_logged(LOG_WARNING, "port is left out, because"));
  end_producer(0);
  for (int rounds = 0; rounds < 3; rounds++)
    play_round(SECOND);
  add(west, "eth0", 0, 1, 5);
  play_round(SECOND);
  assert_count(HOST "port_packets", "all", "eth0", 105);
}

TEST(a_producer_that_is_gone_is_reported_once_more) {
  struct percore_region *region = create_usual(0, NULL);
  add(region, "eth0", 0, PACKETS, 100);
  begin_watch("");
  add(region, "eth0", 0, PACKETS, 5);
  end_producer(0);
  play_round(SECOND);
  assert_count(HOST "port_packets", "all", "eth0", 105);
  assert_true(told("unit has ended"));
  assert_int_equal(snapshot->regions, 0);
  play_round(SECOND);
  assert_none(HOST "port_packets", "all", "eth0");
  assert_false(told("unit has ended"));
}

static void one_event_of_severity(int severity) {
  assert_int_equal(snapshot->events_len, 1);
  assert_int_equal(fake.notifications[0].severity, severity);
}

TEST(only_a_producer_that_dies_is_a_failure) {
  create_usual(0, NULL);
  begin_watch("");
  end_producer(0);
  play_round(SECOND);
  one_event_of_severity(NOTIF_OKAY);
  create_usual(0, NULL);
  play_round(SECOND);
  one_event_of_severity(NOTIF_OKAY);
  /* After a crash, the word in the region that shows how the producer ended is
   * still 0. */
  abandon_producer(0);
  play_round(SECOND);
  one_event_of_severity(NOTIF_FAILURE);
}

/* The producer of place 0 dies, or comes. Returns true if that is told. */
static bool is_told(bool dies) {
  if (dies)
    abandon_producer(0);
  else
    create_usual(0, NULL);
  play_round(SECOND);
  if (dies)
    end_producer(0);
  return snapshot->events_len > 0;
}

TEST(the_end_of_a_region_that_was_read_is_told_however_full_the_log_is) {
  create_usual(0, NULL);
  begin_watch("");
  fill_log();
  play_round(10 * SECOND);
  assert_true(is_told(true));
  one_event_of_severity(NOTIF_FAILURE);
  assert_non_null(fake_logged(LOG_WARNING, "unit is gone"));
  assert_true(is_told(false));
  one_event_of_severity(NOTIF_OKAY);
}

TEST(a_region_that_comes_and_goes_is_told_when_it_was_read_for_a_minute) {
  create_usual(0, NULL);
  begin_watch("");
  fill_log();
  assert_false(is_told(true));
  assert_false(is_told(false));
  play_round(10 * SECOND);
  assert_true(is_told(true));
  assert_true(is_told(false));
  play_round(50 * SECOND);
  assert_false(is_told(true));
  assert_false(is_told(false));
  play_round(10 * SECOND);
  assert_true(is_told(true));
  assert_true(is_told(false));
}

TEST(a_clean_restart_within_a_round_is_no_warning) {
  create_usual(0, NULL);
  begin_watch("");
  end_producer(0);
  create_usual(0, NULL);
  play_round(SECOND);
  one_event_of_severity(NOTIF_OKAY);
  abandon_producer(0);
  create_usual(1, NULL);
  play_round(SECOND);
  one_event_of_severity(NOTIF_WARNING);
}

TEST(percentiles_are_of_the_interval_alone) {
  struct percore_region *region = create_usual(0, NULL);
  add(region, "eth0", 0, LATENCY_COLUMN + 3, 1000);
  began_ns = boottime_ns();
  begin_watch("");
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

TEST(a_state_of_several_instances_is_no_value) {
  struct percore_region *east = create_usual(0, "east");
  add_slow(east, "gate", 0, 5);
  add_slow(east, "gate", 1, 1);
  begin_watch("");
  assert_true(gauge(HOST "slow_link", "all", "gate") == 1);
  add_slow(create_usual(1, "west"), "gate", 0, 4);
  play_round(SECOND);
  assert_none(HOST "slow_link", "all", "gate");
  assert_count(HOST "slow_requests", "all", "gate", 9);
}

TEST(a_gauge_that_cannot_be_combined_is_a_value_of_one_core_of_one_instance) {
  static const struct percore_field level = {.name = "level",
                                             .unit = "1",
                                             .kind = PERCORE_GAUGE,
                                             .aggregation = PERCORE_NONE};
  static const struct percore_table tank = {
      .name = "tank", .fields = &level, .field_count = 1};
  percore_slot_t slots[2];
  for (unsigned i = 0; i < 2; i++) {
    struct percore_region *region =
        create(i, i == 0 ? "east" : "west", &tank, 1);
    slots[i] = unit_attach(region, 1);
    percore_set(percore_row(percore_table(slots[i], 0), 0), 0, 3);
    if (i == 0)
      begin_watch("");
    else
      play_round(SECOND);
    assert_none(HOST "tank_level", "all", "all");
    if (i == 0)
      assert_true(gauge("percore_unit_tank_level", "1", "all") == 3);
    else
      assert_none("percore_unit_tank_level", "1", "all");
  }
  for (unsigned i = 0; i < 2; i++)
    assert_int_equal(percore_detach(slots[i]), 0);
}

static const struct percore_field cycles_fields[] = {
    {.name = "work_cycles", .unit = "cycles"},
    {.name = "cycles", .unit = "cycles"},
    {.name = "bicycles", .unit = "1"},
    {.name = "latency", .unit = "cycles"},
    {.name = "spin_cycles", .unit = "operations"},
};
static const struct percore_table cycles_tables[] = {
    {.name = "time", .fields = cycles_fields, .field_count = 5},
};

TEST(fields_in_cycles_are_named_ns) {
  create(0, NULL, cycles_tables, 1);
  begin_watch("");
  assert_count(HOST "time_work_ns", "all", "all", 0);
  assert_count(HOST "time_ns", "all", "all", 0);
  assert_count(HOST "time_bicycles", "all", "all", 0);
  assert_count(HOST "time_latency", "all", "all", 0);
  assert_count(HOST "time_spin_cycles", "all", "all", 0);
  assert_none(HOST "time_work_cycles", "all", "all");
  assert_none(HOST "time_cycles", "all", "all");
}

static const struct percore_field clashing_fields[] = {
    {.name = "work_cycles", .unit = "cycles"},
    {.name = "work_ns", .unit = "ns"},
    {.name = "idle_cycles", .unit = "cycles"},
};
static const struct percore_table clashing_tables[] = {
    {.name = "time", .fields = clashing_fields, .field_count = 3},
};

TEST(two_fields_that_would_share_a_name_keep_theirs_with_one_warning) {
  create(0, NULL, clashing_tables, 1);
  begin_watch("");
  end_producer(0);
  create(0, NULL, clashing_tables, 1);
  play_round(SECOND);
  assert_count(HOST "time_work_cycles", "all", "all", 0);
  assert_count(HOST "time_work_ns", "all", "all", 0);
  assert_count(HOST "time_idle_ns", "all", "all", 0);
  assert_int_equal(fake_count_logged(LOG_WARNING), 1);
  assert_non_null(fake_logged(LOG_WARNING, "work_cycles"));
}

/* ---------------------------------------------------------------------------
 * Choosing
 */

TEST(top_puts_each_count_into_one_row) {
  struct percore_region *region = create_usual(0, NULL);
  for (int i = 0; i < 4; i++)
    row_of(region, PORT, ((const char *[]){"a", "b", "c", "d"})[i]);
  begin_watch("<Region \"unit\">\n<Table \"port\">\nTop 1 \"packets\"\n"
              "Field \"packets\" \"depth\"\n</Table>\n</Region>\n");
  add(region, "a", 0, PACKETS, 10);
  add(region, "b", 0, PACKETS, 3);
  add(region, "c", 1, DEPTH, 2);
  play_round(SECOND);
  assert_count(HOST "port_packets", "all", "a", 10);
  assert_count(HOST "port_packets", "all", "other", 3);
  assert_none(HOST "port_packets", "all", "b");
  assert_true(gauge(HOST "port_depth", "all", "other") == 2);
  add(region, "b", 0, PACKETS, 50);
  add(region, "a", 0, PACKETS, 4);
  /* b becomes a candidate for the second time, so its series begins. */
  play_round(SECOND);
  assert_count(HOST "port_packets", "all", "b", 0);
  assert_count(HOST "port_packets", "all", "other", 53);
  assert_count(HOST "port_packets", "all", "a", 14); /* for the last time */
  assert_none(HOST "port_bytes", "all", "b");
  /* If rows are equal, the row that is already shown stays. */
  add(region, "b", 0, PACKETS, 5);
  add(region, "a", 0, PACKETS, 5);
  play_round(SECOND);
  assert_count(HOST "port_packets", "all", "b", 5);
  assert_count(HOST "port_packets", "all", "other", 58);
  assert_none(HOST "port_packets", "all", "a");
}

TEST(a_top_field_that_is_not_there_reports_all_rows) {
  struct percore_region *region = create_usual(0, NULL);
  add(region, "a", 0, PACKETS, 10);
  add(region, "b", 0, PACKETS, 3);
  begin_watch("<Region \"unit\">\n<Table \"port\">\nTop 1 \"drops\"\n"
              "</Table>\n</Region>\n");
  assert_count(HOST "port_packets", "all", "a", 10);
  assert_count(HOST "port_packets", "all", "b", 3);
  assert_non_null(fake_logged(LOG_WARNING, "\"drops\""));
}

TEST(rows_that_are_not_wanted_are_left_out) {
  struct percore_region *region = create_usual(0, NULL);
  add(region, "eth0", 0, PACKETS, 10);
  add(region, "lo", 0, PACKETS, 3);
  begin_watch("<Region \"*\">\n<Table \"port\">\nRow \"/^eth/\"\n"
              "</Table>\n</Region>\n");
  assert_count(HOST "port_packets", "all", "eth0", 10);
  assert_none(HOST "port_packets", "all", "lo");
  play_round(SECOND);
  assert_null(fake_logged(LOG_WARNING, "counted only in `other`"));
}

TEST(rows_whose_names_clash_share_a_row) {
  struct percore_region *region = create_usual(0, NULL);
  add(region, "a/b", 0, PACKETS, 10);
  add(region, "a b", 0, PACKETS, 3);
  add(region, "c", 0, PACKETS, 1);
  begin_watch("");
  play_round(SECOND);
  assert_count(HOST "port_packets", "all", "a_b", 13);
  assert_count(HOST "port_packets", "all", "c", 1);
}

/* ---------------------------------------------------------------------------
 * Workers
 */

TEST(a_worker_that_stands_still_for_two_seconds_is_stuck) {
  struct percore_region *region = create_usual(0, NULL);
  percore_slot_t first, second;
  assert_int_equal(attach_thread(region, "first", 1, &first), 0);
  assert_int_equal(attach_thread(region, "second", 2, &second), 0);
  start_watch("");
  for (int tenths = 0; tenths <= 40; tenths++) {
    percore_poll(first, 1, 0);
    if (tenths == 0 || tenths > 30)
      percore_poll(second, 1, 0);
    play_round(SECOND / 10);
    assert_int_equal(snapshot->workers_stuck, tenths >= 20 && tenths <= 30);
    assert_int_equal(told("unit are stuck on cores 2"), tenths == 20);
    assert_int_equal(told("no longer stuck on cores 2"), tenths == 31);
    assert_int_equal(snapshot->regions_stale, 0);
  }
  for (int tenths = 0; tenths <= 21; tenths++)
    play_round(SECOND / 10);
  assert_int_equal(snapshot->workers_stuck, 2);
  assert_int_equal(snapshot->regions_stale, 1);
  percore_detach(first);
  percore_detach(second);
  play_round(SECOND / 10);
  assert_int_equal(snapshot->workers_stuck, 0);
}

/* Polls once, as if exactly a microsecond had passed since the last poll. */
static void poll_round(percore_slot_t slot, uint64_t n) {
  percore_poll(slot, n, percore_polled_(slot.seat->head) + 1000);
}

static void poll_with(const char *lines) {
  percore_slot_t slot;
  struct percore_region *region = create_usual(0, NULL);
  assert_int_equal(attach_thread(region, "first", 1, &slot), 0);
  start_watch(lines);
  play_round(SECOND);
  poll_round(slot, 7);
  play_round(SECOND);
  percore_detach(slot);
}

TEST(of_the_table_core_only_the_items_are_reported) {
  poll_with("");
  assert_count(HOST "core_items", "all", "all", 7);
  assert_none(HOST "core_polls", "all", "all");
  assert_none(HOST "core_total_ns", "all", "all");
}

TEST(counts_of_fields_that_are_not_reported_are_not_owed) {
  size_t values = 0;
  poll_with("");
  play_round(SECOND); /* would be followed by another if counts were owed */
  for (size_t i = 0; i < fake.values_len; i++)
    values += strcmp(fake.values[i].list.plugin, HOST "core_items") == 0;
  assert_int_equal(values, 1);
}

TEST(a_block_that_names_the_table_core_chooses_its_fields) {
  poll_with("<Region \"unit\">\n<Table \"core\">\n"
            "Field \"polls\" \"items\"\n</Table>\n</Region>\n");
  assert_count(HOST "core_polls", "all", "all", 1);
  assert_count(HOST "core_items", "all", "all", 7);
  assert_none(HOST "core_total_ns", "all", "all");
}

TEST(a_sleeping_worker_is_not_stuck_and_has_no_useful_load) {
  struct percore_region *region = create_usual(0, NULL);
  percore_slot_t slot;
  assert_int_equal(attach_thread(region, "first", 1, &slot), 0);
  start_watch("");
  poll_round(slot, 1);
  play_round(SECOND);
  poll_round(slot, 1);
  play_round(SECOND);
  assert_true(gauge("percore", "1", "useful") == 100);
  assert_true(gauge("percore_host", "all", "useful_mean") == 100);
  percore_sleep(slot);
  play_round(SECOND);
  for (int i = 0; i < 5; i++) {
    play_round(SECOND);
    assert_int_equal(snapshot->workers_stuck, 0);
    assert_true(gauge("percore", "1", "useful") == 0);
  }
  percore_wake(slot);
  percore_detach(slot);
  play_round(SECOND);
  play_round(SECOND);
  assert_none("percore", "1", "useful");
}

/* Polls as if the last 1000 ticks had been a round with work, which took `busy`
 * ticks, and a round without. */
static void poll_share(percore_slot_t slot, uint64_t busy) {
  percore_poll(slot, 1, percore_polled_(slot.seat->head) + busy);
  percore_poll(slot, 0, percore_polled_(slot.seat->head) + 1000 - busy);
}

TEST(the_useful_load_of_a_core_is_the_sum_of_its_workers_shares) {
  struct percore_region *east = create_usual(0, "east"),
                        *west = create_usual(1, "west");
  percore_slot_t slots[3];
  assert_int_equal(attach_thread(east, "first", 1, &slots[0]), 0);
  assert_int_equal(attach_thread(east, "second", 1, &slots[1]), 0);
  assert_int_equal(attach_thread(west, "third", 1, &slots[2]), 0);
  start_watch("");
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < 3; i++)
      poll_share(slots[i], 100 + 150 * (uint64_t)i);
    play_round(SECOND);
  }
  assert_near(gauge("percore", "1", "useful"), 75, 1e-9);
  assert_near(gauge("percore_host", "all", "useful_mean"), 75, 1e-9);
  for (int i = 0; i < 3; i++)
    percore_detach(slots[i]);
}

/* The rest takes 100 intervals and 50 ms; the worker is busy for as long. */
TEST(the_first_useful_load_after_a_rest_is_that_of_an_interval) {
  percore_slot_t slot;
  begin_watch("");
  uint64_t ticks = percore_tsc();
  usleep(50000);
  ticks = percore_tsc() - ticks;
  struct percore_region *region = create_usual(0, NULL);
  assert_int_equal(attach_thread(region, "busy", 1, &slot), 0);
  region_poll_long(slot.seat->head, percore_tsc() + ticks, 1, 0);
  play_round(100);
  assert_true(gauge("percore", "1", "useful") > 75);
  percore_detach(slot);
}

TEST(the_room_learns_how_long_workers_polled_and_found_nothing) {
  struct percore_region *region = create_usual(0, NULL);
  percore_slot_t first, second;
  assert_int_equal(attach_thread(region, "first", 1, &first), 0);
  assert_int_equal(attach_thread(region, "second", 1, &second), 0);
  start_watch("");
  for (int round = 0; round < 2; round++) {
    poll_share(first, 250); /* of 1000 ticks, 750 empty */
    /* Of 1000 ticks, 600 without CPU in a round that found nothing. */
    region_poll_long(second.seat->head,
                     percore_polled_(second.seat->head) + 1000, 0, 600);
    play_round(SECOND);
  }
  assert_near(room_of_core(1, 1.2), 0.95, 1e-9);
  assert_near(room_of_core(0, 0.5), 0.5, 1e-9);
  percore_detach(first);
  percore_detach(second);
  play_round(SECOND);
  play_round(SECOND);
  assert_near(room_of_core(1, 1), 0, 0);
}

TEST(a_useful_load_is_at_most_100_and_the_reason_is_logged_once) {
  struct percore_region *region = create_usual(0, NULL);
  percore_slot_t honest, forged;
  assert_int_equal(attach_thread(region, "honest", 0, &honest), 0);
  assert_int_equal(attach_thread(region, "forged", 0, &forged), 0);
  start_watch("");
  for (int round = 0; round < 4; round++) {
    poll_share(honest, 600);
    poll_share(forged, 0);
    if (round == 2) /* forged cycles in which it was idle change nothing */
      forged.seat->head->total_cycles += (uint64_t)1 << 56;
    if (round == 3)
      forged.seat->head->busy_cycles += (uint64_t)1 << 56;
    play_round(SECOND);
    assert_near(round == 0 ? 60 : gauge("percore", "0", "useful"),
                round < 3 ? 60 : 100, 1e-9);
  }
  assert_non_null(fake_logged(
      LOG_WARNING, "workers of core 0 were useful for 160 % of its time"));
  size_t logged = fake_count_logged(LOG_WARNING);
  poll_share(honest, 600);
  poll_share(forged, 900);
  play_round(SECOND);
  assert_int_equal(fake_count_logged(LOG_WARNING), logged);
  percore_detach(honest);
  percore_detach(forged);
}

TEST(a_worker_without_a_core_has_no_useful_load_and_can_be_stuck) {
  struct percore_region *region = create_usual(0, NULL);
  percore_slot_t pinned, pool;
  assert_int_equal(attach_thread(region, "pinned", 1, &pinned), 0);
  assert_int_equal(attach_thread(region, "pool", PERCORE_NO_CORE, &pool), 0);
  start_watch("");
  for (int round = 0; round < 4; round++) {
    poll_share(pinned, 250);
    if (round < 2)
      poll_share(pool, 900);
    add(region, "a", PERCORE_NO_CORE, PACKETS, 7);
    play_round(SECOND);
  }
  assert_near(gauge("percore", "1", "useful"), 25, 1e-9);
  assert_near(gauge("percore_host", "all", "useful_mean"), 25, 1e-9);
  assert_count(HOST "port_packets", "all", "a", 28);
  assert_int_equal(snapshot->workers_stuck, 1);
  assert_int_equal(told("unit are stuck on no core"), 1);
  percore_detach(pinned);
  percore_detach(pool);
}

TEST(cores_that_are_not_measured_have_no_useful_load) {
  struct percore_region *region = create_usual(0, NULL);
  percore_slot_t busy, idle;
  assert_int_equal(attach_thread(region, "busy", 0, &busy), 0);
  assert_int_equal(attach_thread(region, "idle", 1, &idle), 0);
  start_watch("Cores \"0\"\n");
  for (int round = 0; round < 2; round++) {
    poll_round(busy, 1);
    poll_round(idle, 0);
    play_round(SECOND);
  }
  percore_detach(busy);
  percore_detach(idle);
  assert_true(gauge("percore", "0", "useful") == 100);
  assert_none("percore", "1", "useful");
  assert_true(gauge("percore_host", "all", "useful_mean") == 100);
}

TEST(
    a_core_that_this_host_does_not_have_has_no_useful_load_and_is_logged_once) {
  struct percore_region *region = create_usual(0, NULL);
  percore_slot_t real, ghosts[2];
  assert_int_equal(attach_thread(region, "real", 1, &real), 0);
  assert_int_equal(attach_thread(region, "ghost", 2, &ghosts[0]), 0);
  assert_int_equal(attach_thread(region, "ghost", 3, &ghosts[1]), 0);
  start_watch("");
  for (int round = 0; round < 3; round++) {
    poll_share(real, 250);
    poll_share(ghosts[0], 900);
    poll_share(ghosts[1], 900);
    play_round(SECOND);
  }
  assert_near(gauge("percore", "1", "useful"), 25, 1e-9);
  assert_none("percore", "2", "useful");
  assert_none("percore", "3", "useful");
  assert_near(gauge("percore_host", "all", "useful_mean"), 25, 1e-9);
  assert_int_equal(fake_count_logged(LOG_WARNING), 1);
  assert_non_null(fake_logged(LOG_WARNING, "this host does not have core 2"));
  percore_detach(real);
  percore_detach(ghosts[0]);
  percore_detach(ghosts[1]);
}

/* ---------------------------------------------------------------------------
 * Users
 */

enum { NOBODY = 65534 };

static bool may_change_user(void) {
  if (geteuid() != 0)
    print_message("skipped: creating another user's region needs root\n");
  return geteuid() == 0;
}

static struct percore_region *create_as_nobody(unsigned place,
                                               const char *instance) {
  const char *directory = getenv("PERCORE_RUNTIME_DIR");
  assert_return_code(chmod(directory, 01777), errno);
  assert_return_code(seteuid(NOBODY), errno);
  struct percore_region *region = create_usual(place, instance);
  assert_return_code(seteuid(0), errno);
  assert_return_code(chmod(directory, 0700), errno);
  return region;
}

static void assert_refused(void) {
  assert_non_null(fake_logged(LOG_WARNING,
                              "a region unit of user 65534 is not read: user "
                              "0 has the name"));
  assert_int_equal(fake_count_logged(LOG_WARNING), 1);
}

TEST(a_name_is_that_of_its_first_user_and_others_are_refused_once) {
  if (!may_change_user())
    skip();
  struct percore_region *first = create_usual(0, "east");
  add(first, "eth0", 0, PACKETS, 100);
  begin_watch("");
  add(create_as_nobody(1, NULL), "eth0", 0, PACKETS, 7);
  for (int round = 0; round < 3; round++) {
    add(first, "eth0", 0, PACKETS, 1);
    play_round(SECOND);
  }
  assert_count(HOST "port_packets", "all", "eth0", 103);
  assert_refused();
}

TEST(a_name_stays_with_its_user_between_two_of_its_producers) {
  if (!may_change_user())
    skip();
  add(create_usual(0, NULL), "eth0", 0, PACKETS, 100);
  begin_watch("");
  end_producer(0);
  play_round(SECOND);
  add(create_as_nobody(0, NULL), "eth0", 0, PACKETS, 7);
  play_round(SECOND);
  assert_none(HOST "port_packets", "all", "eth0");
  assert_refused();
  end_producer(0);
  play_round(SECOND);
  add(create_usual(0, NULL), "eth0", 0, PACKETS, 1);
  play_round(SECOND);
  assert_count(HOST "port_packets", "all", "eth0", 101);
}

TEST(a_name_is_free_once_the_counts_of_its_user_are_forgotten) {
  if (!may_change_user())
    skip();
  add(create_usual(0, "east"), "eth0", 0, PACKETS, 100);
  begin_watch("");
  end_producer(0);
  play_round(SECOND);
  play_round(REGION_FORGET_NS);
  play_round(SECOND);
  add(create_as_nobody(0, "east"), "eth0", 0, PACKETS, 7);
  play_round(SECOND);
  assert_count(HOST "port_packets", "all", "eth0", 7);
}

TEST(regions_of_users_that_are_named_are_added_up) {
  if (!may_change_user())
    skip();
  add(create_usual(0, "east"), "eth0", 0, PACKETS, 100);
  begin_watch("<Region \"unit\">\nAllowUser \"root\" \"65534\"\n</Region>\n");
  add(create_as_nobody(1, NULL), "eth0", 0, PACKETS, 7);
  play_round(SECOND);
  assert_count(HOST "port_packets", "all", "eth0", 107);
}

/* ---------------------------------------------------------------------------
 * Memory
 */

TEST(the_memory_of_every_region_that_is_read_is_counted) {
  begin_watch("<Region \"*\">\n</Region>\n");
  assert_true(gauge("percore_host", "self", "regions_memory") == 0);
  create_usual(0, "east");
  play_round(SECOND);
  double one = gauge("percore_host", "self", "regions_memory");
  assert_true(one > 0);
  create_usual(1, "west");
  play_round(SECOND);
  assert_true(gauge("percore_host", "self", "regions_memory") > one);
}

/* ---------------------------------------------------------------------------
 * Failures
 */

TEST(only_a_group_that_may_write_to_the_directory_is_proposed) {
  char path[] = "/tmp/percore-unit-XXXXXX", text[REGION_REMEDY_SIZE];
  assert_non_null(mkdtemp(path));
  if (chown(path, (uid_t)-1, 4711) != 0) {
    print_message("skipped: chown: %s\n", strerror(errno));
    rmdir(path);
    skip();
  }
  for (unsigned mode = 0750; mode <= 0770; mode += 020) {
    assert_int_equal(chmod(path, mode), 0);
    region_health_group_remedy(path, text);
    assert_int_equal(strstr(text, "4711") != NULL, mode == 0770);
  }
  assert_int_equal(rmdir(path), 0);
  assert_string_equal(region_health_group_remedy(path, text), "");
}

/* Each slot takes 64 bytes. */
TEST(a_region_that_is_too_large_for_max_memory_is_refused_once) {
  struct percore_options many = {.cores = 4096, .extra_slots = 12288};
  assert_return_code(
      create_region(&served[0], "unit", unit_tables, TABLES, &many), errno);
  host_memory_max = 1 << 20;
  start_watch("");
  for (int i = 0; i < 3; i++)
    play_round(SECOND);
  assert_int_equal(snapshot->regions, 0);
  assert_int_equal(fake_count_logged(LOG_WARNING), 1);
  assert_non_null(fake_logged(LOG_WARNING, "unit is not read"));
  assert_non_null(fake_logged(LOG_WARNING, "are allowed; raise MaxMemory"));
}

TEST(files_that_are_no_regions_are_said_once_and_take_no_part) {
  char path[108];
  for (int i = 0; i < 60; i++) {
    file_path(path, sizeof(path), i);
    write_file(path);
  }
  create_usual(0, NULL);
  begin_watch("");
  for (int i = 0; i < 3; i++)
    play_round(SECOND);
  assert_int_equal(snapshot->regions, 1);
  assert_int_equal(fake_count_logged(LOG_WARNING), 1); /* of region many */
}

TEST(files_with_other_names_are_no_regions) {
  static const char *const names[] = {"unit", "unit.sock", "unit.0123456789",
                                      ".unit.0123456789abcdef"};
  char path[PATH_MAX];
  for (size_t i = 0; i < COUNT_OF(names); i++) {
    snprintf(path, sizeof(path), "%s/%s", getenv("PERCORE_RUNTIME_DIR"),
             names[i]);
    write_file(path);
  }
  begin_watch("");
  assert_int_equal(fake_count_logged(LOG_WARNING), 0);
  assert_int_equal(fake.values_len, 0);
}

static int readdirs_until_failure = -1, fstatats_until_failure = -1;

struct dirent *__real_readdir(DIR *directory);
struct dirent *__wrap_readdir(DIR *directory);
struct dirent *__wrap_readdir(DIR *directory) {
  struct stat its, ours;
  bool is_ours = fstat(dirfd(directory), &its) == 0 &&
                 stat(getenv("PERCORE_RUNTIME_DIR"), &ours) == 0 &&
                 its.st_ino == ours.st_ino;
  bool fails =
      is_ours && readdirs_until_failure >= 0 && readdirs_until_failure-- == 0;
  struct dirent *file = fails ? NULL : __real_readdir(directory);
  if (fails)
    errno = ENOMEM;
  return file;
}

/* Files whose names begin so are on another device, and have the inode of the
 * one before. */
static const char *mounted;
static ino_t seen_inode;

int __real_fstatat(int fd, const char *path, struct stat *status, int flags);
int __wrap_fstatat(int fd, const char *path, struct stat *status, int flags);
int __wrap_fstatat(int fd, const char *path, struct stat *status, int flags) {
  bool fails = fstatats_until_failure >= 0 && fstatats_until_failure-- == 0;
  int error = fails ? -1 : __real_fstatat(fd, path, status, flags);
  if (error == 0 && mounted != NULL &&
      strncmp(path, mounted, strlen(mounted)) == 0) {
    status->st_dev++;
    status->st_ino = seen_inode;
  } else if (error == 0)
    seen_inode = status->st_ino;
  if (fails)
    errno = ENOMEM;
  return error;
}

static void check_repeated(int *calls_until_failure) {
  create_usual(0, NULL);
  start_watch("");
  *calls_until_failure = 0;
  play_round(SECOND);
  assert_int_equal(snapshot->regions, 0);
  play_round(SECOND);
  assert_int_equal(snapshot->regions, 1);
}

TEST(a_listing_that_fails_is_repeated_in_the_next_round) {
  check_repeated(&readdirs_until_failure);
}

TEST(a_listing_is_repeated_if_the_kind_of_a_file_was_not_found_out) {
  check_repeated(&fstatats_until_failure);
}

TEST(a_region_is_not_gone_because_a_listing_fails) {
  struct percore_region *region = create_usual(0, NULL);
  begin_watch("");
  for (int i = 0; i < 2; i++) {
    readdirs_until_failure = i == 0 ? 0 : -1;
    fstatats_until_failure = i == 1 ? 0 : -1;
    add(region, "eth0", 1, PACKETS, 7);
    play_round(61 * SECOND); /* lists the directory */
    assert_int_equal(readdirs_until_failure + fstatats_until_failure, -2);
    assert_int_equal(snapshot->regions, 1);
    assert_null(fake_logged(LOG_NOTICE, "gone"));
  }
  assert_count(HOST "port_packets", "all", "eth0", 14);
}

/* Returns the path of the only file in the directory. */
static void find_file(char path[PATH_MAX]) {
  const char *directory = getenv("PERCORE_RUNTIME_DIR");
  DIR *dir = opendir(directory);
  assert_non_null(dir);
  path[0] = '\0';
  for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
    if (entry->d_name[0] != '.')
      snprintf(path, PATH_MAX, "%s/%s", directory, entry->d_name);
  closedir(dir);
  assert_true(path[0] != '\0');
}

TEST(a_file_that_is_renamed_counts_once) {
  char path[PATH_MAX], to[PATH_MAX];
  add(create_usual(0, NULL), "eth0", 0, PACKETS, 5);
  begin_watch("");
  find_file(path);
  snprintf(to, sizeof(to), "%s/unit.00000000000000aa",
           getenv("PERCORE_RUNTIME_DIR"));
  assert_return_code(rename(path, to), errno);
  for (int i = 0; i < 3; i++)
    play_round(61 * SECOND);
  add(create_usual(1, NULL), "eth0", 0, PACKETS, 1);
  play_round(SECOND);
  assert_count(HOST "port_packets", "all", "eth0", 6);
}

TEST(a_file_with_the_inode_of_one_on_another_device_is_another) {
  add(create_usual(0, "old"), "eth0", 0, PACKETS, 5);
  begin_watch("");
  mounted = "unit@new.";
  add(create_usual(1, "new"), "eth0", 0, PACKETS, 7);
  play_round(SECOND);
  mounted = NULL;
  assert_count(HOST "port_packets", "all", "eth0", 12);
}

TEST(a_file_of_two_names_is_not_read) {
  char path[PATH_MAX], to[PATH_MAX];
  add(create_usual(0, NULL), "eth0", 0, PACKETS, 5);
  find_file(path);
  snprintf(to, sizeof(to), "%s/unit.00000000000000aa",
           getenv("PERCORE_RUNTIME_DIR"));
  assert_return_code(link(path, to), errno);
  begin_watch("");
  play_round(SECOND);
  assert_int_equal(snapshot->regions, 0);
  assert_non_null(fake_logged(LOG_WARNING, "region unit is not read"));
}

TEST(producers_of_a_name_beside_each_other_are_added_up) {
  struct percore_region *old = create_usual(0, NULL);
  add(old, "eth0", 0, PACKETS, 100);
  begin_watch("");
  add(create_usual(1, NULL), "eth0", 0, PACKETS, 7);
  add(old, "eth0", 0, PACKETS, 1);
  play_round(SECOND);
  assert_count(HOST "port_packets", "all", "eth0", 108);
  assert_int_equal(snapshot->regions, 1);
  end_producer(0);
  play_round(SECOND);
  assert_int_equal(snapshot->events_len, 0); /* it goes on */
  add(served[1], "eth0", 0, PACKETS, 2);
  play_round(SECOND);
  assert_count(HOST "port_packets", "all", "eth0", 110);
}

TEST(of_producers_of_a_name_the_newest_that_lives_tells_a_state) {
  struct percore_region *old = create_usual(0, NULL);
  add_slow(old, "gate", 1, 1);
  add_slow(old, "door", 1, 1);
  begin_watch("");
  add_slow(create_usual(1, NULL), "gate", 0, 4);
  for (int round = 0; round < 3; round++) {
    play_round(SECOND);
    assert_true(gauge(HOST "slow_link", "all", "gate") == 0);
    assert_true(gauge(HOST "slow_link", "all", "door") == 1);
  }
  end_producer(1);
  play_round(SECOND);
  play_round(SECOND);
  assert_true(gauge(HOST "slow_link", "all", "gate") == 1);
  add_slow(create_usual(1, "west"), "gate", 1, 1);
  play_round(SECOND);
  assert_none(HOST "slow_link", "all", "gate");
}

TEST(the_counts_of_a_producer_that_ended_before_it_was_seen_are_reported) {
  begin_watch("<Region \"unit\">\n</Region>\n");
  for (int i = 0; i < 5; i++) {
    add(create_usual(0, NULL), "eth0", 0, PACKETS, 7);
    end_producer(0);
  }
  play_round(SECOND);
  assert_count(HOST "port_packets", "all", "eth0", 35);
  play_round(61 * SECOND); /* lists the directory, with their files */
  add(create_usual(0, NULL), "eth0", 0, PACKETS, 1);
  play_round(SECOND);
  assert_count(HOST "port_packets", "all", "eth0", 36);
}

TEST(another_schema_waits_for_an_older_producer_of_the_name_and_loses_nothing) {
  struct percore_region *old = create_usual(0, NULL);
  add(old, "eth0", 0, PACKETS, 100);
  begin_watch("");
  struct percore_region *new = create(1, NULL, swapped_tables, 2);
  add(new, "eth0", 0, 1, 50); /* packets */
  for (int i = 0; i < 4; i++)
    play_round(SECOND);
  assert_count(HOST "port_packets", "all", "eth0", 100);
  end_producer(0);
  for (int i = 0; i < 3; i++)
    play_round(SECOND);
  assert_count(HOST "port_packets", "all", "eth0", 150);
  assert_int_equal(fake_count_logged(LOG_WARNING), 0);
}

static bool lacks_watches;

int __real_inotify_add_watch(int fd, const char *path, uint32_t mask);
int __wrap_inotify_add_watch(int fd, const char *path, uint32_t mask);
int __wrap_inotify_add_watch(int fd, const char *path, uint32_t mask) {
  errno = ENOSPC;
  return lacks_watches ? -1 : __real_inotify_add_watch(fd, path, mask);
}

TEST(without_notices_a_region_is_found_within_a_round) {
  lacks_watches = true;
  begin_watch("");
  create_usual(0, NULL);
  play_round(SECOND);
  lacks_watches = false;
  assert_int_equal(snapshot->regions, 1);
}

static char *runtime_dir; /* of the other tests */

/* Lets regions be in another directory, which does not exist yet. */
static const char *use_other_directory(void) {
  static char path[PATH_MAX];
  snprintf(path, sizeof(path), "%s/later", getenv("PERCORE_RUNTIME_DIR"));
  runtime_dir = strdup(getenv("PERCORE_RUNTIME_DIR"));
  setenv("PERCORE_RUNTIME_DIR", path, true);
  return path;
}

static void leave_other_directory(void) {
  char path[PATH_MAX];
  end_producer(0);
  play_round(SECOND);
  find_file(path);
  unlink(path);
  rmdir(getenv("PERCORE_RUNTIME_DIR"));
  setenv("PERCORE_RUNTIME_DIR", runtime_dir, true);
  free(runtime_dir);
}

TEST(a_directory_that_comes_later_is_found_within_a_round) {
  const char *path = use_other_directory();
  begin_watch("<Region \"unit\">\n</Region>\n");
  assert_return_code(mkdir(path, 0700), errno);
  create_usual(0, NULL);
  play_round(SECOND);
  assert_int_equal(snapshot->regions, 1);
  leave_other_directory();
}

/* As by a producer that still has a file of it mapped. */
TEST(a_directory_that_is_replaced_while_it_is_in_use_is_found_within_a_round) {
  const char *path = use_other_directory();
  assert_return_code(mkdir(path, 0700), errno);
  begin_watch("");
  int used = open(path, O_PATH | O_CLOEXEC);
  assert_return_code(rmdir(path), errno);
  assert_return_code(mkdir(path, 0700), errno);
  create_usual(0, NULL);
  play_round(SECOND);
  close(used);
  assert_int_equal(snapshot->regions, 1);
  leave_other_directory();
}

static void start_in(const char *folder, const char *lines) {
  char path[PATH_MAX];
  snprintf(path, sizeof(path), "%s/%s", getenv("PERCORE_RUNTIME_DIR"), folder);
  setenv("PERCORE_RUNTIME_DIR", path, true);
  start_watch(lines);
}

TEST(why_a_directory_cannot_be_read_is_logged_once) {
  char path[108];
  file_path(path, sizeof(path), 0);
  write_file(path);
  start_in("many@0.0000000000000000/file", "");
  for (int i = 0; i < 3; i++)
    play_round(SECOND);
  assert_int_equal(fake_count_logged(LOG_WARNING), 1);
  assert_non_null(fake_logged(LOG_WARNING, "are not read: Not a directory"));
}

TEST(what_may_not_be_read_is_not_opened_and_takes_no_place) {
  char path[108];
  if (!may_change_user())
    skip();
  for (int i = 0; i < 300; i++) {
    file_path(path, sizeof(path), i);
    write_file(path);
    assert_return_code(chown(path, NOBODY, (gid_t)-1), errno);
  }
  create_usual(0, NULL);
  begin_watch("<Region \"*\">\nAllowUser \"root\"\n</Region>\n");
  for (int i = 0; i < 3; i++)
    play_round(SECOND);
  assert_int_equal(snapshot->regions, 1);
  assert_int_equal(fake_count_logged(LOG_WARNING), 1);
  assert_non_null(fake_logged(LOG_WARNING, "AllowUser names those that are"));
}

TEST(every_known_region_is_read_in_each_round_however_long_it_takes) {
  char instance[] = "a";
  for (unsigned place = 0; place < COUNT_OF(served); place++, instance[0]++)
    add(create_usual(place, instance), "eth0", 0, PACKETS, 1);
  host_now_ns = time_passes;
  start_watch("");
  for (unsigned place = 0; place < COUNT_OF(served); place++)
    play_round(SECOND); /* at least one is found in each */
  for (int round = 2; round < 6; round++) {
    for (unsigned place = 0; place < COUNT_OF(served); place++)
      add(served[place], "eth0", 0, PACKETS, 1);
    play_round(SECOND);
    assert_count(HOST "port_packets", "all", "eth0",
                 round * (int)COUNT_OF(served));
  }
}

/* A round has time for the turn of one region. */
static uint64_t much_time_passes(void *argument) {
  static uint64_t now_ns;
  (void)argument;
  return now_ns += SECOND / 100;
}

TEST(slow_regions_take_turns) {
  char instance[] = "a";
  for (unsigned place = 0; place < COUNT_OF(served); place++, instance[0]++)
    add(create_usual(place, instance), "eth0", 0, PACKETS, 1);
  host_now_ns = much_time_passes;
  host_settles = false;
  start_watch("");
  bool all = false;
  for (int round = 0; round < 100 && !all; round++) {
    play_round(SECOND);
    const struct region_value *value = find(HOST "port_packets", "all", "eth0");
    all = value != NULL && value->derive == COUNT_OF(served);
  }
  assert_true(all);
}

TEST(what_a_slow_region_does_is_told_once_although_it_waits_for_its_turn) {
  char instance[] = "a";
  percore_slot_t goes_on, stays, alone;
  int stuck = 0, stale = 0, ends = 0;
  for (unsigned place = 0; place < COUNT_OF(served); place++, instance[0]++)
    create_usual(place, instance);
  assert_int_equal(attach_thread(served[0], "goes on", 1, &goes_on), 0);
  assert_int_equal(attach_thread(served[0], "stays", 2, &stays), 0);
  assert_int_equal(attach_thread(served[1], "alone", 3, &alone), 0);
  percore_poll(stays, 1, 0);
  percore_poll(alone, 1, 0);
  host_now_ns = much_time_passes;
  host_settles = false;
  start_watch("");
  for (int round = 0; round < 100; round++) {
    percore_poll(goes_on, 1, 0);
    play_round(SECOND);
    stuck += told("unit@a are stuck on cores 2");
    stale += told("unit@b is stale");
    ends += told("no longer");
  }
  assert_int_equal(snapshot->workers_stuck, 2);
  assert_int_equal(snapshot->regions_stale, 1);
  assert_int_equal(stuck, 1);
  assert_int_equal(stale, 1);
  assert_int_equal(ends, 0);
  percore_detach(goes_on);
  percore_detach(stays);
  percore_detach(alone);
}

TEST(a_slow_region_has_a_useful_load_although_it_waits_for_its_turn) {
  char instance[] = "a";
  percore_slot_t slot;
  bool known = false;
  for (unsigned place = 0; place < COUNT_OF(served); place++, instance[0]++)
    create_usual(place, instance);
  assert_int_equal(attach_thread(served[0], "busy", 1, &slot), 0);
  host_now_ns = much_time_passes;
  host_settles = false;
  start_watch("");
  for (int round = 0; round < 40; round++) {
    poll_share(slot, 750);
    play_round(SECOND);
    known |= find("percore", "1", "useful") != NULL;
    if (known && round >= 20) {
      assert_near(gauge("percore", "1", "useful"), 75, 1e-9);
      assert_near(gauge("percore_host", "all", "useful_mean"), 75, 1e-9);
    }
  }
  assert_true(known);
  percore_detach(slot);
}

TEST(a_directory_that_everybody_may_list_or_replace_is_logged_once) {
  static const struct {
    mode_t mode;
    size_t told;
  } cases[] = {{0733, 1}, {01777, 1}, {01773, 0}, {03770, 0}};
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    assert_return_code(chmod(getenv("PERCORE_RUNTIME_DIR"), cases[i].mode),
                       errno);
    begin_watch("");
    play_round(SECOND);
    assert_int_equal(fake_count_logged(LOG_WARNING), cases[i].told);
    tear_down();
    set_up();
  }
}

TEST(no_descriptor_is_kept_for_a_region) {
  char instance[] = "a";
  for (unsigned place = 0; place < COUNT_OF(served); place++, instance[0]++)
    create_usual(place, instance);
  begin_watch("");
  play_round(SECOND);
  assert_int_equal(snapshot->regions, COUNT_OF(served));
  assert_int_equal(count_memories(), 0);
}

static const struct percore_field one_field[] = {{.name = "packets"}};
static const struct percore_table one_table[] = {{.name = "t",
                                                  .storage = PERCORE_SHARED,
                                                  .fields = one_field,
                                                  .field_count = 1}};

TEST(no_more_than_64_names_are_read_at_the_same_time) {
  enum { NAMES = 70 };
  struct percore_region *regions[NAMES];
  char name[16];
  struct percore_options small = {.cores = 1, .instance = name};
  for (int i = 0; i < NAMES; i++) {
    snprintf(name, sizeof(name), "%d", i);
    assert_return_code(create_region(&regions[i], "unit", one_table, 1, &small),
                       errno);
    percore_shared_add(percore_shared_row(regions[i], 0, 0), 0, 1);
  }
  begin_watch("");
  play_round(SECOND);
  assert_int_equal(snapshot->regions, 64);
  assert_count(HOST "t_packets", "all", "all", 64);
  assert_non_null(fake_logged(LOG_WARNING, "at most 64 names are"));
  assert_int_equal(fake_count_logged(LOG_WARNING), 1);
  for (int i = 0; i < NAMES; i++)
    assert_return_code(percore_destroy(regions[i]), errno);
  play_round(SECOND); /* reads the last counts of the others, too */
  assert_count(HOST "t_packets", "all", "all", NAMES);
  assert_int_equal(fake_count_logged(LOG_WARNING), 1);
}

TEST(no_more_than_1024_files_of_a_user_are_read_at_the_same_time) {
  static char content[1 << 20];
  char path[PATH_MAX];
  struct percore_options small = {.cores = 1};
  assert_return_code(create_region(&served[0], "unit", one_table, 1, &small),
                     errno);
  find_file(path);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t size = read(fd, content, sizeof(content));
  close(fd);
  assert_in_range(size, 1, sizeof(content) - 1);
  for (unsigned i = 0; i < 1030; i++) {
    snprintf(path, sizeof(path), "%s/unit.%016x", getenv("PERCORE_RUNTIME_DIR"),
             i);
    fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, content, (size_t)size), size);
    close(fd);
  }
  begin_watch("");
  assert_non_null(fake_logged(LOG_WARNING, "1024 of a user"));
  for (int i = 0; i < 2; i++) /* those that were read make room */
    play_round(SECOND);
  assert_int_equal(snapshot->regions, 1);
}

static struct percore_region *count_in(const char *name) {
  struct percore_region *region;
  struct percore_options small = {.cores = 1};
  assert_return_code(create_region(&region, name, one_table, 1, &small), errno);
  percore_shared_add(percore_shared_row(region, 0, 0), 0, 1);
  return region;
}

TEST(each_file_counts_once_although_listing_them_takes_several_rounds) {
  enum { FILES = 50 };
  static const char *const names[] = {"unita", "unitb", "unitc", "unitd"};
  struct percore_region *last[COUNT_OF(names)];
  char plugin[64];
  for (unsigned i = 0; i < COUNT_OF(names) * FILES; i++)
    assert_return_code(percore_destroy(count_in(names[i % COUNT_OF(names)])),
                       errno);
  host_now_ns = time_passes;
  begin_watch("");
  for (unsigned round = 0; round < COUNT_OF(names) * (FILES + 10); round++)
    play_round(SECOND); /* at least one is read in each */
  for (unsigned n = 0; n < COUNT_OF(names); n++)
    last[n] = count_in(names[n]);
  for (int round = 0; round < 10; round++)
    play_round(SECOND);
  for (unsigned n = 0; n < COUNT_OF(names); n++) {
    snprintf(plugin, sizeof(plugin), "percore_host_%s_t_packets", names[n]);
    assert_count(plugin, "all", "all", FILES + 1);
    assert_return_code(percore_destroy(last[n]), errno);
  }
}

/* Each producer is an instance with a new name, and ends after one round. */
TEST(an_instance_that_ended_gives_its_place_to_the_next) {
  char name[16];
  start_watch("");
  for (int i = 0; i < 300; i++) {
    snprintf(name, sizeof(name), "%d", i);
    add(create_usual(0, name), "a", 0, PACKETS, 1);
    play_round(SECOND / 10);
    assert_int_equal(snapshot->regions, 1);
    assert_count(HOST "port_packets", "all", "a", i + 1);
    end_producer(0);
  }
  assert_null(fake_logged(LOG_WARNING, "names are"));
}

/* Two names come in each round, and those of the round before end. With
 * `crash`, their regions are not closed, and their process, which is the
 * test's, lives. */
static void count_under_600_names(bool crash) {
  char name[16];
  start_watch("");
  for (unsigned i = 0; i < 600; i++) {
    unsigned place = i % COUNT_OF(served), before = (i + 2) % COUNT_OF(served);
    snprintf(name, sizeof(name), "%u", i);
    end_producer(place);
    add(create_usual(place, name), "a", 0, PACKETS, 1);
    if (served[before] != NULL && crash)
      abandon_producer(before);
    else
      end_producer(before);
    if (i % 2 == 1)
      play_round(SECOND / 10);
  }
  assert_count(HOST "port_packets", "all", "a", 600);
}

TEST(a_name_that_is_forgotten_takes_no_first_counts_of_others) {
  count_under_600_names(false);
}

TEST(the_name_of_a_producer_that_lives_takes_no_first_counts_of_later_ones) {
  count_under_600_names(true);
}

TEST(names_are_forgotten_after_10_minutes_and_nothing_counts_twice) {
  struct percore_region *region = create_usual(0, NULL);
  add(region, "a", 0, PACKETS, 10);
  begin_watch("<Region \"unit\">\n<Table \"port\">\nTop 1 \"packets\"\n"
              "</Table>\n</Region>\n");
  assert_count(HOST "port_packets", "all", "a", 0);
  assert_count(HOST "port_packets", "all", "other", 10);
  add(region, "a", 0, PACKETS, 5);
  add(region, "b", 0, PACKETS, 1);
  play_round(SECOND);
  assert_count(HOST "port_packets", "all", "other", 11);
  percore_row_remove(region, PORT, row_of(region, PORT, "a"),
                     PERCORE_NO_UPDATE_IN_FLIGHT);
  for (int minutes = 0; minutes < 50; minutes += 5)
    play_round(300 * SECOND);
  add(region, "a", 0, PACKETS, 2);
  add(region, "b", 0, PACKETS, 4);
  play_round(SECOND);
  assert_count(HOST "port_packets", "all", "b", 4);
  assert_count(HOST "port_packets", "all", "other", 13);
}

const struct unit_fixtures unit_fixtures = {.before_each = set_up,
                                            .after_each = tear_down};
