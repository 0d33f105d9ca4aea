/* owner.c: which thread holds a slot. A process notes the numbers of its own
 * threads in memory of its own. A thread that ends gives its slots back
 * (pthread_key_create(3)). Processes that share a region (`inherit`) also take
 * a word for each slot in memory that they share, which says which process
 * holds it. Nobody follows a pointer in that memory: a process can only take
 * slots from others with it. */
#include "percore_config.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "process.h"
#include "writer.h"

/* The number of the calling thread, which no other thread of the process gets;
 * 0: it has not attached yet. */
static __thread uint64_t own_number __attribute__((tls_model("initial-exec")));

/* ---------------------------------------------------------------------------
 * The end of a thread
 */

static pthread_key_t key;
static bool has_key; /* the program had not used up all of them */

/* True once the slots of the calling thread were given back. */
static __thread bool is_ending __attribute__((tls_model("initial-exec")));

/* Destructors of the application may still count, so this waits for the last
 * round of destructors but one; sanitizers end their part of the thread in the
 * last. */
enum { ROUNDS = PTHREAD_DESTRUCTOR_ITERATIONS - 1 };
static void thread_ends(void *rounds_left) {
  uintptr_t left = (uintptr_t)rounds_left;
  if (left > 1) {
    (void)pthread_setspecific(key, (void *)(left - 1));
    return;
  }
  is_ending = true;
  region_thread_ends();
}

bool region_thread_may_attach(void) {
  errno = is_ending  ? ECANCELED
          : !has_key ? ENOMEM
                     : pthread_setspecific(key, (void *)ROUNDS);
  return errno == 0;
}

static __attribute__((constructor)) void make_key(void) {
  has_key = pthread_key_create(&key, thread_ends) == 0;
}

/* For programs that end without percore_detach or percore_destroy. */
static __attribute__((destructor)) void process_ends(void) {
  region_process_ends();
}

/* ---------------------------------------------------------------------------
 * Processes
 */

/* Names a process in a word: its pid, some bits of the time at which it started
 * and of the number of its pid namespace. */
enum { PID_BITS = 22, START_BITS = 26 };
static uint64_t word_of(const struct region_header *process) {
  return (uint64_t)process->pid_namespace << (PID_BITS + START_BITS) |
         (process->pid_start & ((1u << START_BITS) - 1)) << PID_BITS |
         (uint64_t)process->pid;
}

static uint64_t own_known; /* 0: unknown */
static uint64_t own_word(void) {
  struct region_header self;
  if (own_known == 0) {
    region_process_sign(&self);
    own_known = word_of(&self);
  }
  return own_known;
}

/* True if the process that has taken a slot has ended. `exactly` also finds out
 * whether its parent has not noticed yet, and whether its pid belongs to
 * another process now. */
static bool is_over(uint64_t own, uint64_t word, bool exactly) {
  pid_t pid = (pid_t)(word & ((1u << PID_BITS) - 1));
  if (word == 0 || (word ^ own) >> (PID_BITS + START_BITS) != 0)
    return false;
  if (kill(pid, 0) != 0)
    return errno == ESRCH;
  uint64_t start = exactly ? region_process_start(pid) : 0;
  return start != 0 &&
         ((start ^ word >> PID_BITS) & ((1u << START_BITS) - 1)) != 0;
}

