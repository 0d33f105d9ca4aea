/* schedstat: reads /proc/schedstat, which not every kernel provides. */
#ifndef PERCORE_SCHEDSTAT_H
#define PERCORE_SCHEDSTAT_H

#include "machine.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct schedstat {
  struct core_set cores;
  /* How long tasks ran since boot; valid for each core in `cores`. */
  uint64_t *run_ns;
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
