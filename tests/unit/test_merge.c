/* Tests that the instances of a region are shown as one region. */
#include "region_unit.h"
#include "unit.h"

#include "tool/rates.h"
#include "tool/tool.h"

#include <time.h>

enum { SECOND = 1000000000, INSTANCES = 4, CORES = 2 };

static const char *const link_states[] = {"down", "up"};
enum { COUNT, OPEN, LEAST, LINK, TIME };
static const struct percore_field fields[] = {
    {.name = "count"},
    {.name = "open", .kind = PERCORE_UPDOWN},
    {.name = "least", .kind = PERCORE_GAUGE, .aggregation = PERCORE_MIN},
    {.name = "link",
     .kind = PERCORE_STATE,
     .states = link_states,
     .state_count = 2},
    {.name = "time",
     .unit = "ns",
     .kind = PERCORE_HISTOGRAM,
     .sub_bits = 2,
     .max_bits = 10},
};
static const struct percore_table tables[] = {{.name = "port",
                                               .fields = fields,
                                               .field_count = COUNT_OF(fields),
                                               .max_rows = 4,
                                               .row_name_size = 24}};

static struct percore_region *regions[INSTANCES];
/* Held while gauges count. */
static percore_slot_t slots[INSTANCES][CORES];
static bool is_attached[INSTANCES][CORES];
static struct merge merge;
static struct rates rates;
static uint64_t now_ns;

static struct percore_region *create(int number, const char *instance) {
  struct percore_options options = {.instance = instance, .cores = CORES};
  assert_return_code(
      create_region(&regions[number], "unit", tables, 1, &options), errno);
  return regions[number];
}

static void end(int number) {
  for (int core = 0; core < CORES; core++) {
    if (is_attached[number][core])
      assert_return_code(percore_detach(slots[number][core]), errno);
    is_attached[number][core] = false;
  }
  if (regions[number] != NULL)
    assert_return_code(percore_destroy(regions[number]), errno);
  regions[number] = NULL;
}

static void set_up(void) {
  unit_make_runtime_dir();
  now_ns = SECOND;
}

static void tear_down(void) {
  rates_close(&rates);
  merge_close(&merge);
  for (int i = 0; i < INSTANCES; i++)
    end(i);
  unit_remove_runtime_dir();
}

/* Adds `n` to all fields of a row, but the state. */
static void count(int number, const char *name, int core, uint64_t n) {
  struct percore_region *region = regions[number];
  uint32_t row;
  (void)make_row(region, 0, name, &row);
  if (!is_attached[number][core])
    slots[number][core] = unit_attach(region, core);
  is_attached[number][core] = true;
  percore_row_t cells = percore_row(percore_table(slots[number][core], 0), row);
  percore_add(cells, COUNT, n);
  percore_add(cells, OPEN, -(int64_t)n);
  percore_set(cells, LEAST, n);
  percore_observe(cells, TIME, n);
}

static void open_all(bool each, bool per_core) {
  struct rates_options options = {.rows = 100, .per_core = per_core};
  assert_int_equal(merge_open(&merge, "top", "unit", each), 0);
  assert_int_equal(rates_open(&rates, &merge, 1, &options), 0);
}

/* Reads all rows, a second later. */
static void look(void) {
  now_ns += SECOND;
  (void)merge_refresh(&merge);
  assert_int_equal(rates_read(&rates, now_ns), 0);
}

/* Returns a value of a row: over all cores, or that of core `copy` - 1. */
static double value(const char *row, const char *title, unsigned copy) {
  for (size_t r = 0; r < rates.rows_len; r++)
    for (size_t c = 0; c < rates.columns_len; c++)
      if (strcmp(rates.rows[r].name, row) == 0 &&
          strcmp(rates.columns[c].title, title) == 0)
        return rate_value(&rates, &rates.columns[c], &rates.rows[r], copy);
  fail_msg("there is no %s of %s", title, row);
  return NAN;
}

TEST(rows_of_one_name_are_added_up) {
  create(0, "a");
  create(1, "b");
  count(0, "eth0", 0, 1000);
  open_all(false, false);
  look();
  assert_nan(value("eth0", "count", 0));
  count(0, "eth0", 0, 5);
  count(0, "eth0", 0, 5);
  count(0, "eth0", 0, 5);
  count(1, "eth0", 0, 100);
  count(1, "eth1", 0, 7);
  look();
  assert_int_equal(rates.rows_live, 2);
  assert_near(value("eth0", "count", 0), 115, 1e-9);
  assert_near(value("eth0", "open", 0), -1115, 1e-9);
  assert_near(value("eth0", "least", 0), 5, 1e-9);
  assert_near(value("eth0", "time", 0), 4, 1e-9);
  assert_near(value("eth0", "time_p50", 0), 5, 1e-9);
  assert_true(value("eth0", "time_max", 0) > 90);
  assert_near(value("eth1", "count", 0), 7, 1e-9);
  look();
  assert_near(value("eth0", "count", 0), 0, 1e-9);
}

TEST(each_core_has_the_sum_of_its_instances) {
  create(0, "a");
  create(1, "b");
  open_all(false, true);
  look();
  count(0, "eth0", 0, 5);
  count(0, "eth0", 1, 10);
  count(1, "eth0", 1, 3);
  look();
  assert_near(value("eth0", "count", 0), 18, 1e-9);
  assert_near(value("eth0", "count", 1), 5, 1e-9);
  assert_near(value("eth0", "count", 2), 13, 1e-9);
  assert_near(value("eth0", "least", 2), 3, 1e-9);
}

