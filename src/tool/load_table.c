#include "load.h"
#include "text.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The marks of sources that are not proven (that have not passed their test),
 * and the notes below the table that explain the marks. */
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
 * Cells
 */

#define CELL_SIZE 32

static void put_source(char cell[CELL_SIZE], const struct core_figures *core) {
  snprintf(cell, CELL_SIZE, "%s%c%s",
           core->online ? source_name(core->source) : "offline",
           core->online ? mark_of(core) : ' ',
           core->isolated ? "isolated" : "");
}

/* ---------------------------------------------------------------------------
 * One line per core
 */

enum {
  COLUMN_CORE, /* the default order: screen.sort is the number of a column */
  COLUMN_LOAD,
  COLUMN_ROOM,
  COLUMN_USER,
  COLUMN_NICE,
  COLUMN_SYSTEM,
  COLUMN_IRQ,
  COLUMN_SOFTIRQ,
  COLUMN_GUEST,
  COLUMN_LOW,
  COLUMN_HIGH,
  COLUMN_TROUGH,
  COLUMN_PEAK,
  COLUMN_SIBLING,
  COLUMN_AVERAGE_1,
  COLUMN_AVERAGE_5,
  COLUMN_AVERAGE_15,
  COLUMN_HIDDEN,
  COLUMN_STEAL,
  COLUMN_SOURCE,
  COLUMNS
};

#define FIGURE(member) offsetof(struct core_figures, member)
static const struct column {
  const char *title;
  int width;          /* negative: flush left */
  int interest;       /* columns of low interest are left out first */
  const char *format; /* of the value; NULL for the source */
  double scale;
  /* Offset of a double in struct core_figures; unused for core and source. */
  size_t figure;
} columns[COLUMNS] = {
    [COLUMN_CORE] = {"core", 5, 10, "%.0f", 1, 0},
    [COLUMN_LOAD] = {"load %", 8, 9, "%.1f", 100, FIGURE(load)},
    [COLUMN_ROOM] = {"room %", 8, 8, "%.1f", 100, FIGURE(room)},
    [COLUMN_USER] = {"user %", 8, 8, "%.1f", 100, FIGURE(time[TIME_USER])},
    [COLUMN_NICE] = {"nice %", 8, 7, "%.1f", 100, FIGURE(time[TIME_NICE])},
    [COLUMN_SYSTEM] = {"system %", 9, 8, "%.1f", 100,
                       FIGURE(time[TIME_SYSTEM])},
    [COLUMN_IRQ] = {"irq %", 7, 8, "%.1f", 100, FIGURE(time[TIME_IRQ])},
    [COLUMN_SOFTIRQ] = {"softirq %", 10, 8, "%.1f", 100,
                        FIGURE(time[TIME_SOFTIRQ])},
    [COLUMN_GUEST] = {"guest %", 8, 7, "%.1f", 100, FIGURE(time[TIME_GUEST])},
    [COLUMN_LOW] = {"low %", 7, 3, "%.1f", 100, FIGURE(load_low)},
    [COLUMN_HIGH] = {"high %", 8, 3, "%.1f", 100, FIGURE(load_high)},
    [COLUMN_TROUGH] = {"trough %", 10, 2, "%.1f", 100, FIGURE(load_trough)},
    [COLUMN_PEAK] = {"peak %", 8, 6, "%.1f", 100, FIGURE(load_peak)},
    [COLUMN_SIBLING] = {"sibling %", 10, 5, "%.1f", 100, FIGURE(sibling_load)},
    [COLUMN_AVERAGE_1] = {"1m %", 7, 7, "%.1f", 100, FIGURE(load_average[0])},
    [COLUMN_AVERAGE_5] = {"5m %", 7, 1, "%.1f", 100, FIGURE(load_average[1])},
    [COLUMN_AVERAGE_15] = {"15m %", 7, 0, "%.1f", 100, FIGURE(load_average[2])},
    [COLUMN_HIDDEN] = {"hidden %", 9, 4, "%+.1f", 100, FIGURE(hidden)},
    [COLUMN_STEAL] = {"steal %", 8, 1, "%.1f", 100, FIGURE(steal)},
    [COLUMN_SOURCE] = {"source", -12, 9, NULL, 1, 0},
};
#define INTEREST_MAX 10

/* Returns the value of a column for a core, or NAN if it is unknown. */
static double value_of(const struct core_figures *core, size_t column) {
  if (column == COLUMN_CORE)
    return core->core;
  if (column == COLUMN_SOURCE)
    return core->source;
  const char *figures = (const char *)core;
  return columns[column].scale *
         *(const double *)(figures + columns[column].figure);
}

static void put_cell(char cell[CELL_SIZE], size_t column,
                     const struct core_figures *core) {
  if (column == COLUMN_SOURCE)
    put_source(cell, core);
  else
    number_text(cell, CELL_SIZE, columns[column].format,
                value_of(core, column));
}

/* Returns the width of a column, including the two blanks that precede a column
 * that is flush left. */
static int column_width(const struct column *column) {
  return column->width < 0 ? 2 - column->width : column->width;
}

