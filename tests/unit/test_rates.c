#include "region_unit.h"
#include "unit.h"

#include "region/writer.h"
#include "tool/rates.h"

enum { SECOND = 1000000000, ALL_ROWS = 100 };

static struct fixture {
  struct percore_region *region;
  struct merge merge;
  percore_slot_t slot;
  uint32_t port;
  struct rates rates;
  uint64_t now_ns;
} fixture;

static void open_rates(struct rates_options options) {
  if (options.rows == 0)
    options.rows = ALL_ROWS;
  assert_int_equal(
      rates_open(&fixture.rates, &fixture.merge, PORT + 1, &options), 0);
}

static void set_up(void) {
  fixture = (struct fixture){.now_ns = SECOND};
  fixture.region = unit_create();
  assert_int_equal(merge_open(&fixture.merge, "top", "unit", false), 0);
  assert_return_code(attach_thread(fixture.region, "rx", 1, &fixture.slot), 0);
  fixture.port = PORT;
}

static void tear_down(void) {
  rates_close(&fixture.rates);
  merge_close(&fixture.merge);
  percore_detach(fixture.slot);
  assert_return_code(percore_destroy(fixture.region), 0);
}

static uint32_t add_port(const char *name) {
  uint32_t row = unit_row(fixture.region, PORT, name);
  return row;
}

static void count(uint32_t row, uint64_t packets) {
  percore_row_t cells =
      percore_row(percore_table(fixture.slot, fixture.port), row);
  percore_add(cells, PACKETS, packets);
}

/* Reads the rows as if `seconds` seconds had passed since the last call. */
static void look(double seconds) {
  fixture.now_ns += (uint64_t)(seconds * SECOND);
  assert_int_equal(rates_read(&fixture.rates, fixture.now_ns), 0);
}

static const struct rate_row *find(const char *name) {
  for (size_t r = 0; r < fixture.rates.rows_len; r++)
    if (strcmp(fixture.rates.rows[r].name, name) == 0)
      return &fixture.rates.rows[r];
  return NULL;
}

static const struct rate_column *column(const char *title) {
  for (size_t c = 0; c < fixture.rates.columns_len; c++)
    if (strcmp(fixture.rates.columns[c].title, title) == 0)
      return &fixture.rates.columns[c];
  fail_msg("there is no column %s", title);
  return NULL;
}

static double value_of(const char *name, const char *title, uint32_t copy) {
  const struct rate_row *row = find(name);
  assert_non_null(row);
  return rate_value(&fixture.rates, column(title), row, copy);
}

static double value(const char *name, const char *title) {
  return value_of(name, title, 0);
}

TEST(nothing_is_known_about_the_time_before_the_first_read) {
  count(add_port("eth0"), 1000);
  open_rates((struct rates_options){0});
  look(1);
  assert_nan(value("eth0", "packets"));
  assert_nan(value("eth0", "latency_p50"));
}

TEST(a_rate_is_the_count_between_two_reads_divided_by_their_time) {
  uint32_t row = add_port("eth0");
  count(row, 1000);
  open_rates((struct rates_options){0});
  look(1);
  count(row, 300);
  look(0.5);
  assert_near(value("eth0", "packets"), 600, 1e-9);
  look(2);
  assert_near(value("eth0", "packets"), 0, 1e-9);
}

TEST(a_gauge_has_its_sign) {
  uint32_t globals = GLOBALS;
  struct rates_options options = {.rows = 1};
  percore_set(percore_row(percore_table(fixture.slot, globals), 0), 1, -40);
  assert_int_equal(
      rates_open(&fixture.rates, &fixture.merge, GLOBALS + 1, &options), 0);
  look(1);
  assert_near(value("", "queue"), -40, 1e-9);
}

TEST(a_reset_never_enters_a_rate) {
  uint32_t row = add_port("eth0");
  count(row, 1000);
  open_rates((struct rates_options){0});
  look(1);
  count(row, 40);
  assert_return_code(percore_reset(fixture.region, PORT, row), 0);
  count(row, 60);
  look(1);
  assert_near(value("eth0", "packets"), 100, 1e-9);
  assert_int_equal(
      unit_shown(fixture.merge.parts[0].reader, PORT, row, PACKETS), 60);
}

