#include "read.h"

#include "base/clock.h"
#include "percore.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_NS (NS_PER_S / 10) /* between two looks for a board */
#define COLUMNS_MAX 64          /* a board has fewer */

/* Where a field is in the region. */
struct column {
  struct board_field field;
  uint32_t column;
};

struct board_reader {
  struct percore_reader *reader;
  int cores_len;
  uint64_t age_max_ns;
  uint64_t look_ns; /* when to look for a board again */
  bool is_attached; /* the tables below are those of the region */
  struct column columns[BOARD_TABLES][BOARD_FIELDS_MAX];
  size_t columns_len[BOARD_TABLES];
  double period_s[FIGURES_PERIODS_MAX];
  size_t periods_len;
  struct board_picture picture; /* the last; time_ns 0: none */
  struct board_core *cores;
};

int board_reader_open(struct board_reader **result, int cores,
                      uint64_t age_max_ns) {
  struct board_reader *reader = calloc(1, sizeof(*reader));
  if (reader == NULL)
    return -ENOMEM;
  *reader = (struct board_reader){
      .cores_len = cores,
      .age_max_ns = age_max_ns,
      .cores = calloc((size_t)cores, sizeof(*reader->cores))};
  if (reader->cores == NULL ||
      percore_open(&reader->reader, BOARD_NAME, NULL) != 0) {
    board_reader_close(reader);
    return -ENOMEM;
  }
  *result = reader;
  return 0;
}

void board_reader_close(struct board_reader *reader) {
  if (reader == NULL)
    return;
  percore_close(reader->reader);
  free(reader->cores);
  free(reader);
}

/* ---------------------------------------------------------------------------
 * Tables
 */

/* Takes the periods from the names of the averages: "average_60s". */
static void find_periods(struct board_reader *reader,
                         const struct percore_table *table) {
  unsigned seconds;
  reader->periods_len = 0;
  for (uint32_t f = 0;
       f < table->field_count && reader->periods_len < FIGURES_PERIODS_MAX; f++)
    if (sscanf(table->fields[f].name, "average_%5us", &seconds) == 1)
      reader->period_s[reader->periods_len++] = seconds;
}

static bool attach_table(struct board_reader *reader, enum board_table table) {
  struct board_field fields[BOARD_FIELDS_MAX];
  const struct percore_table *found =
      percore_reader_table(reader->reader, table);
  if (found == NULL || strcmp(found->name, board_table_name(table)) != 0 ||
      found->storage != PERCORE_OWNED)
    return false;
  if (table == BOARD_CORES)
    find_periods(reader, found);
  size_t len =
      board_fields(fields, table, reader->period_s, reader->periods_len);
  for (size_t i = 0; i < len; i++) {
    struct column *column = &reader->columns[table][i];
    *column = (struct column){fields[i], COLUMNS_MAX};
    for (uint32_t f = 0; f < found->field_count; f++)
      if (strcmp(found->fields[f].name, fields[i].name) == 0)
        column->column = percore_reader_column(reader->reader, table, f);
    if (column->column >= COLUMNS_MAX)
      return false;
  }
  reader->columns_len[table] = len;
  return true;
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
    reader->is_attached = attach_table(reader, BOARD_PICTURE) &&
                          attach_table(reader, BOARD_CORES);
  return reader->is_attached;
}

/* Reads a row. Returns false if it cannot be read in one piece, or if a value
 * is impossible. */
static bool read_row(struct board_reader *reader, enum board_table table,
                     uint32_t number, void *row) {
  uint64_t cells[COLUMNS_MAX];
  if (percore_read_row(reader->reader, table, number, PERCORE_TOTAL, NULL, 0,
                       cells, COLUMNS_MAX) != 0)
    return false;
  for (size_t i = 0; i < reader->columns_len[table]; i++) {
    const struct column *column = &reader->columns[table][i];
    double value = (double)cells[column->column] / column->field.scale;
    if (column->field.max > 0 && value > column->field.max)
      return false;
    *board_value(row, &column->field) = value;
  }
  return true;
}

/* ---------------------------------------------------------------------------
 * Pictures
 */

static bool is_believable(const struct board_reader *reader,
                          const struct board_picture *picture,
                          uint64_t now_ns) {
  return picture->interval_ns > 0 &&
         picture->interval_ns <= (double)reader->age_max_ns &&
         picture->time_ns <= (double)now_ns &&
         picture->cores == reader->cores_len;
}

static bool is_fresh(const struct board_reader *reader,
                     const struct board_picture *picture, uint64_t now_ns) {
  double age_ns = (double)now_ns - picture->time_ns;
  return age_ns <= fmin((double)reader->age_max_ns, 2 * picture->interval_ns);
}

static struct board_core unknown(int core) {
  return (struct board_core){.load = NAN, .sibling = core};
}

static void read_cores(struct board_reader *reader) {
  for (int core = 0; core < reader->cores_len; core++) {
    struct board_core *row = &reader->cores[core];
    /* The writer updates the rows one after another, each of them in one piece:
     * a row of the picture before or after is as good. */
    if (!read_row(reader, BOARD_CORES, (uint32_t)core, row) ||
        fabs(row->time_ns - reader->picture.time_ns) >
            1.5 * reader->picture.interval_ns ||
        row->source < 1)
      *row = unknown(core);
  }
}

static int die(struct board_reader *reader) {
  reader->picture.time_ns = 0;
  for (int core = 0; core < reader->cores_len; core++)
    reader->cores[core] = unknown(core);
  return -ESTALE;
}

int board_reader_update(struct board_reader *reader, uint64_t now_ns) {
  struct board_picture picture;
  if (!reader->is_attached &&
      (now_ns < reader->look_ns || !attach(reader, now_ns)))
    return die(reader);
  if (!read_row(reader, BOARD_PICTURE, 0, &picture) ||
      !is_believable(reader, &picture, now_ns))
    picture = (struct board_picture){.time_ns = 0};
  /* A quarter of an interval too late: is anybody there? */
  if ((double)now_ns - picture.time_ns > 1.25 * picture.interval_ns &&
      now_ns >= reader->look_ns && !attach(reader, now_ns)) {
    reader->is_attached = false;
    return die(reader);
  }
  if (!is_fresh(reader, &picture, now_ns))
    return die(reader);
  if (picture.time_ns == reader->picture.time_ns)
    return 0;
  reader->picture = picture;
  read_cores(reader);
  return 1;
}

const struct board_core *board_reader_core(const struct board_reader *reader,
                                           int core) {
  return &reader->cores[core];
}

const double *board_reader_periods(const struct board_reader *reader,
                                   size_t *len) {
  *len = reader->periods_len;
  return reader->period_s;
}

uint64_t board_reader_interval_ns(const struct board_reader *reader) {
  return (uint64_t)reader->picture.interval_ns;
}
