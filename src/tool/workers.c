#include "workers.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct past_slot {
  bool read;
  uint64_t since_boottime_ns; /* identifies the thread that owns the slot */
  uint64_t cells[REGION_CORE_COLUMNS];
  struct region_pulse pulse;
};

int workers_open(struct workers *workers, const struct region_reader *reader) {
  uint32_t slots = region_reader_slots(reader);
  *workers = (struct workers){.interval_s = NAN, .slots = slots};
  workers->workers = calloc(slots, sizeof(*workers->workers));
  workers->past = calloc(slots, sizeof(*workers->past));
  if (workers->workers != NULL && workers->past != NULL)
    return 0;
  workers_close(workers);
  return -ENOMEM;
}

void workers_close(struct workers *workers) {
  free(workers->workers);
  free(workers->past);
  *workers = (struct workers){0};
}

static double share(uint64_t part, uint64_t whole) {
  return whole > 0 && part <= whole ? (double)part / (double)whole : NAN;
}

static void compute(struct worker *worker, const uint64_t *now,
                    const uint64_t *before, double interval_s) {
  uint64_t delta[REGION_CORE_COLUMNS];
  for (int c = 0; c < REGION_CORE_COLUMNS; c++)
    delta[c] = now[c] - before[c];
  worker->polls_per_s = (double)delta[REGION_CORE_POLLS] / interval_s;
  worker->items_per_s = (double)delta[REGION_CORE_ITEMS] / interval_s;
  worker->empty =
      share(delta[REGION_CORE_EMPTY_POLLS], delta[REGION_CORE_POLLS]);
  worker->useful = share(delta[REGION_CORE_BUSY], delta[REGION_CORE_TOTAL]);
  worker->slept = share(delta[REGION_CORE_SLEEP], delta[REGION_CORE_TOTAL]);
  if (delta[REGION_CORE_TOTAL] == 0 && worker->asleep) {
    worker->useful = 0;
    worker->slept = 1;
  }
}

static void read_slot(struct workers *workers, struct region_reader *reader,
                      uint32_t s, uint64_t now_ns) {
  struct past_slot *past = &workers->past[s];
  struct region_slot_view slot;
  uint64_t cells[REGION_CORE_MAX_COLUMNS];
  region_reader_slot(reader, s, &slot);
  if (slot.state != REGION_LIVE ||
      region_reader_slot_row(reader, 0, 0, s, cells) < 0) {
    past->read = false;
    return;
  }
  struct worker *worker = &workers->workers[workers->count++];
  *worker = (struct worker){.slot = s,
                            .core = slot.core,
                            .tid = slot.tid,
                            .asleep = slot.asleep,
                            .polls = region_worker_polls(&slot, cells),
                            .useful = NAN,
                            .slept = NAN,
                            .polls_per_s = NAN,
                            .items_per_s = NAN,
                            .empty = NAN};
  memcpy(worker->name, slot.name, sizeof(worker->name));
  worker->stuck_s =
      (double)region_worker_still_ns(&past->pulse, &slot, cells, now_ns) / 1e9;
  if (past->read && past->since_boottime_ns == slot.since_boottime_ns &&
      worker->polls)
    compute(worker, cells, past->cells, workers->interval_s);
  past->read = true;
  past->since_boottime_ns = slot.since_boottime_ns;
  memcpy(past->cells, cells, sizeof(past->cells));
}

void workers_read(struct workers *workers, struct region_reader *reader,
                  uint64_t now_ns) {
  workers->count = 0;
  if (workers->read_ns != 0)
    workers->interval_s = (double)(now_ns - workers->read_ns) / 1e9;
  workers->read_ns = now_ns;
  for (uint32_t s = 0; s < workers->slots; s++)
    read_slot(workers, reader, s, now_ns);
}
