#include "top.h"

#include "text.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <string.h>

/* ---------------------------------------------------------------------------
 * Numbers in a few characters
 */

/* Writes a value with three digits and a unit. Each unit is 1000 times the unit
 * before it: the value is divided by 1000 until at most three digits precede
 * the decimal point. */
static void put_scaled(char text[SHORT_TEXT_SIZE], double value,
                       const char *const *units, size_t units_len) {
  size_t unit = 0;
  for (; fabs(value) >= 999.5 && unit + 1 < units_len; unit++)
    value /= 1000;
  double size = fabs(value);
  const char *format = size >= 99.95 ? "%.0f" : size >= 9.995 ? "%.1f" : "%.2f";
  number_text(text, SHORT_TEXT_SIZE, format, value);
  if (!isnan(value))
    strncat(text, units[unit], SHORT_TEXT_SIZE - strlen(text) - 1);
}

void short_text(char text[SHORT_TEXT_SIZE], double value) {
  static const char *const units[] = {"", "k", "M", "G", "T", "P", "E"};
  if (fabs(value) < 10000 && value == floor(value))
    snprintf(text, SHORT_TEXT_SIZE, "%.0f", value + 0.0);
  else
    put_scaled(text, value, units, sizeof(units) / sizeof(units[0]));
}

void short_time_text(char text[SHORT_TEXT_SIZE], double ns) {
  static const char *const units[] = {"ns", "us", "ms", "s"};
  put_scaled(text, ns, units, sizeof(units) / sizeof(units[0]));
}

static void put_percent(char text[SHORT_TEXT_SIZE], double share) {
  number_text(text, SHORT_TEXT_SIZE, "%.1f", 100 * share);
}

/* ---------------------------------------------------------------------------
 * Workers
 */

static void write_worker(FILE *out, bool colour, const struct merge_part *part,
                         const struct region_worker *worker) {
  char name[sizeof(worker->slot.name) * TEXT_GROWTH];
  char useful[SHORT_TEXT_SIZE], slept[SHORT_TEXT_SIZE], empty[SHORT_TEXT_SIZE];
  char polls[SHORT_TEXT_SIZE], items[SHORT_TEXT_SIZE];
  char core[SHORT_TEXT_SIZE];
  number_text(core, sizeof(core), "%.0f",
              worker->slot.core >= 0 ? worker->slot.core : NAN);
  text_clean_string(name, sizeof(name), worker->slot.name);
  put_percent(useful, worker->useful);
  put_percent(slept, worker->slept);
  put_percent(empty, top_empty(worker));
  short_text(polls, top_per_second(&part->workers, worker, REGION_CORE_POLLS));
  short_text(items, top_per_second(&part->workers, worker, REGION_CORE_ITEMS));
  fprintf(out, "%5s  %8s %8s %9s %8s %9s  %s", core, useful, slept, polls,
          empty, items, name);
  if (part->instance[0] != '\0')
    fprintf(out, "@%s", part->instance);
  if (!worker->polls)
    fputs("  (does not call percore_poll)", out);
  else if (worker->still_ns >= TOP_STUCK_NS) {
    char stuck[32];
    snprintf(stuck, sizeof(stuck), "STUCK for %.0f s",
             (double)worker->still_ns / 1e9);
    fputs("  ", out);
    paint_pad(out, colour, PAINT_BAD, stuck, 0);
  } else if (worker->slot.asleep_tsc != 0)
    fputs("  (asleep)", out);
  fputc('\n', out);
}

static uint32_t count_threads(const struct merge *merge) {
  uint32_t count = 0;
  for (const struct merge_part *part = NULL;
       (part = merge_next(merge, part)) != NULL;)
    count += part->workers.attached;
  return count;
}

