/* schedstat: reads /proc/schedstat, which not every kernel provides. */
#ifndef PERCORE_SCHEDSTAT_H
#define PERCORE_SCHEDSTAT_H

#include "machine.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One core. All members count since boot. */
struct schedstat_row {
  uint64_t run_ns;   /* how long tasks ran */
  uint64_t wait_ns;  /* how long tasks waited to run, summed over tasks */
  uint64_t switches; /* how often a task began to run */
};

struct schedstat {
  struct core_set cores;
  struct schedstat_row *rows; /* rows[core] is valid for each core in `cores` */
  char *buffer;
  size_t buffer_size;
};

/* Parses versions 15 to 17. Rows in an unexpected format are ignored. Returns
 * 0, -EINVAL if no core has a row, -EPROTONOSUPPORT for another version, or
 * -ENOMEM. */
int schedstat_parse(struct schedstat *stat, const char *text);

/* Reads /proc/schedstat. *stat must be all zero at first. Returns 0 or
 * -errno. */
int schedstat_read(struct schedstat *stat, const struct machine *machine);
void schedstat_free(struct schedstat *stat);

#endif
