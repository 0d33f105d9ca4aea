/* Tests what happens to the counts of a table whose next producer describes it
 * differently: no series decreases, and nothing is reported twice. */
#include "region_host.h"

#define SUM "percore_host_unit_flow_packets"

static const struct percore_field packets[] = {{.name = "packets"}};
static const struct percore_table one_row[] = {{.name = "flow",
                                                .storage = PERCORE_OWNED,
                                                .fields = packets,
                                                .field_count = 1}};
static const struct percore_table several_rows[] = {{.name = "flow",
                                                     .storage = PERCORE_OWNED,
                                                     .fields = packets,
                                                     .field_count = 1,
                                                     .max_rows = 8,
                                                     .row_name_size = 24}};

/* Replaces the producer by one with this table, which counts n under a name.
 * The name of a single row is NULL. */
static void restart_with(const struct percore_table *table, const char *name,
                         uint64_t n) {
  if (served[0] != NULL)
    end_producer(0);
  play_round(SECOND); /* the last counts */
  struct percore_region *region = create(0, NULL, table, 1);
  uint32_t row = name != NULL ? row_of(region, 0, name) : 0;
  percore_add(percore_row(unit_owned_table(region, 0), row), 0, n);
  play_round(SECOND);
}

TEST(a_single_row_continues_after_the_table_had_several_rows) {
  start_watch("");
  restart_with(one_row, NULL, 1000);
  assert_count(SUM, "all", "all", 1000);
  restart_with(several_rows, "a", 7);
  assert_count(SUM, "all", "a", 7);
  restart_with(one_row, NULL, 10);
  assert_count(SUM, "all", "all", 1010);
}

TEST(a_table_that_gets_a_single_row_repeats_no_count_of_its_rows) {
  start_watch("");
  restart_with(several_rows, "a", 5000);
  restart_with(several_rows, "b", 7000);
  restart_with(one_row, NULL, 10);
  assert_int_equal(find(SUM, "all", "all")->first, 0);
  assert_count(SUM, "all", "all", 10);
}

TEST(rows_continue_after_the_table_had_a_single_row) {
  start_watch("");
  restart_with(several_rows, "a", 5);
  restart_with(one_row, NULL, 1000);
  restart_with(several_rows, "a", 2);
  assert_count(SUM, "all", "a", 7);
  restart_with(several_rows, "all", 1);
  assert_count(SUM, "all", "all", 1001);
}

/* ---------------------------------------------------------------------------
 * Units
 */

static void restart_with_unit(const char *unit, uint64_t n) {
  struct percore_field spent = {.name = "packets", .unit = unit};
  struct percore_table table = one_row[0];
  table.fields = &spent;
  restart_with(&table, NULL, n);
}

TEST(a_field_whose_unit_changes_between_cycles_and_ns_begins_again_at_0) {
  static const char *const units[] = {"ns", "cycles", "ns"};
  start_watch("");
  restart_with_unit("cycles", 1000 * SECOND);
  assert_true(find(SUM, "all", "all")->derive > 10 * (int64_t)SECOND);
  for (size_t i = 0; i < COUNT_OF(units); i++) {
    uint64_t last_point_ns = snapshot->time_ns + SECOND;
    restart_with_unit(units[i], 1000 * SECOND);
    const struct region_value *value = find(SUM, "all", "all");
    assert_int_equal(value->first, 0);
    assert_true(value->first_ns > last_point_ns);
    assert_in_range(value->derive, 10 * SECOND, 1000000 * SECOND);
    if (strcmp(units[i], "ns") == 0)
      assert_int_equal(value->derive, 1000 * SECOND);
  }
}

TEST(another_unit_than_cycles_and_ns_changes_nothing) {
  start_watch("");
  restart_with_unit("packets", 5);
  restart_with_unit("frames", 2);
  assert_count(SUM, "all", "all", 7);
}

const struct unit_fixtures unit_fixtures = {.before_each = set_up,
                                            .after_each = tear_down};
