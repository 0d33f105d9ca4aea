/* worker.h: determines whether a polling thread makes progress, from its row of
 * the table `core`. */
#ifndef PERCORE_REGION_WORKER_H
#define PERCORE_REGION_WORKER_H

#include "reader.h"

/* The columns of the table `core`. All are in cycles, except those that count
 * events. */
enum region_core_column {
  REGION_CORE_TOTAL, /* the thread's time, written at each poll */
  REGION_CORE_BUSY,
  REGION_CORE_SLEEP,
  REGION_CORE_POLLS,
  REGION_CORE_EMPTY_POLLS,
  REGION_CORE_ITEMS,
};

/* When the thread of a slot was last seen polling. All members must be 0 before
 * the first call of region_worker_still_ns. */
struct region_pulse {
  uint64_t owner; /* since_boottime_ns of the slot */
  uint64_t total;
  uint64_t moved_ns;
};

/* True if the thread of the slot is attached and calls percore_poll. */
bool region_worker_polls(const struct region_slot_view *slot,
                         const uint64_t *cells);

/* Returns how long a polling thread has neither polled nor slept, because one
 * round takes long, the thread hangs, or it waits for its core. Returns 0 for
 * threads that do not poll. `cells` is the slot's row of the table `core`;
 * now_ns is the time on CLOCK_MONOTONIC. */
uint64_t region_worker_still_ns(struct region_pulse *pulse,
                                const struct region_slot_view *slot,
                                const uint64_t *cells, uint64_t now_ns);

#endif
