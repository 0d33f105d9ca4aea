/* Tests which rows of a region are tracked, named and shown, and that their
 * counts are neither lost nor duplicated. */
#include "calls.h"
#include "region_host.h"

#include "faults.h"
#include "region/writer.h"

#define ROWS 60000
/* Configuration blocks for the region and for its table. */
#define REGION(lines) "<Region \"unit\">\n" lines "</Region>\n"
#define TABLE(lines) "<Table \"flow\">\n" lines "</Table>\n"
#define TOP_1 REGION(TABLE("Top 1 \"packets\"\n"))
#define TOP REGION(TABLE("Top 2 \"packets\"\n"))
#define SUM "percore_host_unit_flow_packets"

static const struct percore_field flow_fields[] = {
    {.name = "packets", .unit = "packets"},
    {.name = "bytes", .unit = "bytes"},
    {.name = "open", .unit = "1", .kind = PERCORE_UPDOWN},
};
#define TABLE_OF(list, how, rows)                                              \
  {                                                                            \
    .name = "flow", .storage = how, .fields = list,                            \
    .field_count = COUNT_OF(list), .max_rows = rows, .row_name_size = 24,      \
  }
#define FLOW_TABLE(how, rows) TABLE_OF(flow_fields, how, rows)
static const struct percore_table flow_tables[] = {
    FLOW_TABLE(PERCORE_OWNED, ROWS)};
static const struct percore_table few_tables[] = {FLOW_TABLE(PERCORE_OWNED, 3)};
static const struct percore_table core_tables[] = {
    FLOW_TABLE(PERCORE_PER_CORE, 100)};
static const struct percore_table many_core_tables[] = {
    FLOW_TABLE(PERCORE_PER_CORE, ROWS)};

static struct percore_region *create_flows(unsigned place,
                                           const char *instance) {
  return create(place, instance, flow_tables, 1);
}

static void count(struct percore_region *region, const char *name, uint64_t n) {
  uint32_t row = row_of(region, 0, name);
  percore_table_t flow = unit_owned_table(region, 0);
  percore_add(percore_row(flow, row), 0, n);
}

static void count_on(struct percore_region *region, const char *name, int core,
                     uint64_t n) {
  percore_slot_t slot = unit_attach(region, core);
  uint32_t row = row_of(region, 0, name);
  uint32_t flow = 0;
  percore_add(percore_row(percore_table(slot, flow), row), 0, n);
  assert_int_equal(percore_detach(slot), 0);
}

static void open_more(struct percore_region *region, const char *name,
                      int64_t n) {
  uint32_t row = row_of(region, 0, name);
  percore_table_t flow = unit_owned_table(region, 0);
  percore_add(percore_row(flow, row), 2, n);
}

static void remove_row(struct percore_region *region, const char *name) {
  assert_int_equal(percore_row_remove(region, 0, row_of(region, 0, name),
                                      PERCORE_NO_UPDATE_IN_FLIGHT),
                   0);
}

static int64_t own(const char *name) {
  const struct region_value *value = find("percore_host", "self", name);
  assert_non_null(value);
  return value->type == REGION_DERIVE ? value->derive : (int64_t)value->gauge;
}

/* Starts the watch as if everything had been created long before. */
static void start_long_after(const char *lines) {
  began_ns = boottime_ns();
  start_watch(lines);
}

/* Starts the watch as if everything had been created long before, and plays the
 * first round. */
static void begin_long_after(const char *lines) {
  start_long_after(lines);
  play_round(SECOND);
}

/* ---------------------------------------------------------------------------
 * Top
 */

TEST(a_row_that_is_shown_again_continues_its_counts) {
  struct percore_region *region = create_flows(0, NULL);
  for (int i = 0; i < 5; i++)
    row_of(region, 0, (const char *[]){"a", "b", "c", "d", "e"}[i]);
  begin_long_after(TOP);
  count(region, "a", 50);
  count(region, "b", 40);
  count(region, "c", 1);
  play_round(SECOND);
  assert_count(SUM, "all", "a", 50);
  assert_count(SUM, "all", "b", 40);
  assert_count(SUM, "all", "other", 1);
  count(region, "a", 2);
  count(region, "c", 30);
  count(region, "d", 30);
  play_round(SECOND);
  assert_count(SUM, "all", "a", 52); /* for the last time */
  assert_count(SUM, "all", "c", 0);
  assert_count(SUM, "all", "d", 0);
  assert_count(SUM, "all", "other", 61);
  for (int i = 0; i < 2; i++) {
    count(region, "a", 7);
    play_round(SECOND);
  }
  assert_count(SUM, "all", "a", 52);
  assert_count(SUM, "all", "other", 75);
  count(region, "a", 3);
  play_round(SECOND);
  assert_count(SUM, "all", "a", 55);
  assert_count(SUM, "all", "other", 75);
}

/* The counts of all rows are similar, and in each round a different row has the
 * highest count. Even so, the same rows must be shown in every round. */
TEST(rows_with_equal_counts_do_not_take_turns) {
  static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
  struct percore_region *region = create_flows(0, NULL);
  for (size_t n = 0; n < COUNT_OF(names); n++)
    row_of(region, 0, names[n]);
  begin_long_after(TOP);
  assert_non_null(find(SUM, "all", "a"));
  assert_non_null(find(SUM, "all", "b"));
  for (unsigned round = 0; round < 40; round++) {
    for (size_t n = 0; n < COUNT_OF(names); n++)
      count(region, names[n], 100 + (round * 3 + n * 5) % 8 * 30);
    play_round(SECOND);
    assert_non_null(find(SUM, "all", "a"));
    assert_non_null(find(SUM, "all", "b"));
  }
}

TEST(weights_that_overflow_rank_first) {
  struct percore_region *one = create_flows(0, "one");
  struct percore_region *two = create_flows(1, "two");
  open_more(one, "small", 5);
  open_more(one, "great", INT64_MAX);
  open_more(two, "great", INT64_MAX);
  start_watch(REGION(TABLE("Top 1 \"open\"\n")));
  for (int round = 0; round < 3; round++) {
    play_round(SECOND);
    assert_non_null(find(SUM, "all", "great"));
    assert_none(SUM, "all", "small");
  }
}

TEST(a_row_that_leads_once_does_not_replace_another) {
  struct percore_region *region = create_flows(0, NULL);
  static const char *const leaders[] = {"b", "c", "d"};
  row_of(region, 0, "a");
  begin_long_after(TOP_1);
  for (int round = 0; round < 6; round++) {
    count(region, "a", 1);
    count(region, leaders[round % 3], 1000);
    play_round(SECOND);
    assert_count(SUM, "all", "a", round + 1);
    assert_count(SUM, "all", "other", 1000 * (round + 1));
  }
}

TEST(a_row_that_leads_every_other_round_replaces_another) {
  struct percore_region *region = create_flows(0, NULL);
  row_of(region, 0, "a");
  begin_long_after(TOP_1);
  for (int round = 0; round < 3; round++) {
    count(region, "a", 1);
    count(region, round == 1 ? "c" : "b", 1000);
    play_round(SECOND);
  }
  assert_count(SUM, "all", "b", 0);
}

/* 20 places: the 200 names that were shown last are remembered. */
TEST(a_name_among_the_last_ten_times_top_continues_its_counts) {
  enum { PLACES = 20, GENERATIONS = 10 };
  struct percore_region *region = create_flows(0, NULL);
  char name[16];
  start_watch(REGION("MaxNewRows 1000\n" TABLE("Top 20 \"packets\"\n")));
  for (int generation = 0; generation <= GENERATIONS; generation++)
    for (int round = 0; round < 2; round++) {
      for (int i = 0; i < PLACES; i++) {
        snprintf(name, sizeof(name), "g%d-%d", generation % GENERATIONS, i);
        count(region, name, 5);
      }
      play_round(SECOND);
      for (int i = 0; i < PLACES && round == 1; i++) {
        snprintf(name, sizeof(name), "g%d-%d", generation % GENERATIONS, i);
        assert_count(SUM, "all", name, generation == GENERATIONS ? 10 : 5);
        remove_row(region, name);
      }
    }
}

TEST(a_row_called_other_takes_no_place_under_top) {
  struct percore_region *region = create_flows(0, NULL);
  row_of(region, 0, "a");
  row_of(region, 0, "b");
  start_long_after(TOP);
  play_round(SECOND);
  for (int round = 0; round < 12; round++) {
    count(region, "a", 2);
    count(region, "b", 3);
    count(region, "other", 100);
    play_round(SECOND);
    if (round < 6)
      continue; /* the clash is unknown until the row "other" wins a place */
    assert_non_null(find(SUM, "all", "a"));
    assert_non_null(find(SUM, "all", "b"));
  }
}

TEST(a_row_called_other_is_not_left_out) {
  struct percore_region *region = create_flows(0, NULL);
  count(region, "a", 1);
  count(region, "other", 100);
  begin_watch("");
  play_round(SECOND);
  assert_count(SUM, "all", "a", 1);
  assert_count(SUM, "all", "other", 100);
  assert_int_equal(own("rows_left_out"), 0);
  assert_int_equal(fake_count_logged(LOG_WARNING), 0);
}

