/* owner.c: which thread holds a slot. A thread holds the robust mutex of its
 * slot, which the kernel releases when the thread ends in any way. Tids would
 * not do: a process has that of its first thread until it ends, and those of
 * other threads are used again. */
#include "percore_config.h"

#include <linux/futex.h>
#include <stdlib.h>

#include "writer.h"

/* The number of the calling thread, which no other thread of the process gets;
 * 0: it has not attached yet. */
static __thread uint64_t own_number __attribute__((tls_model("initial-exec")));

int region_owners_init(struct percore_region *region) {
  uint32_t count = region->header->slot_count;
  pthread_mutexattr_t attributes;
  region->owners = calloc(count, sizeof(*region->owners));
  if (region->owners == NULL)
    return -1;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  for (uint32_t s = 0; s < count; s++)
    pthread_mutex_init(&region->owners[s].lives, &attributes);
  pthread_mutexattr_destroy(&attributes);
  return 0;
}

bool region_slot_take(struct percore_region *region, uint32_t s) {
  static uint64_t last_number;
  struct slot_owner *owner = &region->owners[s];
  int error = pthread_mutex_trylock(&owner->lives);
  if (error == EOWNERDEAD)
    error = pthread_mutex_consistent(&owner->lives);
  if (error != 0)
    return false;
  if (own_number == 0)
    own_number = __atomic_add_fetch(&last_number, 1, __ATOMIC_RELAXED);
  __atomic_store_n(&owner->number, own_number, __ATOMIC_RELAXED);
  return true;
}

void region_slot_leave(struct percore_region *region, uint32_t s) {
  __atomic_store_n(&region->owners[s].number, 0, __ATOMIC_RELAXED);
  pthread_mutex_unlock(&region->owners[s].lives);
}

bool region_slot_is_own(const struct percore_region *region, uint32_t s) {
  return own_number != 0 && __atomic_load_n(&region->owners[s].number,
                                            __ATOMIC_RELAXED) == own_number;
}

/* The word is that of futex(2), "Robust futexes". Taking the mutex would also
 * tell, but would keep others from taking the slot meanwhile. */
bool region_slot_has_owner(const struct percore_region *region, uint32_t s) {
  int word =
      __atomic_load_n(&region->owners[s].lives.__data.__lock, __ATOMIC_ACQUIRE);
  return word != 0 && (word & (int)FUTEX_OWNER_DIED) == 0;
}

uint32_t region_attached_slots(const struct percore_region *region) {
  uint32_t attached = 0;
  for (uint32_t s = 0; s < region->header->slot_count; s++)
    attached += region_slot_has_owner(region, s);
  return attached;
}
