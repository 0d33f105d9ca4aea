/* slot.c: attaches threads to slots and detaches them. */
#include "percore_config.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "writer.h"

#include "base/clock.h"
#include "base/portable.h"

/* For which core a thread attaches. */
struct wish {
  int core;
  bool may_run;   /* its affinity does not exclude the core */
  cpu_set_t cpus; /* its affinity; empty: unknown */
};

/* How well a slot suits a thread. A slot that has been used counts for its core
 * for ever, because readers sum what it has. If the affinity excludes the core,
 * either the thread will be pinned to the core later, or the core is wrong and
 * the core's own slot should stay free for another thread. In the end, any slot
 * will do, so that no count is lost. */
enum rank { OWN, EXTRA_OF_CORE, UNUSED, OWN_EXCLUDED, EXTRA, OTHER, NONE };

static enum rank rank_of(const struct percore_region *region, uint32_t s,
                         const struct wish *wish) {
  const struct region_slot *slot = &region->slots[s];
  if (s < region->header.core_count && (int)s == wish->core)
    return wish->may_run ? OWN : OWN_EXCLUDED;
  if (s < region->header.core_count)
    return wish->core != PERCORE_NO_CORE && s < CPU_SETSIZE &&
                   CPU_ISSET((size_t)s, &wish->cpus)
               ? OTHER
               : NONE;
  if (region_state(slot->generation) == REGION_FREE)
    return UNUSED;
  return slot->core == wish->core ? EXTRA_OF_CORE : EXTRA;
}

/* Looking for a slot and taking it are one step, because threads of other
 * processes may take slots at the same time. */
static bool take_best(struct percore_region *region, const struct wish *wish,
                      bool exactly, uint32_t *taken) {
  for (enum rank rank = OWN; rank < NONE; rank++)
    for (uint32_t s = 0; s < region->header.slot_count; s++) {
      if (rank_of(region, s, wish) != rank ||
          !region_slot_take(region, s, exactly))
        continue;
      *taken = s;
      if (rank_of(region, s, wish) == rank)
        return true;
      region_slot_leave(region, s); /* another process has used it meanwhile */
    }
  return false;
}

/* Warns once per region, because programs that attach their threads before they
 * pin them do so for every thread. */
static void warn_of_affinity(struct percore_region *region, const char *name,
                             int core) {
  if (region->warned_affinity)
    return;
  region->warned_affinity = true;
  region_say(region,
             "thread '%s' attaches for core %d, which its affinity excludes: "
             "it counts for core %d in an extra slot; pin the thread before it "
             "attaches, or pass PERCORE_THIS_CORE",
             name, core, core);
}

/* Prepares a slot block for a new owner, which continues the counts of the
 * previous owner. If the previous owner died, its section may still be open and
 * its clock is outdated. */
static void begin_block(struct percore_slot_head *head) {
  region_close_section(&head->sequence);
  __atomic_store_n(&head->asleep_tsc, 0, __ATOMIC_RELAXED);
  region_poll_begin(head);
  __atomic_store_n(&head->quiescent, head->quiescent + 1, __ATOMIC_RELEASE);
}

static void begin_slot(struct percore_region *region, uint32_t s, int core,
                       const char name[8 * REGION_SLOT_NAME_WORDS]) {
  struct region_slot *slot = &region->slots[s];
  uint64_t words[REGION_SLOT_NAME_WORDS];
  memcpy(words, name, sizeof(words));
  region_begin_change(&slot->generation,
                      region_next_object(slot->generation, REGION_CHANGING));
  if (slot->core == -1)
    __atomic_store_n(&slot->core, core, __ATOMIC_RELAXED);
  region_clear_gauges(region, s);
  __atomic_store_n(&slot->tid, portable_gettid(), __ATOMIC_RELAXED);
  __atomic_store_n(&slot->since_boottime_ns, clock_now_ns(CLOCK_BOOTTIME),
                   __ATOMIC_RELAXED);
  for (int w = 0; w < REGION_SLOT_NAME_WORDS; w++)
    __atomic_store_n(&slot->name[w], words[w], __ATOMIC_RELAXED);
  begin_block(region_block(region, s));
  region_end_change(&slot->generation, REGION_LIVE);
}

static void end_slot(struct percore_region *region, uint32_t s) {
  struct region_slot *slot = &region->slots[s];
  region_begin_change(&slot->generation,
                      region_changed(slot->generation, REGION_CHANGING));
  __atomic_store_n(&slot->tid, 0, __ATOMIC_RELAXED);
  region_end_change(&slot->generation, REGION_GONE);
  region_slot_leave(region, s);
}

