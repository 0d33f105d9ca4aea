/* procstat: reads /proc/stat. Rows are identified by core number, never by
 * line. */
#ifndef PERCORE_PROCSTAT_H
#define PERCORE_PROCSTAT_H

#include "base/core_set.h"
#include "machine.h"

#include <stdint.h>

enum procstat_column {
  PROCSTAT_USER,
  PROCSTAT_NICE,
  PROCSTAT_SYSTEM,
  PROCSTAT_IDLE,
  PROCSTAT_IOWAIT,
  PROCSTAT_IRQ,
  PROCSTAT_SOFTIRQ,
  PROCSTAT_STEAL,
  PROCSTAT_GUEST,      /* also contained in user */
  PROCSTAT_GUEST_NICE, /* also contained in nice */
  PROCSTAT_COLUMNS,
};

struct procstat_row {
  uint64_t ns[PROCSTAT_COLUMNS];
};

struct procstat {
  uint64_t time_ns;      /* CLOCK_MONOTONIC halfway through the read */
  uint64_t bracket_ns;   /* how long the read took */
  struct core_set cores; /* those with a well-formed row */
  /* rows[core] is valid for every core in `cores`. There is room for CORES_MAX
   * rows; pages that are never written take no memory. */
  struct procstat_row *rows;
  uint64_t digest;    /* differs if any column of any core differs */
  int64_t running;    /* procs_running, -1 if absent */
  int64_t blocked;    /* procs_blocked, -1 if absent */
  int64_t interrupts; /* of all cores since boot, -1 if absent */
  int64_t switches;   /* of contexts, of all cores since boot, -1 if absent */
  char *buffer;
  size_t buffer_size;
};

/* Parses text in the format of proc(5). Returns 0, -EINVAL if no "cpuN" line
 * can be parsed, or -ENOMEM. */
int procstat_parse(struct procstat *stat, const char *text,
                   uint64_t ns_per_tick);

/* Reads /proc/stat, and reads it once more if the read took more than 2 ms.
 * *stat must be all zero at first; its buffers are reused. Returns 0 or
 * -errno. */
int procstat_read(struct procstat *stat, const struct machine *machine);
void procstat_free(struct procstat *stat);

/* Returns user + nice + system + irq + softirq: the work that the tick saw. */
uint64_t procstat_busy_ns(const struct procstat_row *row);
uint64_t procstat_idle_ns(const struct procstat_row *row); /* idle + iowait */

#endif
