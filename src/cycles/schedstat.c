#include "schedstat.h"

#include "base/number.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Columns after the name of the core. */
enum { COLUMN_RUN = 6, COLUMN_WAIT, COLUMN_SWITCHES, COLUMNS };

static int reserve_rows(struct schedstat *stat, int core) {
  if (core < stat->rows_len)
    return 0;
  struct schedstat_row *rows =
      realloc(stat->rows, ((size_t)core + 1) * sizeof(*rows));
  if (rows == NULL)
    return -ENOMEM;
  memset(rows + stat->rows_len, 0,
         (size_t)(core + 1 - stat->rows_len) * sizeof(*rows));
  stat->rows = rows;
  stat->rows_len = core + 1;
  return 0;
}

/* Parses "<N>" and its columns. Returns 1 for a row, 0 for anything else, or
 * -ENOMEM. */
static int parse_row(struct schedstat *stat, const char *text) {
  uint64_t core, column[COLUMNS];
  if (!isdigit((unsigned char)*text) || !number_next(&text, &core) ||
      core >= CORES_MAX)
    return 0;
  for (int i = 0; i < COLUMNS; i++)
    if (!number_next(&text, &column[i]))
      return 0;
  int status = reserve_rows(stat, (int)core);
  if (status != 0)
    return status;
  stat->rows[core] =
      (struct schedstat_row){.present = true,
                             .run_ns = column[COLUMN_RUN],
                             .wait_ns = column[COLUMN_WAIT],
                             .switches = column[COLUMN_SWITCHES]};
  return 1;
}

static bool is_known_version(const char *text) {
  uint64_t version;
  return number_next(&text, &version) && version >= 15 && version <= 17;
}

int schedstat_parse(struct schedstat *stat, const char *text) {
  bool any = false;
  for (int i = 0; i < stat->rows_len; i++)
    stat->rows[i].present = false;
  /* A last line without a newline may lack digits. */
  for (const char *line = text, *end; (end = strchr(line, '\n')) != NULL;
       line = end + 1) {
    if (strncmp(line, "version ", 8) == 0 && !is_known_version(line + 8))
      return -EPROTONOSUPPORT;
    if (strncmp(line, "cpu", 3) != 0)
      continue;
    int status = parse_row(stat, line + 3);
    if (status < 0)
      return status;
    any |= status > 0;
  }
  return any ? 0 : -EINVAL;
}

int schedstat_read(struct schedstat *stat, const struct machine *machine) {
  int status = machine_read_long(machine, "/proc/schedstat", &stat->buffer,
                                 &stat->buffer_size);
  return status != 0 ? status : schedstat_parse(stat, stat->buffer);
}

void schedstat_free(struct schedstat *stat) {
  free(stat->rows);
  free(stat->buffer);
  *stat = (struct schedstat){0};
}
