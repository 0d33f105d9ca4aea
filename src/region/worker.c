/* worker.c: the useful share of a thread's time.
 *
 * The cells of a thread that is awake account for its time up to its last poll,
 * so the wall time between two readings is compared with the time between the
 * last polls before them. While a thread sleeps, its last round is not over:
 * the time of this round before the sleep is not accounted for yet, and the
 * sleep is, up to now. A slot that no thread holds is accounted for up to now,
 * so time between two threads counts as not useful.
 *
 * The cells know of the time off the CPU only if it was long (poll.c), and none
 * of the CPU time that the system call which blocks takes. The thread's CPU
 * time at its last check is exact. After this check, time awake is taken for
 * CPU time. With this CPU time C, and the time in rounds with work B and
 * without work E, all in shares of the wall time: E may contain time off the
 * CPU, so that C - E to C of the CPU time was useful, and B is useful unless it
 * is outside of these bounds. The error is at most E, and at most the time off
 * the CPU in short rounds. */
#include "worker.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void region_workers_forget(struct region_workers *workers) {
  free(workers->list);
  *workers = (struct region_workers){0};
}

static uint64_t accounted_until(const struct region_slot_view *slot,
                                uint64_t now_tsc) {
  if (slot->state != REGION_LIVE)
    return now_tsc;
  if (slot->asleep_tsc == 0)
    return slot->polled_tsc;
  uint64_t unaccounted = slot->asleep_tsc - slot->polled_tsc;
  return now_tsc - ((int64_t)unaccounted > 0 ? unaccounted : 0);
}

/* Cells can be forged, and in a slot that is read while it changes, the cells
 * may be newer than the time. */
static double share(uint64_t part, uint64_t whole) {
  if ((int64_t)part < 0 || (int64_t)whole <= 0)
    return NAN;
  return part < whole ? (double)part / (double)whole : 1;
}

/* Returns the CPU time, in cycles, that the thread has had up to polled_tsc. */
static uint64_t ran_cycles(const struct region_slot_view *slot,
                           const uint64_t *cells, uint64_t tsc_hz) {
  uint64_t slept = cells[REGION_CORE_SLEEP] - slot->checked_sleep;
  uint64_t awake = slot->polled_tsc - slot->checked_tsc - slept;
  double checked = (double)slot->checked_cpu_ns * 1e-9 * (double)tsc_hz;
  return awake + (checked < 0x1p63 ? (uint64_t)checked : 0);
}

static double clamp(double value, double low, double high) {
  return fmin(fmax(value, low), high);
}

/* Computes what happened between the last reading and this one. ran: the
 * thread's CPU time in cycles; NAN: unknown, as the thread is another one. */
static void compare(struct region_worker *worker, const uint64_t *cells,
                    uint64_t slept_cycles, double ran, uint64_t window) {
  worker->useful = worker->slept = worker->polled_empty = NAN;
  for (int c = 0; c < REGION_CORE_COLUMNS; c++)
    worker->growth[c] = cells[c] - worker->cells[c];
  if (!worker->polls || (worker->slot.state != REGION_LIVE &&
                         worker->growth[REGION_CORE_TOTAL] == 0))
    return;
  double busy = share(worker->growth[REGION_CORE_BUSY], window);
  double slept = share(slept_cycles - worker->slept_cycles, window);
  uint64_t empty =
      worker->growth[REGION_CORE_TOTAL] - worker->growth[REGION_CORE_BUSY] -
      worker->growth[REGION_CORE_SLEEP] - worker->growth[REGION_CORE_ABSENT];
  double polled = share((int64_t)empty > 0 ? empty : 0, window);
  if (isnan(busy + slept + polled))
    return;
  double cpu = isnan(ran) ? busy + polled : clamp(ran / (double)window, 0, 1);
  worker->useful = clamp(busy, cpu - polled, cpu);
  worker->polled_empty = cpu - worker->useful;
  worker->slept = fmax(slept - fmax(cpu - busy - polled, 0), 0);
}

/* Returns when the thread last polled, according to its slot. */
static uint64_t polled_ns(const struct region_slot_view *slot, uint64_t tsc_hz,
                          uint64_t now_ns, uint64_t now_tsc) {
  double since_ns =
      (double)(int64_t)(now_tsc - slot->polled_tsc) * 1e9 / (double)tsc_hz;
  return since_ns > 0 && since_ns < (double)now_ns ? now_ns - (uint64_t)since_ns
                                                   : now_ns;
}

