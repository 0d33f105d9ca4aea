#include "region_unit.h"
#include "unit.h"

#include "tool/top.h"

#include <unistd.h>

static void assert_short(double value, const char *wanted) {
  char text[SHORT_TEXT_SIZE];
  short_text(text, value);
  assert_string_equal(text, wanted);
}

TEST(numbers_are_short_and_have_three_digits) {
  assert_short(0, "0");
  assert_short(0.25, "0.25");
  assert_short(9.996, "10.0");
  assert_short(12.34, "12.3");
  assert_short(99.96, "100");
  assert_short(999.6, "1.00k");
  assert_short(9999, "9999");
  assert_short(12345, "12.3k");
  assert_short(999999, "1.00M");
  assert_short(4560000, "4.56M");
  assert_short(1.8446744073709552e19, "18.4E");
  assert_short(-12345, "-12.3k");
  assert_short(-0.0, "0");
  assert_short(-0.001, "0.00");
  assert_short(NAN, "-");
}

TEST(times_have_units) {
  static const struct {
    double ns;
    const char *wanted;
  } cases[] = {{3, "3.00ns"},     {495.5, "496ns"}, {12345, "12.3us"},
               {1.5e6, "1.50ms"}, {2e9, "2.00s"},   {7.2e12, "7200s"}};
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    char text[SHORT_TEXT_SIZE];
    short_time_text(text, cases[i].ns);
    assert_string_equal(text, cases[i].wanted);
  }
}

struct fixture {
  struct percore_region *region;
  struct top_options options;
  struct top top;
  struct rates rates[2];
};
static struct fixture fixture;

static void begin(void) {
  struct rates_options options = {.rows = 100};
  uint32_t row;
  fixture = (struct fixture){.options = {.interval_s = 2}};
  fixture.region = unit_create();
  assert_int_equal(merge_open(&fixture.top.merge, "top", "unit", false), 0);
  make_row(fixture.region, PORT, "\033[2J\033]0;x\007", &row);
  make_row(fixture.region, PORT, "eth1", &row);
  make_row(fixture.region, PORT, "eth2", &row);
  fixture.top.options = &fixture.options;
  fixture.top.alive = true;
  fixture.top.realtime_ns = UINT64_C(1795214532000000000);
  fixture.top.with_workers = true;
  fixture.top.tables = fixture.rates;
  fixture.top.tables_len = 2;
  assert_int_equal(region_workers_read(&fixture.top.merge.parts[0].workers,
                                       fixture.top.merge.parts[0].reader,
                                       UINT32_MAX, 1, 1, 0),
                   0);
  for (uint32_t t = 0; t < 2; t++) {
    assert_int_equal(
        rates_open(&fixture.rates[t], &fixture.top.merge, t + 1, &options), 0);
    assert_int_equal(rates_read(&fixture.rates[t], 1), 0);
    assert_int_equal(rates_read(&fixture.rates[t], 2000000001), 0);
  }
}

static void end(void) {
  rates_close(&fixture.rates[0]);
  rates_close(&fixture.rates[1]);
  merge_close(&fixture.top.merge);
  assert_return_code(percore_destroy(fixture.region), 0);
}

static char *page_of(const struct fixture *fixture, struct screen screen) {
  FILE *out = unit_open();
  assert_int_equal(screen_write(out, screen, top_table_write, &fixture->top),
                   0);
  return unit_close();
}

TEST(every_table_has_its_fields_with_their_units) {
  char *page = page_of(&fixture, (struct screen){0});
  char wanted[64];
  snprintf(wanted, sizeof(wanted), "unit, pid %d", (int)getpid());
  assert_non_null(strstr(page, wanted));
  assert_non_null(strstr(page, "core: 0 threads attached"));
  assert_non_null(strstr(page, "port: 3 rows"));
  assert_non_null(strstr(page, "packets/s"));
  assert_non_null(strstr(page, "latency_p99"));
  assert_non_null(strstr(page, "eth1"));
  assert_null(strstr(page, " \n"));
}

TEST(a_page_fits_its_window_whatever_its_size) {
  for (int height = 1; height < 30; height++)
    for (int width = 1; width < 120; width += 7) {
      char *page =
          page_of(&fixture, (struct screen){.width = width, .height = height});
      int lines = 0;
      for (const char *line = page; *line != '\0'; lines++) {
        size_t length = strcspn(line, "\n"), characters = 0;
        for (size_t i = 0; i < length; i++)
          characters += ((unsigned char)line[i] & 0xc0) != 0x80;
        assert_true(characters <= (size_t)width);
        line += length + (line[length] == '\n');
      }
      assert_true(lines <= height);
    }
}

/* Returns the column at which the first cell after the row's name ends. */
static size_t first_cell_end(const char *page, const char *row) {
  const char *line = strstr(page, row);
  assert_non_null(line);
  size_t name = strcspn(line, " "), blanks = strspn(line + name, " ");
  return name + blanks + strcspn(line + name + blanks, " \n");
}

