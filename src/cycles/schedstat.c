#include "schedstat.h"

#include "base/number.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The columns after the name of the core; the run time has this index. */
enum { COLUMN_RUN = 6, COLUMNS = 9 };

/* Parses the text after "cpu" in a line: a core number and its columns. Ignores
 * any other text. */
static void parse_row(struct schedstat *stat, const char *text) {
  uint64_t core, column[COLUMNS];
  if (!isdigit((unsigned char)*text) || !number_next(&text, &core) ||
      core >= CORES_MAX)
    return;
  for (int i = 0; i < COLUMNS; i++)
    if (!number_next(&text, &column[i]))
      return;
  stat->run_ns[core] = column[COLUMN_RUN];
  core_set_add(&stat->cores, (int)core);
}

static bool is_known_version(const char *text) {
  uint64_t version;
  return number_next(&text, &version) && version >= 15 && version <= 17;
}

int schedstat_parse(struct schedstat *stat, const char *text) {
  core_set_clear(&stat->cores);
  if (stat->run_ns == NULL)
    stat->run_ns = calloc(CORES_MAX, sizeof(*stat->run_ns));
  if (stat->run_ns == NULL)
    return -ENOMEM;
  /* Ignore a last line without a newline: if the file was cut off, its last
   * number may lack digits. */
  for (const char *line = text, *end; (end = strchr(line, '\n')) != NULL;
       line = end + 1) {
    if (strncmp(line, "version ", 8) == 0 && !is_known_version(line + 8))
      return -EPROTONOSUPPORT;
    if (strncmp(line, "cpu", 3) == 0)
      parse_row(stat, line + 3);
  }
  return core_set_next(&stat->cores, -1) >= 0 ? 0 : -EINVAL;
}

int schedstat_read(struct schedstat *stat, const struct machine *machine) {
  ssize_t length = machine_read_long(machine, "/proc/schedstat", &stat->buffer,
                                     &stat->buffer_size);
  return length < 0 ? (int)length : schedstat_parse(stat, stat->buffer);
}

void schedstat_free(struct schedstat *stat) {
  free(stat->run_ns);
  free(stat->buffer);
  *stat = (struct schedstat){0};
}