/* True if a core's value is worth a column. */
static bool says_something(const struct core_figures *core, size_t column) {
  double value = value_of(core, column);
  if (column == COLUMN_NICE || column == COLUMN_GUEST)
    return value >= 0.05; /* which is shown as 0.1 */
  return !isnan(value);
}

static bool is_shown(const struct load_page *page, size_t column) {
  const struct snapshot *snapshot = page->snapshot;
  if (column >= COLUMN_USER && column <= COLUMN_GUEST && !page->time)
    return false;
  bool is_shown = column == COLUMN_LOAD || column == COLUMN_SOURCE;
  for (size_t i = 0; i < snapshot->cores_len && !is_shown; i++)
    is_shown = says_something(&snapshot->cores[i], column);
  return is_shown || column == COLUMN_CORE;
}

size_t load_table_order(const void *page, size_t order, bool forwards) {
  do
    order = (order + (forwards ? 1 : COLUMNS - 1)) % COLUMNS;
  while (!is_shown(page, order));
  return order;
}

/* Returns a bit mask of the columns that fit into `width` characters. 0 means
 * unlimited. */
static unsigned columns_that_fit(const struct load_page *page, int width) {
  for (int least = 0;; least++) {
    unsigned shown = 0;
    int used = 0;
    for (size_t i = 0; i < COLUMNS; i++) {
      if (columns[i].interest < least || !is_shown(page, i))
        continue;
      shown |= 1U << i;
      used += column_width(&columns[i]);
    }
    if (used <= width || width <= 0 || least == INTEREST_MAX)
      return shown;
  }
}

/* Loads are coloured from these percentages upwards. */
#define LOAD_WARN 70.0
#define LOAD_BAD 90.0

static enum paint load_paint(const struct core_figures *core) {
  double load = value_of(core, COLUMN_LOAD);
  return load >= LOAD_BAD    ? PAINT_BAD
         : load >= LOAD_WARN ? PAINT_WARN
                             : PAINT_NONE;
}

static void write_cell(FILE *out, const struct screen *screen,
                       const struct column *column, enum paint paint,
                       const char *text) {
  if (column->width < 0)
    fputs("  ", out); /* the last column */
  paint_pad(out, screen->colour, paint, text,
            column->width < 0 ? 0 : column->width);
}

static void write_header(FILE *out, const struct screen *screen,
                         unsigned shown) {
  for (size_t i = 0; i < COLUMNS; i++)
    if (shown >> i & 1)
      write_cell(out, screen, &columns[i],
                 i > 0 && screen->sort == i ? PAINT_SORTED : PAINT_TITLE,
                 columns[i].title);
  fputc('\n', out);
}

static void write_core(FILE *out, const struct screen *screen, unsigned shown,
                       const struct core_figures *core) {
  for (size_t i = 0; i < COLUMNS; i++) {
    if (!(shown >> i & 1))
      continue;
    char cell[CELL_SIZE];
    put_cell(cell, i, core);
    write_cell(out, screen, &columns[i],
               i == COLUMN_LOAD ? load_paint(core) : PAINT_NONE, cell);
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
  size_t column;
  bool rising;
};

static double key_of(const struct core_figures *core,
                     const struct order *order) {
  double value = value_of(core, order->column);
  return isnan(value) ? -INFINITY : order->rising ? -value : value;
}

/* Sorts the largest keys first and unknown values last. */
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

static void write_lines(FILE *out, const struct load_page *page,
                        const struct cores *cores,
                        const struct screen *screen) {
  unsigned shown = columns_that_fit(page, screen->width);
  write_header(out, screen, shown);
  for (size_t i = 0; i < cores->len; i++)
    write_core(out, screen, shown, cores->core[i]);
}

/* ---------------------------------------------------------------------------
 * Several cores per line
 */

#define GRID_CELL 13 /* " 1234  100.0*" */

static void write_grid_cell(FILE *out, bool colour,
                            const struct core_figures *core) {
  char load[CELL_SIZE];
  put_cell(load, COLUMN_LOAD, core);
  fprintf(out, " %4d ", core->core);
  paint_pad(out, colour, load_paint(core), core->online ? load : "off", 6);
  fputc(core->online ? mark_of(core) : ' ', out);
}

/* Writes several cores per line, in at most `lines` lines, but at least two.
 * Cores are sorted down the columns, like files in ls(1). If not all cores fit,
 * shows only the busiest. */
static void write_grid(FILE *out, struct cores *cores,
                       const struct screen *screen, int lines) {
  size_t across =
      screen->width < GRID_CELL ? 1 : (size_t)(screen->width / GRID_CELL);
  size_t room = across * (size_t)(lines > 2 ? lines - 1 : 1);
  size_t shown = cores->len < room ? cores->len : room;
  if (shown < cores->len) {
    sort_cores(cores, (struct order){.column = COLUMN_LOAD});
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
      write_grid_cell(out, screen->colour, cores->core[i]);
    fputc('\n', out);
  }
}

/* ---------------------------------------------------------------------------
 * Lines above and below the cores
 */

static void write_title(FILE *out, const struct snapshot *snapshot,
                        const struct screen *screen) {
  char time[TIME_TEXT_SIZE];
  time_text(time, snapshot->time_ns);
  fprintf(out, "%s  %d %s online, every %g s", time,
          snapshot->self.cores_online,
          snapshot->self.cores_online == 1 ? "core" : "cores",
          (double)snapshot->interval_ns / 1e9);
  if (screen->sort > 0)
    fprintf(out, ", by %s", columns[screen->sort].title);
  fputc('\n', out);
}

static void write_aggregate(FILE *out, const struct aggregate_figures *group) {
  const struct spread_figures *load = &group->load;
  const double figures[] = {load->mean, load->min, load->max, load->stddev};
  fprintf(out, "%-14.14s", group->name);
  for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++) {
    char text[CELL_SIZE];
    number_text(text, CELL_SIZE, "%.1f", 100 * figures[i]);
    fprintf(out, " %6s", text);
  }
  fprintf(out, " %6d", group->cores_len);
  if (group->cores_without_value > 0)
    fprintf(out, "  (%d without a value)", group->cores_without_value);
  fputc('\n', out);
}