/* True unless the thread's affinity, to which cpus is set, excludes the core.
 * The affinity is empty if it is unknown or says nothing about the cores. */
static bool may_run_on(const struct percore_region *region, int core,
                       cpu_set_t *cpus) {
  CPU_ZERO(cpus);
  if (!region->numbers_cores)
    (void)sched_getaffinity(0, sizeof(*cpus), cpus);
  return CPU_COUNT(cpus) == 0 || core < 0 || core >= CPU_SETSIZE ||
         CPU_ISSET((size_t)core, cpus);
}

/* Gives a seat a slot. */
static int seat_in(struct seat *seat, int core) {
  struct percore_region *region = seat->region;
  struct wish wish = {.core = core};
  uint32_t s;
  if (core != PERCORE_NO_CORE &&
      (core < 0 || (uint32_t)core >= region->header.core_count))
    return region_failed(EINVAL);
  wish.may_run = may_run_on(region, core, &wish.cpus);
  if (!wish.may_run && seat->wanted != PERCORE_THIS_CORE)
    warn_of_affinity(region, seat->name, core);
  if (!take_best(region, &wish, false, &s) &&
      !take_best(region, &wish, true, &s))
    return region_failed(ENOSPC);
  bool is_first = region_state(region->slots[s].generation) == REGION_FREE;
  if (is_first)
    region_memory_prefer(region_block(region, s), region->header.block_stride);
  if (!region_places_make(region, s) ||
      (is_first && region_provide_slot_rows(region, s) != 0)) {
    region_slot_leave(region, s);
    return -1;
  }
  begin_slot(region, s, core, seat->name);
  seat->slot = s;
  seat->handle.head = region_block(region, s);
  return 0;
}

/* Says that the counts of a thread are lost: without a slot once for all
 * processes, which also counts such threads; for another reason once for each
 * process. */
static void refuse(struct percore_region *region, const char *name, int error) {
  const struct region_header *header = &region->header;
  bool is_said = region->warned_refusal;
  if (error == ENOSPC)
    is_said = __atomic_fetch_add(&region->shared->attach_refused, 1,
                                 __ATOMIC_RELAXED) > 0;
  else
    region->warned_refusal = true;
  if (is_said)
    return;
  char why[128];
  snprintf(why, sizeof(why),
           "no slot is free: set extra_slots to the number of threads (there "
           "are %u threads and %u slots, %u of them extra)",
           region_count_threads(), header->slot_count,
           header->slot_count - header->core_count);
  region_say(region, "the counts of thread '%s' are lost: %s", name,
             error == ENOSPC ? why : strerror(error));
}

/* ---------------------------------------------------------------------------
 * Seats
 */

/* The seat that this thread has got last: the fast path of percore_this_slot.
 */
static __thread struct {
  const struct percore_region *region;
  struct seat *seat;
} last_attached __attribute__((tls_model("initial-exec")));

void region_forget_slot(void) { last_attached.region = NULL; }

static percore_slot_t handle_of(struct seat *seat) {
  last_attached.region = seat->region;
  last_attached.seat = seat;
  return (percore_slot_t){&seat->handle};
}

/* Only the thread itself takes and leaves its seats, and seats are never freed
 * before the region, so a thread needs no lock to find its own. */
static bool is_own(const struct seat *seat) {
  return __atomic_load_n(&seat->thread, __ATOMIC_RELAXED) ==
         region_thread_number();
}

static struct seat *first_seat(const struct percore_region *region) {
  return __atomic_load_n(&region->seats, __ATOMIC_ACQUIRE);
}

static void leave_seat(struct seat *seat) {
  if (last_attached.seat == seat)
    region_forget_slot();
  seat->handle.head = region_sink_head;
  seat->slot = SEAT_SINK;
  __atomic_store_n(&seat->thread, 0, __ATOMIC_RELAXED);
}

/* Returns a seat that no thread holds. */
static struct seat *free_seat(struct percore_region *region) {
  struct seat *seat = region->seats;
  while (seat != NULL && seat->thread != 0)
    seat = seat->next;
  if (seat != NULL)
    return seat;
  seat = calloc(1, sizeof(*seat));
  if (seat == NULL)
    return NULL;
  seat->region = region;
  seat->next = region->seats;
  __atomic_store_n(&region->seats, seat, __ATOMIC_RELEASE);
  return seat;
}