TEST(a_reset_of_a_row_in_other_changes_nothing) {
  struct percore_region *region = create_flows(0, NULL);
  for (int i = 0; i < 3; i++)
    count(region, (const char *[]){"a", "b", "c"}[i], 500);
  begin_long_after(TOP);
  for (int round = 1; round <= 3; round++) {
    count(region, "a", 100);
    count(region, "b", 100);
    count(region, "c", 4);
    assert_int_equal(percore_reset(region, 0, PERCORE_ALL_ROWS), 0);
    count(region, "c", 6);
    play_round(SECOND);
    assert_count(SUM, "all", "other", 10 * round);
  }
  assert_null(fake_logged(LOG_WARNING, "decreased"));
}

/* Creates a table that has the rows a, b and c, and in which more rows do not
 * fit. Row c is shown. */
static struct percore_region *begin_full_table(const char *row_options) {
  char lines[256];
  struct percore_region *region = create(0, NULL, few_tables, 1);
  row_of(region, 0, "c");
  count(region, "a", 1);
  count(region, "b", 1);
  snprintf(lines, sizeof(lines), REGION(TABLE("%sTop 1 \"packets\"\n")),
           row_options);
  begin_long_after(lines);
  assert_count(SUM, "all", "c", 0);
  return region;
}

TEST(a_row_used_again_takes_nothing_from_other_and_adds_nothing) {
  struct percore_region *region = begin_full_table("");
  count(region, "a", 100);
  count(region, "c", 205);
  play_round(SECOND);
  assert_count(SUM, "all", "c", 205);
  assert_count(SUM, "all", "other", 100);
  count(region, "a", 100);
  count(region, "c", 103); /* before c is read, its row is reused */
  remove_row(region, "c");
  count(region, "new", 4);
  play_round(SECOND); /* adds the last counts of c to the shown row c */
  assert_count(SUM, "all", "c", 308);
  assert_count(SUM, "all", "other", 204);
  count(region, "new", 500);
  play_round(SECOND); /* row c has lost its place to row a */
  assert_none(SUM, "all", "c");
  assert_count(SUM, "all", "a", 0);
  assert_count(SUM, "all", "other", 704);
  assert_null(fake_logged(LOG_WARNING, "decreased"));
}

TEST(a_row_used_again_under_its_name_ranks_by_what_it_counts_in_a_round) {
  struct percore_region *region = begin_full_table("");
  count(region, "c", 1000);
  play_round(SECOND);
  assert_count(SUM, "all", "c", 1000);
  remove_row(region, "c");
  count(region, "c", 10);
  count(region, "a", 100);
  play_round(SECOND);
  assert_count(SUM, "all", "a", 0);
}

TEST(a_wanted_row_used_again_leaves_its_last_counts_in_its_name) {
  struct percore_region *region =
      begin_full_table("Row \"a\"\nRow \"c\"\nRow \"new\"\n");
  count(region, "a", 100);
  count(region, "b", 1000); /* row b does not match an option Row */
  play_round(SECOND);
  assert_count(SUM, "all", "other", 1100);
  count(region, "a", 100);
  count(region, "c", 103);
  remove_row(region, "c");
  count(region, "new", 4);
  play_round(SECOND);
  assert_count(SUM, "all", "c", 103);
  assert_count(SUM, "all", "other", 1204);
}

TEST(counts_of_unseen_objects_are_in_other) {
  struct percore_region *region = begin_full_table("");
  count(region, "a", 10);
  for (int i = 0; i < 100; i++) { /* uses and removes c, then 99 new rows */
    char name[16];
    snprintf(name, sizeof(name), "x%d", i);
    count(region, i == 0 ? "c" : name, 7);
    remove_row(region, i == 0 ? "c" : name);
  }
  play_round(SECOND);
  assert_count(SUM, "all", "other", 710);
  assert_none(SUM, "all", "c");
}

TEST(without_top_other_has_the_counts_of_unseen_objects) {
  struct percore_region *region = create(0, NULL, few_tables, 1);
  count(region, "a", 1000);
  start_watch("");
  count(region, "b", 1);
  count(region, "c", 1);
  remove_row(region, "a");
  count(region, "d", 500);
  play_round(SECOND);
  assert_count(SUM, "all", "d", 500);
  assert_count(SUM, "all", "other", 1000);
  play_round(SECOND);
  assert_count(SUM, "all", "other", 1000);
}

TEST(an_object_that_came_and_went_between_two_reads_counts_under_its_name) {
  struct percore_region *region = create_flows(0, NULL);
  count(region, "a", 1);
  begin_watch(REGION(TABLE("Row \"a\"\nRow \"b\"\n")));
  count(region, "b", 7);
  remove_row(region, "b");
  count(region, "c", 3);
  remove_row(region, "c");
  play_round(SECOND);
  assert_count(SUM, "all", "b", 7);
  assert_count(SUM, "all", "other", 3);
  play_round(SECOND);
  assert_none(SUM, "all", "b");
}

/* The first counts of an object are two points, in two rounds. */
TEST(an_object_that_came_and_went_is_not_left_out) {
  struct percore_region *region = create_flows(0, NULL);
  count(region, "a", 1);
  begin_watch("");
  count(region, "b", 7);
  remove_row(region, "b");
  play_round(SECOND);
  assert_count(SUM, "all", "b", 7);
  assert_int_equal(own("rows_left_out"), 0);
  assert_int_equal(fake_count_logged(LOG_WARNING), 0);
}

TEST(objects_that_came_and_went_take_no_more_than_max_values) {
  enum { OBJECTS = 500, FIELDS = 3 };
  host_values_max = 300;
  struct percore_region *region = create_flows(0, NULL);
  count(region, "a", 1);
  begin_watch("");
  for (int round = 0; round < 4; round++) {
    char name[16];
    for (int i = 0; i < OBJECTS; i++) {
      snprintf(name, sizeof(name), "r%d_%d", round, i);
      count(region, name, 1);
    }
    for (int i = 0; i < OBJECTS; i++) {
      snprintf(name, sizeof(name), "r%d_%d", round, i);
      remove_row(region, name);
    }
    play_round(SECOND);
    assert_true(fake.values_len <= host_values_max + FIELDS * 20);
  }
}

TEST(without_top_other_is_not_reported_while_it_is_empty) {
  struct percore_region *region = create_flows(0, NULL);
  count(region, "a", 10);
  start_watch("");
  for (int round = 0; round < 3; round++) {
    play_round(SECOND);
    count(region, "a", 10);
    count(region, "b", 5);
  }
  assert_count(SUM, "all", "a", 30);
  assert_none(SUM, "all", "other");
}

TEST(a_new_counter_has_a_0_at_the_previous_round) {
  struct percore_region *region = create_flows(0, NULL);
  count(region, "a", 10);
  start_long_after("");
  play_round(10 * SECOND);
  uint64_t before = snapshot->time_ns;
  count(region, "b", 5);
  play_round(10 * SECOND);
  const struct region_value *b = find(SUM, "all", "b");
  assert_int_equal(b->derive, 5);
  assert_int_equal(b->first, 0);
  assert_int_equal(b->first_ns / 1000000, before / 1000000);
  count(region, "b", 5);
  play_round(10 * SECOND);
  assert_int_equal(find(SUM, "all", "b")->first, 10);
}

TEST(a_counter_of_a_new_producer_has_a_0_when_the_producer_started) {
  start_watch("");
  play_round(10 * SECOND);
  uint64_t before_ns = boottime_ns();
  count(create_flows(0, NULL), "a", 10);
  play_round(10 * SECOND);
  uint64_t age_ns = boottime_ns() - before_ns;
  const struct region_value *a = find(SUM, "all", "a");
  assert_int_equal(a->derive, 10);
  assert_int_equal(a->first, 0);
  assert_in_range(a->first_ns, snapshot->time_ns - age_ns - 1000,
                  snapshot->time_ns);
}

TEST(a_counter_under_top_begins_when_it_is_chosen) {
  struct percore_region *region = create_flows(0, NULL);
  count(region, "a", 10);
  start_watch(TOP);
  play_round(10 * SECOND);
  assert_count(SUM, "all", "a", 0);
  assert_int_equal(find(SUM, "all", "a")->first_ns / 1000000,
                   snapshot->time_ns / 1000000);
  assert_count(SUM, "all", "other", 10);
  assert_true(find(SUM, "all", "other")->first_ns < snapshot->time_ns);
}

TEST(other_continues_with_the_next_producer) {
  struct percore_region *region = create_flows(0, NULL);
  row_of(region, 0, "a");
  row_of(region, 0, "b");
  begin_long_after(TOP);
  count(region, "a", 100);
  count(region, "b", 100);
  count(region, "c", 10);
  play_round(SECOND);
  assert_count(SUM, "all", "other", 10);
  count(region, "c", 1);
  end_producer(0);
  region = create_flows(0, NULL);
  count(region, "c", 2);
  count(region, "x", 40);
  count(region, "a", 60);
  play_round(SECOND);
  assert_count(SUM, "all", "a", 160);
  assert_count(SUM, "all", "other", 53);
  count(region, "x", 1);
  play_round(SECOND); /* b has been removed, so x takes its place */
  assert_none(SUM, "all", "b");
  count(region, "x", 1);
  play_round(SECOND);
  assert_count(SUM, "all", "x", 2);
  assert_count(SUM, "all", "other", 53);
}

