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
                               .busy = load,
                               .busy_low = load - 0.003,
                               .busy_high = load + 0.007,
                               .busy_min = load / 2,
                               .busy_max = load,
                               .taken = NAN,
                               .idle_poll = NAN,
                               .sibling_busy = NAN,
                               .load_average = {load, load, load},
                               .hidden = -0.005,
                               .steal = 0,
                               .unaccounted = 0,
                               .frequency_hz = NAN,
                               .ipc = NAN,
                               .ipc_running = NAN,
                               .counter_running = NAN};
}

/* Returns a machine whose core n has a load of n / 1000. */
static struct fixture *machine_of(size_t cores) {
  static struct fixture machine, *fixture = &machine;
  memset(fixture, 0, sizeof(*fixture));
  for (size_t i = 0; i < cores; i++)
    fixture->core[i] = busy_core((int)i, (double)i / 1000);
  fixture->aggregate[0] = (struct aggregate_figures){
      .name = "all", .cores_len = (int)cores, .busy = {0.5, 0.25, 0.75, 0.1}};
  fixture->snapshot = (struct snapshot){
      .time_ns = UINT64_C(1795214532000000000),
      .interval_ns = UINT64_C(2000000000),
      .period_s = {60, 300, 900},
      .periods_len = 3,
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

static char *table_of(const struct fixture *fixture, struct screen screen) {
  FILE *file = unit_open();
  assert_int_equal(
      screen_write(file, screen, load_table_write, &fixture->snapshot), 0);
  return unit_close();
}

static int lines_of(const char *text) {
  int lines = 0;
  for (; *text != '\0'; text++)
    lines += *text == '\n';
  return lines;
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
      " core  load %  error  min %  max %  1 min  5 min 15 min hidden % "
      "steal %  "
      "source\n"
      "    0     0.0    0.7    0.0    0.0   0.00   0.00   0.00     -0.5    "
      " 0.0  "
      "idle\n"
      "    1    87.3    0.7   43.7   87.3   0.87   0.87   0.87     -0.5    "
      " 0.0  "
      "idle\n"
      "load % of        mean    min    max stddev  cores\n"
      "all              50.0   25.0   75.0   10.0      2\n"
      "busy cores, 1/5/15 min: 1.50 1.25 1.00   run queue: - - -\n");
}

TEST(what_is_taken_is_shown_if_it_is_less_than_a_load) {
  struct fixture *fixture = machine_of(2);
  for (int core = 0; core < 2; core++) {
    fixture->core[core].busy = 0.5;
    fixture->core[core].taken = 0.5;
  }
  char *out = table_of(fixture, (struct screen){0});
  assert_null(strstr(out, "taken %"));
  fixture->core[1].taken = 0.2;
  out = table_of(fixture, (struct screen){0});
  assert_non_null(strstr(out, " core  load % taken %  error"));
  assert_non_null(strstr(out, "    1    50.0    20.0"));
}

TEST(idle_polls_are_shown_where_a_core_polls) {
  struct fixture *fixture = machine_of(2);
  char *out = table_of(fixture, (struct screen){0});
  assert_null(strstr(out, "idle_poll"));
  fixture->core[1].busy = 0.5;
  fixture->core[1].taken = 0.2;
  fixture->core[1].idle_poll = 0.3;
  out = table_of(fixture, (struct screen){0});
  assert_non_null(strstr(out, " core  load % taken % idle_poll %  error"));
  assert_non_null(strstr(out, "    1    50.0    20.0        30.0"));
}

TEST(the_load_of_the_sibling_is_shown_if_cores_have_siblings) {
  struct fixture *fixture = machine_of(2);
  fixture->core[0].sibling_busy = 0.8734;
  char *out = table_of(fixture, (struct screen){0});
  assert_non_null(
      strstr(out, " core  load %  error  min %  max % sibling %  1 min"));
  assert_non_null(
      strstr(out, "    0     0.0    0.7    0.0    0.0      87.3   0.00"));
  assert_non_null(
      strstr(out, "    1     0.1    0.7    0.1    0.1         -   0.00"));
}

TEST(an_unknown_value_is_a_dash_and_an_offline_core_is_named) {
  struct fixture *fixture = machine_of(2);
  fixture->core[0].busy = fixture->core[0].hidden = NAN;
  fixture->core[0].source = SOURCE_NONE;
  fixture->core[1].online = false;
  char *out = table_of(fixture, (struct screen){0});
  assert_non_null(strstr(out, "    0       -"));
  assert_non_null(strstr(out, "  none\n"));
  assert_non_null(strstr(out, "  offline\n"));
  assert_null(strstr(out, "nan"));
}

TEST(a_column_that_is_unknown_for_all_cores_is_left_out) {
  struct fixture *machine = machine_of(2);
  for (int core = 0; core < 2; core++)
    machine->core[core].steal = machine->core[core].load_average[2] = NAN;
  machine->core[0].hidden = NAN;
  char *table = table_of(machine, (struct screen){0});
  assert_null(strstr(table, "steal %"));
  assert_null(strstr(table, " 15 min"));
  assert_non_null(strstr(table, "hidden %"));
  assert_non_null(strstr(table, " 5 min"));
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
      strstr(out, "\n core  load %  max %  1 min hidden %  source\n"));
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
  assert_non_null(strstr(out, "busy cores, 1/5/15 min"));
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
  fixture->core[1].busy = NAN;
  char error[128] = "";
  FILE *file = unit_open();
  assert_int_equal(load_json_write(file, &fixture->snapshot), 0);
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
  yajl_val average =
      yajl_tree_get(tree, (const char *[]){"host", "load_average", "300", NULL},
                    yajl_t_number);
  assert_near(YAJL_GET_DOUBLE(average), 1.25, 0);
  yajl_tree_free(tree);
}

