/* worker.h: what the threads of a region did between two readings, for the
 * plugin and the tool. It is read from the slots and their rows of the table
 * `core`. */
#ifndef PERCORE_REGION_WORKER_H
#define PERCORE_REGION_WORKER_H

#include "reader.h"

/* The columns of the table `core`. All are in cycles, except those that count
 * events. */
enum region_core_column {
  REGION_CORE_TOTAL, /* the thread's time up to its last poll */
  REGION_CORE_BUSY,
  REGION_CORE_SLEEP,
  REGION_CORE_POLLS,
  REGION_CORE_EMPTY_POLLS,
  REGION_CORE_ITEMS,
  REGION_CORE_ABSENT, /* awake, but off the CPU */
};

/* One slot. The state of a slot that no thread has ever used is REGION_FREE,
 * and all other members are then 0. */
struct region_worker {
  struct region_slot_view slot;
  bool polls; /* calls percore_poll, or its cycles are counted for it */
  /* Shares of the wall time between the last two readings, 0 to 1; NAN:
   * unknown. useful: the CPU time without polled_empty, which is the CPU time
   * of rounds that handled nothing. slept: without the CPU time of falling
   * asleep and of waking. */
  double useful, slept, polled_empty;
  uint64_t growth[REGION_CORE_COLUMNS]; /* of the cells, in the same time */
  /* How long a polling thread has neither polled nor slept, now and at the last
   * reading, because one round takes long, the thread hangs, or it waits for
   * its core. 0 for threads that do not call percore_poll. */
  uint64_t still_ns, was_still_ns;
  /* The last reading; see worker.c. */
  uint64_t cells[REGION_CORE_COLUMNS], slept_cycles, ran_cycles, until_tsc,
      moved_ns;
};

struct region_workers {
  struct region_worker *list; /* all slots of the region */
  uint32_t len;
  uint32_t attached; /* how many slots have a thread */
  double interval_s; /* time between the last two readings; NAN: only one */
  /* When the last reading began; 0: there was none. */
  uint64_t read_ns, read_tsc;
  uint32_t next;      /* the slot at which it goes on; 0: it is complete */
  uint64_t since_tsc; /* what unused slots did since then is known; 0 */
};

/* Reads all slots or, if there are more than `most`, so many more of them in
 * each call. now_ns and now_tsc are the current time on CLOCK_MONOTONIC and of
 * percore_tsc. At the first reading, what the threads did since since_tsc is
 * known if all slots were unused at that time; 0: nothing is known. Returns 0
 * if the reading is complete, 1 if it is not, or -ENOMEM. */
int region_workers_read(struct region_workers *workers,
                        struct region_reader *reader, uint32_t most,
                        uint64_t now_ns, uint64_t now_tsc, uint64_t since_tsc);

/* Forgets all slots, and frees their memory. */
void region_workers_forget(struct region_workers *workers);

#endif