TEST(instances_share_a_row_of_one_name) {
  struct percore_region *east = create_flows(0, "east");
  struct percore_region *west = create_flows(1, "west");
  start_long_after(TOP);
  for (int i = 0; i < 4; i++)
    row_of(east, 0, (const char *[]){"a", "b", "c", "d"}[i]);
  for (int i = 0; i < 4; i++)
    row_of(west, 0, (const char *[]){"a", "b", "d", "c"}[i]);
  play_round(SECOND);
  /* In this round, each instance looks up the names of the rows that the other
   * instance shows. */
  play_round(SECOND);
  count(east, "a", 100);
  count(east, "b", 90);
  count(west, "c", 80);
  count(west, "d", 70);
  count(west, "a", 5);
  play_round(SECOND);
  assert_count(SUM, "all", "a", 105);
  assert_count(SUM, "all", "b", 90);
  assert_count(SUM, "all", "other", 150);
  count(east, "c", 60);
  count(west, "c", 60);
  count(east, "d", 100);
  play_round(SECOND); /* c and d become candidates for the second time */
  assert_count(SUM, "all", "c", 0);
  assert_count(SUM, "all", "d", 0);
  assert_count(SUM, "all", "other", 370);
  play_round(SECOND);
  count(east, "c", 1);
  count(west, "c", 2);
  count(west, "d", 4);
  play_round(SECOND);
  assert_count(SUM, "all", "c", 3);
  assert_count(SUM, "all", "d", 4);
  assert_count(SUM, "all", "other", 370);
}

TEST(of_single_cores_other_has_no_gauges) {
  struct percore_region *region = create(0, NULL, core_tables, 1);
  percore_slot_t slot = unit_attach(region, 1);
  uint32_t flow = 0;
  for (int i = 0; i < 2; i++) {
    uint32_t row = row_of(region, 0, i == 0 ? "a" : "b");
    percore_add(percore_row(percore_table(slot, flow), row), 2, 3);
    percore_add(percore_row(percore_table(slot, flow), row), 0,
                1 + 10 * (uint64_t)i);
  }
  start_watch(REGION("ReportPerCore true\n" TABLE("Top 1 \"packets\"\n")));
  play_round(SECOND);
  play_round(SECOND);
  assert_true(gauge("percore_host_unit_flow_open", "all", "other") == 3);
  assert_true(gauge("percore_unit_flow_open", "1", "b") == 3);
  assert_none("percore_unit_flow_open", "1", "other");
  assert_non_null(find("percore_unit_flow_packets", "1", "other"));
  assert_int_equal(percore_detach(slot), 0);
}

TEST(rows_are_not_ranked_by_a_state) {
  struct percore_region *region = create_usual(0, NULL);
  add_slow(region, "a", 0, 1);
  add_slow(region, "b", 0, 1);
  begin_watch(REGION("<Table \"slow\">\nTop 1 \"link\"\n</Table>\n"));
  assert_non_null(fake_logged(LOG_WARNING, "Top 1 \"link\" is ignored"));
  assert_non_null(find(HOST "slow_requests", "all", "a"));
  assert_non_null(find(HOST "slow_requests", "all", "b"));
}

TEST(gauges_of_other_are_those_that_are_not_shown) {
  struct percore_region *region = create_flows(0, NULL);
  for (int i = 0; i < 4; i++)
    open_more(region, (const char *[]){"d", "c", "b", "a"}[i], 8 >> i);
  begin_long_after(TOP);
  play_round(SECOND);
  assert_true(gauge("percore_host_unit_flow_open", "all", "other") == 3);
  assert_true(gauge("percore_host_unit_flow_open", "all", "d") == 8);
  open_more(region, "a", 10);
  count(region, "b", 10);
  count(region, "d", 100);
  play_round(SECOND);
  /* b has replaced c. The series of b begins in the next round. */
  assert_none(SUM, "all", "c");
  assert_true(gauge("percore_host_unit_flow_open", "all", "other") == 17);
  play_round(SECOND);
  assert_true(gauge("percore_host_unit_flow_open", "all", "b") == 2);
  assert_true(gauge("percore_host_unit_flow_open", "all", "other") == 15);
}

TEST(gauges_of_other_are_those_of_the_last_producer_alone) {
  struct percore_region *region = create_flows(0, NULL);
  open_more(region, "c", 9);
  start_watch(TOP);
  count(region, "a", 10);
  count(region, "b", 10);
  play_round(SECOND);
  assert_true(gauge("percore_host_unit_flow_open", "all", "other") == 9);
  end_producer(0);
  region = create_flows(0, NULL);
  open_more(region, "c", 4);
  count(region, "a", 10);
  count(region, "b", 10);
  play_round(SECOND);
  assert_true(gauge("percore_host_unit_flow_open", "all", "other") == 4);
}

TEST(gauges_of_other_are_exact_if_one_of_several_instances_restarts) {
  struct percore_region *east = create_flows(0, "east");
  struct percore_region *west = create_flows(1, "west");
  open_more(east, "c", 9);
  open_more(west, "d", 5);
  start_watch(TOP);
  count(east, "a", 10);
  count(west, "b", 10);
  play_round(SECOND);
  assert_true(gauge("percore_host_unit_flow_open", "all", "other") == 14);
  end_producer(0);
  east = create_flows(0, "east");
  open_more(east, "c", 4);
  count(east, "a", 10);
  count(west, "b", 10);
  play_round(SECOND);
  assert_true(gauge("percore_host_unit_flow_open", "all", "other") == 9);
}

/* Returns the last value of the counter of a row on core 1, or `before` if this
 * counter is not shown. */
static int64_t last_on_core_1(const char *row, int64_t before) {
  const struct region_value *value =
      find("percore_unit_flow_packets", "1", row);
  return value != NULL ? value->derive : before;
}

TEST(each_count_of_a_core_is_in_a_row_or_in_other) {
  static const char *const names[] = {"a", "b", "c", "other"};
  int64_t last[COUNT_OF(names)] = {0}, all = 0;
  struct percore_region *region = create(0, NULL, core_tables, 1);
  count_on(region, "a", 1, 1000);
  begin_long_after(REGION("ReportPerCore true\n" TABLE("Top 1 \"packets\"\n")));
  for (int round = 0; round < 24; round++) {
    const char *first = names[round / 6 % 2];
    count_on(region, first, 1, 50);
    count_on(region, first, 2, 7);
    count_on(region, "c", 1, 3);
    all += 53;
    play_round(SECOND);
    int64_t sum = 0;
    for (size_t n = 0; n < COUNT_OF(names); n++) {
      int64_t now = last_on_core_1(names[n], last[n]);
      assert_true(now >= last[n]);
      sum += last[n] = now;
    }
    assert_int_equal(sum, all);
  }
  assert_true(last[0] > 0 && last[1] > 0 && last[3] < all * 3 / 4);
}

TEST(a_cell_that_decreases_takes_nothing_from_other) {
  struct percore_region *region = create(0, NULL, core_tables, 1);
  count_on(region, "a", 1, 1000);
  start_watch(REGION("ReportPerCore true\n" TABLE("Top 1 \"packets\"\n")));
  int64_t other = 0;
  for (int round = 0; round < 8; round++) {
    count_on(region, "a", 1, 50);
    count_on(region, "b", 1, round < 4 ? 20 : (uint64_t)-20);
    play_round(SECOND);
    int64_t now = last_on_core_1("other", other);
    assert_true(now >= other);
    other = now;
  }
  assert_true(other >= 60);
}

/* ---------------------------------------------------------------------------
 * Bounds
 */

static void name_rows(struct percore_region *region, int count_of) {
  char name[16];
  for (int i = 0; i < count_of; i++) {
    snprintf(name, sizeof(name), "f%d", i);
    row_of(region, 0, name);
  }
}

static void remove_rows(struct percore_region *region, int from, int to) {
  char name[16];
  for (int i = from; i < to; i++) {
    snprintf(name, sizeof(name), "f%d", i);
    remove_row(region, name);
  }
}

TEST(rows_beyond_the_memory_are_counted_in_other) {
  struct percore_region *region = create_flows(0, NULL);
  name_rows(region, ROWS);
  count(region, "f59999", 7777); /* counted before the watch began */
  host_memory_max = 1 << 20; /* 1 MiB for the region, 896 KiB for its rows */
  begin_long_after(TOP);
  assert_count(SUM, "all", "other", 0);
  assert_true(own("regions_memory") <= 1 << 20);
  assert_non_null(fake_logged(LOG_WARNING, "counted only in `other`"));
  assert_non_null(fake_logged(LOG_WARNING, "set MaxMemory"));
  for (int round = 1; round <= 3; round++) {
    count(region, "f3", 100); /* f3 is ranked */
    count(region, "f59999", 1000);
    play_round(SECOND);
  }
  assert_count(SUM, "all", "f3", 100);
  assert_none(SUM, "all", "f59999");
  assert_count(SUM, "all", "other", 3200);
  count(region, "f59999", 5);
  assert_int_equal(percore_reset(region, 0, row_of(region, 0, "f59999")), 0);
  remove_row(region, "f59998");
  count(region, "f59999", 5);
  play_round(SECOND);
  assert_count(SUM, "all", "other", 3210);
  assert_int_equal(fake_count_logged(LOG_WARNING), 1);
}

TEST(enough_memory_ranks_every_row) {
  struct percore_region *region = create_flows(0, NULL);
  name_rows(region, ROWS);
  host_memory_max = 5 << 20; /* as the previous test's warning advises */
  begin_long_after(TOP);
  for (int round = 1; round <= 3; round++) {
    count(region, "f59999", 1000);
    play_round(SECOND);
  }
  assert_count(SUM, "all", "f59999", 1000);
  assert_count(SUM, "all", "other", 2000);
  assert_int_equal(fake_count_logged(LOG_WARNING), 0);
}