/* Writes a line for each thread, and at most `lines` lines. */
static void write_workers(FILE *out, const struct merge *merge, int lines,
                          const struct screen *screen) {
  const struct merge_part *part = NULL;
  uint32_t count = count_threads(merge), shown = 0;
  uint32_t room = lines > 4 ? (uint32_t)lines - 3 : 1;
  uint32_t most = count + 2 <= (uint32_t)lines ? count : room;
  fprintf(out, "core: %u %s attached\n", count,
          count == 1 ? "thread" : "threads");
  if (count == 0)
    return;
  fprintf(out, "%5s  %8s %8s %9s %8s %9s  %s\n", "core", "useful %", "asleep %",
          "polls/s", "empty %", "items/s", "thread");
  while ((part = merge_next(merge, part)) != NULL)
    for (uint32_t s = 0; s < part->workers.len && shown < most; s++)
      if (part->workers.list[s].slot.state == REGION_LIVE) {
        write_worker(out, screen->colour, part, &part->workers.list[s]);
        shown++;
      }
  if (shown < count)
    fprintf(out, "%5s  and %u more\n", "", count - shown);
}

/* ---------------------------------------------------------------------------
 * Cells
 */

enum { NAME_WIDTH = 24, CELL_WIDTH = 9, EXACT_WIDTH = 20, CELL_GAP = 2 };
#define EXACT_BELOW 1e9 /* has no more digits than CELL_WIDTH */

#define NAME_TEXT_SIZE (MERGE_ROW_SIZE * TEXT_GROWTH)
#define UNIT_TEXT_SIZE 80

/* A table of rates, and how much of it fits into the screen. */
struct sheet {
  FILE *out;
  const struct screen *screen;
  struct rates *rates;
  double ns_per_cycle;
  size_t first, end; /* the columns that are shown */
  int name_width;
};

static void name_text(char text[NAME_TEXT_SIZE], const struct rate_row *row) {
  text_clean_string(text, NAME_TEXT_SIZE,
                    row->name[0] != '\0' ? row->name : "-");
}

static bool is_time(const struct rate_column *column) {
  const char *unit = field_unit(column->field);
  return column->kind == RATE_QUANTILE &&
         (strcmp(unit, "ns") == 0 || strcmp(unit, "cycles") == 0);
}

static void unit_text(char text[UNIT_TEXT_SIZE],
                      const struct rate_column *column, bool is_total) {
  char unit[64];
  text_clean_string(unit, sizeof(unit), field_unit(column->field));
  if (column->kind == RATE_PER_SECOND)
    snprintf(text, UNIT_TEXT_SIZE, "%s%s",
             column->field.layout->kind == PERCORE_HISTOGRAM ? "" : unit,
             is_total ? "" : "/s");
  else if (column->kind == RATE_STATE || is_time(column))
    text[0] = '\0';
  else
    snprintf(text, UNIT_TEXT_SIZE, "%s", unit);
}

static bool is_count(const struct sheet *sheet,
                     const struct rate_column *column) {
  return sheet->rates->options.totals &&
         (column->kind == RATE_PER_SECOND || column->kind == RATE_VALUE);
}

static int width_of(const struct sheet *sheet, size_t c) {
  const struct rate_column *column = &sheet->rates->columns[c];
  char unit[UNIT_TEXT_SIZE];
  unit_text(unit, column, sheet->rates->options.totals);
  bool is_exact = is_count(sheet, column) && sheet->screen->width == 0;
  int width = is_exact ? EXACT_WIDTH : CELL_WIDTH;
  if (text_width(column->title) > width)
    width = text_width(column->title);
  if (text_width(unit) > width)
    width = text_width(unit);
  return CELL_GAP + width;
}

/* ---------------------------------------------------------------------------
 * Rows
 */

/* Chooses the columns that fit next to the name of a row in `width` characters
 * (0: unlimited): the first columns or, if the user sorts by a later one, the
 * columns that end with it. */
static void choose_columns(struct sheet *sheet, int width) {
  const struct rates *rates = sheet->rates;
  size_t sorted = rates->sort_asked ? rates->sort_column : 0;
  for (sheet->first = 0;; sheet->first++) {
    int used = NAME_WIDTH;
    for (sheet->end = sheet->first; sheet->end < rates->columns_len;
         sheet->end++) {
      used += width_of(sheet, sheet->end);
      if (width > 0 && used > width && sheet->end > sheet->first)
        break;
    }
    if (sorted < sheet->end || sheet->end == rates->columns_len)
      return;
  }
}

