/* slot.c: attaches threads to slots and detaches them. */
#include "percore_config.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "writer.h"

#include "base/clock.h"

/* Looking for a slot and taking it are one step, because threads of other
 * processes may take slots at the same time. */
static bool take(struct percore_region *region, uint32_t s, bool exactly,
                 uint32_t *taken) {
  *taken = s;
  return region_slot_take(region, s, exactly);
}

/* Takes an extra slot: one that counts for the core already, or else one that
 * has never been used, or else any, so that no count is lost. A slot that has
 * been used counts for its core for ever, because readers sum what it has. */
enum extra { OF_CORE, UNUSED, ANY };
static bool take_extra_slot(struct percore_region *region, int core,
                            enum extra last, bool exactly, uint32_t *taken) {
  const struct region_header *header = region->header;
  for (enum extra pass = OF_CORE; pass <= last; pass++)
    for (uint32_t s = header->core_count; s < header->slot_count; s++) {
      const struct region_slot *slot = &region->slots[s];
      bool unused = region_state(slot->generation) == REGION_FREE;
      bool suits = pass == OF_CORE  ? !unused && slot->core == core
                   : pass == UNUSED ? unused
                                    : true;
      if (!suits || !take(region, s, exactly, taken))
        continue;
      if (pass != UNUSED || region_state(slot->generation) == REGION_FREE)
        return true;
      region_slot_leave(region, s); /* another process has used it meanwhile */
    }
  return false;
}

/* Takes the slot of another core on which the thread may run, so that the
 * counts of a thread that is not pinned are not lost. */
static bool take_other_core(struct percore_region *region,
                            const cpu_set_t *cpus, bool exactly,
                            uint32_t *taken) {
  for (uint32_t s = 0; s < region->header->core_count && s < CPU_SETSIZE; s++)
    if (CPU_ISSET((size_t)s, cpus) && take(region, s, exactly, taken))
      return true;
  return false;
}

/* Takes the core's own slot, or an extra slot. If a thread's affinity excludes
 * the core, it takes an extra slot of the core as long as one is free: either
 * the thread will be pinned to the core later, or the core is wrong and the
 * core's own slot should stay free for another thread. */
static bool take_any_slot(struct percore_region *region, int core, bool may_run,
                          const cpu_set_t *cpus, bool exactly,
                          uint32_t *taken) {
  if (core == PERCORE_NO_CORE)
    return take_extra_slot(region, core, ANY, exactly, taken);
  if (!may_run && take_extra_slot(region, core, UNUSED, exactly, taken))
    return true;
  return take(region, (uint32_t)core, exactly, taken) ||
         take_extra_slot(region, core, ANY, exactly, taken) ||
         take_other_core(region, cpus, exactly, taken);
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
             "attaches, or pass -1 for the core that it runs on",
             name != NULL ? name : "", core, core);
}