static void judge(struct region_worker *worker, bool same_thread,
                  const uint64_t *cells, uint64_t tsc_hz, uint64_t now_ns,
                  uint64_t now_tsc) {
  if (cells[REGION_CORE_POLLS] == 0 || worker->slot.state != REGION_LIVE ||
      worker->slot.asleep_tsc != 0)
    worker->moved_ns = now_ns;
  else if (!same_thread)
    worker->moved_ns = polled_ns(&worker->slot, tsc_hz, now_ns, now_tsc);
  else if (worker->cells[REGION_CORE_TOTAL] != cells[REGION_CORE_TOTAL])
    worker->moved_ns = now_ns;
  worker->was_still_ns = worker->still_ns;
  worker->still_ns = now_ns - worker->moved_ns;
}

static void read_slot(struct region_worker *worker,
                      struct region_reader *reader, uint32_t s, uint64_t now_ns,
                      uint64_t now_tsc, uint64_t since_tsc) {
  struct region_slot_view slot;
  uint64_t cells[REGION_CORE_MAX_COLUMNS] = {0};
  region_reader_slot(reader, s, &slot);
  bool known = worker->slot.state != REGION_FREE;
  if (slot.state == REGION_FREE ||
      region_reader_slot_row(reader, 0, 0, s, cells) < 0) {
    if (known)
      *worker = (struct region_worker){0};
    return;
  }
  bool same_thread =
      known && worker->slot.since_boottime_ns == slot.since_boottime_ns;
  worker->slot = slot;
  /* src/poller counts for other threads, and only after the fact: its first
   * counts are of a time before it attached. */
  worker->polls =
      cells[REGION_CORE_POLLS] > 0 ||
      (same_thread && cells[REGION_CORE_TOTAL] >
                          cells[REGION_CORE_SLEEP] + cells[REGION_CORE_ABSENT]);
  uint64_t tsc_hz = region_reader_directory(reader)->header.tsc_hz;
  judge(worker, same_thread, cells, tsc_hz, now_ns, now_tsc);
  uint64_t until_tsc = accounted_until(&slot, now_tsc);
  uint64_t slept_cycles =
      cells[REGION_CORE_SLEEP] +
      (slot.asleep_tsc != 0 ? now_tsc - slot.asleep_tsc : 0);
  uint64_t from_tsc = known ? worker->until_tsc : since_tsc;
  uint64_t ran = ran_cycles(&slot, cells, tsc_hz);
  compare(worker, cells, slept_cycles,
          same_thread ? (double)(int64_t)(ran - worker->ran_cycles) : NAN,
          from_tsc != 0 ? until_tsc - from_tsc : 0);
  if (same_thread && until_tsc == from_tsc)
    return; /* counts in the reading after the next poll */
  worker->ran_cycles = ran;
  memcpy(worker->cells, cells, sizeof(worker->cells));
  worker->slept_cycles = slept_cycles;
  worker->until_tsc = until_tsc;
}

static void begin(struct region_workers *workers, uint64_t now_ns,
                  uint64_t now_tsc, uint64_t since_tsc) {
  bool is_first = workers->read_tsc == 0;
  workers->since_tsc = is_first ? since_tsc : workers->read_tsc;
  workers->interval_s =
      is_first ? NAN : (double)(now_ns - workers->read_ns) / 1e9;
  workers->attached = 0;
  workers->read_ns = now_ns;
  workers->read_tsc = now_tsc;
}

int region_workers_read(struct region_workers *workers,
                        struct region_reader *reader, uint32_t most,
                        uint64_t now_ns, uint64_t now_tsc, uint64_t since_tsc) {
  uint32_t slots = region_reader_slots(reader);
  if (workers->len != slots) {
    region_workers_forget(workers);
    workers->list = calloc(slots, sizeof(*workers->list));
    if (workers->list == NULL)
      return -ENOMEM;
    workers->len = slots;
  }
  if (workers->next == 0)
    begin(workers, now_ns, now_tsc, since_tsc);
  for (; most > 0 && workers->next < slots; most--, workers->next++) {
    struct region_worker *worker = &workers->list[workers->next];
    read_slot(worker, reader, workers->next, now_ns, now_tsc,
              workers->since_tsc);
    workers->attached += worker->slot.state == REGION_LIVE;
  }
  if (workers->next < slots)
    return 1;
  workers->next = 0;
  return 0;
}