/* Returns the width of the column with the names of the rows: the width of the
 * longest name or, if that does not fit, the width that the other columns
 * leave. */
static int choose_name_width(const struct sheet *sheet) {
  char name[NAME_TEXT_SIZE];
  int wanted = NAME_WIDTH, room = sheet->screen->width;
  for (size_t r = 0; r < sheet->rates->most; r++) {
    name_text(name, &sheet->rates->rows[r]);
    if (text_width(name) > wanted)
      wanted = text_width(name);
  }
  for (size_t c = sheet->first; c < sheet->end; c++)
    room -= width_of(sheet, c);
  if (room < NAME_WIDTH)
    room = NAME_WIDTH;
  return sheet->screen->width > 0 && wanted > room ? room : wanted;
}

static void write_titles(const struct sheet *sheet) {
  const struct rates *rates = sheet->rates;
  bool colour = sheet->screen->colour;
  char unit[UNIT_TEXT_SIZE];
  paint_pad(sheet->out, colour, PAINT_TITLE, "row", -sheet->name_width);
  for (size_t c = sheet->first; c < sheet->end; c++) {
    bool is_sorted = rates->sort_asked && rates->sort_column == c;
    paint_pad(sheet->out, colour, is_sorted ? PAINT_SORTED : PAINT_TITLE,
              rates->columns[c].title, width_of(sheet, c));
  }
  fputc('\n', sheet->out);
  text_pad(sheet->out, "", -sheet->name_width);
  for (size_t c = sheet->first; c < sheet->end; c++) {
    unit_text(unit, &rates->columns[c], rates->options.totals);
    text_pad(sheet->out, unit, width_of(sheet, c));
  }
  fputc('\n', sheet->out);
}

/* Writes all digits of a total, if they fit into its cell. */
static void write_cell(const struct sheet *sheet, size_t c,
                       const struct rate_row *row, uint32_t copy) {
  const struct rate_column *column = &sheet->rates->columns[c];
  const uint64_t *cells = rate_cells(sheet->rates, column, row, copy);
  double value = rate_value(sheet->rates, column, row, copy);
  char state[VALUE_TEXT_SIZE], text[sizeof(state) * TEXT_GROWTH];
  bool fits = sheet->screen->width == 0 || fabs(value) < EXACT_BELOW;
  if (column->kind == RATE_STATE && cells != NULL) {
    value_text(state, column->field, cells);
    text_clean_string(text, sizeof(text), state);
  } else if (is_count(sheet, column) && fits && cells != NULL) {
    value_text(text, column->field, cells);
  } else if (!is_time(column)) {
    short_text(text, value);
  } else if (strcmp(field_unit(column->field), "cycles") == 0) {
    short_time_text(text, value * sheet->ns_per_cycle);
  } else {
    short_time_text(text, value);
  }
  text_pad(sheet->out, text, width_of(sheet, c));
}

static void write_values(const struct sheet *sheet, char *name,
                         const struct rate_row *row, uint32_t copy) {
  text_shorten(name, sheet->name_width);
  text_pad(sheet->out, name, -sheet->name_width);
  for (size_t c = sheet->first; c < sheet->end; c++)
    write_cell(sheet, c, row, copy);
  if (row->torn)
    fputs("  (torn)", sheet->out);
  fputc('\n', sheet->out);
}

static void write_row(const struct sheet *sheet, const struct rate_row *row) {
  char name[NAME_TEXT_SIZE];
  name_text(name, row);
  write_values(sheet, name, row, 0);
  for (uint32_t copy = 1; copy < sheet->rates->copies; copy++) {
    snprintf(name, sizeof(name), "  core %" PRIu32, copy - 1);
    if (row->has[copy])
      write_values(sheet, name, row, copy);
  }
}

/* Returns how many lines one row takes at most. */
static size_t row_lines(const struct rates *rates) {
  size_t lines = 1;
  for (uint32_t core = 0; core + 1 < rates->copies; core++)
    lines += rates->tile.core_used[core];
  return lines;
}

