#include "load_print.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* How a core whose source is not proven is marked, and the note below the table
 * that explains the mark. */
static const struct mark {
  enum proof proof;
  char sign;
  const char *note;
} marks[] = {
    {PROOF_PENDING, '?', "? the source is still being proven"},
    {PROOF_UNPROVEN, '*',
     "* unproven: the source could not be tested (see percore doctor)"},
    {PROOF_TICK_SAMPLED, '~',
     "~ tick-sampled: this kernel has no dynamic tick, so work between two "
     "ticks is not seen"},
};
#define MARKS (sizeof(marks) / sizeof(marks[0]))

static char mark_of(const struct core_figures *core) {
  for (size_t i = 0; i < MARKS; i++)
    if (core->source != SOURCE_NONE && core->proof == marks[i].proof)
      return marks[i].sign;
  return ' ';
}

/* ---------------------------------------------------------------------------
 * Lines
 */

static int lines_of(const char *text) {
  int lines = 0;
  for (; *text != '\0'; text++)
    lines += *text == '\n';
  return lines;
}

/* ---------------------------------------------------------------------------
 * Cells
 */

#define CELL_SIZE 32

/* The values of the columns; NAN if unknown. */
static double value_core(const struct core_figures *core) { return core->core; }
static double value_load(const struct core_figures *core) {
  return 100 * core->busy;
}
static double value_min(const struct core_figures *core) {
  return 100 * core->busy_min;
}
static double value_max(const struct core_figures *core) {
  return 100 * core->busy_max;
}
static double value_sibling(const struct core_figures *core) {
  return 100 * core->sibling_busy;
}
static double value_average_1(const struct core_figures *core) {
  return core->load_average[0];
}
static double value_average_5(const struct core_figures *core) {
  return core->load_average[1];
}
static double value_average_15(const struct core_figures *core) {
  return core->load_average[2];
}
static double value_hidden(const struct core_figures *core) {
  return 100 * core->hidden;
}
static double value_steal(const struct core_figures *core) {
  return 100 * core->steal;
}
static double value_source(const struct core_figures *core) {
  return core->source;
}

static void put_source(char cell[CELL_SIZE], const struct core_figures *core) {
  snprintf(cell, CELL_SIZE, "%s%c%s",
           core->online ? source_name(core->source) : "offline",
           core->online ? mark_of(core) : ' ',
           core->isolated ? "isolated" : "");
  for (size_t end = strlen(cell); end > 0 && cell[end - 1] == ' ';)
    cell[--end] = '\0';
}

/* ---------------------------------------------------------------------------
 * One line per core
 */

static const struct column {
  const char *title;
  int width;          /* negative: flush left */
  int interest;       /* the columns of least interest go first */
  const char *format; /* NULL: the source */
  double (*value)(const struct core_figures *core);
} columns[] = {
    {"core", 5, 10, "%.0f", value_core},
    {"load %", 8, 9, "%.1f", value_load},
    {"min", 7, 3, "%.1f", value_min},
    {"max", 7, 6, "%.1f", value_max},
    {"sibling", 8, 5, "%.1f", value_sibling},
    {"1 min", 7, 7, "%.2f", value_average_1},
    {"5 min", 7, 2, "%.2f", value_average_5},
    {"15 min", 8, 1, "%.2f", value_average_15},
    {"hidden", 8, 4, "%+.1f", value_hidden},
    {"steal", 7, 0, "%.1f", value_steal},
    {"source", -12, 8, NULL, value_source},
};
#define COLUMNS (sizeof(columns) / sizeof(columns[0]))
#define INTEREST_MAX 10

/* The first column, the core, is the default order. */
size_t load_table_columns(void) { return COLUMNS - 1; }

static void put_cell(char cell[CELL_SIZE], const struct column *column,
                     const struct core_figures *core) {
  if (column->format == NULL)
    put_source(cell, core);
  else
    number_text(cell, CELL_SIZE, column->format, column->value(core));
}

