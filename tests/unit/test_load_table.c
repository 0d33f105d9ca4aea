#include "unit.h"

#include "tool/load.h"

#include <yajl/yajl_tree.h>

struct fixture {
  struct snapshot snapshot;
  struct core_figures core[300];
  struct aggregate_figures aggregate[12];
};

static struct core_figures busy_core(int number, double load) {
  return (struct core_figures){.core = number,
                               .online = true,
                               .source = SOURCE_IDLE,
                               .proof = PROOF_PROVEN,
                               .load = load,
                               .load_low = fmax(load - 0.003, 0),
                               .load_high = load + 0.007,
                               .load_trough = load / 2,
                               .load_peak = load,
                               .room = 1 - load,
                               .sibling_load = NAN,
                               .load_average = {load, load, load},
                               .hidden = -0.005,
                               .steal = 0,
                               .frequency_hz = NAN};
}

/* Returns a machine whose core n has a load of n / 1000. */
static struct fixture *machine_of(size_t cores) {
  static struct fixture machine, *fixture = &machine;
  memset(fixture, 0, sizeof(*fixture));
  for (size_t i = 0; i < cores; i++)
    fixture->core[i] = busy_core((int)i, (double)i / 1000);
  fixture->aggregate[0] = (struct aggregate_figures){
      .name = "all", .cores_len = (int)cores, .load = {0.5, 0.25, 0.75, 0.1}};
  fixture->snapshot = (struct snapshot){
      .time_ns = UINT64_C(1795214532000000000),
      .interval_ns = UINT64_C(2000000000),
      .cores_len = cores,
      .cores = fixture->core,
      .aggregates_len = 1,
      .aggregates = fixture->aggregate,
      .host = {.load_average = {1.5, 1.25, 1},
               .run_queue_average = {NAN, NAN, NAN}},
      .self = {.cores_online = (int)cores},
  };
  return fixture;
}

static int lines_of(const char *text) {
  int lines = 0;
  for (; *text != '\0'; text++)
    lines += *text == '\n';
  return lines;
}

static char *page_of(const struct load_page *page, struct screen screen) {
  FILE *file = unit_open();
  assert_int_equal(screen_write(file, screen, load_table_write, page), 0);
  return unit_close();
}

static char *table_of(const struct fixture *fixture, struct screen screen) {
  return page_of(&(struct load_page){.snapshot = &fixture->snapshot}, screen);
}

static size_t longest_line(const char *text) {
  size_t longest = 0;
  for (; *text != '\0'; text += strcspn(text, "\n") + 1) {
    size_t length = strcspn(text, "\n");
    longest = length > longest ? length : longest;
  }
  return longest;
}

TEST(a_small_machine_gets_one_line_per_core) {
  struct fixture *fixture = machine_of(2);
  fixture->core[1] = busy_core(1, 0.8734);
  char *out = table_of(fixture, (struct screen){0});
  assert_string_equal(
      out,
      "2026-11-20 22:42:12  2 cores online, every 2 s\n"
      " core  load %  room %  low %  high %  trough %  peak %   1m %   5m %  "
      "15m % hidden % steal %  source\n"
      "    0     0.0   100.0    0.0     0.7       0.0     0.0    0.0    0.0    "
      "0.0     -0.5     0.0  idle\n"
      "    1    87.3    12.7   87.0    88.0      43.7    87.3   87.3   87.3   "
      "87.3     -0.5     0.0  idle\n"
      "load % of        mean    min    max stddev  cores\n"
      "all              50.0   25.0   75.0   10.0      2\n"
      "load %, 1m 5m 15m: 75.0 62.5 50.0\n");
}

TEST(averages_that_are_unknown_are_left_out) {
  struct fixture *fixture = machine_of(2);
  struct host_figures *host = &fixture->snapshot.host;
  host->run_queue_average[0] = 2;
  assert_non_null(strstr(table_of(fixture, (struct screen){0}),
                         "\nload %, 1m 5m 15m: 75.0 62.5 50.0   "
                         "run queue: 2.00 - -\n"));
  host->load_average[0] = NAN;
  assert_non_null(strstr(table_of(fixture, (struct screen){0}),
                         "\nrun queue, 1m 5m 15m: 2.00 - -\n"));
  host->run_queue_average[0] = NAN;
  assert_null(strstr(table_of(fixture, (struct screen){0}), "15m:"));
}