TEST(a_row_added_between_two_reads_counts_from_its_own_start) {
  open_rates((struct rates_options){0});
  look(1);
  count(add_port("eth7"), 70);
  look(1);
  assert_near(value("eth7", "packets"), 70, 1e-9);
}

TEST(a_reused_row_does_not_inherit_earlier_counts) {
  static const char *const names[PORT_ROWS] = {"a", "b", "c", "d"};
  for (int i = 0; i < PORT_ROWS; i++)
    count(add_port(names[i]), 1000000);
  open_rates((struct rates_options){.per_core = true});
  look(1);
  assert_return_code(
      percore_row_remove(fixture.region, PORT, 3, PERCORE_NO_UPDATE_IN_FLIGHT),
      0);
  uint32_t row = add_port("new");
  assert_int_equal(row, 3);
  count(row, 5);
  look(1);
  assert_null(find("c"));
  assert_near(value("new", "packets"), 5, 1e-9);
  /* the counts of a single core before this read are unknown */
  assert_nan(value_of("new", "packets", 2));
  look(1);
  assert_near(value_of("new", "packets", 2), 0, 1e-9);
}

TEST(a_row_that_changes_at_a_read_keeps_its_past) {
  const struct region_table *table = &fixture.region->tables[PORT + 1];
  uint32_t row = add_port("eth0");
  uint64_t *generation = region_generation(fixture.region, table, row);
  uint64_t kept = *generation;
  count(row, 1000000);
  open_rates((struct rates_options){0});
  look(1);
  *generation = region_changed(kept, REGION_CHANGING);
  look(1);
  *generation = kept;
  count(row, 5);
  look(1);
  assert_near(value("eth0", "packets"), 5, 1e-9);
}

TEST(totals_are_known_at_once_and_have_all_64_bits) {
  uint32_t row = add_port("eth0");
  count(row, UINT64_MAX - 1);
  open_rates((struct rates_options){.totals = true});
  look(1);
  assert_int_equal(
      *rate_cells(&fixture.rates, column("packets"), find("eth0"), 0),
      UINT64_MAX - 1);
  assert_near(value("eth0", "packets"), 0x1p64, 1);
}

TEST(totals_begin_at_the_last_reset) {
  uint32_t row = add_port("eth0");
  count(row, 1000);
  assert_return_code(percore_reset(fixture.region, PORT, row), 0);
  count(row, 60);
  open_rates((struct rates_options){.totals = true});
  look(1);
  assert_near(value("eth0", "packets"), 60, 1e-9);
  look(1);
  assert_near(value("eth0", "packets"), 60, 1e-9);
}

TEST(rows_that_are_not_kept_come_one_by_one_in_their_order) {
  static const char *const names[] = {"a", "b", "c", "d"};
  const struct rate_row *row;
  for (int i = 0; i < PORT_ROWS; i++)
    count(add_port(names[i]), (uint64_t)i);
  assert_return_code(
      percore_row_remove(fixture.region, PORT, 2, PERCORE_NO_UPDATE_IN_FLIGHT),
      0);
  fixture.rates = (struct rates){0};
  struct rates_options options = {.totals = true};
  assert_int_equal(
      rates_open(&fixture.rates, &fixture.merge, PORT + 1, &options), 0);
  for (int reading = 0; reading < 2; reading++) {
    look(1);
    assert_int_equal(rates_begin(&fixture.rates, SIZE_MAX), 0);
    assert_int_equal(fixture.rates.rows_live, PORT_ROWS - 1);
    for (int i = 0; i < PORT_ROWS; i++) {
      if (i == 1)
        continue;
      assert_int_equal(rates_next(&fixture.rates, &row), 0);
      assert_string_equal(row->name, names[i]);
      assert_near(rate_value(&fixture.rates, column("packets"), row, 0), i,
                  1e-9);
    }
    assert_int_equal(rates_next(&fixture.rates, &row), 0);
    assert_null(row);
  }
}

TEST(each_core_has_its_own_rates) {
  uint32_t row = add_port("eth0");
  open_rates((struct rates_options){.per_core = true});
  look(1);
  count(row, 10);
  look(1);
  assert_false(find("eth0")->has[1]);
  assert_nan(value_of("eth0", "packets", 1));
  assert_near(value_of("eth0", "packets", 2), 10, 1e-9);
}

