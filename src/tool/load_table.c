#include "load_print.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* How a source that is not proven is marked, here and in the notes below the
 * table. */
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

static void put_cell(char cell[CELL_SIZE], const char *format, double value) {
  if (isnan(value))
    snprintf(cell, CELL_SIZE, "-");
  else
    snprintf(cell, CELL_SIZE, format, value);
}

static void put_core(char cell[CELL_SIZE], const struct core_figures *core) {
  snprintf(cell, CELL_SIZE, "%d", core->core);
}
static void put_load(char cell[CELL_SIZE], const struct core_figures *core) {
  put_cell(cell, "%.1f", 100 * core->busy);
}
static void put_min(char cell[CELL_SIZE], const struct core_figures *core) {
  put_cell(cell, "%.1f", 100 * core->busy_min);
}
static void put_max(char cell[CELL_SIZE], const struct core_figures *core) {
  put_cell(cell, "%.1f", 100 * core->busy_max);
}
static void put_sibling(char cell[CELL_SIZE], const struct core_figures *core) {
  put_cell(cell, "%.1f", 100 * core->sibling_busy);
}
static void put_average_1(char cell[CELL_SIZE],
                          const struct core_figures *core) {
  put_cell(cell, "%.2f", core->load_average[0]);
}
static void put_average_5(char cell[CELL_SIZE],
                          const struct core_figures *core) {
  put_cell(cell, "%.2f", core->load_average[1]);
}
static void put_average_15(char cell[CELL_SIZE],
                           const struct core_figures *core) {
  put_cell(cell, "%.2f", core->load_average[2]);
}
static void put_hidden(char cell[CELL_SIZE], const struct core_figures *core) {
  put_cell(cell, "%+.1f", 100 * core->hidden);
}
static void put_steal(char cell[CELL_SIZE], const struct core_figures *core) {
  put_cell(cell, "%.1f", 100 * core->steal);
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
  int width;    /* negative: flush left */
  int interest; /* the columns of least interest go first */
  void (*put)(char cell[CELL_SIZE], const struct core_figures *core);
} columns[] = {
    {"core", 5, 10, put_core},      {"load %", 8, 9, put_load},
    {"min", 7, 3, put_min},         {"max", 7, 6, put_max},
    {"sibling", 8, 5, put_sibling}, {"1 min", 7, 7, put_average_1},
    {"5 min", 7, 2, put_average_5}, {"15 min", 8, 1, put_average_15},
    {"hidden", 8, 4, put_hidden},   {"steal", 7, 0, put_steal},
    {"source", -12, 8, put_source},
};
#define COLUMNS (sizeof(columns) / sizeof(columns[0]))
#define INTEREST_MAX 10

/* A column that is flush left stands two blanks off its neighbour. */
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
        (columns[i].put == put_sibling && !has_siblings(snapshot)))
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

static void write_cell(FILE *out, const struct column *column,
                       const char *text) {
  if (column->width < 0)
    fprintf(out, "  %s", text); /* always the last of its line */
  else
    fprintf(out, "%*s", column->width, text);
}

static void write_header(FILE *out, unsigned shown) {
  for (size_t i = 0; i < COLUMNS; i++)
    if (shown >> i & 1)
      write_cell(out, &columns[i], columns[i].title);
  fputc('\n', out);
}

static void write_core(FILE *out, unsigned shown,
                       const struct core_figures *core) {
  for (size_t i = 0; i < COLUMNS; i++) {
    if (!(shown >> i & 1))
      continue;
    char cell[CELL_SIZE];
    columns[i].put(cell, core);
    write_cell(out, &columns[i], cell);
  }
  fputc('\n', out);
}

static void write_lines(FILE *out, const struct snapshot *snapshot, int width) {
  unsigned shown = columns_that_fit(snapshot, width);
  write_header(out, shown);
  for (size_t i = 0; i < snapshot->cores_len; i++)
    write_core(out, shown, &snapshot->cores[i]);
}

/* ---------------------------------------------------------------------------
 * Several cores per line
 */

#define GRID_CELL 13 /* " 1234  100.0*" */

static int by_load_falling(const void *left, const void *right) {
  const struct core_figures *a = *(const struct core_figures *const *)left;
  const struct core_figures *b = *(const struct core_figures *const *)right;
  double load_a = isnan(a->busy) ? -1 : a->busy;
  double load_b = isnan(b->busy) ? -1 : b->busy;
  if (load_a != load_b)
    return load_a < load_b ? 1 : -1;
  return a->core - b->core;
}