static const char *line_of(const char *text, int line) {
  for (; line > 0; line--)
    text = strchr(text, '\n') + 1;
  return text;
}

TEST(cores_are_ordered_by_the_chosen_column) {
  struct fixture *fixture = machine_of(3);
  fixture->core[1].busy = 0.9;
  fixture->core[2].busy = NAN;
  struct screen screen = {.sort = 1};
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
  assert_true(load_table_columns(&fixture->snapshot) > 5);
  out = table_of(fixture, (struct screen){.reverse = true});
  assert_int_equal(strncmp(line_of(out, 2), "    2 ", 6), 0);
}

TEST(the_keys_pass_over_columns_that_are_not_shown) {
  struct fixture *fixture = machine_of(2);
  size_t columns = load_table_columns(&fixture->snapshot);
  fixture->core[1].steal = 0.2;
  char *out = table_of(fixture, (struct screen){.sort = 2});
  assert_non_null(strstr(line_of(out, 0), ", by error\n"));
  out = table_of(fixture, (struct screen){.sort = columns - 1});
  assert_non_null(strstr(line_of(out, 0), ", by steal %\n"));
  assert_int_equal(strncmp(line_of(out, 2), "    1 ", 6), 0);
  out = table_of(fixture, (struct screen){.sort = columns});
  assert_non_null(strstr(line_of(out, 0), ", by source\n"));
  fixture->core[0].taken = -0.1;
  assert_int_equal(load_table_columns(&fixture->snapshot), columns + 1);
  out = table_of(fixture, (struct screen){.sort = 2});
  assert_non_null(strstr(line_of(out, 0), ", by taken %\n"));
}

TEST(a_source_that_was_asked_for_and_not_taken_is_said_below_the_table) {
  struct fixture *fixture = machine_of(2);
  assert_null(strstr(table_of(fixture, (struct screen){0}), "asked for"));
  fixture->snapshot.named_source = SOURCE_REF_CYCLES;
  fixture->snapshot.self.cores_online = 2;
  fixture->snapshot.self.cores_not_as_named = 1;
  assert_non_null(
      strstr(table_of(fixture, (struct screen){0}),
             "\nref-cycles was asked for, but 1 of 2 cores are measured by "
             "another source"));
}

TEST(a_run_too_short_to_measure_is_explained) {
  struct fixture *fixture = machine_of(2);
  fixture->snapshot.interval_ns = 0; /* as after `percore load COMMAND` */
  fixture->snapshot.covered_ns = 3000000;
  fixture->snapshot.self.cores_without_value = 2;
  char *out = table_of(fixture, (struct screen){0});
  assert_non_null(strstr(out, "\nno loads: the command ended before"));
  fixture->snapshot.self.cores_without_value = 1;
  out = table_of(fixture, (struct screen){0});
  assert_null(strstr(out, "no loads"));
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
  fixture->core[3].busy = 0.95;
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
