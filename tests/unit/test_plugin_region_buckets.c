/* Tests the option Buckets, which reports how many values of a histogram are at
 * most each of some bounds. */
#include "region_host.h"

#include "region/writer.h"

#define OF_TABLE(name, lines)                                                  \
  "<Region \"unit\">\n<Table \"" name "\">\n" lines "</Table>\n</Region>\n"
#define LATENCY_OF HOST "port_latency"

/* Counts a value in the histogram of `port`. */
static void take(struct percore_region *region, const char *row, int core,
                 uint64_t value) {
  add(region, row, core,
      LATENCY_COLUMN +
          percore_bucket_(2, region_histogram_buckets(2, 10), value),
      1);
}

static int64_t at_most(const char *plugin, const char *bound) {
  const struct region_value *value = find(plugin, "all", bound);
  assert_non_null(value);
  assert_int_equal(value->type, REGION_DERIVE);
  return value->derive;
}

TEST(buckets_count_the_values_up_to_each_bound) {
  struct percore_region *region = create_usual(0, NULL);
  row_of(region, PORT, "eth0");
  begin_watch(OF_TABLE("port", "Buckets \"latency\" 0 3 255 100000\n"));
  take(region, "eth0", 0, 0);
  for (int i = 0; i < 4; i++)
    take(region, "eth0", 1, 3);
  take(region, "eth0", 2, 4);
  take(region, "eth0", 2, 255);
  take(region, "eth0", 2, 256);
  take(region, "eth0", 0, 50000); /* the last bucket has no upper end */
  play_round(SECOND);
  assert_int_equal(at_most(LATENCY_OF, "eth0_le_0"), 1);
  assert_int_equal(at_most(LATENCY_OF, "eth0_le_3"), 5);
  assert_int_equal(at_most(LATENCY_OF, "eth0_le_255"), 7);
  assert_int_equal(at_most(LATENCY_OF, "eth0_le_100000"), 8);
  assert_int_equal(at_most(LATENCY_OF, "eth0_le_inf"), 9);
  assert_true(gauge(LATENCY_OF, "all", "eth0_p50") == 3);
}

TEST(buckets_are_counted_for_each_core_too) {
  struct percore_region *region = create_usual(0, NULL);
  row_of(region, PORT, "eth0");
  begin_watch(OF_TABLE("port", "Buckets \"latency\" 3\n"));
  take(region, "eth0", 1, 2);
  take(region, "eth0", 1, 9);
  play_round(SECOND);
  play_round(SECOND);
  assert_count("percore_unit_port_latency", "1", "eth0_le_3", 1);
  assert_count("percore_unit_port_latency", "1", "eth0_le_inf", 2);
}

TEST(a_bound_is_moved_to_the_nearest_edge_of_a_bucket) {
  struct percore_region *region = create_usual(0, NULL);
  row_of(region, PORT, "eth0");
  /* Edges are 255, 319 and 383. */
  begin_watch(OF_TABLE("port", "Buckets \"latency\" 256 287 288\n"));
  take(region, "eth0", 0, 255);
  take(region, "eth0", 0, 300);
  play_round(SECOND);
  assert_int_equal(at_most(LATENCY_OF, "eth0_le_256"), 1);
  assert_int_equal(at_most(LATENCY_OF, "eth0_le_287"), 1);
  assert_int_equal(at_most(LATENCY_OF, "eth0_le_288"), 2);
}

TEST(without_the_option_a_histogram_has_percentiles_alone) {
  struct percore_region *region = create_usual(0, NULL);
  row_of(region, PORT, "eth0");
  begin_watch("");
  take(region, "eth0", 0, 3);
  play_round(SECOND);
  assert_none(LATENCY_OF, "all", "eth0_le_inf");
}

static const struct percore_field cycles_fields[] = {
    {.name = "work_cycles",
     .unit = "cycles",
     .kind = PERCORE_HISTOGRAM,
     .sub_bits = 4,
     .max_bits = 40},
};
static const struct percore_table cycles_tables[] = {
    {.name = "time", .fields = cycles_fields, .field_count = 1},
};

TEST(bounds_of_a_histogram_in_cycles_are_in_ns) {
  struct percore_region *region = create(0, NULL, cycles_tables, 1);
  begin_watch(OF_TABLE("time", "Buckets \"work_cycles\" 500000 1000000\n"));
  percore_slot_t slot = unit_attach(region, 1);
  percore_row_t row = percore_row(percore_table(slot, 0), 0);
  percore_observe(row, 0, region_tsc_hz() / 1000 * 8 / 10); /* 0.8 ms */
  percore_observe(row, 0, region_tsc_hz() / 1000 * 2);
  play_round(SECOND);
  assert_int_equal(at_most(HOST "time_work_ns", "all_le_500000"), 0);
  assert_int_equal(at_most(HOST "time_work_ns", "all_le_1000000"), 1);
  assert_int_equal(at_most(HOST "time_work_ns", "all_le_inf"), 2);
  assert_int_equal(percore_detach(slot), 0);
}

TEST(buckets_of_a_field_that_is_no_histogram_are_ignored_with_a_warning) {
  create_usual(0, NULL);
  begin_watch(OF_TABLE("port", "Buckets \"packets\" 3\n"));
  assert_non_null(fake_logged(LOG_WARNING, "Buckets \"packets\" is ignored: "
                                           "table port of region unit has no "
                                           "such histogram."));
}

TEST(buckets_that_exceed_what_collectd_can_report_have_no_values) {
  struct percore_region *region = create_usual(0, NULL);
  row_of(region, PORT, "eth0");
  begin_watch(OF_TABLE("port", "Buckets \"latency\" 1\n"));
  for (int value = 0; value < 4; value++)
    add(region, "eth0", 0, LATENCY_COLUMN + (unsigned)value, INT64_MAX);
  play_round(SECOND);
  play_round(SECOND);
  assert_none(LATENCY_OF, "all", "eth0_le_1");
  assert_none(LATENCY_OF, "all", "eth0_le_inf");
  assert_non_null(fake_logged(LOG_WARNING, "a count exceeds 2^63 - 1"));
}

TEST(bounds_are_never_cut_off_a_long_name) {
  static const struct percore_field fields[] = {
      {.name = "latency", .kind = PERCORE_HISTOGRAM, .max_bits = 8}};
  static const struct percore_table tables[] = {{.name = "flow",
                                                 .storage = PERCORE_SHARED,
                                                 .fields = fields,
                                                 .field_count = 1,
                                                 .max_rows = 2,
                                                 .row_name_size = 120}};
  char name[120], shown[DATA_MAX_NAME_LEN];
  struct percore_region *region = create(0, NULL, tables, 1);
  memset(name, 'a', sizeof(name) - 1);
  name[sizeof(name) - 1] = '\0';
  row_of(region, 0, name);
  begin_watch(OF_TABLE("flow", "Buckets \"latency\" 1 9007199254740992\n"));
  snprintf(shown, sizeof(shown), "%.107s_le_9007199254740992", name);
  assert_int_equal(at_most(HOST "flow_latency", shown), 0);
}

const struct unit_fixtures unit_fixtures = {.before_each = set_up,
                                            .after_each = tear_down};