TEST(rows_are_ranked_by_what_a_field_that_is_not_reported_has_grown) {
  struct percore_region *region = create_flows(0, NULL);
  begin_long_after(REGION(TABLE("Field \"bytes\"\nTop 1 \"packets\"\n")));
  for (int round = 0; round < 8; round++) {
    count(region, round < 3 ? "a" : "b", round < 3 ? 1000 : 10);
    play_round(SECOND);
  }
  assert_none(SUM, "all", "b");
  assert_non_null(find("percore_host_unit_flow_bytes", "all", "b"));
}

/* Creates a table of 100 rows, which is read in another way. */
static struct percore_region *create_counters(unsigned place,
                                              const char *instance) {
  struct percore_table counters = FLOW_TABLE(PERCORE_OWNED, 100);
  counters.field_count = 2;
  struct percore_region *region = create(place, instance, &counters, 1);
  name_rows(region, 100);
  return region;
}

TEST(under_top_no_row_of_counters_alone_is_left_out) {
  struct percore_region *region = create_counters(0, NULL);
  begin_long_after(TOP);
  for (int round = 1; round <= 3; round++) {
    count(region, "f50", 1000);
    play_round(SECOND);
  }
  assert_non_null(find(SUM, "all", "f50"));
  assert_int_equal(own("rows_left_out"), 0);
  assert_int_equal(fake_count_logged(LOG_WARNING), 0);
}

/* Lets Top choose the row f50. */
static void lead(struct percore_region *region) {
  for (int round = 0; round < 3; round++) {
    count(region, "f50", 1000);
    play_round(SECOND);
  }
}

TEST(a_counter_that_decreases_takes_nothing_from_other) {
  struct percore_region *region = create_counters(0, NULL);
  static const struct {
    int64_t more, other;
  } rounds[] = {{20, 60}, {-15, 100}, {10, 140}, {10, 185}};
  begin_long_after(TOP_1);
  lead(region);
  int64_t before = find(SUM, "all", "other")->derive;
  for (size_t i = 0; i < COUNT_OF(rounds); i++) {
    count(region, "f50", 1000);
    count(region, "f0", 20);
    count(region, "f1", 20);
    count(region, "f7", (uint64_t)rounds[i].more);
    play_round(SECOND);
    assert_count(SUM, "all", "other", before + rounds[i].other);
  }
  assert_non_null(fake_logged(LOG_WARNING, "table flow decreased"));
}

TEST(a_row_used_again_under_a_name_that_is_shown_counts_for_it) {
  struct percore_region *one = create_counters(0, "one");
  struct percore_region *two = create_counters(1, "two");
  remove_row(two, "f50");
  begin_long_after(TOP_1);
  lead(one);
  int64_t before = find(SUM, "all", "f50")->derive;
  count(two, "f0", 20);
  count(two, "f1", 20);
  count(two, "f50", 7);
  play_round(SECOND);
  assert_count(SUM, "all", "f50", before + 7);
}

TEST(without_top_no_more_rows_are_kept_than_max_values) {
  struct percore_region *region = create_flows(0, NULL);
  name_rows(region, ROWS);
  begin_long_after("");
  play_round(SECOND);
  /* MaxValues is 10000 here, and each row produces 3 values. */
  size_t shown = snapshot->host_len;
  assert_in_range(shown, 9300, 10000);
  assert_true(own("regions_memory") < 3 << 20);
  remove_row(region, "f0");
  for (int round = 0; round < 3; round++)
    play_round(SECOND);
  assert_in_range(snapshot->host_len, shown, shown + 3);
  assert_non_null(find(SUM, "all", "f3100"));
}

/* Rows f3 and f3000 have room, f59999 has none. */
static void check_rows_beyond_max_values(size_t field_count) {
  struct percore_table table = FLOW_TABLE(PERCORE_OWNED, ROWS);
  table.field_count = field_count;
  struct percore_region *region = create(0, NULL, &table, 1);
  name_rows(region, ROWS);
  begin_long_after("");
  for (int round = 1; round <= 3; round++) {
    count(region, "f3", 1);
    count(region, "f3000", 2);
    count(region, "f59999", 10);
    play_round(SECOND);
    assert_count(SUM, "all", "f3", round);
    assert_count(SUM, "all", "f3000", 2 * round);
    assert_count(SUM, "all", "other", 10 * round);
  }
}

TEST(rows_beyond_max_values_are_counted_in_other) {
  check_rows_beyond_max_values(COUNT_OF(flow_fields));
}

TEST(rows_of_counters_alone_beyond_max_values_are_counted_in_other) {
  check_rows_beyond_max_values(2);
}

/* Returns the sum of the values of the rows f0 to f2999 and `other`. Stores
 * them in last[]; a row that is not shown keeps its last value. */
static int64_t add_last_values(const char *plugin, int64_t last[3001]) {
  int64_t sum = 0;
  for (size_t i = 0; i < fake.values_len; i++) {
    const value_list_t *list = &fake.values[i].list;
    const char *row = list->type_instance;
    if (strcmp(list->plugin, plugin) == 0 &&
        strcmp(list->plugin_instance, "all") == 0)
      last[strcmp(row, "other") == 0 ? 3000 : atoi(row + 1)] =
          fake.values[i].values[0].derive;
  }
  for (int i = 0; i <= 3000; i++)
    sum += last[i];
  return sum;
}

TEST(a_further_region_takes_room_but_no_counts) {
  static int64_t flow[3001], zone[3001];
  struct percore_region *region = create_flows(0, NULL);
  name_rows(region, 3000);
  begin_long_after("");
  assert_true(find(SUM, "all", "f2999") != NULL);
  struct percore_options options = {.cores = 4};
  assert_int_equal(create_region(&served[1], "zone", flow_tables, 1, &options),
                   0);
  name_rows(served[1], 3000);
  for (int round = 1; round <= 4; round++) {
    for (int i = 99; i < 3000; i += 100) {
      char name[16];
      snprintf(name, sizeof(name), "f%d", i);
      count(region, name, 1);
      count(served[1], name, 1);
    }
    play_round(SECOND);
    assert_int_equal(add_last_values(SUM, flow), 30 * round);
    assert_int_equal(add_last_values("percore_host_zone_flow_packets", zone),
                     30 * round);
  }
  assert_true(snapshot->host_len <= 20000);
  assert_non_null(find(SUM, "all", "f2999"));
  assert_non_null(find("percore_host_zone_flow_packets", "all", "f99"));
  assert_null(find("percore_host_zone_flow_packets", "all", "f2999"));
}

/* Returns the time of the last values. */
static uint64_t last_ns(void) {
  return CDTIME_T_TO_NS(fake.values[fake.values_len - 1].list.time) - 1000;
}

static int64_t sum_of_rows(const char *plugin) {
  int64_t sum = 0;
  /* A row that began in this round was dispatched twice, the first time as 0.
   */
  for (size_t i = 0; i < fake.values_len; i++)
    if (strcmp(fake.values[i].list.plugin, plugin) == 0 &&
        fake.values[i].list.time >= NS_TO_CDTIME_T(last_ns()))
      sum += fake.values[i].values[0].derive;
  return sum;
}

TEST(rows_wanted_beyond_max_values_are_counted_in_other) {
  struct percore_region *region = create_flows(0, NULL);
  for (int i = 0; i < 20; i++) {
    char name[16];
    snprintf(name, sizeof(name), "f%d", i);
    count(region, name, 10);
    open_more(region, name, 1);
  }
  count(region, "x", 1000); /* not wanted: counts in `other`, too */
  host_values_max = 100;
  begin_watch(REGION(TABLE("Row \"/^f/\"\n")));
  assert_int_equal(sum_of_rows(SUM), 1200);
  play_round(SECOND);
  int64_t other = find(SUM, "all", "other")->derive;
  count(region, "f19", 5);
  play_round(SECOND);
  assert_count(SUM, "all", "other", other + 5);
  assert_count(SUM, "all", "f0", 10);
  assert_none(SUM, "all", "f19");
  remove_rows(region, 0, 18); /* makes room for others */
  play_round(SECOND);
  count(region, "f19", 3);
  play_round(SECOND);
  assert_count(SUM, "all", "f19", 3);
}

static const struct percore_table one_row[] = {
    {.name = "flow",
     .storage = PERCORE_OWNED,
     .fields = flow_fields,
     .field_count = COUNT_OF(flow_fields)},
};

static void count_in_single(struct percore_region *region, uint64_t n) {
  percore_table_t flow = unit_owned_table(region, 0);
  percore_add(percore_row(flow, 0), 0, n);
}

TEST(the_single_rows_of_all_instances_are_counted) {
  struct percore_region *regions[] = {create(0, "east", one_row, 1),
                                      create(1, "west", one_row, 1)};
  start_watch("");
  for (int round = 1; round <= 3; round++) {
    for (size_t i = 0; i < COUNT_OF(regions); i++)
      count_in_single(regions[i], 10);
    play_round(SECOND);
    assert_count(SUM, "all", "all", 20 * round);
  }
}

TEST(a_single_row_beyond_max_values_is_said_to_be_missing) {
  count_in_single(create(0, NULL, one_row, 1), 10);
  host_values_max = 4;
  begin_watch("");
  assert_none(SUM, "all", "all");
  assert_non_null(fake_logged(LOG_WARNING, "table flow is not reported"));
  assert_null(fake_logged(LOG_WARNING, "counted only in `other`"));
  assert_true(own("rows_left_out") > 0);
}

