/* grace.c: decides when the cells of a removed row may be reused for another
 * object: when no worker can still use the row for the old object.
 *
 * A worker announces that it has stopped using rows by a quiescent point, which
 * is a plain store. The store may become visible after later loads of the
 * application's tables, so the worker may have looked up a row that was made
 * unreachable before the store became visible. Therefore a grace period begins
 * with a full barrier on every thread (membarrier), and only then reads the
 * counters of the slots. When the counter of a worker has changed after that,
 * the worker has stopped using all rows that it looked up before the barrier.
 * After the barrier, it cannot look up a row that was removed before.
 *
 * A period covers all rows removed before it began. Several periods can be
 * open: a slot whose counter has changed since the last period began has passed
 * all of them. The barrier interrupts every core that runs a thread of this
 * process, so removals begin at most one period per millisecond. A call that
 * needs a removed row begins a period if none has begun since the removal. */
#include "percore_config.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "writer.h"

#include "base/clock.h"

static long membarrier(int command) {
  return syscall(SYS_membarrier, command, 0, 0);
}

void region_grace_init(struct percore_region *region) {
  (void)membarrier(region->inherit ? MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED
                                   : MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
}

/* A private barrier does not reach children that count in the region. */
static void barrier_everywhere(const struct percore_region *region) {
  if (membarrier(region->inherit ? MEMBARRIER_CMD_GLOBAL_EXPEDITED
                                 : MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0)
    return;
  /* The kernel or a seccomp filter refuses membarrier. After a millisecond,
   * every store is visible anyway. */
  region_pause();
}

enum { MIN_PERIOD_NS = 1000000 };

/* Returns the number of quiescent points that the slot's owner has passed; 0 if
 * the slot has no owner. The block of a slot that has never had an owner is not
 * backed by memory, so it is not read. */
static uint64_t quiescent_points(const struct percore_region *region,
                                 uint32_t s) {
  if (region->slots[s].tid == 0)
    return 0;
  const struct percore_slot_head *head = region_block(region, s);
  return __atomic_load_n(&head->quiescent, __ATOMIC_ACQUIRE) +
         __atomic_load_n(&head->polls, __ATOMIC_ACQUIRE);
}

static void begin_period(struct percore_region *region) {
  struct grace *grace = &region->grace;
  barrier_everywhere(region);
  for (uint32_t s = 0; s < region->header.slot_count; s++) {
    struct slot_state *slot = &region->held[s];
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
         __atomic_load_n(&region_block(region, s)->asleep_tsc,
                         __ATOMIC_ACQUIRE) ||
         !region_slot_has_owner(region, s);
}

/* Sets grace->over to the last period that is over. The acquires pair with the
 * releases of percore_quiescent and percore_sleep, so everything that a worker
 * added for the old object is in the sum that becomes the birth of the new
 * object. */
static void update_over(struct percore_region *region) {
  struct grace *grace = &region->grace;
  uint64_t over = grace->begun;
  for (uint32_t s = 0; s < region->header.slot_count; s++) {
    struct slot_state *slot = &region->held[s];
    if (slot->passed < grace->begun &&
        (quiescent_points(region, s) != slot->seen || is_idle(region, s)))
      slot->passed = grace->begun;
    if (slot->passed < over)
      over = slot->passed;
  }
  grace->over = over;
}

/* ---------------------------------------------------------------------------
 * Removed rows: two circular lists, oldest first, so that readers can read
 * removed rows for as long as possible. The list of rows that are safe now does
 * not wait for the other. Element 0 is the head of rows that wait, element
 * max_rows + 1 that of safe rows, and element row + 1 belongs to a row.
 */

static uint32_t safe_head(const struct percore_region *region, uint32_t table) {
  return region->tables[table].max_rows + 1;
}

int region_removed_init(struct percore_region *region, uint32_t table) {
  struct table_state *state = &region->state[table];
  if (state->removed != NULL)
    return 0;
  state->removed_size =
      (region->tables[table].max_rows + 2ull) * sizeof(*state->removed);
  state->removed = region_memory_sink(state->removed_size);
  if (state->removed == NULL)
    return -1;
  uint32_t head = safe_head(region, table);
  state->removed[head] = (struct removed_row){.older = head, .newer = head};
  return 0;
}

static void insert_after(struct removed_row *list, uint32_t older,
                         uint32_t element) {
  list[element].older = older;
  list[element].newer = list[older].newer;
  list[list[older].newer].older = element;
  list[older].newer = element;
}

static void take(struct removed_row *list, uint32_t element) {
  list[list[element].older].newer = list[element].newer;
  list[list[element].newer].older = list[element].older;
}

/* For PERCORE_DEBUG: the row that the thread has removed last. */
static __thread const struct removed_row *removed_here
    __attribute__((tls_model("initial-exec")));

bool region_row_is_in_use(const struct percore_region *region, uint32_t table,
                          uint32_t row) {
  const struct removed_row *list = region->state[table].removed;
  const struct grace *grace = &region->grace;
  if (region->is_child) /* the process that removes rows knows */
    return true;
  if (list == NULL || list[row + 1].grace == 0 ||
      &list[row + 1] == removed_here)
    return false;
  for (uint32_t s = 0; s < region->header.slot_count; s++)
    if (region_slot_is_own(region, s))
      return list[row + 1].grace > grace->begun ||
             (region->held[s].passed < list[row + 1].grace &&
              quiescent_points(region, s) == region->held[s].seen);
  return false;
}

void region_remove_later(struct percore_region *region, uint32_t table,
                         uint32_t row, bool safe_now) {
  struct removed_row *list = region->state[table].removed;
  removed_here = &list[row + 1];
  /* In this order for PERCORE_DEBUG; before the barrier for find_in_child. */
  list[row + 1].grace = safe_now ? 0 : region->grace.begun + 1;
  region_end_change(region_generation(region, &region->tables[table], row),
                    REGION_GONE);
  if (safe_now) {
    insert_after(list, list[safe_head(region, table)].older, row + 1);
    return;
  }
  insert_after(list, list[0].older, row + 1);
  if (clock_now_ns(CLOCK_MONOTONIC) - region->grace.begun_ns >= MIN_PERIOD_NS)
    begin_period(region);
}

/* Tells readers which thread a row_add call waits for. */
static void name_waited_for(struct percore_region *region, uint64_t period) {
  const struct region_header *header = &region->header;
  uint32_t s = 0;
  while (s < header->slot_count && region->held[s].passed >= period)
    s++;
  struct region_header *shared = region->shared;
  __atomic_store_n(&shared->postponed_by, s + 1, __ATOMIC_RELAXED);
  __atomic_store_n(&shared->adds_postponed, shared->adds_postponed + 1,
                   __ATOMIC_RELAXED);
}

static bool is_safe(struct percore_region *region, uint64_t period) {
  struct grace *grace = &region->grace;
  if (period <= grace->over)
    return true;
  if (period > grace->begun)
    begin_period(region);
  update_over(region);
  if (period > grace->over)
    name_waited_for(region, period);
  return period <= grace->over;
}

int region_take_this_removed(struct percore_region *region, uint32_t table,
                             uint32_t row) {
  struct removed_row *list = region->state[table].removed;
  if (!is_safe(region, list[row + 1].grace))
    return region_failed(EAGAIN);
  take(list, row + 1);
  return 0;
}

int region_take_removed(struct percore_region *region, uint32_t table,
                        uint32_t *row) {
  const struct removed_row *list = region->state[table].removed;
  uint32_t head = safe_head(region, table);
  if (list != NULL && list[head].newer == head)
    head = 0;
  if (list == NULL || list[head].newer == head)
    return region_failed(ENOSPC);
  *row = list[head].newer - 1;
  return region_take_this_removed(region, table, *row);
}