TEST(a_column_that_is_unknown_on_every_core_is_left_out) {
  struct fixture *fixture = machine_of(2);
  for (int core = 0; core < 2; core++)
    fixture->core[core].load_average[0] = fixture->core[core].steal = NAN;
  fixture->core[0].hidden = fixture->core[0].load_trough = NAN;
  char *out = table_of(fixture, (struct screen){0});
  assert_non_null(strstr(
      out, " core  load %  room %  low %  high %  trough %  peak %   5m %  "
           "15m % hidden %  source\n"));
  fixture->core[0].load = fixture->core[1].load = NAN;
  assert_non_null(strstr(table_of(fixture, (struct screen){0}), "load %"));
}

TEST(times_are_shown_if_asked_for_and_rare_ones_if_there_are_any) {
  struct fixture *fixture = machine_of(2);
  struct load_page page = {.snapshot = &fixture->snapshot};
  fixture->core[1].time[TIME_SOFTIRQ] = 0.25;
  assert_null(strstr(page_of(&page, (struct screen){0}), "user %"));
  page.time = true;
  char *out = page_of(&page, (struct screen){.width = 80, .height = 24});
  assert_non_null(
      strstr(out, " core  load %  room %  user % system %  irq % softirq %"));
  assert_non_null(
      strstr(out, "    1     0.1    99.9     0.0      0.0    0.0      25.0"));
  assert_null(strstr(out, "nice %"));
  fixture->core[0].time[TIME_NICE] = 0.5;
  out = page_of(&page, (struct screen){0});
  assert_non_null(strstr(out, " user %  nice % system %"));
}

TEST(lines_below_the_table_fit_its_window) {
  struct fixture *fixture = machine_of(64);
  struct load_page page = {.snapshot = &fixture->snapshot,
                           .below = "region\ndemo\ndoctor: nothing\n"};
  for (int height = 9; height < 90; height++) {
    char *out = page_of(&page, (struct screen){.width = 79, .height = height});
    assert_true(lines_of(out) <= height);
    assert_non_null(strstr(out, "\ndoctor: nothing\n"));
  }
}

TEST(a_core_that_polls_has_more_room_than_its_load_leaves) {
  struct fixture *fixture = machine_of(2);
  fixture->core[1].load = 0.5;
  fixture->core[1].room = 0.8;
  char *out = table_of(fixture, (struct screen){0});
  assert_non_null(strstr(out, "    1    50.0    80.0"));
}

TEST(the_load_of_the_sibling_is_shown_if_cores_have_siblings) {
  struct fixture *fixture = machine_of(2);
  fixture->core[0].sibling_load = 0.8734;
  char *out = table_of(fixture, (struct screen){0});
  assert_non_null(
      strstr(out, " low %  high %  trough %  peak % sibling %   1m %"));
  assert_non_null(
      strstr(out, "    0.0     0.7       0.0     0.0      87.3    0.0"));
  assert_non_null(
      strstr(out, "    0.0     0.8       0.1     0.1         -    0.1"));
}

TEST(an_unknown_value_is_a_dash_and_an_offline_core_is_named) {
  struct fixture *fixture = machine_of(2);
  fixture->core[0].load = fixture->core[0].hidden = NAN;
  fixture->core[0].source = SOURCE_NONE;
  fixture->core[1].online = false;
  char *out = table_of(fixture, (struct screen){0});
  assert_non_null(strstr(out, "    0       -"));
  assert_non_null(strstr(out, "  none\n"));
  assert_non_null(strstr(out, "  offline\n"));
  assert_null(strstr(out, "nan"));
}