/* Writes three averages, unless the first is unknown. */
static void write_averages(FILE *out, const char *what, const char *format,
                           double scale, const double *averages) {
  if (isnan(averages[0]))
    return;
  fputs(what, out);
  for (size_t i = 0; i < 3; i++) {
    char text[CELL_SIZE];
    number_text(text, CELL_SIZE, format, scale * averages[i]);
    fprintf(out, " %s", text);
  }
}

static void write_host(FILE *out, const struct snapshot *snapshot) {
  const struct host_figures *host = &snapshot->host;
  bool has_load = !isnan(host->load_average[0]);
  bool has_queue = !isnan(host->run_queue_average[0]);
  write_averages(out, "load %, 1m 5m 15m:", "%.1f",
                 100.0 / snapshot->self.cores_online, host->load_average);
  write_averages(out,
                 has_load ? "   run queue:" : "run queue, 1m 5m 15m:", "%.2f",
                 1, host->run_queue_average);
  if (has_load || has_queue)
    fputc('\n', out);
}

static bool mark_is_used(const struct snapshot *snapshot, size_t mark) {
  bool used = false;
  for (size_t core = 0; core < snapshot->cores_len; core++)
    used |= snapshot->cores[core].online &&
            mark_of(&snapshot->cores[core]) == marks[mark].sign;
  return used;
}

static void write_below(FILE *out, const struct snapshot *snapshot,
                        size_t aggregates) {
  fprintf(out, "%-14s %6s %6s %6s %6s %6s\n", "load % of", "mean", "min", "max",
          "stddev", "cores");
  for (size_t i = 0; i < aggregates; i++)
    write_aggregate(out, &snapshot->aggregates[i]);
  write_host(out, snapshot);
  for (size_t i = 0; i < MARKS; i++)
    if (mark_is_used(snapshot, i))
      fprintf(out, "%s\n", marks[i].note);
}

/* ---------------------------------------------------------------------------
 * The whole table
 */

static int write_cores(FILE *out, const struct load_page *page,
                       const struct screen *screen, int lines_left) {
  const struct snapshot *snapshot = page->snapshot;
  struct cores cores = {
      .core = calloc(snapshot->cores_len + 1, sizeof(*cores.core))};
  if (cores.core == NULL)
    return -ENOMEM;
  for (size_t i = 0; i < snapshot->cores_len; i++)
    cores.core[cores.len++] = &snapshot->cores[i];
  /* Unless reversed, core numbers are sorted in ascending order, and values of
   * all other columns in descending order. */
  bool rising = (screen->sort == COLUMN_CORE) != screen->reverse;
  sort_cores(&cores, (struct order){screen->sort, rising});
  if (screen->height <= 0 || (int)cores.len + 1 <= lines_left)
    write_lines(out, page, &cores, screen);
  else
    write_grid(out, &cores, screen, lines_left);
  free(cores.core);
  return 0;
}

int load_table_write(FILE *out, const void *figures, struct screen screen) {
  const struct load_page *page = figures;
  const struct snapshot *snapshot = page->snapshot;
  const char *below = page->below != NULL ? page->below : "";
  /* Limit the lines about nodes and packages, which may be many on a large
   * machine, so that there is room for the cores. */
  size_t aggregates = snapshot->aggregates_len;
  if (screen.height > 0 && aggregates > (size_t)screen.height / 4 + 1)
    aggregates = (size_t)screen.height / 4 + 1;
  /* The other lines: the title, that of the aggregates, the host, and notes. */
  int lines_left = screen.height - 3 - (int)aggregates;
  for (const char *line = below; (line = strchr(line, '\n')) != NULL; line++)
    lines_left--;
  for (size_t i = 0; i < MARKS; i++)
    lines_left -= mark_is_used(snapshot, i);
  write_title(out, snapshot, &screen);
  int status = write_cores(out, page, &screen, lines_left);
  write_below(out, snapshot, aggregates);
  fputs(below, out);
  return status;
}
