#include "workers.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The columns of the table `core`, as percore_update.h has them. */
enum { TOTAL, BUSY, SLEEP, POLLS, EMPTY_POLLS, ITEMS, COLUMNS };
_Static_assert(COLUMNS == REGION_CORE_COLUMNS, "");

struct past_slot {
  bool looked;
  uint64_t since_boottime_ns; /* of which owner */
  uint64_t cells[COLUMNS];
  uint64_t moved_ns; /* when its time was last seen to go on */
};

struct workers_past {
  uint32_t slots;
  uint64_t looked_ns; /* 0: not yet */
  struct past_slot slot[];
};

int workers_open(struct workers *workers, const struct region_reader *reader) {
  uint32_t slots = region_reader_slots(reader);
  *workers = (struct workers){.interval_s = NAN};
  workers->workers = calloc(slots, sizeof(*workers->workers));
  workers->past =
      calloc(1, sizeof(*workers->past) + slots * sizeof(struct past_slot));
  if (workers->workers == NULL || workers->past == NULL) {
    workers_close(workers);
    return -ENOMEM;
  }
  workers->past->slots = slots;
  return 0;
}

void workers_close(struct workers *workers) {
  free(workers->workers);
  free(workers->past);
  *workers = (struct workers){0};
}

static double share(uint64_t part, uint64_t whole) {
  return whole > 0 && part <= whole ? (double)part / (double)whole : NAN;
}

/* Time is written down at each poll, so a worker whose time stands still while
 * it is awake is busy with one round, or hangs. */
static void judge(struct worker *worker, const uint64_t *now,
                  struct past_slot *past, uint64_t now_ns, double interval_s) {
  uint64_t delta[COLUMNS];
  for (int c = 0; c < COLUMNS; c++)
    delta[c] = now[c] - past->cells[c];
  if (delta[TOTAL] != 0 || worker->asleep)
    past->moved_ns = now_ns;
  worker->stuck_s = (double)(now_ns - past->moved_ns) / 1e9;
  worker->polls_per_s = (double)delta[POLLS] / interval_s;
  worker->items_per_s = (double)delta[ITEMS] / interval_s;
  worker->empty = share(delta[EMPTY_POLLS], delta[POLLS]);
  worker->useful = share(delta[BUSY], delta[TOTAL]);
  worker->slept = share(delta[SLEEP], delta[TOTAL]);
  if (delta[TOTAL] == 0 && worker->asleep) {
    worker->useful = 0;
    worker->slept = 1;
  }
}

static void look_at(struct workers *workers, struct region_reader *reader,
                    uint32_t s, uint64_t now_ns) {
  struct past_slot *past = &workers->past->slot[s];
  struct region_slot_view slot;
  uint64_t cells[REGION_CORE_MAX_COLUMNS];
  region_reader_slot(reader, s, &slot);
  if (slot.state != REGION_LIVE ||
      region_reader_slot_row(reader, 0, 0, s, cells) < 0) {
    past->looked = false;
    return;
  }
  struct worker *worker = &workers->workers[workers->count++];
  *worker = (struct worker){.slot = s,
                            .core = slot.core,
                            .tid = slot.tid,
                            .asleep = slot.asleep,
                            .polls = cells[TOTAL] > 0,
                            .useful = NAN,
                            .slept = NAN,
                            .polls_per_s = NAN,
                            .items_per_s = NAN,
                            .empty = NAN};
  memcpy(worker->name, slot.name, sizeof(worker->name));
  if (past->looked && past->since_boottime_ns == slot.since_boottime_ns &&
      worker->polls)
    judge(worker, cells, past, now_ns, workers->interval_s);
  else
    past->moved_ns = now_ns;
  past->looked = true;
  past->since_boottime_ns = slot.since_boottime_ns;
  memcpy(past->cells, cells, sizeof(past->cells));
}

void workers_read(struct workers *workers, struct region_reader *reader,
                  uint64_t now_ns) {
  struct workers_past *past = workers->past;
  workers->count = 0;
  workers->interval_s =
      past->looked_ns != 0 ? (double)(now_ns - past->looked_ns) / 1e9 : NAN;
  past->looked_ns = now_ns;
  for (uint32_t s = 0; s < past->slots; s++)
    look_at(workers, reader, s, now_ns);
}