/* Two blanks come before a column that is flush left. */
static int column_width(const struct column *column) {
  return column->width < 0 ? 2 - column->width : column->width;
}

static bool has_siblings(const struct snapshot *snapshot) {
  for (size_t i = 0; i < snapshot->cores_len; i++)
    if (!isnan(snapshot->cores[i].sibling_busy))
      return true;
  return false;
}

/* Sets a bit for each column that is shown; returns their width. */
static int choose_columns(const struct snapshot *snapshot, int least,
                          unsigned *shown) {
  int width = 0;
  *shown = 0;
  for (size_t i = 0; i < COLUMNS; i++) {
    if (columns[i].interest < least ||
        (columns[i].value == value_sibling && !has_siblings(snapshot)))
      continue;
    *shown |= 1U << i;
    width += column_width(&columns[i]);
  }
  return width;
}

static unsigned columns_that_fit(const struct snapshot *snapshot, int width) {
  unsigned shown;
  for (int least = 0; choose_columns(snapshot, least, &shown) > width &&
                      width > 0 && least < INTEREST_MAX;
       least++)
    ;
  return shown;
}

/* Percent, from which on a load is painted. */
#define LOAD_WARN 70.0
#define LOAD_BAD 90.0

static enum paint load_paint(const struct core_figures *core) {
  double load = value_load(core);
  return load >= LOAD_BAD    ? PAINT_BAD
         : load >= LOAD_WARN ? PAINT_WARN
                             : PAINT_NONE;
}

static void write_cell(FILE *out, const struct window *window,
                       const struct column *column, enum paint paint,
                       const char *text) {
  if (column->width < 0)
    fputs("  ", out); /* always the last column */
  paint_pad(out, window->colour, paint, text,
            column->width < 0 ? 0 : column->width);
}

static void write_header(FILE *out, const struct window *window,
                         unsigned shown) {
  for (size_t i = 0; i < COLUMNS; i++)
    if (shown >> i & 1)
      write_cell(out, window, &columns[i],
                 i > 0 && window->sort == i ? PAINT_SORTED : PAINT_TITLE,
                 columns[i].title);
  fputc('\n', out);
}

static void write_core(FILE *out, const struct window *window, unsigned shown,
                       const struct core_figures *core) {
  for (size_t i = 0; i < COLUMNS; i++) {
    if (!(shown >> i & 1))
      continue;
    char cell[CELL_SIZE];
    put_cell(cell, &columns[i], core);
    write_cell(out, window, &columns[i],
               columns[i].value == value_load ? load_paint(core) : PAINT_NONE,
               cell);
  }
  fputc('\n', out);
}

/* ---------------------------------------------------------------------------
 * Which cores, in which order
 */

struct cores {
  const struct core_figures **core;
  size_t len;
};

struct order {
  double (*value)(const struct core_figures *core);
  bool rising;
};

static double key_of(const struct core_figures *core,
                     const struct order *order) {
  double value = order->value(core);
  return isnan(value) ? -INFINITY : order->rising ? -value : value;
}

/* The largest first; unknown values last. */
static int by_order(const void *left, const void *right, void *argument) {
  const struct core_figures *a = *(const struct core_figures *const *)left;
  const struct core_figures *b = *(const struct core_figures *const *)right;
  double key_a = key_of(a, argument), key_b = key_of(b, argument);
  if (key_a != key_b)
    return key_a < key_b ? 1 : -1;
  return a->core - b->core;
}

static void sort_cores(struct cores *cores, struct order order) {
  qsort_r(cores->core, cores->len, sizeof(*cores->core), by_order, &order);
}

static bool sorts(const struct window *window) {
  return window->sort > 0 && window->sort < COLUMNS;
}

/* By default core numbers rise and other columns fall. */
static struct order order_of(const struct window *window) {
  struct order order = {.value = sorts(window) ? columns[window->sort].value
                                               : value_core};
  order.rising = (order.value == value_core) != window->reverse;
  return order;
}