/* Returns how many counts of a single row were not dispatched, if a call fails
 * in the first rounds. */
static int lose_of_single(void) {
  unit_make_runtime_dir(); /* without the files of other children */
  struct percore_region *region = create(0, NULL, one_row, 1);
  int counted = 0;
  start_watch("");
  for (int round = 0; round < 4; round++, counted += 10) {
    count_in_single(region, 10);
    faults_on = round < 2;
    play_round(SECOND);
    faults_on = false;
  }
  const struct region_value *value = find(SUM, "all", "all");
  return counted - (value != NULL ? (int)value->derive : 0);
}

TEST(a_call_that_fails_once_loses_no_count_of_a_single_row) {
  int n = 1;
  while (await_fault_child(start_fault_child(n, lose_of_single)))
    n++;
  assert_true(n > 20);
}

/* ---------------------------------------------------------------------------
 * Births
 */

TEST(rows_that_were_never_used_delay_no_birth) {
  struct percore_region *region = create_flows(0, NULL);
  assert_int_equal(percore_row_add_at(region, 0, 5, "five", 0), 0);
  begin_long_after("");
  count(region, "new", 10);
  play_round(SECOND);
  assert_count(SUM, "all", "new", 10);
}

/* Lets a round find row 1 between two objects. */
static void play_round_while_row_1_changes(struct percore_region *region) {
  const struct region_table *table = &region->tables[1];
  uint64_t *generation = region_generation(region, table, 1),
           kept = *generation;
  *generation = region_changed(kept, REGION_CHANGING);
  play_round(SECOND);
  *generation = kept;
}

static void check_births_after_a_change(const char *lines) {
  struct percore_region *region = create_flows(0, NULL);
  count(region, "zero", 1);
  count(region, "one", 1);
  begin_long_after(lines);
  count(region, "one", 1);
  play_round_while_row_1_changes(region);
  count(region, "one", 1);
  count(region, "new", 10);
  play_round(SECOND);
  assert_count(SUM, "all", "one", 2);
  assert_count(SUM, "all", "new", 10);
}

TEST(a_row_that_changes_delays_no_birth_of_another) {
  check_births_after_a_change("");
}

TEST(under_row_a_row_that_changes_delays_no_birth) {
  check_births_after_a_change(REGION(TABLE("Row \"/./\"\n")));
}

TEST(what_a_row_counts_while_it_changes_is_in_other_alone) {
  struct percore_region *region = create_flows(0, NULL);
  begin_watch("");
  count(region, "zero", 10);
  play_round_while_row_1_changes(region);
  assert_count(SUM, "all", "other", 10);
  play_round(SECOND);
  assert_count(SUM, "all", "zero", 0);
}

/* Creates two instances, of which `east` has more rows than there is room for,
 * and `west` has one row. Plays the first round. */
static void begin_without_room(struct percore_region **east,
                               struct percore_region **west,
                               const char *row_of_west) {
  *east = create_flows(0, "east");
  *west = create_flows(1, "west");
  name_rows(*east, 4000);
  row_of(*west, 0, row_of_west);
  begin_long_after("");
  play_round(SECOND);
}

TEST(instances_share_a_row_even_if_there_is_no_room) {
  struct percore_region *east, *west;
  begin_without_room(&east, &west, "f3");
  count(east, "f3", 1);
  count(west, "f3", 10);
  play_round(SECOND);
  assert_count(SUM, "all", "f3", 11);
}

TEST(an_instance_takes_over_a_row_even_if_there_is_no_room) {
  struct percore_region *east, *west;
  begin_without_room(&east, &west, "f4");
  count(east, "f3", 1);
  end_producer(0);
  play_round(SECOND);
  assert_count(SUM, "all", "f3", 1);
  count(west, "f3", 10);
  play_round(SECOND);
  assert_count(SUM, "all", "f3", 11);
}

TEST(rows_that_were_left_out_begin_when_there_is_room) {
  struct percore_region *region = create_flows(0, NULL);
  name_rows(region, ROWS);
  count(region, "f40000", 777); /* counted before the watch began */
  begin_long_after("");
  assert_none(SUM, "all", "f40000");
  remove_rows(region, 0, 40000);
  remove_rows(region, 40001, ROWS);
  for (int round = 0; round < 3; round++)
    play_round(SECOND);
  assert_count(SUM, "all", "f40000", 0);
  count(region, "f40000", 5);
  count(region, "new", 6);
  play_round(SECOND);
  assert_count(SUM, "all", "f40000", 5);
  assert_count(SUM, "all", "new", 6);
}

TEST(rows_beyond_the_memory_begin_when_another_region_leaves_some) {
  struct percore_options options = {0};
  assert_int_equal(create_region(&served[1], "zone", flow_tables, 1, &options),
                   0);
  name_rows(served[1], ROWS);
  host_memory_max = 5 << 20;
  begin_watch("<Region \"*\">\n" TABLE("Row \"/^f/\"\n") "</Region>\n");
  struct percore_region *region = create_flows(0, NULL);
  name_rows(region, 1000);
  assert_int_equal(percore_row_add_at(region, 0, ROWS - 1, "far", 0), 0);
  percore_table_t flow = unit_owned_table(region, 0);
  percore_add(percore_row(flow, ROWS - 1), 0, 777);
  play_round(SECOND);
  assert_none(SUM, "all", "far");
  assert_count(SUM, "all", "other", 777);
  end_producer(1);
  remove_rows(region, 0, 1000);
  for (int round = 0; round < 3; round++)
    play_round(SECOND);
  assert_count(SUM, "all", "far", 0);
}

TEST(of_few_values_each_row_that_is_shown_has_those_of_its_cores) {
  struct percore_region *region = create(0, NULL, core_tables, 1);
  char name[8], core[2] = "0";
  for (int i = 0; i < 400; i++) {
    snprintf(name, sizeof(name), "f%d", i / 4);
    count_on(region, name, i % 4, 1);
  }
  host_values_max = 100;
  begin_long_after(REGION("ReportPerCore true\n"));
  play_round(SECOND);
  int rows = 0, cores = 0;
  for (int i = 0; i < 400; i++) {
    snprintf(name, sizeof(name), "f%d", i / 4);
    core[0] = (char)('0' + i % 4);
    rows += i % 4 == 0 && find(SUM, "all", name) != NULL;
    cores += find("percore_unit_flow_packets", core, name) != NULL;
  }
  assert_in_range(rows, 1, 5);
  assert_int_equal(cores, 4 * rows);
}

TEST(cores_that_were_left_out_begin_when_there_is_room) {
  struct percore_region *region = create(0, NULL, many_core_tables, 1);
  name_rows(region, 50000);
  count_on(region, "f40000", 1, 777); /* counted before the watch began */
  begin_long_after("<Region \"unit\">\nReportPerCore true\n</Region>\n");
  remove_rows(region, 0, 40000);
  for (int round = 0; round < 3; round++)
    play_round(SECOND);
  count_on(region, "f40000", 1, 5);
  play_round(SECOND);
  assert_count(SUM, "all", "f40000", 5);
  assert_count("percore_unit_flow_packets", "1", "f40000", 5);
}

TEST(counts_of_rows_that_clash_are_in_one_row) {
  struct percore_region *region = create_flows(0, NULL);
  count(region, "a b", 100);
  open_more(region, "a b", 3);
  count(region, "a;b", 50); /* a later round reads this row */
  begin_watch("");
  assert_count(SUM, "all", "a_b", 150);
  assert_true(gauge("percore_host_unit_flow_open", "all", "a_b") == 3);
  count(region, "a b", 1);
  count(region, "other", 7);
  open_more(region, "other", 4);
  play_round(SECOND);
  assert_count(SUM, "all", "a_b", 151);
  assert_count(SUM, "all", "other", 7);
  assert_true(gauge("percore_host_unit_flow_open", "all", "other") == 4);
}

TEST(rows_that_are_not_wanted_need_no_name) {
  struct percore_region *region = create_flows(0, NULL);
  name_rows(region, ROWS);
  count(region, "f7", 7);
  begin_long_after("<Region \"unit\">\n<Table \"flow\">\nRow \"f7\"\nTop 1 "
                   "\"packets\"\n</Table>\n</Region>\n");
  count(region, "f7", 1);
  count(region, "f8", 100);
  play_round(SECOND);
  assert_count(SUM, "all", "f7", 1);
  assert_count(SUM, "all", "other", 100);
  assert_true(own("regions_memory") < ROWS * (12 + 3 * 8) + (1 << 18));
}

TEST(a_region_is_read_however_much_memory_another_takes) {
  struct percore_region *region = create_flows(0, "large");
  name_rows(region, ROWS);
  host_memory_max = 1 << 20;
  begin_long_after("");
  struct percore_options small = {.cores = 4};
  assert_int_equal(create_region(&served[1], "zone", few_tables, 1, &small), 0);
  count(served[1], "a", 1);
  play_round(SECOND);
  count(served[1], "a", 4);
  play_round(SECOND);
  assert_count("percore_host_zone_flow_packets", "all", "a", 5);
  /* The values of the first region leave room for the values of this region. */
  assert_non_null(find("percore_host_zone_flow_open", "all", "a"));
}

TEST(rows_that_are_not_reported_per_core_take_no_memory_for_cores) {
  struct percore_options many = {.cores = 256};
  assert_int_equal(
      create_region(&served[0], "unit", many_core_tables, 1, &many), 0);
  name_rows(served[0], 3000);
  start_long_after("");
  for (int round = 0; round < 2; round++)
    play_round(SECOND);
  assert_non_null(find(SUM, "all", "f2999"));
  assert_true(own("regions_memory") < 8 << 20);
}

