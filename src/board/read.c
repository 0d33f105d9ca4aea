#include "read.h"

#include "base/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOOK_NS NS_PER_S /* between two looks for a board */
#define ROUNDING 2e-6    /* of load and room */

struct board_reader {
  struct percore_reader *reader;
  struct machine *machine;
  int cores_len;
  double interval_max_ns;
  unsigned uid;     /* of a user who is believed, too */
  uint64_t due_ns;  /* when to look for the next picture, or for a board */
  bool is_attached; /* the region is a board with these columns */
  struct board_core first; /* of the last picture; time_ns 0: no picture */
};

struct board_reader *board_reader_open(struct machine *machine, int cores,
                                       uint64_t interval_max_ns, unsigned uid) {
  struct board_reader *reader = calloc(1, sizeof(*reader));
  if (reader == NULL || percore_open(&reader->reader, BOARD_NAME, NULL) != 0) {
    free(reader);
    return NULL;
  }
  reader->machine = machine;
  reader->cores_len = cores;
  reader->interval_max_ns = (double)interval_max_ns;
  reader->uid = uid;
  return reader;
}

void board_reader_close(struct board_reader *reader) {
  if (reader == NULL)
    return;
  percore_close(reader->reader);
  free(reader);
}

/* ---------------------------------------------------------------------------
 * Looking for a board
 */

/* A member of the group may publish a board, but only these users' loads decide
 * where others place their work. */
static bool is_believed(const struct board_reader *reader) {
  unsigned uid = percore_reader_uid(reader->reader);
  return uid == 0 || uid == geteuid() || uid == reader->uid;
}

/* Returns false if the region is no board of this machine. Only tables with one
 * copy of each row can be consistent; copies for each slot could take seconds
 * to read. */
static bool is_board(struct board_reader *reader) {
  const struct percore_table *table = percore_reader_table(reader->reader, 0);
  if (table == NULL || (table->flags & PERCORE_CONSISTENT) == 0 ||
      table->max_rows != (uint32_t)reader->cores_len ||
      table->field_count < BOARD_COLUMNS)
    return false;
  for (size_t i = 0; i < BOARD_COLUMNS; i++)
    if (strcmp(table->fields[i].name, board_columns[i].field.name) != 0)
      return false;
  return true;
}

/* ---------------------------------------------------------------------------
 * Pictures
 */

/* Returns false if the row cannot be read in one piece, or a value is
 * impossible. */
static bool read_row(const struct board_reader *reader, int number,
                     struct board_core *row) {
  uint64_t cells[BOARD_COLUMNS];
  bool is_possible = true;
  if (percore_read_row(reader->reader, 0, (uint32_t)number + 1, PERCORE_TOTAL,
                       NULL, 0, cells, BOARD_COLUMNS) != 0)
    return false;
  for (size_t i = 0; i < BOARD_COLUMNS; i++) {
    const struct board_column *column = &board_columns[i];
    double figure = (double)cells[i] / column->scale;
    is_possible &= column->max == 0 || figure <= column->max;
    ((double *)row)[i] = figure;
  }
  return is_possible &&
         (row->source == 0 || row->room + row->load >= 1 - ROUNDING);
}

/* Call this after read_row: if the clock were read first, a picture that is
 * written in between would seem to be from the future. */
static bool is_fresh(const struct board_reader *reader) {
  uint64_t now_ns = machine_now_ns(reader->machine, CLOCK_MONOTONIC);
  double interval_ns = reader->first.interval_ns;
  double age_ns = (double)now_ns - reader->first.time_ns;
  return interval_ns > 0 && interval_ns <= reader->interval_max_ns &&
         age_ns >= 0 && age_ns <= 2 * interval_ns;
}

int board_reader_update(struct board_reader *reader) {
  struct board_core *first = &reader->first;
  uint64_t now_ns = machine_now_ns(reader->machine, CLOCK_MONOTONIC);
  double before_ns = first->time_ns;
  if (now_ns < reader->due_ns)
    return 0;
  if (!reader->is_attached) {
    reader->due_ns = now_ns + LOOK_NS;
    reader->is_attached =
        percore_refresh(reader->reader) >= 0 &&
        percore_reader_state(reader->reader, NULL) == PERCORE_ALIVE &&
        is_believed(reader) && is_board(reader);
  }
  /* While the row is being written, the last picture is still true. */
  if (reader->is_attached)
    (void)read_row(reader, 0, first);
  if (!reader->is_attached || !is_fresh(reader)) {
    reader->is_attached = false;
    *first = (struct board_core){.interval_ns = 0};
    return -ESTALE;
  }
  reader->due_ns = (uint64_t)(first->time_ns + first->interval_ns);
  return first->time_ns != before_ns;
}

bool board_reader_core(const struct board_reader *reader, int core,
                       struct board_core *row) {
  return reader->first.time_ns > 0 && read_row(reader, core, row) &&
         row->time_ns >= reader->first.time_ns && row->source > 0;
}
