#include "procstat.h"

#include "base/number.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A longer read may have been interrupted in the middle, so that its rows and
 * its time stamp do not belong together; one more try is cheap. */
#define BRACKET_GOOD_NS UINT64_C(2000000)

/* The lines intr and softirq grow with the machine: 256 cores with thousands of
 * interrupts make about 100 KiB. */
#define BUFFER_FIRST ((size_t)64 << 10)
#define BUFFER_MAX ((size_t)16 << 20)

/* ---------------------------------------------------------------------------
 * Parsing
 */

static int reserve_rows(struct procstat *stat, int core) {
  if (core < stat->rows_len)
    return 0;
  struct procstat_row *rows =
      realloc(stat->rows, ((size_t)core + 1) * sizeof(*rows));
  if (rows == NULL)
    return -ENOMEM;
  memset(rows + stat->rows_len, 0,
         (size_t)(core + 1 - stat->rows_len) * sizeof(*rows));
  stat->rows = rows;
  stat->rows_len = core + 1;
  return 0;
}

/* After the last column taken: more columns of a newer kernel, or nothing.
 * What cannot be read as a number among the first ten is not a column that an
 * old kernel lacks, and must not be taken for zero. */
static bool ends_well(const char *text, int column) {
  if (column == PROCSTAT_COLUMNS)
    return *text == ' ' || *text == '\n';
  return text[strspn(text, " \t")] == '\n';
}

/* " user nice system idle ...": a row needs at least the four columns that
 * every kernel has had, or it is cut and not taken. */
static bool parse_columns(struct procstat_row *row, const char *text,
                          uint64_t ns_per_tick) {
  int column = 0;
  for (uint64_t ticks; column < PROCSTAT_COLUMNS && number_next(&text, &ticks);
       column++)
    if (__builtin_mul_overflow(ticks, ns_per_tick, &row->ns[column]))
      return false;
  return column > PROCSTAT_IDLE && ends_well(text, column);
}

static int parse_row(struct procstat *stat, const char *text,
                     uint64_t ns_per_tick) {
  uint64_t core;
  if (!isdigit((unsigned char)*text) || !number_next(&text, &core) ||
      core >= CORES_MAX)
    return 0;
  struct procstat_row row = {.present = true};
  if (!parse_columns(&row, text, ns_per_tick)) {
    core_set_add(&stat->unreadable, (int)core);
    return 0;
  }
  int status = reserve_rows(stat, (int)core);
  if (status != 0)
    return status;
  stat->rows[core] = row;
  core_set_add(&stat->cores, (int)core);
  return 0;
}

static int64_t parse_count(const char *text) {
  uint64_t value;
  return number_next(&text, &value) && value <= INT64_MAX ? (int64_t)value : -1;
}

int procstat_parse(struct procstat *stat, char *text, uint64_t ns_per_tick) {
  for (int i = 0; i < stat->rows_len; i++)
    stat->rows[i].present = false;
  core_set_clear(&stat->cores);
  core_set_clear(&stat->unreadable);
  stat->running = stat->blocked = -1;
  for (char *line = text; line != NULL;) {
    char *end = strchr(line, '\n');
    int status = 0;
    /* The last line of a file that was cut may lack digits of its last
     * number, and a wrong figure is worse than none. */
    if (end == NULL)
      break;
    if (strncmp(line, "cpu", 3) == 0)
      status = parse_row(stat, line + 3, ns_per_tick);
    else if (strncmp(line, "procs_running ", 14) == 0)
      stat->running = parse_count(line + 14);
    else if (strncmp(line, "procs_blocked ", 14) == 0)
      stat->blocked = parse_count(line + 14);
    if (status != 0)
      return status;
    line = end + 1;
  }
  return core_set_next(&stat->cores, -1) >= 0 ? 0 : -EINVAL;
}

/* ---------------------------------------------------------------------------
 * Reading
 */

static int grow_buffer(struct procstat *stat) {
  size_t size = stat->buffer_size == 0 ? BUFFER_FIRST : stat->buffer_size * 2;
  if (size > BUFFER_MAX)
    return -EFBIG;
  char *buffer = realloc(stat->buffer, size);
  if (buffer == NULL)
    return -ENOMEM;
  stat->buffer = buffer;
  stat->buffer_size = size;
  return 0;
}

static int read_once(struct procstat *stat, const struct machine *machine) {
  ssize_t length;
  uint64_t before_ns;
  do {
    if (stat->buffer_size == 0) {
      int status = grow_buffer(stat);
      if (status != 0)
        return status;
    }
    before_ns = machine->clock_ns(machine->context, CLOCK_MONOTONIC);
    length = machine->read_file(machine->context, "/proc/stat", stat->buffer,
                                stat->buffer_size);
    if (length == -EFBIG) {
      int status = grow_buffer(stat);
      if (status != 0)
        return status;
    }
  } while (length == -EFBIG);
  if (length < 0)
    return (int)length;
  uint64_t after_ns = machine->clock_ns(machine->context, CLOCK_MONOTONIC);
  stat->bracket_ns = after_ns - before_ns;
  stat->time_ns = before_ns + stat->bracket_ns / 2;
  return 0;
}

int procstat_read(struct procstat *stat, const struct machine *machine) {
  int status = read_once(stat, machine);
  if (status == 0 && stat->bracket_ns > BRACKET_GOOD_NS)
    status = read_once(stat, machine);
  if (status != 0)
    return status;
  long ticks_per_s = sysconf(_SC_CLK_TCK);
  uint64_t ns_per_tick =
      UINT64_C(1000000000) / (uint64_t)(ticks_per_s > 0 ? ticks_per_s : 100);
  return procstat_parse(stat, stat->buffer, ns_per_tick);
}

void procstat_free(struct procstat *stat) {
  free(stat->rows);
  free(stat->buffer);
  *stat = (struct procstat){0};
}

/* ---------------------------------------------------------------------------
 * Sums
 */

uint64_t procstat_busy_ns(const struct procstat_row *row) {
  return row->ns[PROCSTAT_USER] + row->ns[PROCSTAT_NICE] +
         row->ns[PROCSTAT_SYSTEM] + row->ns[PROCSTAT_IRQ] +
         row->ns[PROCSTAT_SOFTIRQ];
}

uint64_t procstat_idle_ns(const struct procstat_row *row) {
  return row->ns[PROCSTAT_IDLE] + row->ns[PROCSTAT_IOWAIT];
}

uint64_t procstat_guest_ns(const struct procstat_row *row) {
  return row->ns[PROCSTAT_GUEST] + row->ns[PROCSTAT_GUEST_NICE];
}