TEST(a_claim_of_many_cores_takes_no_memory_from_others) {
  struct percore_options many = {.cores = 8192};
  struct percore_region *region;
  assert_int_equal(create_region(&region, "crowd", core_tables, 1, &many), 0);
  served[0] = region;
  host_memory_max = 1 << 20;
  start_long_after("<Region \"*\">\nReportPerCore true\n</Region>\n");
  for (int round = 0; round < 3; round++)
    play_round(SECOND);
  assert_true(own("regions_memory") <= 1 << 20);
  assert_int_equal(fake_count_logged(LOG_WARNING), 2); /* `core` and `flow` */
  assert_non_null(fake_logged(LOG_WARNING, "table flow is left out"));
}

/* Returns how many kB of all regions are mapped here, by their producers and by
 * the watch. */
static unsigned long mapped_kb(void) {
  char line[512];
  unsigned long sum = 0, kb, end;
  bool is_region = false;
  FILE *file = fopen("/proc/self/smaps", "r");
  assert_non_null(file);
  while (fgets(line, sizeof(line), file) != NULL)
    if (sscanf(line, "Rss: %lu kB", &kb) == 1)
      sum += is_region ? kb : 0;
    else if (sscanf(line, "%lx-%lx", &kb, &end) == 2)
      is_region = strstr(line, getenv("PERCORE_RUNTIME_DIR")) != NULL;
  fclose(file);
  return sum;
}

/* Reads a large region. Returns how much of it the watch keeps mapped, and what
 * the watch uses. */
static unsigned long keeps_mapped_kb(size_t memory_max, unsigned long *used) {
  tear_down();
  set_up();
  host_values_max = 1000;
  host_memory_max = memory_max;
  name_rows(create_flows(0, NULL), ROWS);
  unsigned long before = mapped_kb();
  start_long_after("");
  for (int round = 0; round < 3; round++)
    play_round(SECOND);
  *used = (unsigned long)own("regions_memory");
  return mapped_kb() - before;
}

TEST(a_region_stays_mapped_if_half_of_the_memory_that_is_left_is_enough) {
  unsigned long used, kb = keeps_mapped_kb(0, &used);
  assert_in_range(kb, 1 << 10, 16 << 10);
  assert_in_range(keeps_mapped_kb(used + 4 * 1024 * kb, &used), kb / 2, kb);
  assert_in_range(keeps_mapped_kb(used + 1024 * kb, &used), 0, kb / 10);
}

/* ---------------------------------------------------------------------------
 * Tables that are read over several rounds
 */

/* Plays rounds until all tables are read. Returns how many there were. */
static int play_pass(void) {
  int rounds = 1;
  for (play_round(SECOND); snapshot->partial; rounds++)
    play_round(SECOND);
  return rounds;
}

static bool takes_time;

static uint64_t time_may_pass(void *argument) {
  return takes_time ? time_passes(argument) : 0;
}

TEST(a_table_that_takes_long_is_read_in_several_rounds) {
  struct percore_region *region = create_flows(0, NULL);
  name_rows(region, ROWS); /* the table is read in two turns */
  struct percore_options small = {.cores = 4};
  assert_int_equal(create_region(&served[1], "zone", few_tables, 1, &small), 0);
  host_now_ns = time_may_pass;
  takes_time = host_settles = false;
  start_long_after(TOP "<Region \"*\">\n</Region>\n");
  count(served[1], "a", 1);
  play_round(SECOND); /* finds both */
  takes_time = true;
  int64_t own_before = 0, other_before = 0;
  for (int round = 1; round <= 8; round++) {
    count(served[1], "a", 1);
    count(region, "f0", 30); /* the shown row */
    count(region, "f1", 30);
    count(region, "f59999", 20);
    play_round(SECOND);
    assert_count("percore_host_zone_flow_packets", "all", "a", round);
    assert_int_equal(snapshot->partial, round % 2 == 1);
    if (round % 2 == 1) {
      assert_none(SUM, "all", "other");
      continue;
    }
    int64_t own_now = find(SUM, "all", "f0")->derive;
    int64_t other_now = find(SUM, "all", "other")->derive;
    /* the first turn has passed f0 after it counted once */
    assert_int_equal(own_now - own_before, round == 2 ? 30 : 60);
    assert_int_equal(other_now - other_before, 40);
    own_before = own_now;
    other_before = other_now;
  }
}

static const struct percore_field wide_fields[] = {
    {.name = "drops", .unit = "packets"},
    {.name = "packets", .unit = "packets"},
    {.name = "sizes",
     .unit = "bytes",
     .kind = PERCORE_HISTOGRAM,
     .sub_bits = 8,
     .max_bits = 20},
};

/* Creates a table of 50 rows that takes two rounds to read. The table lacks the
 * first `without` fields. */
static struct percore_region *create_wide(uint32_t without) {
  struct percore_table wide = TABLE_OF(wide_fields, PERCORE_OWNED, 64);
  wide.fields += without;
  wide.field_count -= without;
  struct percore_region *region = create(0, NULL, &wide, 1);
  name_rows(region, 50);
  return region;
}

static struct percore_region *start_with_wide_rows(void) {
  struct percore_region *region = create_wide(1);
  host_now_ns = time_passes;
  host_looks = 3;
  start_watch("");
  for (int round = 0; round < 4; round++)
    play_round(SECOND);
  assert_false(snapshot->partial);
  return region;
}

TEST(a_new_row_has_room_while_its_table_is_read_in_several_rounds) {
  struct percore_region *region = start_with_wide_rows();
  count(region, "new", 7);
  play_round(SECOND);
  assert_true(snapshot->partial);
  for (int round = 0; round < 4; round++)
    play_round(SECOND);
  while (snapshot->partial)
    play_round(SECOND);
  assert_count(SUM, "all", "new", 7);
}

TEST(rows_of_a_new_schema_have_room_in_a_table_read_in_several_rounds) {
  start_with_wide_rows();
  end_producer(0);
  struct percore_region *region = create_wide(0);
  percore_table_t flow = unit_owned_table(region, 0);
  percore_add(percore_row(flow, 50), 1, 7); /* packets of f49 */
  for (int round = 0; round < 6; round++)
    play_round(SECOND);
  assert_count(SUM, "all", "f49", 7);
}

/* The table is read over several rounds. Each shown value is a count from some
 * moment of the scan, so the window of a rate is wrong by at most the duration
 * of one scan. */
TEST(a_value_is_a_count_from_the_time_of_its_scan) {
  struct percore_region *region = create_flows(0, NULL);
  name_rows(region, ROWS);
  host_now_ns = time_may_pass;
  takes_time = false;
  begin_long_after(TOP);
  play_round(SECOND);
  int64_t counted = 0, at_begin = 0;
  bool is_amid = false;
  for (int round = 0; round < 20; round++) {
    takes_time = round % 5 < 3; /* some scans take one round, others two */
    at_begin = is_amid ? at_begin : counted;
    play_round(SECOND);
    is_amid = snapshot->partial;
    count(region, "f0", 10);
    count(region, "f59999", 10);
    counted += 10;
    if (is_amid)
      continue;
    assert_in_range(find(SUM, "all", "f0")->derive, at_begin, counted);
    assert_in_range(sum_of_rows(SUM), 2 * at_begin, 2 * counted);
  }
}

TEST(a_table_that_takes_long_counts_from_its_producers_start) {
  begin_watch(TOP);
  struct percore_region *region = create_flows(0, NULL);
  name_rows(region, ROWS);
  count(region, "f3", 10);
  count(region, "f59999", 20);
  play_round(SECOND);
  assert_count(SUM, "all", "f3", 0);
  assert_count(SUM, "all", "f59999", 0);
  assert_count(SUM, "all", "other", 30);
}

TEST(the_last_counts_of_rows_read_first_are_not_lost) {
  struct percore_region *region = create_flows(0, NULL);
  name_rows(region, ROWS);
  host_now_ns = time_passes;
  start_long_after(TOP);
  for (int round = 0; round < 3; round++)
    play_round(SECOND);
  count(region, "f0", 10); /* the scan has already passed row f0 */
  count(region, "f4", 3);
  count(region, "f59999", 20);
  end_producer(0);
  for (int round = 0; round < 4 && find(SUM, "all", "f0") == NULL; round++)
    play_round(SECOND);
  assert_count(SUM, "all", "f0", 10);
  assert_count(SUM, "all", "other", 23);
}

TEST(a_row_added_during_a_scan_counts_once) {
  struct percore_region *region = create_flows(0, NULL);
  percore_table_t flow = unit_owned_table(region, 0);
  name_rows(region, ROWS - 1); /* the table is read in two pieces */
  host_now_ns = time_passes;
  start_watch(TOP);
  for (int round = 0; round < 6; round++) {
    count(region, "f0", 10); /* the shown row */
    play_round(SECOND);
  }
  play_round(SECOND); /* the first piece */
  remove_row(region, "f0");
  assert_int_equal(percore_row_add_at(region, 0, ROWS, "f0", 0), 0);
  percore_add(percore_row(flow, ROWS), 0, 1000);
  for (int round = 0; round < 5; round++)
    play_round(SECOND);
  while (snapshot->partial)
    play_round(SECOND);
  assert_non_null(find(SUM, "all", "f0"));
  assert_int_equal(sum_of_rows(SUM), 1060);
}