/* 0 or -ENOMEM. */
static int choose_cores(struct cores *cores, const struct snapshot *snapshot,
                        const struct window *window) {
  *cores = (struct cores){
      .core = calloc(snapshot->cores_len + 1, sizeof(*cores->core))};
  if (cores->core == NULL)
    return -ENOMEM;
  for (size_t i = 0; i < snapshot->cores_len; i++)
    if (window_shows_core(window, snapshot->cores[i].core))
      cores->core[cores->len++] = &snapshot->cores[i];
  sort_cores(cores, order_of(window));
  return 0;
}

static void write_lines(FILE *out, const struct snapshot *snapshot,
                        const struct cores *cores,
                        const struct window *window) {
  unsigned shown = columns_that_fit(snapshot, window->width);
  write_header(out, window, shown);
  for (size_t i = 0; i < cores->len; i++)
    write_core(out, window, shown, cores->core[i]);
}

/* ---------------------------------------------------------------------------
 * Several cores per line
 */

#define GRID_CELL 13 /* " 1234  100.0*" */

static void write_grid_cell(FILE *out, bool colour,
                            const struct core_figures *core) {
  char load[CELL_SIZE];
  number_text(load, sizeof(load), "%.1f", value_load(core));
  fprintf(out, " %4d ", core->core);
  paint_pad(out, colour, load_paint(core), core->online ? load : "off", 6);
  fputc(core->online ? mark_of(core) : ' ', out);
}

/* At most `lines` lines, filled column by column as ls(1) does. */
static void write_grid(FILE *out, struct cores *cores,
                       const struct window *window, int lines) {
  size_t across =
      window->width < GRID_CELL ? 1 : (size_t)(window->width / GRID_CELL);
  size_t room = across * (size_t)(lines > 2 ? lines - 1 : 1);
  size_t shown = cores->len < room ? cores->len : room;
  if (shown < cores->len) {
    sort_cores(cores, (struct order){.value = value_load});
    fprintf(out,
            "core and load %%: the busiest %zu of %zu (--cores LIST "
            "shows others)\n",
            shown, cores->len);
  } else {
    fputs("core and load %, several cores per line\n", out);
  }
  size_t down = (shown + across - 1) / across;
  for (size_t line = 0; line < down; line++) {
    for (size_t i = line; i < shown; i += down)
      write_grid_cell(out, window->colour, cores->core[i]);
    fputc('\n', out);
  }
}

/* ---------------------------------------------------------------------------
 * Above and below
 */

static void write_title(FILE *out, const struct snapshot *snapshot,
                        const struct window *window) {
  char time[TIME_TEXT_SIZE];
  time_text(time, snapshot->time_ns);
  fprintf(out, "%s  %d %s online, ", time, snapshot->self.cores_online,
          snapshot->self.cores_online == 1 ? "core" : "cores");
  if (snapshot->interval_ns > 0)
    fprintf(out, "every %g s", (double)snapshot->interval_ns / 1e9);
  else
    fprintf(out, "over %.3f s", (double)snapshot->covered_ns / 1e9);
  if (sorts(window))
    fprintf(out, ", by %s", columns[window->sort].title);
  fputc('\n', out);
}

static void write_aggregate(FILE *out, const struct aggregate_figures *group) {
  char mean[CELL_SIZE], min[CELL_SIZE], max[CELL_SIZE], stddev[CELL_SIZE];
  number_text(mean, CELL_SIZE, "%.1f", 100 * group->mean);
  number_text(min, CELL_SIZE, "%.1f", 100 * group->min);
  number_text(max, CELL_SIZE, "%.1f", 100 * group->max);
  number_text(stddev, CELL_SIZE, "%.1f", 100 * group->stddev);
  fprintf(out, "%-14.14s %6s %6s %6s %6s %6d", group->name, mean, min, max,
          stddev, group->cores_len);
  if (group->cores_without_value > 0)
    fprintf(out, "  (%d without a value)", group->cores_without_value);
  fputc('\n', out);
}

/* Of the cores that are shown. Cores without a value count as idle, unless no
 * core has a value. */
