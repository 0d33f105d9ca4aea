/* Tests the option MaxNewRows: a program that names rows after what changes all
 * the time fills no data store, and its counts stay exact. */
#include "region_host.h"

#include "utils/common/common.h"

#define REGION(lines) "<Region \"unit\">\n" lines "</Region>\n"
#define TABLE(lines) "<Table \"flow\">\n" lines "</Table>\n"
#define SUM "percore_host_unit_flow_packets"

enum { ROWS = 3000, NAMES = 256 };

static const struct percore_field fields[] = {{.name = "packets"}};
static const struct percore_table tables[] = {{.name = "flow",
                                               .storage = PERCORE_OWNED,
                                               .fields = fields,
                                               .field_count = 1,
                                               .max_rows = ROWS,
                                               .row_name_size = 24},
                                              {.name = "total",
                                               .storage = PERCORE_OWNED,
                                               .fields = fields,
                                               .field_count = 1}};

static void count(struct percore_region *region, const char *name, uint64_t n) {
  percore_table_t flow = unit_owned_table(region, 0);
  percore_add(percore_row(flow, row_of(region, 0, name)), 0, n);
}

/* Gives each of `len` rows a name of this generation, in place of those of the
 * generation before, and counts 7 in each. */
static void rename_rows(struct percore_region *region, int generation,
                        int len) {
  char name[24];
  for (int i = 0; generation > 1 && i < len; i++) {
    snprintf(name, sizeof(name), "g%d-%d", generation - 1, i);
    assert_int_equal(percore_row_remove(region, 0, row_of(region, 0, name),
                                        PERCORE_NO_UPDATE_IN_FLIGHT),
                     0);
  }
  for (int i = 0; i < len; i++) {
    snprintf(name, sizeof(name), "g%d-%d", generation, i);
    count(region, name, 7);
  }
}

/* The names of rows that were ever dispatched, and their last counts. */
static struct known {
  char name[24];
  int64_t count;
} known[NAMES];
static size_t known_len;

static void know(const char *name, int64_t count) {
  size_t i = 0;
  while (i < known_len && strcmp(known[i].name, name) != 0)
    i++;
  assert_in_range(i, 0, NAMES - 1);
  sstrncpy(known[i].name, name, sizeof(known[i].name));
  known[i].count = count;
  known_len = i == known_len ? i + 1 : known_len;
}

static void play(uint64_t after_ns) {
  play_round(after_ns);
  for (size_t i = 0; i < fake.values_len; i++)
    if (strcmp(fake.values[i].list.plugin, SUM) == 0)
      know(fake.values[i].list.type_instance, fake.values[i].values->derive);
}

/* Returns how many names of rows were dispatched, `other` not included. */
static int names(void) {
  int names = 0;
  for (size_t i = 0; i < known_len; i++)
    names += strcmp(known[i].name, "other") != 0;
  return names;
}

static int64_t counted(void) {
  int64_t sum = 0;
  for (size_t i = 0; i < known_len; i++)
    sum += known[i].count;
  return sum;
}

static int64_t own(const char *name) {
  const struct region_value *value = find("percore_host", "self", name);
  assert_non_null(value);
  return value->derive;
}

static struct percore_region *begin(const char *lines) {
  struct percore_region *region = create(0, NULL, tables, 1);
  known_len = 0;
  start_watch(lines);
  return region;
}

TEST(a_table_that_fills_is_shown_whatever_max_new_rows_is) {
  struct percore_region *region = begin(REGION("MaxNewRows 1\n"));
  char name[24];
  for (int i = 0; i < ROWS; i++) {
    snprintf(name, sizeof(name), "row%d", i);
    count(region, name, 1);
    if (i % 1000 == 999)
      play_round(SECOND);
  }
  assert_count(SUM, "all", "row0", 1);
  assert_count(SUM, "all", name, 1);
  assert_none(SUM, "all", "other");
  assert_int_equal(own("new_rows_left_out"), 0);
}

TEST(names_that_replace_others_are_limited_and_every_count_is_reported) {
  struct percore_region *region = begin(REGION("MaxNewRows 5\n"));
  for (int generation = 1; generation <= 8; generation++) {
    rename_rows(region, generation, 10);
    play(SECOND);
    assert_int_equal(names(), generation == 1 ? 10 : 15);
    assert_int_equal(counted(), 70 * generation);
  }
  assert_int_equal(own("rows_left_out"), 0);
}

TEST(max_new_rows_are_shown_again_an_hour_later) {
  struct percore_region *region = begin(REGION("MaxNewRows 5\n"));
  for (int generation = 1; generation <= 4; generation++) {
    rename_rows(region, generation, 10);
    play(SECOND);
  }
  assert_int_equal(names(), 15);
  rename_rows(region, 5, 10);
  play(3600 * SECOND / 5);
  assert_int_equal(names(), 16);
  rename_rows(region, 6, 10);
  play(24 * 3600 * SECOND);
  assert_int_equal(names(), 21);
  assert_int_equal(counted(), 6 * 70);
}