TEST(an_unproven_source_is_marked_and_the_mark_is_explained) {
  struct fixture *fixture = machine_of(3);
  fixture->core[0].proof = PROOF_UNPROVEN;
  fixture->core[1].proof = PROOF_TICK_SAMPLED;
  char *out = table_of(fixture, (struct screen){0});
  assert_non_null(strstr(out, "  idle*\n"));
  assert_non_null(strstr(out, "  idle~\n"));
  assert_non_null(strstr(out, "* unproven: "));
  assert_non_null(strstr(out, "~ tick-sampled: "));
  fixture->core[0].proof = fixture->core[1].proof = PROOF_PROVEN;
  out = table_of(fixture, (struct screen){0});
  assert_null(strchr(out, '*'));
  assert_null(strchr(out, '~'));
}

TEST(the_table_fits_any_window) {
  static const size_t machines[] = {0, 1, 2, 16, 64, 256};
  for (size_t i = 0; i < sizeof(machines) / sizeof(machines[0]); i++) {
    struct fixture *fixture = machine_of(machines[i]);
    for (int width = 1; width < 200; width += 3)
      for (int height = 1; height < 120; height += 7) {
        char *out = table_of(fixture,
                             (struct screen){.width = width, .height = height});
        assert_true(lines_of(out) <= height);
        assert_true(longest_line(out) <= (size_t)width);
      }
  }
}

TEST(a_narrow_window_keeps_core_load_and_source) {
  struct fixture *fixture = machine_of(2);
  char *out = table_of(fixture, (struct screen){.width = 27, .height = 24});
  assert_non_null(strstr(out, "\n core  load %  source\n"));
  out = table_of(fixture, (struct screen){.width = 50, .height = 24});
  assert_non_null(
      strstr(out, "\n core  load %  room %  peak %   1m %  source\n"));
}

TEST(all_of_256_cores_are_shown_in_a_window_of_120_by_40) {
  struct fixture *fixture = machine_of(256);
  char *out = table_of(fixture, (struct screen){.width = 120, .height = 40});
  assert_non_null(strstr(out, "several cores per line"));
  for (int core = 0; core < 256; core++) {
    char cell[32];
    snprintf(cell, sizeof(cell), " %4d %6.1f", core, core / 10.0);
    assert_non_null(strstr(out, cell));
  }
  assert_non_null(strstr(out, "load %, 1m 5m 15m"));
}

TEST(in_80_by_24_the_busiest_of_256_cores_are_shown_and_counted) {
  struct fixture *fixture = machine_of(256);
  char *out = table_of(fixture, (struct screen){.width = 80, .height = 24});
  assert_non_null(strstr(out, "the busiest 114 of 256"));
  assert_non_null(strstr(out, "  255   25.5"));
  assert_non_null(strstr(out, "  142   14.2"));
  assert_null(strstr(out, "  141   14.1"));
}

TEST(the_json_document_holds_every_core_and_null_for_the_unknown) {
  struct fixture *fixture = machine_of(2);
  fixture->core[1].load = NAN;
  char error[128] = "";
  FILE *file = unit_open();
  const struct load_page page = {.snapshot = &fixture->snapshot};
  assert_int_equal(load_json_write(file, &page), 0);
  char *out = unit_close();
  yajl_val tree = yajl_tree_parse(out, error, sizeof(error));
  assert_string_equal(error, "");
  yajl_val cores =
      yajl_tree_get(tree, (const char *[]){"cores", NULL}, yajl_t_array);
  assert_non_null(cores);
  assert_int_equal(cores->u.array.len, 2);
  yajl_val load = yajl_tree_get(cores->u.array.values[1],
                                (const char *[]){"load", NULL}, yajl_t_any);
  assert_true(YAJL_IS_NULL(load));
  yajl_val average = yajl_tree_get(
      tree, (const char *[]){"host", "load_5m", NULL}, yajl_t_number);
  assert_near(YAJL_GET_DOUBLE(average), 62.5, 0);
  yajl_tree_free(tree);
}

static const char *line_of(const char *text, int line) {
  for (; line > 0; line--)
    text = strchr(text, '\n') + 1;
  return text;
}