static double busy_cores(const struct snapshot *snapshot,
                         const struct window *window, size_t period) {
  if (window->cores == NULL)
    return snapshot->host.load_average[period];
  double sum = NAN;
  for (size_t i = 0; i < snapshot->cores_len; i++) {
    double average = snapshot->cores[i].load_average[period];
    if (window_shows_core(window, snapshot->cores[i].core) && !isnan(average))
      sum = isnan(sum) ? average : sum + average;
  }
  return sum;
}

static void write_host(FILE *out, const struct snapshot *snapshot,
                       const struct window *window) {
  char load[3][CELL_SIZE], queue[3][CELL_SIZE];
  for (size_t i = 0; i < 3; i++) {
    number_text(load[i], CELL_SIZE, "%.2f", busy_cores(snapshot, window, i));
    number_text(queue[i], CELL_SIZE, "%.2f",
                snapshot->host.run_queue_average[i]);
  }
  fprintf(out, "busy cores, 1/5/15 min: %s %s %s   run queue: %s %s %s\n",
          load[0], load[1], load[2], queue[0], queue[1], queue[2]);
}

/* A snapshot without an interval covers the run of a command. */
static bool ran_too_briefly(const struct snapshot *snapshot) {
  const struct self_figures *self = &snapshot->self;
  return snapshot->interval_ns == 0 &&
         self->cores_without_value == self->cores_online;
}

static int write_below(FILE *out, const struct snapshot *snapshot,
                       const struct window *window, size_t aggregates) {
  fprintf(out, "%-14s %6s %6s %6s %6s %6s\n", "load % of", "mean", "min", "max",
          "stddev", "cores");
  for (size_t i = 0; i < aggregates; i++)
    write_aggregate(out, &snapshot->aggregates[i]);
  write_host(out, snapshot, window);
  if (ran_too_briefly(snapshot))
    fputs("no loads: the command ended before its loads could be measured; "
          "source idle needs at least 20 ms\n",
          out);
  for (size_t i = 0; i < MARKS; i++) {
    bool used = false;
    for (size_t core = 0; core < snapshot->cores_len; core++)
      used |= snapshot->cores[core].online &&
              mark_of(&snapshot->cores[core]) == marks[i].sign;
    if (used)
      fprintf(out, "%s\n", marks[i].note);
  }
  return ferror(out) ? -ENOMEM : 0;
}

/* ---------------------------------------------------------------------------
 * The whole table
 */

static int write_cores(FILE *out, const struct snapshot *snapshot,
                       const struct window *window, int lines_left) {
  struct cores cores;
  if (choose_cores(&cores, snapshot, window) != 0)
    return -ENOMEM;
  if (window->height <= 0 || (int)cores.len + 1 <= lines_left)
    write_lines(out, snapshot, &cores, window);
  else
    write_grid(out, &cores, window, lines_left);
  free(cores.core);
  return 0;
}

int load_table_write(FILE *out, const struct snapshot *snapshot,
                     struct window window) {
  /* The nodes and packages of a large machine must leave room for its cores. */
  size_t aggregates = snapshot->aggregates_len;
  if (window.height > 0 && aggregates > (size_t)window.height / 4)
    aggregates = (size_t)window.height / 4 + 1;
  if (aggregates > snapshot->aggregates_len)
    aggregates = snapshot->aggregates_len;

  char *below = NULL, *whole = NULL;
  size_t size;
  FILE *part = open_memstream(&below, &size);
  if (part == NULL)
    return -ENOMEM;
  int status = write_below(part, snapshot, &window, aggregates);
  if (fclose(part) != 0 || status != 0)
    goto cleanup;

  status = -ENOMEM;
  part = open_memstream(&whole, &size);
  if (part == NULL)
    goto cleanup;
  write_title(part, snapshot, &window);
  status =
      write_cores(part, snapshot, &window, window.height - 1 - lines_of(below));
  fputs(below, part);
  if (fclose(part) != 0)
    status = -ENOMEM;
  if (status == 0)
    window_cut(out, whole, window);

cleanup:
  free(below);
  free(whole);
  return status;
}