TEST(a_row_that_was_left_out_begins_when_there_is_room_for_its_name) {
  struct percore_region *region = begin(REGION("MaxNewRows 1\n"));
  for (int generation = 1; generation <= 3; generation++) {
    rename_rows(region, generation, 1);
    play(SECOND);
  }
  assert_none(SUM, "all", "g3-0");
  play(3600 * SECOND);
  assert_count(SUM, "all", "g3-0", 0); /* the 7 are in `other` */
  count(region, "g3-0", 2);
  play(SECOND);
  assert_count(SUM, "all", "g3-0", 2);
  assert_int_equal(counted(), 3 * 7 + 2);
}

TEST(a_name_that_was_shown_before_is_not_new) {
  struct percore_region *region = begin(REGION("MaxNewRows 1\n"));
  for (int generation = 1; generation <= 4; generation++) {
    rename_rows(region, generation, 1);
    play(SECOND);
  }
  assert_int_equal(names(), 2);
  assert_int_equal(percore_row_remove(region, 0, row_of(region, 0, "g4-0"),
                                      PERCORE_NO_UPDATE_IN_FLIGHT),
                   0);
  count(region, "g1-0", 5);
  play(SECOND);
  assert_count(SUM, "all", "g1-0", 12);
  assert_int_equal(counted(), 4 * 7 + 5);
}

TEST(under_top_new_leaders_are_limited_and_leave_the_places_of_others) {
  struct percore_region *region =
      begin(REGION("MaxNewRows 2\n" TABLE("Top 3 \"packets\"\n")));
  int64_t all = 0;
  char name[24];
  for (int leader = 0; leader < 30; leader++) {
    for (int twice = 0; twice < 2; twice++) {
      for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof(name), "r%d", leader + i);
        count(region, name, 1000 + 1000 * (uint64_t)leader);
        all += 1000 + 1000 * leader;
      }
      play(SECOND);
      assert_int_equal(counted(), all);
    }
  }
  assert_int_equal(names(), 3 + 2);
  assert_int_not_equal(own("new_rows_left_out"), 0);
}

TEST(under_top_a_known_row_takes_the_place_that_a_new_one_must_not_take) {
  struct percore_region *region =
      begin(REGION("MaxNewRows 1\n" TABLE("Top 1 \"packets\"\n")));
  static const struct {
    const char *name;
    const char *shown;
  } leaders[] = {{"a", "a"}, {"b", "b"}, {"c", "b"}, {"a", "a"}};
  for (size_t i = 0; i < COUNT_OF(leaders); i++)
    for (int round = 0; round < 4; round++) {
      count(region, leaders[i].name, 1000);
      count(region, "d", 500); /* always a candidate, and never shown */
      play(SECOND);
      if (round > 1)
        assert_non_null(find(SUM, "all", leaders[i].shown));
    }
  assert_int_equal(names(), 2);
}

TEST(new_rows_that_are_left_out_are_said_once_and_so_is_their_end) {
  struct percore_region *region = begin(REGION("MaxNewRows 5\n"));
  static const char text[] =
      "Region unit: new rows of table flow are counted only in `other`: 5 have "
      "replaced others within an hour.";
  int said = 0;
  for (int generation = 1; generation <= 6; generation++) {
    rename_rows(region, generation, 10);
    play(SECOND);
    said += told(text);
  }
  assert_int_equal(said, 1);
  assert_non_null(fake_logged(LOG_WARNING, text));
  assert_int_equal(fake_count_logged(LOG_WARNING), 1);
  play(24 * 3600 * SECOND); /* the five of the sixth that were left out begin */
  play(3600 * SECOND);
  assert_true(told("Region unit: no new row was left out in an hour."));
}

/* It has no row `other` in which its counts would be. */
TEST(a_single_row_is_never_too_new) {
  struct percore_region *region = begin(REGION("MaxNewRows 1\n"));
  for (int generation = 1; generation <= 4; generation++) {
    rename_rows(region, generation, 4);
    play(SECOND);
  }
  end_producer(0);
  play(SECOND);
  region = create(0, NULL, tables, 2);
  percore_table_t total = unit_owned_table(region, 1);
  percore_add(percore_row(total, 0), 0, 9);
  play(SECOND);
  play(SECOND);
  assert_count("percore_host_unit_total_packets", "all", "all", 9);
}

const struct unit_fixtures unit_fixtures = {
    .before_each = set_up,
    .after_each = tear_down,
};