static struct seat *take_seat(struct percore_region *region, const char *name,
                              int core) {
  struct seat *seat = free_seat(region);
  if (seat == NULL)
    return NULL;
  seat->wanted = core;
  memset(seat->name, 0, sizeof(seat->name));
  memcpy(seat->name, name, strnlen(name, sizeof(seat->name) - 1));
  seat->slot = SEAT_UNDECIDED;
  seat->handle.head = &region_undecided;
  __atomic_store_n(&seat->thread, region_thread_number(), __ATOMIC_RELAXED);
  return seat;
}

/* Returns the seat that the thread has with this name and core. */
static struct seat *same_seat(const struct percore_region *region,
                              const char *name, int core) {
  struct seat *seat = region->seats;
  while (seat != NULL &&
         (!is_own(seat) || seat->wanted != core ||
          strncmp(seat->name, name, sizeof(seat->name) - 1) != 0))
    seat = seat->next;
  return seat;
}

percore_slot_t percore_attach(struct percore_region *region, const char *name,
                              int core) {
  if (!region_lock(region))
    return (percore_slot_t){&region_no_seat(region)->handle};
  if (name == NULL)
    name = "";
  struct seat *seat = same_seat(region, name, core);
  int error = 0;
  if (seat == NULL) {
    if (region_thread_may_attach())
      seat = take_seat(region, name, core);
    if (seat == NULL ||
        (core != PERCORE_THIS_CORE && seat_in(seat, core) != 0)) {
      error = errno;
      refuse(region, name, error);
      if (seat != NULL)
        leave_seat(seat);
      seat = &region->no_seat;
    }
  }
  region_unlock(region);
  errno = error;
  return handle_of(seat);
}

/* The creator of the thread may pin it meanwhile. */
static int seat_here(struct seat *seat) {
  enum { TRIES = 3 };
  cpu_set_t cpus;
  for (int i = 1;; i++) {
    int core = sched_getcpu();
    if (seat_in(seat, core) != 0)
      return -1;
    if (i == TRIES || may_run_on(seat->region, core, &cpus))
      return 0;
    end_slot(seat->region, seat->slot);
  }
}

void region_decide(struct seat *seat) {
  if (!region_lock(seat->region))
    return;
  if (is_own(seat) && seat->slot == SEAT_UNDECIDED && seat_here(seat) != 0) {
    refuse(seat->region, seat->name, errno);
    leave_seat(seat);
  }
  region_unlock(seat->region);
}

percore_slot_t percore_this_slot(struct percore_region *region) {
  if (last_attached.region == region && region != NULL)
    return (percore_slot_t){&last_attached.seat->handle};
  if (region == NULL || region->is_sink)
    return (percore_slot_t){&region_no_seat(region)->handle};
  struct seat *seat = first_seat(region);
  while (seat != NULL && !is_own(seat))
    seat = seat->next;
  return seat != NULL ? handle_of(seat)
                      : (percore_slot_t){&region->no_seat.handle};
}

bool region_is_attached(const struct percore_region *region) {
  const struct seat *seat = region->seats;
  while (seat != NULL &&
         (seat->thread == 0 || seat->thread == REGION_OF_PARENT))
    seat = seat->next;
  return seat != NULL;
}

bool region_seats_fork(struct percore_region *region) {
  for (struct seat *seat = region->seats; seat != NULL; seat = seat->next) {
    leave_seat(seat);
    seat->thread = REGION_OF_PARENT;
  }
  return region_owners_fork(region);
}

void region_seats_free(struct percore_region *region) {
  while (region->seats != NULL) {
    struct seat *next = region->seats->next;
    free(region->seats);
    region->seats = next;
  }
}

/* ---------------------------------------------------------------------------
 * Detaching
 */

static void detach(struct seat *seat) {
  struct percore_region *region = seat->region;
  uint32_t s = seat->slot;
  if (s < region->header.slot_count) {
    percore_pass_(&seat->handle.head->quiescent);
    end_slot(region, s);
  }
  leave_seat(seat);
}

int percore_detach(percore_slot_t slot) {
  struct seat *seat = (struct seat *)slot.seat;
  if (seat == NULL || seat->slot == SEAT_SINK || !region_lock(seat->region))
    return region_failed(EINVAL);
  bool own = is_own(seat);
  if (own)
    detach(seat);
  region_unlock(seat->region);
  return own ? 0 : region_failed(EINVAL);
}

void region_detach_own(struct percore_region *region) {
  for (struct seat *seat = region->seats; seat != NULL; seat = seat->next)
    if (is_own(seat)) {
      region_close_section(&seat->handle.head->sequence);
      detach(seat);
    }
}
