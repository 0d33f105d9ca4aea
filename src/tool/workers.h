/* workers: what the threads of a region did between two reads, by the built-in
 * table `core`. */
#ifndef PERCORE_WORKERS_H
#define PERCORE_WORKERS_H

#include "region/worker.h"

struct worker {
  uint32_t slot;
  int core;
  int32_t tid;
  char name[8 * REGION_SLOT_NAME_WORDS]; /* foreign bytes */
  bool asleep;
  bool polls; /* calls percore_poll; if not, nothing below is known */
  /* Shares of its time, 0 to 1; NaN: unknown. */
  double useful, slept;
  double polls_per_s, items_per_s;
  double empty;   /* share of its polls */
  double stuck_s; /* for how long it has been awake without a poll */
};

struct workers {
  struct worker *workers; /* attached now */
  size_t count;
  double interval_s; /* between the last two reads; NaN after the first */
  struct workers_past *past;
};

/* 0 or -ENOMEM. */
int workers_open(struct workers *workers, const struct region_reader *reader);
void workers_close(struct workers *workers);

/* Reads all slots at a time of CLOCK_MONOTONIC. */
void workers_read(struct workers *workers, struct region_reader *reader,
                  uint64_t now_ns);

#endif