TEST(cores_are_ordered_by_the_chosen_column) {
  struct fixture *fixture = machine_of(3);
  fixture->core[1].load = 0.9;
  fixture->core[2].load = NAN;
  struct screen screen = {
      .sort = load_table_order(
          &(struct load_page){.snapshot = &fixture->snapshot}, 0, true)};
  char *out = table_of(fixture, screen);
  assert_non_null(strstr(line_of(out, 0), ", by load %\n"));
  assert_int_equal(strncmp(line_of(out, 2), "    1 ", 6), 0);
  assert_int_equal(strncmp(line_of(out, 3), "    0 ", 6), 0);
  assert_int_equal(strncmp(line_of(out, 4), "    2 ", 6), 0);
  screen.reverse = true; /* rows with unknown values stay last */
  out = table_of(fixture, screen);
  assert_int_equal(strncmp(line_of(out, 2), "    0 ", 6), 0);
  assert_int_equal(strncmp(line_of(out, 3), "    1 ", 6), 0);
  assert_int_equal(strncmp(line_of(out, 4), "    2 ", 6), 0);
  out = table_of(fixture, (struct screen){.reverse = true});
  assert_int_equal(strncmp(line_of(out, 2), "    2 ", 6), 0);
}

/* Returns the order after `steps` keys. */
static size_t order_of(const struct fixture *fixture, int steps) {
  const struct load_page page = {.snapshot = &fixture->snapshot};
  size_t order = 0;
  for (; steps > 0; steps--)
    order = load_table_order(&page, order, true);
  for (; steps < 0; steps++)
    order = load_table_order(&page, order, false);
  return order;
}

static void assert_order(const struct fixture *fixture, size_t order,
                         const char *wanted) {
  char *out = table_of(fixture, (struct screen){.sort = order});
  assert_non_null(strstr(line_of(out, 0), wanted));
}

TEST(the_keys_pass_over_columns_that_are_not_shown) {
  struct fixture *fixture = machine_of(2);
  fixture->core[1].steal = 0.2;
  assert_order(fixture, order_of(fixture, 2), ", by room %\n");
  assert_order(fixture, order_of(fixture, -2), ", by steal %\n");
  assert_order(fixture, order_of(fixture, -1), ", by source\n");
  char *out = table_of(fixture, (struct screen){.sort = order_of(fixture, -2)});
  assert_int_equal(strncmp(line_of(out, 2), "    1 ", 6), 0);
  fixture->core[0].sibling_load = 0.1;
  assert_order(fixture, order_of(fixture, 7), ", by sibling %\n");
}

TEST(the_order_stays_when_another_column_appears) {
  struct fixture *fixture = machine_of(2);
  size_t order = order_of(fixture, 2);
  assert_order(fixture, order, ", by room %\n");
  fixture->core[0].sibling_load = 0.1;
  assert_order(fixture, order, ", by room %\n");
}

TEST(a_figure_that_rounds_to_zero_has_no_minus) {
  struct fixture *fixture = machine_of(2);
  fixture->core[0].hidden = -0.0004;
  fixture->core[1].steal = -0.0;
  char *out = table_of(fixture, (struct screen){0});
  assert_null(strstr(out, "-0.0"));
  assert_non_null(strstr(out, "+0.0"));
}

/* Removes escape sequences from the text. Returns false if it contained none.
 */
static bool drop_colour(char *text) {
  char *to = text;
  bool dropped = false;
  for (const char *from = text; *from != '\0';) {
    if (*from == '\033') {
      from += strcspn(from, "m") + 1;
      dropped = true;
    } else {
      *to++ = *from++;
    }
  }
  *to = '\0';
  return dropped;
}

TEST(colour_changes_no_character_of_any_table) {
  static const struct screen windows[] = {
      {0}, {.width = 80, .height = 24}, {.width = 27, .height = 9}};
  struct fixture *fixture = machine_of(64);
  fixture->core[3].load = 0.95;
  for (size_t i = 0; i < sizeof(windows) / sizeof(windows[0]); i++) {
    struct screen screen = windows[i];
    char *plain = table_of(fixture, screen);
    screen.colour = true;
    char *coloured = table_of(fixture, screen);
    assert_true(drop_colour(coloured));
    assert_string_equal(coloured, plain);
    assert_false(drop_colour(plain));
  }
}