/* Returns how many rows fit into `lines` lines, at least 1. */
static size_t rows_that_fit(const struct rates *rates, int lines) {
  size_t room = lines > 4 ? (size_t)(lines - 3) / row_lines(rates) : 1;
  return room > 0 ? room : 1;
}

/* Writes a table in at most `lines` lines. */
static int write_rates(FILE *out, const struct top *top, struct rates *rates,
                       int lines, const struct screen *screen) {
  const struct region_directory *directory = merge_directory(&top->merge);
  const struct rate_row *row;
  int status = rates_begin(rates, rows_that_fit(rates, lines));
  if (status != 0)
    return status;
  struct sheet sheet = {.out = out,
                        .screen = screen,
                        .rates = rates,
                        .ns_per_cycle = 1e9 / (double)directory->header.tsc_hz};
  fprintf(out, "%s: %" PRIu64 " %s",
          directory->described[rates->tile.table].name, rates->rows_live,
          rates->rows_live == 1 ? "row" : "rows");
  if (rates->options.rows > 0 && rates->most < rates->rows_live)
    fprintf(out, ", those with the %s %s", rates->sort_least ? "least" : "most",
            rates->columns[rates->sort_column].title);
  else if (rates->sort_asked)
    fprintf(out, ", by %s", rates->columns[rates->sort_column].title);
  choose_columns(&sheet, screen->width);
  if (sheet.end - sheet.first < rates->columns_len)
    fprintf(out, " (%zu more columns: keys < and >)",
            rates->columns_len - (sheet.end - sheet.first));
  fputc('\n', out);
  if (rates->rows_live == 0)
    return 0;
  sheet.name_width = choose_name_width(&sheet);
  write_titles(&sheet);
  while (!ferror(out) && (status = rates_next(rates, &row)) == 0 && row != NULL)
    write_row(&sheet, row);
  return status;
}

/* ---------------------------------------------------------------------------
 * The whole table
 */

static void write_title(FILE *out, const struct top *top) {
  const struct region_reader *reader = top->merge.parts[0].reader;
  char time[TIME_TEXT_SIZE], user[USER_TEXT_SIZE], pid[PID_TEXT_SIZE];
  char who[USER_TEXT_SIZE + 64], why[512];
  time_text(time, top->realtime_ns);
  user_text(user, region_reader_uid(reader));
  pid_text(pid, region_reader_pid(reader));
  if (top->merge.is_one)
    snprintf(who, sizeof(who), "pid %s, user %s", pid, user);
  else
    snprintf(who, sizeof(who), "%zu instances, user %s",
             merge_count(&top->merge), user);
  fprintf(out, "%s  %s", time, top->merge.region);
  if (!top->alive)
    fprintf(out,
            " (%s) has ended; these are its last figures. Waiting for it: %s\n",
            who, text_clean_string(why, sizeof(why), top->why));
  else if (top->options->totals)
    fprintf(out, ", %s, totals\n", who);
  else
    fprintf(out, ", %s, every %g s\n", who, top->options->interval_s);
}

/* Returns an equal share of the lines for the next of `parts` tables, and takes
 * what it uses of it. */
static int take_lines(int *lines, int parts, int wanted) {
  int share = *lines / parts > 1 ? *lines / parts : 1;
  *lines -= wanted < share ? wanted : share;
  return share;
}

int top_table_write(FILE *out, const void *figures, struct screen screen) {
  const struct top *top = figures;
  int status = 0, lines = screen.height > 0 ? screen.height - 1 : INT_MAX;
  int parts = (int)top->tables_len + top->with_workers;
  write_title(out, top);
  if (top->with_workers)
    write_workers(
        out, &top->merge,
        take_lines(&lines, parts--, 2 + (int)count_threads(&top->merge)),
        &screen);
  for (size_t t = 0; t < top->tables_len && status == 0; t++) {
    struct rates *rates = &top->tables[t];
    int wanted = 3 + (int)(rates->rows_len * row_lines(rates));
    status = write_rates(out, top, rates, take_lines(&lines, parts--, wanted),
                         &screen);
  }
  return status;
}