TEST(an_instance_is_read_to_its_end_whatever_fields_another_has) {
  struct percore_table tables[] = {flow_tables[0], flow_tables[0],
                                   few_tables[0]};
  tables[1].name = "second";
  tables[2].name = "few";
  struct percore_region *region = create(0, "large", tables, 3);
  uint32_t row = row_of(region, 2, "a");
  int64_t most = 0;
  name_rows(region, ROWS);
  assert_int_equal(percore_row_add_at(region, 1, ROWS - 1, "a", 0), 0);
  host_now_ns = time_passes;
  begin_watch(TOP); /* which reads a piece of `flow`, and next of `second` */
  percore_add(percore_row(unit_owned_table(region, 2), row), 0, 7);
  end_producer(0);
  tables[2].field_count--;
  create(1, "small", &tables[2], 1);
  for (int round = 0; round < 35; round++) {
    play_round(SECOND);
    const struct region_value *value = find(HOST "few_packets", "all", "a");
    most = value != NULL ? MAX(most, value->derive) : most;
  }
  assert_null(fake_logged(LOG_WARNING, "could not be read completely"));
  assert_int_equal(most, 7);
}

TEST(a_successor_counts_from_0_however_long_its_predecessor_takes) {
  struct percore_region *region = create_flows(0, NULL);
  name_rows(region, ROWS);
  host_now_ns = time_passes;
  start_long_after(TOP);
  for (int round = 0; round < 3; round++)
    play_round(SECOND);
  end_producer(0);
  count(create_flows(0, NULL), "new", 50);
  for (int round = 0; round < 6; round++)
    play_round(SECOND);
  assert_count(SUM, "all", "new", 0);
  assert_count(SUM, "all", "other", 50);
}

TEST(names_are_not_forgotten_while_their_table_is_read) {
  struct percore_region *region = create_flows(0, NULL);
  name_rows(region, ROWS);
  host_now_ns = time_passes;
  host_settles = false;
  start_long_after(TOP);
  play_pass();
  for (int pass = 1; pass <= 3; pass++) {
    count(region, "f0", 20);
    count(region, "f1", 30);
    count(region, "f2", 10);
    play_round(700 * SECOND);
    assert_true(snapshot->partial);
    play_round(700 * SECOND);
    assert_count(SUM, "all", "f0", 20 * pass);
    assert_count(SUM, "all", "f1", 30 * pass);
    assert_count(SUM, "all", "other", 10 * pass);
  }
}

/* ---------------------------------------------------------------------------
 * Removed rows, and percore's own figures
 */

TEST(a_removed_row_is_shown_once_more) {
  struct percore_region *region = create_flows(0, NULL);
  count(region, "a", 5);
  begin_watch("");
  count(region, "a", 2);
  remove_row(region, "a");
  play_round(SECOND);
  assert_count(SUM, "all", "a", 7);
  play_round(SECOND);
  assert_none(SUM, "all", "a");
  count(region, "a", 1);
  play_round(SECOND);
  assert_count(SUM, "all", "a", 8);
}

TEST(a_removed_row_is_shown_until_its_last_counts_are_dispatched) {
  struct percore_region *region = create_flows(0, NULL);
  count(region, "a", 5);
  begin_watch("");
  count(region, "a", 2);
  remove_row(region, "a");
  for (int round = 0; round < 3; round++)
    play_round_set_back();
  play_round(SECOND);
  assert_count(SUM, "all", "a", 7);
  play_round(SECOND);
  assert_none(SUM, "all", "a");
}

TEST(what_is_counted_while_the_clock_is_set_back_is_dispatched_at_once) {
  struct percore_region *east = create_flows(0, "east");
  struct percore_region *west = create_flows(1, "west");
  count(east, "a", 5);
  count(west, "a", 5);
  begin_watch("");
  for (int round = 0; round < 3; round++) {
    count(east, "a", 10);
    count(west, "a", 100);
    play_round_set_back();
  }
  count(east, "a", 1);
  open_more(west, "a", 2);
  play_round(SECOND);
  assert_count(SUM, "all", "a", 341);
  assert_true(gauge("percore_host_unit_flow_open", "all", "a") == 2);
}

TEST(the_last_counts_of_a_producer_survive_a_dropped_snapshot) {
  struct percore_region *region = create(0, NULL, core_tables, 1);
  count_on(region, "a", 2, 5);
  begin_watch("<Region \"unit\">\nReportPerCore true\n</Region>\n");
  count_on(region, "a", 2, 2);
  end_producer(0);
  play_round_set_back();
  play_round(SECOND);
  assert_count(SUM, "all", "a", 7);
  assert_count("percore_unit_flow_packets", "2", "a", 7);
  play_round(SECOND);
  assert_none(SUM, "all", "a");
}

TEST(another_schema_begins_once_the_last_counts_of_the_old_one_are_dispatched) {
  struct percore_region *region = create_flows(0, NULL);
  count(region, "a", 5);
  begin_watch("");
  percore_table_t flow = unit_owned_table(region, 0);
  percore_add(percore_row(flow, 1), 1, 70); /* bytes */
  end_producer(0);
  play_round_set_back();
  struct percore_table packets_alone = FLOW_TABLE(PERCORE_OWNED, 10);
  packets_alone.field_count = 1;
  region = create(0, NULL, &packets_alone, 1);
  count(region, "a", 1);
  play_round(SECOND);
  assert_count("percore_host_unit_flow_bytes", "all", "a", 70);
  play_round(SECOND);
  assert_none("percore_host_unit_flow_bytes", "all", "a");
  assert_count(SUM, "all", "a", 6);
}

#define CORE_SUM "percore_unit_flow_packets"
#define PER_CORE "<Region \"unit\">\nReportPerCore true\n</Region>\n"

static const struct percore_field fewer_fields[] = {
    {.name = "bytes", .unit = "bytes"}};
static const struct percore_table fewer_tables[] = {
    TABLE_OF(fewer_fields, PERCORE_PER_CORE, 100)};

TEST(the_last_counts_of_an_instance_are_reported_and_its_gauges_are_not) {
  struct percore_region *east = create_flows(0, "east");
  count(east, "a", 5);
  open_more(east, "a", 5);
  begin_watch("");
  assert_true(gauge("percore_host_unit_flow_open", "all", "a") == 5);
  count(east, "a", 4);
  end_producer(0);
  struct percore_table packets_alone = FLOW_TABLE(PERCORE_OWNED, 10);
  packets_alone.field_count = 1;
  count(create(1, "west", &packets_alone, 1), "a", 1);
  play_round(SECOND);
  assert_count(SUM, "all", "a", 9);
  assert_none("percore_host_unit_flow_open", "all", "a");
  play_round(SECOND);
  assert_count(SUM, "all", "a", 10);
}

TEST(a_field_added_by_a_new_schema_has_a_0_before_it) {
  struct percore_region *region = create(0, NULL, fewer_tables, 1);
  count_on(region, "a", 2, 5);
  begin_watch(PER_CORE);
  end_producer(0);
  play_round(SECOND);
  uint64_t before = snapshot->time_ns;
  region = create(0, NULL, core_tables, 1);
  count_on(region, "a", 2, 7);
  play_round(SECOND);
  const struct region_value *a = find(CORE_SUM, "2", "a");
  assert_int_equal(a->first, 0);
  assert_int_equal(a->first_ns / 1000000, before / 1000000);
  assert_int_equal(find("percore_host_unit_flow_bytes", "all", "a")->first, 5);
}

TEST(a_new_schema_does_not_report_cores_again) {
  struct percore_region *region = create(0, NULL, core_tables, 1);
  name_rows(region, 17);
  count_on(region, "f0", 2, 5);
  begin_watch("");
  assert_none(CORE_SUM, "2", "f0");
  end_producer(0);
  play_round(SECOND);
  region = create(0, NULL, fewer_tables, 1);
  count_on(region, "f0", 2, 7);
  play_round(SECOND);
  assert_count("percore_host_unit_flow_bytes", "all", "f0", 7);
  assert_none("percore_unit_flow_bytes", "2", "f0");
}

static struct percore_region *restart_with_cores(uint32_t cores) {
  end_producer(0);
  play_round(SECOND); /* its last counts */
  host_cores = cores;
  return create(0, NULL, core_tables, 1);
}

TEST(a_restart_with_more_or_fewer_cores_repeats_no_point) {
  static const uint32_t cores[] = {3, 4, 2, 4};
  host_cores = 2;
  struct percore_region *region = create(0, NULL, core_tables, 1);
  count_on(region, "a", 1, 5);
  begin_watch(PER_CORE);
  for (size_t i = 0; i < COUNT_OF(cores); i++) {
    region = restart_with_cores(cores[i]);
    count_on(region, "a", 1, 5);
    count_on(region, "a", (int)cores[i] - 1, 1);
    play_round(SECOND);
    assert_true(find(CORE_SUM, "1", "a")->first_ns >= snapshot->time_ns);
  }
  assert_count(CORE_SUM, "1", "a", 26);
  assert_count(CORE_SUM, "3", "a", 1); /* it began again at 0 */
}

TEST(a_producer_that_ends_while_its_table_waits_is_read_to_its_end) {
  struct percore_region *region = create(0, NULL, core_tables, 1);
  count_on(region, "a", 2, 5);
  begin_watch("");
  count_on(region, "a", 2, 5);
  end_producer(0);
  play_round_set_back();
  region = create(0, NULL, fewer_tables, 1);
  count_on(region, "a", 2, 7);
  play_round_set_back();
  end_producer(0);
  play_round_set_back();
  assert_none("percore_host_unit_flow_bytes", "all", "other");
  play_round(SECOND);
  play_round(SECOND);
  assert_count("percore_host_unit_flow_bytes", "all", "a", 7);
}

