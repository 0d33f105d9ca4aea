/* grace.c: decides when the cells of a removed row may count for another
 * object.
 *
 * That is when no worker can still use the old row. A worker announces this by
 * a quiescent point, which is a plain store: the store may become visible after
 * later loads of the application's tables, so the worker may use a row that was
 * made unreachable in between. Therefore a grace period begins with a full
 * barrier on every thread (membarrier), and only then reads the counters of the
 * slots. A worker has stopped using all rows that it loaded before the barrier
 * when its counter changes; rows that it loads after the barrier are not
 * removed rows.
 *
 * A period serves all rows removed before it began, and several periods can be
 * open: a slot whose counter has changed since the last period began has passed
 * all of them. The barrier interrupts every core that runs one of our threads,
 * so removals begin at most one period per millisecond. A call that wants a
 * removed row begins a period if none has begun since the removal.
 */
#include "percore_config.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "memory.h"
#include "writer.h"

#include "base/clock.h"

static long membarrier(int command) {
  return syscall(SYS_membarrier, command, 0, 0);
}

int region_grace_init(struct percore_region *region) {
  struct grace *grace = &region->grace;
  grace->slots = calloc(region->header->slot_count, sizeof(*grace->slots));
  if (grace->slots == NULL)
    return -1;
  (void)membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
  return 0;
}

static void barrier_everywhere(void) {
  if (membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0)
    return;
  /* The kernel or a seccomp filter refuses membarrier. After a millisecond,
   * every store is visible anyway. */
  struct timespec pause = {.tv_nsec = 1000000};
  nanosleep(&pause, NULL);
}

enum { MIN_PERIOD_NS = 1000000 };

/* Slot blocks to which no thread ever attached have no memory. */
static uint64_t quiescent_points(const struct percore_region *region,
                                 uint32_t s) {
  if (region->slots[s].tid == 0)
    return 0;
  return __atomic_load_n(&region_block(region, s)->quiescent, __ATOMIC_ACQUIRE);
}

static void begin_period(struct percore_region *region) {
  struct grace *grace = &region->grace;
  barrier_everywhere();
  for (uint32_t s = 0; s < region->header->slot_count; s++) {
    struct grace_slot *slot = &grace->slots[s];
    uint64_t now = quiescent_points(region, s);
    if (now != slot->seen)
      slot->passed = grace->begun;
    slot->seen = now;
  }
  grace->begun++;
  grace->begun_ns = clock_now_ns(CLOCK_MONOTONIC);
}

/* True if no thread uses rows through this slot at present. */
static bool is_idle(const struct percore_region *region, uint32_t s) {
  const struct region_slot *slot = &region->slots[s];
  return slot->tid == 0 ||
         __atomic_load_n(&region_block(region, s)->asleep, __ATOMIC_ACQUIRE) ||
         region_owner_is_dead(slot);
}

/* Finds the last period that is over. The acquires pair with the releases of
 * percore_quiescent and percore_sleep, so everything that a worker added for
 * the old object is in the sum that becomes the birth of the new object. */
static void update_over(struct percore_region *region) {
  struct grace *grace = &region->grace;
  uint64_t over = grace->begun;
  for (uint32_t s = 0; s < region->header->slot_count; s++) {
    struct grace_slot *slot = &grace->slots[s];
    if (slot->passed < grace->begun &&
        (quiescent_points(region, s) != slot->seen || is_idle(region, s)))
      slot->passed = grace->begun;
    if (slot->passed < over)
      over = slot->passed;
  }
  grace->over = over;
}

/* ---------------------------------------------------------------------------
 * Removed rows, oldest first
 */

int region_removed_init(struct percore_region *region, uint32_t table) {
  struct table_state *state = &region->state[table];
  if (state->removed != NULL)
    return 0;
  state->removed_size =
      region->tables[table].max_rows * sizeof(*state->removed);
  state->removed = region_memory_sink(NULL, state->removed_size);
  return state->removed != NULL ? 0 : -1;
}

void region_remove_later(struct percore_region *region, uint32_t table,
                         uint32_t row, bool safe_now) {
  struct table_state *state = &region->state[table];
  struct removed_row *removed = &state->removed[row];
  *removed = (struct removed_row){.grace = region->grace.begun + 1};
  if (safe_now) { /* put it first, so that it does not wait for older rows */
    removed->grace = 0;
    removed->newer = state->oldest;
    if (state->oldest != 0)
      state->removed[state->oldest - 1].older = row + 1;
    else
      state->newest = row + 1;
    state->oldest = row + 1;
    return;
  }
  removed->older = state->newest;
  if (state->newest != 0)
    state->removed[state->newest - 1].newer = row + 1;
  else
    state->oldest = row + 1;
  state->newest = row + 1;
  if (clock_now_ns(CLOCK_MONOTONIC) - region->grace.begun_ns >= MIN_PERIOD_NS)
    begin_period(region);
}

static void take(struct table_state *state, uint32_t row) {
  struct removed_row *removed = &state->removed[row];
  if (removed->older != 0)
    state->removed[removed->older - 1].newer = removed->newer;
  else
    state->oldest = removed->newer;
  if (removed->newer != 0)
    state->removed[removed->newer - 1].older = removed->older;
  else
    state->newest = removed->older;
}

static bool is_safe(struct percore_region *region, uint64_t period) {
  struct grace *grace = &region->grace;
  if (period <= grace->over)
    return true;
  if (period > grace->begun)
    begin_period(region);
  update_over(region);
  return period <= grace->over;
}

bool region_has_removed(const struct percore_region *region, uint32_t table) {
  return region->state[table].oldest != 0;
}

bool region_take_removed(struct percore_region *region, uint32_t table,
                         uint32_t *row) {
  struct table_state *state = &region->state[table];
  if (state->oldest == 0 ||
      !is_safe(region, state->removed[state->oldest - 1].grace))
    return false;
  *row = state->oldest - 1;
  take(state, *row);
  return true;
}

bool region_take_this_removed(struct percore_region *region, uint32_t table,
                              uint32_t row) {
  struct table_state *state = &region->state[table];
  if (!is_safe(region, state->removed[row].grace))
    return false;
  take(state, row);
  return true;
}