TEST(a_column_that_rows_are_sorted_by_is_shown_in_every_window) {
  struct rates *rates = &fixture.rates[0];
  for (size_t c = 0; c < rates->columns_len; c++)
    for (int width = 50; width < 130; width += 20) {
      const char *title = rates->columns[c].title;
      rates_sort(rates, title, false);
      char *page = page_of(&fixture, (struct screen){.width = width});
      const char *titles = strstr(page, "\nrow ");
      assert_non_null(titles);
      assert_non_null(strstr(titles, title));
    }
}

TEST(the_order_of_the_rows_is_said_where_no_colour_shows_it) {
  char *page = page_of(&fixture, (struct screen){0});
  assert_non_null(strstr(page, "port: 3 rows\n"));
  const char *title = fixture.rates[1].columns[1].title;
  char heading[RATE_TITLE_SIZE + 32];
  rates_sort(&fixture.rates[1], title, false);
  snprintf(heading, sizeof(heading), "port: 3 rows, by %s\n", title);
  page = page_of(&fixture, (struct screen){0});
  assert_non_null(strstr(page, heading));
}

TEST(a_long_name_is_shortened_and_shifts_no_column) {
  static const char name[] =
      "10.98.0.1-10.98.0.2-35424-9999-17-and-more-and-more";
  struct rates_options options = {.rows = 100};
  uint32_t row;
  struct rates *rates = &fixture.rates[0];
  rates_close(rates);
  make_row(fixture.region, SLOW, name, &row);
  make_row(fixture.region, SLOW, "short", &row);
  assert_int_equal(rates_open(rates, &fixture.top.merge, SLOW + 1, &options),
                   0);
  for (uint64_t s = 1; s < 3; s++)
    assert_int_equal(rates_read(rates, s * 1000000000), 0);
  fixture.top.tables_len = 1;
  for (int width = 48; width <= 80; width += 32) {
    char *page = page_of(&fixture, (struct screen){.width = width});
    size_t wanted = first_cell_end(page, "row ");
    assert_int_equal(first_cell_end(page, "10.98"), wanted);
    assert_int_equal(first_cell_end(page, "short"), wanted);
    assert_int_equal(strstr(page, name) != NULL, width == 80);
    assert_int_equal(strstr(page, "...") != NULL, width != 80);
  }
}

TEST(names_of_rows_cannot_control_the_terminal) {
  char *page = page_of(&fixture, (struct screen){0});
  assert_null(strchr(page, '\033'));
  assert_null(strchr(page, '\007'));
}

TEST(totals_have_all_digits_where_these_fit) {
  struct rates_options options = {.totals = true};
  struct rates *rates = &fixture.rates[0];
  percore_slot_t slot;
  assert_return_code(attach_thread(fixture.region, "rx", 1, &slot), 0);
  percore_table_t port = percore_table(slot, PORT);
  percore_add(percore_row(port, 2), PACKETS, UINT64_C(12345678901234));
  percore_add(percore_row(port, 3), PACKETS, 123456789);
  rates_close(rates);
  assert_int_equal(rates_open(rates, &fixture.top.merge, PORT + 1, &options),
                   0);
  fixture.options.totals = true;
  fixture.top.with_workers = false;
  fixture.top.tables_len = 1;
  assert_int_equal(rates_read(rates, 1), 0);
  char *page = page_of(&fixture, (struct screen){0});
  assert_non_null(strstr(page, "user root, totals\nport: 3 rows\n"));
  assert_non_null(strstr(page, "\neth1"));
  assert_non_null(strstr(page, " 12345678901234 "));
  assert_non_null(strstr(page, " 123456789 "));
  assert_null(strstr(page, "/s"));
  rates_close(rates);
  options.rows = 10;
  assert_int_equal(rates_open(rates, &fixture.top.merge, PORT + 1, &options),
                   0);
  assert_int_equal(rates_read(rates, 1), 0);
  page = page_of(&fixture, (struct screen){.width = 79, .height = 23});
  assert_non_null(strstr(page, " 12.3T "));
  assert_non_null(strstr(page, " 123456789 "));
  percore_detach(slot);
}

TEST(a_region_that_has_ended_keeps_its_last_figures) {
  fixture.top.alive = false;
  fixture.top.why = "unit.sock: Connection refused";
  char *page = page_of(&fixture, (struct screen){0});
  char user[USER_TEXT_SIZE], wanted[USER_TEXT_SIZE + 64];
  user_text(user, getuid());
  snprintf(wanted, sizeof(wanted),
           "unit (pid %d, user %s) has ended; these are", (int)getpid(), user);
  assert_non_null(strstr(page, wanted));
  assert_non_null(strstr(page, "port: 3 rows"));
  assert_non_null(strstr(page, "eth1"));
}

const struct unit_fixtures unit_fixtures = {
    .before_all = unit_make_runtime_dir,
    .after_all = unit_remove_runtime_dir,
    .before_each = begin,
    .after_each = end,
};