TEST(tracked_objects_leave_memory_for_names) {
  struct percore_region *region = create_flows(0, NULL);
  name_rows(region, ROWS);
  host_memory_max = 4 << 20;
  begin_long_after("<Region \"unit\">\n<Table \"flow\">\nRow \"/./\"\n"
                   "Top 100 \"packets\"\n</Table>\n</Region>\n");
  play_round(SECOND);
  assert_non_null(find(SUM, "all", "f0"));
}

TEST(an_impossible_clock_rate_makes_no_count_wrap) {
  static const struct percore_field cycles[] = {
      {.name = "spent", .unit = "cycles"}};
  static const struct percore_table tables[] = {
      TABLE_OF(cycles, PERCORE_OWNED, 3)};
  struct percore_region *region = create(0, NULL, tables, 1);
  ((struct region_header *)region->map)->tsc_hz = 1;
  count(region, "a", UINT64_C(20000000000)); /* 634 years */
  begin_watch("");
  assert_count("percore_host_unit_flow_spent", "all", "a", 0);
}

TEST(a_table_whose_names_are_matched_is_read_in_several_rounds) {
  char lines[8192] = "<Region \"unit\">\n<Table \"flow\">\n";
  struct percore_region *region = create_flows(0, NULL);
  name_rows(region, ROWS);
  for (int i = 0; i < 100; i++)
    strcat(lines, "Row \"/^no(ne)*such$/\"\n");
  strcat(lines, "</Table>\n</Region>\n");
  host_now_ns = time_passes;
  begin_watch(lines);
  assert_true(snapshot->partial);
}

TEST(refused_rows_and_slots_are_reported) {
  struct percore_region *region = create(0, NULL, few_tables, 1);
  uint32_t row;
  percore_slot_t slot;
  name_rows(region, 3);
  assert_int_equal(make_row(region, 0, "before", &row), -1);
  begin_long_after("");
  /* Refused rows from before the watch began are not reported. */
  assert_int_equal(own("row_adds_refused"), 0);
  assert_int_equal(make_row(region, 0, "one", &row), -1);
  assert_int_equal(make_row(region, 0, "two", &row), -1);
  percore_slot_t slots[3];
  for (int i = 0; i < 3; i++)
    assert_int_equal(attach_another(region, 0, &slots[i]), 0);
  assert_int_equal(attach_another(region, 0, &slot), -1);
  play_round(SECOND);
  play_round(SECOND);
  assert_int_equal(own("row_adds_refused"), 2);
  assert_int_equal(own("attaches_refused"), 1);
  assert_non_null(fake_logged(
      LOG_WARNING,
      "region unit: failed calls of percore_attach: 1, so the counts of "
      "these threads are lost: set extra_slots to at least "));
  for (int i = 0; i < 3; i++)
    assert_int_equal(percore_detach(slots[i]), 0);
  end_producer(0);
  play_round(SECOND);
  region = create(0, NULL, few_tables, 1);
  name_rows(region, 3);
  assert_int_equal(make_row(region, 0, "three", &row), -1);
  play_round(SECOND);
  assert_int_equal(own("row_adds_refused"), 3);
}

TEST(the_log_names_the_thread_that_keeps_removed_rows_from_reuse_once) {
  struct percore_region *region = create(0, NULL, few_tables, 1);
  percore_slot_t slot, moves_on = unit_attach(region, 0);
  uint32_t row;
  name_rows(region, 3);
  assert_int_equal(attach_thread(region, "epo\nll", 2, &slot), 0);
  begin_watch("");
  assert_int_equal(percore_row_remove(region, 0, row_of(region, 0, "f0"), 0),
                   0);
  for (int round = 0; round < 3; round++) {
    percore_quiescent(moves_on);
    assert_int_equal(make_row(region, 0, "new", &row), -1);
    assert_int_equal(errno, EAGAIN);
    play_round(SECOND);
  }
  assert_non_null(fake_logged(
      LOG_WARNING, "region unit: rows that were not added: 1, because "
                   "thread "));
  assert_non_null(fake_logged(LOG_WARNING, "'epo_ll' has not called"));
  assert_int_equal(fake_count_logged(LOG_WARNING), 1);
  percore_detach(slot);
  percore_detach(moves_on);
}

TEST(a_counter_that_decreases_is_reported_and_counts_above_its_old_value) {
  struct percore_region *region = create(0, NULL, core_tables, 1);
  percore_slot_t slot = unit_attach(region, 0);
  uint32_t row = row_of(region, 0, "a");
  uint32_t flow = 0;
  percore_add(percore_row(percore_table(slot, flow), row), 0, 10);
  begin_watch("");
  play_round(SECOND);
  assert_int_equal(fake_count_logged(LOG_WARNING), 0);
  percore_add(percore_row(percore_table(slot, flow), row), 0, (uint64_t)-3);
  play_round(SECOND);
  assert_count(SUM, "all", "a", 10);
  percore_add(percore_row(percore_table(slot, flow), row), 0, 5);
  play_round(SECOND);
  assert_count(SUM, "all", "a", 12);
  assert_non_null(fake_logged(LOG_WARNING, "table flow decreased"));
  assert_int_equal(percore_detach(slot), 0);
}

TEST(a_counter_that_leaps_is_not_said_to_decrease) {
  struct percore_region *region = create_flows(0, NULL);
  count(region, "a", 10);
  begin_watch("");
  count(region, "a", UINT64_C(1) << 63);
  play_round(SECOND);
  assert_count(SUM, "all", "a", 10);
  assert_non_null(
      fake_logged(LOG_WARNING, "table flow grew by 2^63 or more at once"));
  assert_null(fake_logged(LOG_WARNING, "decreased"));
}

TEST(a_count_beyond_what_collectd_can_report_is_a_warning) {
  struct percore_region *region = create_flows(0, NULL);
  count(region, "a", INT64_MAX);
  begin_watch("");
  play_round(SECOND);
  assert_count(SUM, "all", "a", INT64_MAX);
  assert_int_equal(fake_count_logged(LOG_WARNING), 0);
  for (int round = 0; round < 3; round++) {
    count(region, "a", 100);
    play_round(SECOND);
    assert_none(SUM, "all", "a");
  }
  assert_non_null(fake_logged(LOG_WARNING, "a count exceeds 2^63 - 1"));
  assert_int_equal(fake_count_logged(LOG_WARNING), 1);
}

TEST(instances_that_have_ended_leave_their_values_to_others) {
  char instance[8];
  host_values_max = 300;
  start_watch("<Region \"unit\">\nReportPerInstance true\nReportPerCore true\n"
              "</Region>\n");
  for (int i = 0; i < 60; i++) {
    snprintf(instance, sizeof(instance), "i%d", i);
    struct percore_region *region = create(0, instance, core_tables, 1);
    count_on(region, "a", 1, 5);
    play_round(SECOND);
    snprintf(instance, sizeof(instance), "1@i%d", i);
    assert_count("percore_unit_flow_packets", instance, "a", 5);
    end_producer(0);
    play_round(SECOND);
    play_round(SECOND);
  }
  assert_null(fake_logged(LOG_WARNING, "MaxValues"));
}

/* Creates a region with 100 tables, each with a row. */
static void create_tables(void) {
  enum { TABLES_LEN = 100 };
  static char names[TABLES_LEN][8];
  struct percore_table tables[TABLES_LEN];
  for (int t = 0; t < TABLES_LEN; t++) {
    tables[t] = (struct percore_table)FLOW_TABLE(PERCORE_OWNED, 10);
    snprintf(names[t], sizeof(names[t]), "t%d", t);
    tables[t].name = names[t];
  }
  struct percore_region *region = create(0, NULL, tables, TABLES_LEN);
  for (unsigned t = 0; t < TABLES_LEN; t++)
    row_of(region, t, "a");
}

TEST(many_tables_are_read_in_several_rounds_however_small_they_are) {
  create_tables();
  host_now_ns = time_passes;
  host_looks = 16;
  begin_watch("");
  assert_true(snapshot->partial);
}

TEST(what_polls_last_handled_is_counted_while_another_instance_is_read) {
  percore_slot_t slot;
  int64_t most = 0;
  create_tables();
  struct percore_region *west = create(1, "west", few_tables, 1);
  assert_int_equal(attach_thread(west, "worker", 1, &slot), 0);
  host_now_ns = time_passes;
  start_watch("");
  percore_poll(slot, 5, 0);
  play_round(SECOND);
  percore_poll(slot, 7, 0);
  percore_detach(slot);
  end_producer(1);
  for (int round = 0; round < 20; round++) {
    play_round(SECOND);
    const struct region_value *items = find(HOST "core_items", "all", "all");
    most = items != NULL ? MAX(most, items->derive) : most;
  }
  assert_int_equal(most, 12);
}

TEST(many_tables_have_no_more_than_max_values) {
  create_tables();
  host_values_max = 60;
  start_watch("");
  for (int i = 0; i < 3; i++) {
    play_round(SECOND);
    assert_in_range(snapshot->host_len, 1, 60);
  }
  assert_non_null(fake_logged(LOG_WARNING, "leave too little for it"));
}

const struct unit_fixtures unit_fixtures = {.before_each = set_up,
                                            .after_each = tear_down};
