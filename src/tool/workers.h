/* workers: what a region's threads did between two reads, according to the
 * built-in table `core`. */
#ifndef PERCORE_WORKERS_H
#define PERCORE_WORKERS_H

#include "region/worker.h"

struct worker {
  uint32_t slot;
  int core;
  int32_t tid;
  char name[8 * REGION_SLOT_NAME_WORDS]; /* untrusted bytes */
  bool asleep;
  bool polls; /* calls percore_poll; otherwise the members below are unknown */
  /* Shares of the thread's time, 0 to 1; NaN: unknown. */
  double useful, slept;
  double polls_per_s, items_per_s;
  double empty;   /* the share of polls that handled nothing */
  double stuck_s; /* how long the thread has been awake without a poll */
};

struct workers {
  struct worker *workers; /* the workers that are attached */
  size_t count;
  double interval_s; /* time between the last two reads; NaN after the first */
  uint64_t read_ns;  /* 0 before the first read */
  uint32_t slots;
  struct past_slot *past; /* [slots] */
};

/* Returns 0 or -ENOMEM. */
int workers_open(struct workers *workers, const struct region_reader *reader);
void workers_close(struct workers *workers);

/* Reads all slots. `now_ns` is the current time of CLOCK_MONOTONIC. */
void workers_read(struct workers *workers, struct region_reader *reader,
                  uint64_t now_ns);

#endif