TEST(the_rows_with_the_most_are_kept_in_that_order) {
  uint32_t rows[PORT_ROWS];
  static const char *const names[PORT_ROWS] = {"a", "b", "c", "d"};
  static const uint64_t counts[PORT_ROWS] = {10, 40, 20, 30};
  for (int i = 0; i < PORT_ROWS; i++)
    rows[i] = add_port(names[i]);
  open_rates((struct rates_options){.rows = 2, .sort = "packets"});
  look(1);
  for (int i = 0; i < PORT_ROWS; i++)
    count(rows[i], counts[i]);
  look(1);
  assert_int_equal(fixture.rates.rows_live, PORT_ROWS);
  assert_int_equal(fixture.rates.rows_len, 2);
  assert_string_equal(fixture.rates.rows[0].name, "b");
  assert_string_equal(fixture.rates.rows[1].name, "d");
}

TEST(rows_cannot_be_sorted_by_an_unknown_field) {
  open_rates((struct rates_options){.sort = "colour"});
  assert_false(fixture.rates.sort_asked);
  rates_sort(&fixture.rates, "packets", false);
  assert_true(fixture.rates.sort_asked);
}

TEST(percentiles_cover_the_time_since_the_last_read) {
  uint32_t row = add_port("eth0");
  percore_row_t cells =
      percore_row(percore_table(fixture.slot, fixture.port), row);
  for (int i = 0; i < 1000; i++)
    percore_observe(cells, LATENCY, 900);
  open_rates((struct rates_options){0});
  look(1);
  for (int i = 0; i < 10; i++)
    percore_observe(cells, LATENCY, 3);
  look(2);
  assert_near(value("eth0", "latency"), 5, 1e-9);
  assert_near(value("eth0", "latency_p50"), 3, 1e-9);
  assert_near(value("eth0", "latency_max"), 3, 1e-9);
  look(1);
  assert_nan(value("eth0", "latency_p99"));
}

TEST(an_up_down_counter_is_a_value_and_may_be_negative) {
  uint32_t row = add_port("eth0");
  percore_row_t cells =
      percore_row(percore_table(fixture.slot, fixture.port), row);
  percore_add(cells, DEPTH, -7);
  open_rates((struct rates_options){0});
  look(1);
  assert_near(value("eth0", "depth"), -7, 1e-9);
}

TEST(more_cells_than_the_limit_are_refused) {
  add_port("eth0");
  size_t row_size = (LATENCY_COLUMN + 36) * sizeof(uint64_t);
  fixture.merge.parts[0].bytes_most = 2 * row_size; /* and of row 0 */
  open_rates((struct rates_options){0});
  look(1);
  add_port("eth1");
  assert_int_equal(rates_read(&fixture.rates, 3ull * SECOND), -EFBIG);
}

/* A counter decreases only if its producer is faulty. */
TEST(a_counter_that_steps_back_has_no_rate) {
  uint32_t row = add_port("eth0");
  count(row, 1000);
  open_rates((struct rates_options){0});
  look(1);
  count(row, (uint64_t)-500);
  look(1);
  assert_nan(value("eth0", "packets"));
}

TEST(the_order_can_change_between_two_reads) {
  uint32_t low = add_port("low"), high = add_port("high");
  open_rates((struct rates_options){0});
  look(1);
  count(low, 1);
  count(high, 2);
  rates_sort(&fixture.rates, "packets", false);
  look(1);
  assert_string_equal(fixture.rates.rows[0].name, "high");
  rates_sort(&fixture.rates, "packets", true);
  count(low, 1);
  count(high, 2);
  look(1);
  assert_string_equal(fixture.rates.rows[0].name, "low");
  /* This table lacks the column, so the first counter decides. */
  rates_sort(&fixture.rates, "no_such_column", false);
  count(low, 1);
  count(high, 2);
  look(1);
  assert_string_equal(fixture.rates.rows[0].name, "high");
  rates_sort(&fixture.rates, NULL, true);
  count(low, 1);
  count(high, 2);
  look(1);
  assert_string_equal(fixture.rates.rows[0].name, "low");
}

const struct unit_fixtures unit_fixtures = {
    .before_all = unit_make_runtime_dir,
    .after_all = unit_remove_runtime_dir,
    .before_each = set_up,
    .after_each = tear_down,
};