static bool take_word(struct percore_region *region, uint32_t s, bool exactly) {
  uint64_t own = own_word();
  uint64_t word = __atomic_load_n(&region->owners[s], __ATOMIC_RELAXED);
  return (word == 0 || is_over(own, word, exactly)) &&
         __atomic_compare_exchange_n(&region->owners[s], &word, own, false,
                                     __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

/* ---------------------------------------------------------------------------
 * Slots
 */

int region_owners_init(struct percore_region *region) {
  if (!region->inherit)
    return 0;
  region->owners_size = region->header.slot_count * sizeof(*region->owners);
  void *owners = mmap(NULL, region->owners_size, PROT_READ | PROT_WRITE,
                      MAP_ANONYMOUS | MAP_SHARED, -1, 0);
  if (owners == MAP_FAILED)
    return -1;
  region->owners = owners;
  return 0;
}

/* The block of a slot of the parent is a sink in this process; it is mapped
 * again from the other mapping of the region. */
static bool take_of_parent(struct percore_region *region, uint32_t s) {
  void *block = region_block(region, s);
  return mremap(region->again + ((unsigned char *)block - region->map), 0,
                region->header.block_stride, MREMAP_MAYMOVE | MREMAP_FIXED,
                block) == block;
}

uint64_t region_thread_number(void) {
  static uint64_t last_number;
  if (own_number == 0)
    own_number = __atomic_add_fetch(&last_number, 1, __ATOMIC_RELAXED);
  return own_number;
}

bool region_slot_take(struct percore_region *region, uint32_t s, bool exactly) {
  uint64_t before = region->held[s].holder;
  if (before != 0 && !(exactly && before == REGION_OF_PARENT))
    return false;
  if (region->inherit && !take_word(region, s, exactly))
    return false;
  if (before == REGION_OF_PARENT && !take_of_parent(region, s)) {
    __atomic_store_n(&region->owners[s], 0, __ATOMIC_RELEASE);
    return false;
  }
  __atomic_store_n(&region->held[s].holder, region_thread_number(),
                   __ATOMIC_RELAXED);
  /* By a process that ended while nobody was attached. */
  if (__atomic_load_n(&region->shared->ended, __ATOMIC_RELAXED) != 0)
    __atomic_store_n(&region->shared->ended, 0, __ATOMIC_RELAXED);
  return true;
}

void region_slot_leave(struct percore_region *region, uint32_t s) {
  __atomic_store_n(&region->held[s].holder, 0, __ATOMIC_RELAXED);
  if (region->inherit)
    __atomic_store_n(&region->owners[s], 0, __ATOMIC_RELEASE);
}

/* The parent's slots are those that its threads held when it forked, whatever
 * has become of them since: before_fork holds the lock. */
bool region_owners_fork(struct percore_region *region) {
  own_known = 0;
  for (uint32_t s = 0; s < region->header.slot_count; s++)
    if (region->held[s].holder != 0 &&
        region->held[s].holder != REGION_OF_PARENT) {
      region->held[s].holder = REGION_OF_PARENT;
      if (!region_memory_drop(region_block(region, s),
                              region->header.block_stride, true))
        return false;
    }
  return true;
}

bool region_slot_is_own(const struct percore_region *region, uint32_t s) {
  return own_number != 0 && __atomic_load_n(&region->held[s].holder,
                                            __ATOMIC_RELAXED) == own_number;
}

bool region_slot_is_of_parent(const struct percore_region *region, uint32_t s) {
  return region->held[s].holder == REGION_OF_PARENT;
}

/* The memory of the parent's slots is private in the child, and allocated when
 * the child counts in it. Looks at the first 4 MiB (pages of 4 KiB). */
bool region_slot_is_lost(const struct percore_region *region, uint32_t s) {
  unsigned char resident[1024];
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  size_t pages = region->header.block_stride / page;
  if (pages > sizeof(resident))
    pages = sizeof(resident);
  return region_slot_is_of_parent(region, s) &&
         mincore(region_block(region, s), pages * page, resident) == 0 &&
         memchr(resident, 1, pages) != NULL;
}

bool region_slot_has_owner(const struct percore_region *region, uint32_t s) {
  if (!region->inherit)
    return __atomic_load_n(&region->held[s].holder, __ATOMIC_RELAXED) != 0;
  uint64_t word = __atomic_load_n(&region->owners[s], __ATOMIC_ACQUIRE);
  return word != 0 && !is_over(own_word(), word, true);
}

uint32_t region_attached_slots(const struct percore_region *region) {
  uint32_t count = 0;
  for (uint32_t s = 0; s < region->header.slot_count; s++)
    count += region_slot_has_owner(region, s);
  return count;
}
