#include "procstat.h"

#include "base/clock.h"
#include "base/number.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A read that took longer than this may have been interrupted, so its rows may
 * be older or newer than its timestamp. One more attempt is cheap. */
#define BRACKET_GOOD_NS UINT64_C(2000000)

/* ---------------------------------------------------------------------------
 * Parsing
 */

/* Parses " user nice system idle ...". A newer kernel may have more columns. */
static bool parse_columns(struct procstat_row *row, const char *text,
                          uint64_t ns_per_tick) {
  for (int column = 0; column < PROCSTAT_COLUMNS; column++) {
    uint64_t ticks;
    if (!number_next(&text, &ticks) ||
        __builtin_mul_overflow(ticks, ns_per_tick, &row->ns[column]))
      return false;
  }
  return *text == ' ' || *text == '\n';
}

/* That of FNV-1a. */
#define DIGEST_PRIME UINT64_C(0x100000001b3)

static void parse_row(struct procstat *stat, const char *text,
                      uint64_t ns_per_tick) {
  uint64_t core;
  if (!isdigit((unsigned char)*text) || !number_next(&text, &core) ||
      core >= CORES_MAX)
    return;
  struct procstat_row row = {{0}};
  if (!parse_columns(&row, text, ns_per_tick))
    return;
  for (int i = 0; i < PROCSTAT_COLUMNS; i++)
    stat->digest = (stat->digest ^ row.ns[i]) * DIGEST_PRIME;
  stat->rows[core] = row;
  core_set_add(&stat->cores, (int)core);
}

static int64_t parse_count(const char *text) {
  uint64_t value;
  return number_next(&text, &value) && value <= INT64_MAX ? (int64_t)value : -1;
}

int procstat_parse(struct procstat *stat, const char *text,
                   uint64_t ns_per_tick) {
  core_set_clear(&stat->cores);
  stat->digest = 0;
  stat->running = stat->blocked = stat->interrupts = stat->switches = -1;
  if (stat->rows == NULL)
    stat->rows = calloc(CORES_MAX, sizeof(*stat->rows));
  if (stat->rows == NULL)
    return -ENOMEM;
  /* Ignore a last line without a newline: if the file was cut off, its last
   * number may lack digits, and a wrong figure is worse than no figure. */
  for (const char *line = text, *end; (end = strchr(line, '\n')) != NULL;
       line = end + 1) {
    if (strncmp(line, "cpu", 3) == 0)
      parse_row(stat, line + 3, ns_per_tick);
    else if (strncmp(line, "intr ", 5) == 0)
      stat->interrupts = parse_count(line + 5);
    else if (strncmp(line, "ctxt ", 5) == 0)
      stat->switches = parse_count(line + 5);
    else if (strncmp(line, "procs_running ", 14) == 0)
      stat->running = parse_count(line + 14);
    else if (strncmp(line, "procs_blocked ", 14) == 0)
      stat->blocked = parse_count(line + 14);
  }
  return core_set_next(&stat->cores, -1) >= 0 ? 0 : -EINVAL;
}

/* ---------------------------------------------------------------------------
 * Reading
 */

static int read_once(struct procstat *stat, const struct machine *machine) {
  uint64_t before_ns = machine_now_ns(machine, CLOCK_MONOTONIC);
  ssize_t length = machine_read_long(machine, "/proc/stat", &stat->buffer,
                                     &stat->buffer_size);
  uint64_t after_ns = machine_now_ns(machine, CLOCK_MONOTONIC);
  stat->bracket_ns = after_ns - before_ns;
  stat->time_ns = before_ns + stat->bracket_ns / 2;
  return length < 0 ? (int)length : 0;
}

int procstat_read(struct procstat *stat, const struct machine *machine) {
  int status = read_once(stat, machine);
  if (status == 0 && stat->bracket_ns > BRACKET_GOOD_NS)
    status = read_once(stat, machine);
  if (status != 0)
    return status;
  long ticks_per_s = sysconf(_SC_CLK_TCK);
  uint64_t ns_per_tick =
      NS_PER_S / (uint64_t)(ticks_per_s > 0 ? ticks_per_s : 100);
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