TEST(an_up_down_count_may_have_any_value) {
  create(0, "a");
  create(1, "b");
  open_all(false, false);
  count(0, "eth0", 0, UINT64_C(1) << 62);
  count(0, "eth0", 0, UINT64_C(1) << 62); /* the least value of all */
  count(1, "eth0", 0, -(UINT64_C(1) << 40));
  look();
  assert_near(value("eth0", "open", 0), -0x1p63 + 0x1p40, 1);
}

TEST(an_instance_that_ends_counts_to_its_end_and_makes_no_rate_fall) {
  create(0, "a");
  create(1, "b");
  count(0, "eth0", 0, 1000);
  count(1, "eth0", 0, 1000);
  open_all(false, false);
  look();
  count(0, "eth0", 0, 5);
  count(1, "eth0", 0, 3);
  end(0);
  look();
  assert_near(value("eth0", "count", 0), 8, 1e-9);
  count(1, "eth0", 0, 4);
  look();
  assert_near(value("eth0", "count", 0), 4, 1e-9);
  assert_near(value("eth0", "least", 0), 4, 1e-9);
  assert_int_equal(merge_count(&merge), 1);
}

TEST(an_instance_that_comes_counts_from_its_start) {
  create(0, "a");
  open_all(false, false);
  look();
  create(1, "b");
  count(1, "eth0", 0, 70);
  count(0, "eth0", 0, 1);
  look();
  assert_near(value("eth0", "count", 0), 71, 1e-9);
  end(1);
  look();
  create(1, "b"); /* the same name */
  count(1, "eth0", 0, 5);
  look();
  assert_near(value("eth0", "count", 0), 5, 1e-9);
}

TEST(all_files_of_an_instance_are_added_up) {
  create(0, "a");
  create(1, "a");
  open_all(false, false);
  look();
  count(0, "eth0", 0, 5);
  count(1, "eth0", 0, 3);
  look();
  assert_near(value("eth0", "count", 0), 8, 1e-9);
}

TEST(a_second_file_that_comes_later_is_added) {
  create(0, NULL);
  open_all(false, false);
  look();
  create(1, NULL);
  assert_int_equal(merge_refresh(&merge), REGION_CAME);
  assert_int_equal(merge_count(&merge), 2);
}

TEST(all_instances_may_be_replaced) {
  create(0, "a");
  open_all(false, false);
  look();
  end(0);
  look();
  look();
  assert_int_equal(merge_count(&merge), 0);
  create(1, "b");
  count(1, "eth0", 0, 5);
  look();
  assert_near(value("eth0", "count", 0), 5, 1e-9);
}

TEST(instances_can_be_told_apart) {
  create(0, "a");
  create(1, "b");
  open_all(true, false);
  look();
  count(0, "eth0", 0, 5);
  count(1, "eth0", 0, 3);
  look();
  assert_near(value("eth0@a", "count", 0), 5, 1e-9);
  assert_near(value("eth0@b", "count", 0), 3, 1e-9);
}

static bool has_column(const char *title) {
  for (size_t c = 0; c < rates.columns_len; c++)
    if (strcmp(rates.columns[c].title, title) == 0)
      return true;
  return false;
}

TEST(sums_have_no_states) {
  create(0, "a");
  create(1, "b");
  open_all(false, false);
  assert_false(has_column("link"));
  rates_close(&rates);
  merge_close(&merge);
  open_all(true, false);
  assert_true(has_column("link"));
}

TEST(a_region_without_instances_is_read_alone) {
  create(0, NULL);
  open_all(true, false);
  look();
  count(0, "eth0", 0, 5);
  look();
  assert_near(value("eth0", "count", 0), 5, 1e-9);
  assert_true(has_column("link"));
}

TEST(what_was_read_before_the_first_refresh_is_remembered) {
  create(0, NULL);
  count(0, "eth0", 0, 1000);
  open_all(false, false);
  assert_int_equal(rates_read(&rates, now_ns), 0);
  count(0, "eth0", 0, 5);
  look();
  assert_near(value("eth0", "count", 0), 5, 1e-9);
}

TEST(a_table_with_other_fields_is_left_out) {
  static const struct percore_field others[] = {{.name = "count"},
                                                {.name = "link"}};
  static const struct percore_table other = {.name = "port",
                                             .fields = others,
                                             .field_count = 2,
                                             .max_rows = 4,
                                             .row_name_size = 24};
  struct percore_options options = {.instance = "b", .cores = CORES};
  uint32_t row;
  create(0, "a");
  assert_return_code(create_region(&regions[1], "unit", &other, 1, &options),
                     errno);
  assert_return_code(make_row(regions[1], 0, "eth1", &row), errno);
  open_all(false, false);
  look();
  count(0, "eth0", 0, 5);
  look();
  assert_int_equal(rates.rows_live, 1);
  assert_near(value("eth0", "count", 0), 5, 1e-9);
}

const struct unit_fixtures unit_fixtures = {.before_each = set_up,
                                            .after_each = tear_down};