static void write_grid_cell(FILE *out, const struct core_figures *core) {
  char load[CELL_SIZE];
  put_load(load, core);
  fprintf(out, " %4d %6s%c", core->core, core->online ? load : "off",
          core->online ? mark_of(core) : ' ');
}

/* At most `lines` of them, filled column by column as ls(1) does. */
static int write_grid(FILE *out, const struct snapshot *snapshot, int width,
                      int lines) {
  size_t across = width < GRID_CELL ? 1 : (size_t)(width / GRID_CELL);
  size_t all = snapshot->cores_len;
  size_t room = across * (size_t)(lines > 2 ? lines - 1 : 1);
  size_t shown = all < room ? all : room;
  const struct core_figures **order =
      calloc(all + 1, sizeof(struct core_figures *));
  if (order == NULL)
    return -ENOMEM;
  for (size_t i = 0; i < all; i++)
    order[i] = &snapshot->cores[i];
  if (shown < all) {
    qsort(order, all, sizeof(struct core_figures *), by_load_falling);
    fprintf(out,
            "core and load %%: the busiest %zu of %zu (--cores LIST "
            "shows others)\n",
            shown, all);
  } else {
    fputs("core and load %, several cores in a line\n", out);
  }
  size_t down = (shown + across - 1) / across;
  for (size_t line = 0; line < down; line++) {
    for (size_t i = line; i < shown; i += down)
      write_grid_cell(out, order[i]);
    fputc('\n', out);
  }
  free(order);
  return 0;
}

/* ---------------------------------------------------------------------------
 * Above and below
 */

static void write_title(FILE *out, const struct snapshot *snapshot) {
  char time[TIME_TEXT_SIZE];
  time_text(time, snapshot->time_ns);
  fprintf(out, "%s  %d %s online, every %g s\n", time,
          snapshot->self.cores_online,
          snapshot->self.cores_online == 1 ? "core" : "cores",
          (double)snapshot->interval_ns / 1e9);
}

static void write_aggregate(FILE *out, const struct aggregate_figures *group) {
  char mean[CELL_SIZE], min[CELL_SIZE], max[CELL_SIZE], stddev[CELL_SIZE];
  put_cell(mean, "%.1f", 100 * group->mean);
  put_cell(min, "%.1f", 100 * group->min);
  put_cell(max, "%.1f", 100 * group->max);
  put_cell(stddev, "%.1f", 100 * group->stddev);
  fprintf(out, "%-14.14s %6s %6s %6s %6s %6d", group->name, mean, min, max,
          stddev, group->cores_len);
  if (group->cores_without_value > 0)
    fprintf(out, "  (%d without value)", group->cores_without_value);
  fputc('\n', out);
}

static void write_host(FILE *out, const struct host_figures *host) {
  char load[3][CELL_SIZE], queue[3][CELL_SIZE];
  for (int i = 0; i < 3; i++) {
    put_cell(load[i], "%.2f", host->load_average[i]);
    put_cell(queue[i], "%.2f", host->run_queue_average[i]);
  }
  fprintf(out, "busy cores, 1/5/15 min: %s %s %s   run queue: %s %s %s\n",
          load[0], load[1], load[2], queue[0], queue[1], queue[2]);
}

static int write_below(FILE *out, const struct snapshot *snapshot,
                       size_t aggregates) {
  fprintf(out, "%-14s %6s %6s %6s %6s %6s\n", "load % of", "mean", "min", "max",
          "stddev", "cores");
  for (size_t i = 0; i < aggregates; i++)
    write_aggregate(out, &snapshot->aggregates[i]);
  write_host(out, &snapshot->host);
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
 * The whole
 */

static int write_cores(FILE *out, const struct snapshot *snapshot,
                       struct window window, int lines_left) {
  if (window.height <= 0 || (int)snapshot->cores_len + 1 <= lines_left) {
    write_lines(out, snapshot, window.width);
    return 0;
  }
  return write_grid(out, snapshot, window.width, lines_left);
}

int load_table_write(FILE *out, const struct snapshot *snapshot,
                     struct window window) {
  /* Nodes and packages of a large machine must not crowd out the cores. */
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
  int status = write_below(part, snapshot, aggregates);
  if (fclose(part) != 0 || status != 0)
    goto cleanup;

  status = -ENOMEM;
  part = open_memstream(&whole, &size);
  if (part == NULL)
    goto cleanup;
  write_title(part, snapshot);
  status =
      write_cores(part, snapshot, window, window.height - 1 - lines_of(below));
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
