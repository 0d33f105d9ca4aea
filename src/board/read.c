#include "read.h"

#include "base/clock.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_NS (NS_PER_S / 10) /* between two looks for a board */

struct board_reader {
  struct percore_reader *reader;
  struct machine *machine;
  int cores_len;
  double age_max_ns;
  uint64_t look_ns; /* when to look for a board again */
  bool is_attached; /* the region is a board; its averages have these periods */
  double period_s[FIGURES_PERIODS_MAX]; /* 0: there is no such average */
  struct board_core first; /* of the last picture; time_ns 0: no picture */
};

struct board_reader *board_reader_open(struct machine *machine, int cores,
                                       uint64_t age_max_ns) {
  struct board_reader *reader = calloc(1, sizeof(*reader));
  if (reader == NULL)
    return NULL;
  reader->machine = machine;
  reader->cores_len = cores;
  reader->age_max_ns = (double)age_max_ns;
  if (percore_open(&reader->reader, BOARD_NAME, NULL) == 0)
    return reader;
  free(reader);
  return NULL;
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

/* Returns false if the region is no board of this machine. */
static bool is_board(struct board_reader *reader) {
  const struct percore_table *table = percore_reader_table(reader->reader, 0);
  if (table == NULL || table->max_rows != (uint32_t)reader->cores_len ||
      table->field_count < BOARD_AVERAGE)
    return false;
  for (size_t i = 0; i < BOARD_AVERAGE; i++)
    if (strcmp(table->fields[i].name, board_columns[i].field.name) != 0)
      return false;
  for (size_t i = 0; i < FIGURES_PERIODS_MAX; i++) {
    unsigned seconds = 0;
    if (BOARD_AVERAGE + i < table->field_count)
      (void)sscanf(table->fields[BOARD_AVERAGE + i].name, "average_%5us",
                   &seconds);
    reader->period_s[i] = seconds;
  }
  return true;
}

/* Looks for a board, unless it has just done so. */
static bool attach(struct board_reader *reader) {
  uint64_t now_ns = machine_now_ns(reader->machine, CLOCK_MONOTONIC);
  if (now_ns < reader->look_ns)
    return false;
  reader->look_ns = now_ns + LOOK_NS;
  reader->is_attached =
      percore_refresh(reader->reader) >= 0 && is_board(reader);
  return reader->is_attached;
}

/* ---------------------------------------------------------------------------
 * Pictures
 */

/* Returns false if the row cannot be read in one piece. */
static bool read_row(const struct board_reader *reader, int number,
                     struct board_core *row) {
  uint64_t cells[BOARD_COLUMNS] = {0};
  if (percore_read_row(reader->reader, 0, (uint32_t)number, PERCORE_TOTAL, NULL,
                       0, cells, BOARD_COLUMNS) != 0)
    return false;
  for (size_t i = 0; i < BOARD_COLUMNS; i++)
    ((double *)row)[i] = (double)cells[i] / board_column(i)->scale;
  return true;
}

static bool is_possible(const struct board_core *row) {
  for (size_t i = 0; i < BOARD_COLUMNS; i++)
    if (board_column(i)->max > 0 && board_figure(row, i) > board_column(i)->max)
      return false;
  return true;
}

/* Call this after read_row: if the clock were read first, a picture that is
 * written in between would seem to be from the future. */
static bool is_fresh(const struct board_reader *reader) {
  uint64_t now_ns = machine_now_ns(reader->machine, CLOCK_MONOTONIC);
  double interval_ns = reader->first.interval_ns;
  double age_ns = (double)now_ns - reader->first.time_ns;
  return interval_ns > 0 && interval_ns <= reader->age_max_ns && age_ns >= 0 &&
         age_ns <= fmin(reader->age_max_ns, 2 * interval_ns);
}

static int die(struct board_reader *reader) {
  reader->is_attached = false;
  reader->first = (struct board_core){.interval_ns = 0};
  return -ESTALE;
}

int board_reader_update(struct board_reader *reader) {
  double before_ns = reader->first.time_ns;
  if (!reader->is_attached && !attach(reader))
    return die(reader);
  /* Whether the connection lasts says nothing: a region has few connections,
   * and the board may have more readers. While the row is being written, the
   * last picture is still true. */
  (void)read_row(reader, 0, &reader->first);
  if (!is_fresh(reader))
    return die(reader);
  return reader->first.time_ns != before_ns;
}

bool board_reader_core(const struct board_reader *reader, int core,
                       struct board_core *row) {
  return reader->first.time_ns > 0 && read_row(reader, core, row) &&
         is_possible(row) && row->time_ns >= reader->first.time_ns &&
         row->source > 0;
}

size_t board_reader_average(const struct board_reader *reader,
                            double period_s) {
  for (size_t i = 0; i < FIGURES_PERIODS_MAX; i++)
    if (reader->period_s[i] > 0 && fabs(reader->period_s[i] - period_s) < 0.5)
      return BOARD_AVERAGE + i;
  return BOARD_COLUMNS;
}