static void name_slot(struct region_slot *slot, const char *name) {
  uint64_t words[REGION_SLOT_NAME_WORDS] = {0};
  if (name != NULL)
    memcpy(words, name, strnlen(name, sizeof(words) - 1));
  for (int w = 0; w < REGION_SLOT_NAME_WORDS; w++)
    __atomic_store_n(&slot->name[w], words[w], __ATOMIC_RELAXED);
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
                       const char *name) {
  struct region_slot *slot = &region->slots[s];
  region_begin_change(&slot->generation,
                      region_next_object(slot->generation, REGION_CHANGING));
  if (slot->core == -1)
    __atomic_store_n(&slot->core, core, __ATOMIC_RELAXED);
  region_clear_gauges(region, s);
  __atomic_store_n(&slot->tid, (int32_t)syscall(SYS_gettid), __ATOMIC_RELAXED);
  __atomic_store_n(&slot->since_boottime_ns, clock_now_ns(CLOCK_BOOTTIME),
                   __ATOMIC_RELAXED);
  name_slot(slot, name);
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

static int attach(struct percore_region *region, const char *name, int core,
                  uint32_t *taken) {
  if (core != PERCORE_NO_CORE &&
      (core < 0 || (uint32_t)core >= region->header->core_count))
    return region_failed(EINVAL);
  if (region_thread_is_ending())
    return region_failed(ECANCELED);
  cpu_set_t cpus;
  CPU_ZERO(&cpus); /* as if it were unknown */
  if (!region->numbers_cores)
    (void)sched_getaffinity(0, sizeof(cpus), &cpus);
  bool may_run = CPU_COUNT(&cpus) == 0 || core < 0 || core >= CPU_SETSIZE ||
                 CPU_ISSET((size_t)core, &cpus);
  if (!may_run)
    warn_of_affinity(region, name, core);
  if (!take_any_slot(region, core, may_run, &cpus, false, taken) &&
      !take_any_slot(region, core, may_run, &cpus, true, taken))
    return region_failed(ENOSPC);
  if (region_state(region->slots[*taken].generation) == REGION_FREE) {
    region_memory_prefer(region_block(region, *taken),
                         region->header->block_stride);
    if (region_provide_slot_rows(region, *taken) != 0) {
      region_slot_leave(region, *taken);
      return -1;
    }
  }
  begin_slot(region, *taken, core, name);
  return 0;
}

/* Says that the counts of a thread are lost: without a slot once for all
 * processes, which also counts such threads; for another reason once for each
 * process. Keeps errno. */
static void refuse(struct percore_region *region, const char *name) {
  const struct region_header *header = region->header;
  int error = errno;
  bool is_said = region->warned_refusal;
  if (error == ENOSPC)
    is_said = __atomic_fetch_add(&region->shared->attach_refused, 1,
                                 __ATOMIC_RELAXED) > 0;
  else
    region->warned_refusal = true;
  if (!is_said) {
    char why[128];
    snprintf(why, sizeof(why),
             "no slot is free: set extra_slots to the number of threads (it is "
             "%u, and there are %u threads)",
             header->slot_count - header->core_count, region_count_threads());
    region_say(region, "the counts of thread '%s' are lost: %s",
               name != NULL ? name : "",
               error == ENOSPC ? why : strerror(error));
  }
  errno = error;
}

/* The slot that this thread attached last: the fast path of percore_this_slot.
 */
static __thread struct {
  const struct percore_region *region;
  struct percore_slot_head *head;
} last_attached __attribute__((tls_model("initial-exec")));

int percore_attach(struct percore_region *region, const char *name, int core,
                   percore_slot_t *slot) {
  slot->head = region->sink_block;
  if (!region_lock(region))
    return -1;
  uint32_t taken;
  int rc = attach(region, name, core == -1 ? sched_getcpu() : core, &taken);
  if (rc == 0) {
    slot->head = region_block(region, taken);
    last_attached.region = region;
    last_attached.head = slot->head;
  } else {
    refuse(region, name);
  }
  region_unlock(region);
  return rc;
}

/* Returns the first slot that belongs to the calling thread, or NULL. Needs no
 * lock, because only the thread itself attaches and detaches its slots. */
static struct percore_slot_head *own_slot(const struct percore_region *region) {
  for (uint32_t s = 0; s < region->header->slot_count; s++)
    if (region_slot_is_own(region, s))
      return region_block(region, s);
  return NULL;
}

percore_slot_t percore_this_slot(const struct percore_region *region) {
  percore_slot_t slot = {last_attached.head};
  if (last_attached.region == region)
    return slot;
  bool is_sink = region->is_sink || (region->is_child && !region->inherit);
  slot.head = is_sink ? NULL : own_slot(region);
  if (slot.head == NULL)
    return (percore_slot_t){region->sink_block};
  last_attached.region = region;
  last_attached.head = slot.head;
  return slot;
}

void region_forget_slot(void) { last_attached.region = NULL; }

static int detach(struct percore_region *region, percore_slot_t handle) {
  uint64_t offset = (uint64_t)((unsigned char *)handle.head - region->map) -
                    region->header->blocks_offset;
  uint64_t s = offset / region->header->block_stride;
  if (s >= region->header->slot_count ||
      offset % region->header->block_stride != 0 ||
      !region_slot_is_own(region, (uint32_t)s))
    return region_failed(EINVAL);
  percore_quiescent(handle);
  if (last_attached.head == handle.head)
    region_forget_slot();
  end_slot(region, (uint32_t)s);
  return 0;
}

void region_detach_own(struct percore_region *region) {
  for (uint32_t s = 0; s < region->header->slot_count; s++)
    if (region_slot_is_own(region, s)) {
      struct percore_slot_head *head = region_block(region, s);
      region_close_section(&head->sequence);
      (void)detach(region, (percore_slot_t){head});
    }
}

int percore_detach(struct percore_region *region, percore_slot_t slot) {
  if (!region_lock(region))
    return region_failed(EINVAL);
  int rc = detach(region, slot);
  region_unlock(region);
  return rc;
}
