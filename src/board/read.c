#include "read.h"

#include "base/clock.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_NS (NS_PER_S / 10) /* between two looks for a board */
#define COLUMNS_MAX 64          /* a board has fewer */

struct board_reader {
  struct percore_reader *reader;
  int cores_len;
  double age_max_ns;
  uint64_t look_ns; /* when to look for a board again */
  bool is_attached; /* the columns below are those of the region */
  uint32_t column[BOARD_COLUMNS]; /* in the region; COLUMNS_MAX: none */
  double period_s[FIGURES_PERIODS_MAX];
  struct board_core first; /* of the last picture; time_ns 0: none */
};

int board_reader_open(struct board_reader **result, int cores,
                      uint64_t age_max_ns) {
  struct board_reader *reader = calloc(1, sizeof(*reader));
  if (reader == NULL)
    return -ENOMEM;
  reader->cores_len = cores;
  reader->age_max_ns = (double)age_max_ns;
  if (percore_open(&reader->reader, BOARD_NAME, NULL) != 0) {
    free(reader);
    return -ENOMEM;
  }
  *result = reader;
  return 0;
}

void board_reader_close(struct board_reader *reader) {
  if (reader == NULL)
    return;
  percore_close(reader->reader);
  free(reader);
}

/* ---------------------------------------------------------------------------
 * Connecting
 */

/* Returns the column of this name. The period of an average, "average_60s", is
 * added to reader->period_s. BOARD_COLUMNS: none. */
static size_t find_column(struct board_reader *reader, size_t *periods,
                          const char *name) {
  unsigned seconds;
  for (size_t i = 0; i < BOARD_AVERAGE; i++)
    if (strcmp(board_columns[i].field.name, name) == 0)
      return i;
  if (*periods == FIGURES_PERIODS_MAX ||
      sscanf(name, "average_%5us", &seconds) != 1)
    return BOARD_COLUMNS;
  reader->period_s[*periods] = seconds;
  return BOARD_AVERAGE + (*periods)++;
}

/* Finds the columns of the region. Returns false if the region is no board. */
static bool find_columns(struct board_reader *reader) {
  size_t periods = 0, found = 0;
  const struct percore_table *table = percore_reader_table(reader->reader, 0);
  if (table == NULL || table->storage != PERCORE_OWNED ||
      table->max_rows != (uint32_t)reader->cores_len)
    return false;
  for (size_t i = 0; i < BOARD_COLUMNS; i++)
    reader->column[i] = COLUMNS_MAX;
  for (uint32_t f = 0; f < table->field_count; f++) {
    uint32_t cell = percore_reader_column(reader->reader, 0, f);
    size_t column = find_column(reader, &periods, table->fields[f].name);
    if (cell >= COLUMNS_MAX || column == BOARD_COLUMNS)
      continue;
    reader->column[column] = cell;
    found += column < BOARD_AVERAGE;
  }
  memset(&reader->period_s[periods], 0,
         (FIGURES_PERIODS_MAX - periods) * sizeof(double));
  return found == BOARD_AVERAGE;
}

/* Connects, and finds the columns of a new board. Returns false if there is no
 * board. */
static bool attach(struct board_reader *reader, uint64_t now_ns) {
  reader->look_ns = now_ns + LOOK_NS;
  int changed = percore_refresh(reader->reader);
  if (changed != 0)
    reader->is_attached = false;
  if (changed < 0 || percore_reader_state(reader->reader) != PERCORE_ALIVE)
    return false;
  if (!reader->is_attached)
    reader->is_attached = find_columns(reader);
  return reader->is_attached;
}

/* ---------------------------------------------------------------------------
 * Pictures
 */

/* Reads a row from one of its columns on. Returns false if the row cannot be
 * read in one piece. */
static bool read_row(const struct board_reader *reader, int number, size_t from,
                     struct board_core *row) {
  uint64_t cells[COLUMNS_MAX + 1];
  cells[COLUMNS_MAX] = 0;
  if (percore_read_row(reader->reader, 0, (uint32_t)number, PERCORE_TOTAL, NULL,
                       0, cells, COLUMNS_MAX) != 0)
    return false;
  for (size_t i = from; i < BOARD_COLUMNS; i++)
    ((double *)row)[i] =
        (double)cells[reader->column[i]] / board_column(i)->scale;
  return true;
}

static bool is_possible(const struct board_core *row) {
  for (size_t i = 0; i < BOARD_COLUMNS; i++)
    if (board_column(i)->max > 0 &&
        ((const double *)row)[i] > board_column(i)->max)
      return false;
  return true;
}

static bool is_fresh(const struct board_reader *reader,
                     const struct board_core *first, uint64_t now_ns) {
  double age_ns = (double)now_ns - first->time_ns;
  return first->interval_ns > 0 && first->interval_ns <= reader->age_max_ns &&
         age_ns >= 0 &&
         age_ns <= fmin(reader->age_max_ns, 2 * first->interval_ns);
}

static int die(struct board_reader *reader) {
  reader->first.time_ns = 0;
  return -ESTALE;
}

int board_reader_update(struct board_reader *reader, uint64_t now_ns) {
  struct board_core first;
  if (!reader->is_attached &&
      (now_ns < reader->look_ns || !attach(reader, now_ns)))
    return die(reader);
  bool is_read = read_row(reader, 0, BOARD_COLUMN(time_ns), &first);
  /* A quarter of an interval too late: is anybody there? */
  if ((!is_read || (double)now_ns - first.time_ns > 1.25 * first.interval_ns) &&
      now_ns >= reader->look_ns && !attach(reader, now_ns)) {
    reader->is_attached = false;
    return die(reader);
  }
  if (!is_read || !is_fresh(reader, &first, now_ns))
    return die(reader);
  bool is_new = first.time_ns != reader->first.time_ns;
  reader->first = first;
  return is_new;
}

bool board_reader_core(const struct board_reader *reader, int core,
                       struct board_core *row) {
  return reader->first.time_ns > 0 && read_row(reader, core, 0, row) &&
         is_possible(row) && row->time_ns >= reader->first.time_ns &&
         row->source > 0;
}

int board_reader_average(const struct board_reader *reader, double period_s) {
  for (int i = 0; i < FIGURES_PERIODS_MAX; i++)
    if (reader->period_s[i] > 0 && fabs(reader->period_s[i] - period_s) < 0.5)
      return i;
  return -1;
}
