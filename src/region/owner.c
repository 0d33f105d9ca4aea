/* owner.c: which thread holds a slot. A thread holds the robust mutex of its
 * slot, which the kernel releases when the thread ends in any way. Tids would
 * not do: a process has that of its first thread until it ends, those of other
 * threads are used again, and processes in different pid namespaces have the
 * same. Children that count in the region share the mutexes, but not the
 * numbers of the threads that took the slots. */
#include "percore_config.h"

#include <linux/futex.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "writer.h"

#include "base/portable.h"

/* The number of the calling thread, which no other thread of the process gets;
 * 0: it has not attached yet. */
static __thread uint64_t own_number __attribute__((tls_model("initial-exec")));

/* Instead of a number: a thread of the parent held the slot when this process
 * was forked. */
#define OF_PARENT UINT64_MAX

int region_owners_init(struct percore_region *region) {
  uint32_t count = region->header->slot_count;
  pthread_mutexattr_t attributes;
  region->owners_size = count * sizeof(*region->owners);
  region->holders = calloc(count, sizeof(*region->holders));
  void *owners =
      mmap(NULL, region->owners_size, PROT_READ | PROT_WRITE,
           MAP_ANONYMOUS | (region->inherit ? MAP_SHARED : MAP_PRIVATE), -1, 0);
  if (owners != MAP_FAILED)
    region->owners = owners;
  if (region->owners == NULL || region->holders == NULL)
    return -1;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  /* Only of these does musl tell the kernel, and so before_fork (create.c). */
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  int error = 0;
  for (uint32_t s = 0; s < count && error == 0; s++)
    error = pthread_mutex_init(&region->owners[s], &attributes);
  pthread_mutexattr_destroy(&attributes);
  return error == 0 ? 0 : region_failed(error);
}

static uint32_t incarnation(const struct percore_region *region, uint32_t s) {
  return region_incarnation(
      __atomic_load_n(&region->slots[s].generation, __ATOMIC_RELAXED));
}

/* The thread that is noted may have ended, and a thread of another process may
 * have taken the slot since. */
bool region_slot_is_held_here(const struct percore_region *region, uint32_t s) {
  const struct slot_holder *holder = &region->holders[s];
  return holder->thread != 0 && holder->thread != OF_PARENT &&
         holder->incarnation == incarnation(region, s) &&
         region_slot_has_owner(region, s);
}

uint64_t region_thread_number(void) {
  static uint64_t last_number;
  if (own_number == 0)
    own_number = __atomic_add_fetch(&last_number, 1, __ATOMIC_RELAXED);
  return own_number;
}

bool region_slot_take(struct percore_region *region, uint32_t s) {
  if (region_slot_is_of_parent(region, s))
    return false;
  int error = pthread_mutex_trylock(&region->owners[s]);
  if (error == EOWNERDEAD)
    error = pthread_mutex_consistent(&region->owners[s]);
  if (error != 0)
    return false;
  region->holders[s].incarnation = incarnation(region, s) + 1;
  __atomic_store_n(&region->holders[s].thread, region_thread_number(),
                   __ATOMIC_RELAXED);
  return true;
}

void region_slot_leave(struct percore_region *region, uint32_t s) {
  __atomic_store_n(&region->holders[s].thread, 0, __ATOMIC_RELAXED);
  pthread_mutex_unlock(&region->owners[s]);
}

bool region_owners_fork(struct percore_region *region) {
  for (uint32_t s = 0; s < region->header->slot_count; s++)
    if (region_slot_is_held_here(region, s)) {
      region->holders[s].thread = OF_PARENT;
      if (!region_memory_drop(region_block(region, s), region->block_stride))
        return false;
    }
  return true;
}

bool region_slot_is_own(const struct percore_region *region, uint32_t s) {
  return own_number != 0 && __atomic_load_n(&region->holders[s].thread,
                                            __ATOMIC_RELAXED) == own_number;
}

bool region_slot_is_of_parent(const struct percore_region *region, uint32_t s) {
  return region->holders[s].thread == OF_PARENT;
}

/* Taking the mutex would also tell, but would keep others from taking the slot
 * meanwhile. */
bool region_slot_has_owner(const struct percore_region *region, uint32_t s) {
  unsigned word = portable_mutex_word(&region->owners[s]);
  return word != 0 && (word & FUTEX_OWNER_DIED) == 0;
}

uint32_t region_attached_slots(const struct percore_region *region) {
  uint32_t count = 0;
  for (uint32_t s = 0; s < region->header->slot_count; s++)
    count += region_slot_has_owner(region, s);
  return count;
}
