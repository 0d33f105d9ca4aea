/* create.c: regions are made and unmade, and what becomes of them in a fork. */
#include "percore_config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "memory.h"
#include "writer.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

static pthread_mutex_t regions_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct percore_region *regions;

bool region_lock(struct percore_region *region) {
  errno = ENODEV;
  if (region->is_sink)
    return false;
  pthread_mutex_lock(&region->mutex);
  if (!region->forked)
    return true;
  pthread_mutex_unlock(&region->mutex);
  return false;
}

void region_unlock(struct percore_region *region) {
  pthread_mutex_unlock(&region->mutex);
}

/* ---------------------------------------------------------------------------
 * Fork: the child keeps handles, and none of them may reach the region
 */

static void before_fork(void) {
  pthread_mutex_lock(&regions_mutex);
  for (struct percore_region *r = regions; r != NULL; r = r->next)
    pthread_mutex_lock(&r->mutex);
}

static void after_fork_in_parent(void) {
  for (struct percore_region *r = regions; r != NULL; r = r->next)
    pthread_mutex_unlock(&r->mutex);
  pthread_mutex_unlock(&regions_mutex);
}

/* Only system calls here: other threads of the parent may have held any lock.
 */
static void after_fork_in_child(void) {
  for (struct percore_region *r = regions; r != NULL; r = r->next) {
    pthread_mutex_init(&r->mutex, NULL);
    if (r->forked)
      continue;
    r->forked = true;
    /* Without memory for page tables the child must not go on: it would count
     * in its parent's region. */
    if (region_memory_sink(r->map, r->size) == NULL)
      _exit(127);
    region_server_abandon(r);
    region_forget_slot();
    close(r->memfd);
    r->memfd = -1;
  }
  pthread_mutex_init(&regions_mutex, NULL);
}

static void watch_forks(void) {
  pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

/* ---------------------------------------------------------------------------
 * Ticks per second of percore_tsc, measured once
 */

static uint64_t measured_tsc_hz;

static uint64_t now_ns(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#if defined(__x86_64__)
/* The tick count in the middle of two readings of the clock, the closest of
 * eight pairs. */
static void read_both(uint64_t *ns, uint64_t *tsc) {
  uint64_t least = UINT64_MAX;
  for (int i = 0; i < 8; i++) {
    uint64_t before = now_ns(CLOCK_MONOTONIC_RAW);
    uint64_t ticks = percore_tsc();
    uint64_t after = now_ns(CLOCK_MONOTONIC_RAW);
    if (after - before >= least)
      continue;
    least = after - before;
    *ns = before + (after - before) / 2;
    *tsc = ticks;
  }
}
#endif

static void measure_tsc_hz(void) {
#if defined(__aarch64__)
  __asm__("mrs %0, cntfrq_el0" : "=r"(measured_tsc_hz));
#elif defined(__x86_64__)
  struct timespec pause = {.tv_nsec = 20000000};
  uint64_t ns[2], tsc[2];
  read_both(&ns[0], &tsc[0]);
  nanosleep(&pause, NULL);
  read_both(&ns[1], &tsc[1]);
  measured_tsc_hz =
      (uint64_t)((double)(tsc[1] - tsc[0]) * 1e9 / (double)(ns[1] - ns[0]));
#else
  measured_tsc_hz = 1000000000u;
#endif
}

uint64_t region_tsc_hz(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, measure_tsc_hz);
  return measured_tsc_hz;
}

/* ---------------------------------------------------------------------------
 * Making
 */

static int make_memory(struct percore_region *region, const char *name,
                       const struct percore_options *options) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && region->size > limit.rlim_cur) {
    errno = EFBIG; /* ftruncate would send SIGXFSZ */
    return -1;
  }
  unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  if (options->huge_pages)
    flags |= MFD_HUGETLB | (21u << 26); /* MFD_HUGE_2MB */
  region->memfd = memfd_create(name, flags);
  if (region->memfd < 0 || ftruncate(region->memfd, (off_t)region->size) != 0)
    return -1;
  region->map =
      region_memory_map(region->memfd, region->size, PROT_READ | PROT_WRITE);
  if (region->map == NULL)
    return -1;
  region->sink_block = region_memory_sink(NULL, region->block_stride);
  if (region->sink_block == NULL)
    return -1;
  /* The mapping that exists stays writable; there will be no other. */
  return fcntl(region->memfd, F_ADD_SEALS,
               F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL);
}

static int provide_directory(struct percore_region *region,
                             const struct region_plan *plan) {
  const struct region_header *header = &plan->header;
  uint64_t length =
      header->slots_offset + header->slot_count * sizeof(struct region_slot);
  if (region->page_size > (uint64_t)sysconf(_SC_PAGESIZE))
    length = region->size;
  return region_memory_provide(region->memfd, region->map, 0, length,
                               region->page_size);
}

static void write_directory(struct percore_region *region,
                            struct region_plan *plan) {
  struct region_header *header = &plan->header;
  header->pid = getpid();
  header->tsc_hz = region_tsc_hz();
  header->start_realtime_ns = now_ns(CLOCK_REALTIME);
  header->start_boottime_ns = now_ns(CLOCK_BOOTTIME);
  if (getrandom(header->region_id, sizeof(header->region_id), 0) !=
      sizeof(header->region_id))
    memcpy(header->region_id, &header->start_boottime_ns, 8);
  region_plan_write(plan, region->map);
  region->header = (struct region_header *)(void *)region->map;
  region->tables =
      (const struct region_table *)(const void *)(region->map +
                                                  header->tables_offset);
  region->fields =
      (const struct region_field *)(const void *)(region->map +
                                                  header->fields_offset);
  region->slots =
      (struct region_slot *)(void *)(region->map + header->slots_offset);
  region->table_count = header->table_count;
  for (uint32_t s = 0; s < header->slot_count; s++)
    region->slots[s].core = s < header->core_count ? (int32_t)s : -1;
}

static int begin_tables(struct percore_region *region) {
  region->state = calloc(region->table_count, sizeof(*region->state));
  if (region->state == NULL)
    return -1;
  for (uint32_t t = 0; t < region->table_count; t++) {
    const struct region_table *table = &region->tables[t];
    row_index_init(&region->state[t].names, region_label(region, table, 0),
                   table->label_stride, region_label_size(table));
    if (region_memory_provide(region->memfd, region->map, table->live_offset,
                              sizeof(struct region_table_live),
                              region->page_size) != 0)
      return -1;
    if (!(table->flags & REGION_TABLE_SINGLE))
      continue;
    if (region_provide_rows(region, t, 1) != 0)
      return -1;
    region_row_begin_single(region, t);
    region->state[t].next_unused = 1;
  }
  return region_grace_init(region);
}

static void free_region(struct percore_region *region) {
  int saved = errno;
  for (uint32_t t = 0; region->state != NULL && t < region->table_count; t++) {
    row_index_free(&region->state[t].names);
    if (region->state[t].removed != NULL)
      munmap(region->state[t].removed, region->state[t].removed_size);
  }
  if (region->map != NULL)
    munmap(region->map, region->size);
  if (region->sink_block != NULL)
    munmap(region->sink_block, region->block_stride);
  if (region->memfd >= 0)
    close(region->memfd);
  free(region->state);
  free(region->grace.slots);
  pthread_mutex_destroy(&region->mutex);
  free(region);
  errno = saved;
}

static int fill_region(struct percore_region *region, const char *name,
                       struct region_plan *plan,
                       const struct percore_options *options) {
  region->size = plan->header.region_size;
  region->page_size = plan->header.page_size;
  region->block_stride = plan->header.block_stride;
  if (make_memory(region, name, options) != 0 ||
      provide_directory(region, plan) != 0)
    return -1;
  write_directory(region, plan);
  return begin_tables(region);
}

static int make_region(struct percore_region **made, const char *name,
                       const struct percore_table *tables, uint32_t table_count,
                       const struct percore_options *options) {
  struct region_plan plan;
  uint32_t cores =
      options->cores != 0 ? options->cores : region_possible_cores();
  uint64_t page_size =
      options->huge_pages ? REGION_HUGE_PAGE : (uint64_t)sysconf(_SC_PAGESIZE);
  struct percore_region *region = NULL;
  int rc = region_plan_make(&plan, name, tables, table_count, options, cores,
                            page_size);
  if (rc != 0)
    goto cleanup;
  rc = -1;
  region = calloc(1, sizeof(*region));
  if (region == NULL)
    goto cleanup;
  region->memfd = -1;
  pthread_mutex_init(&region->mutex, NULL);
  rc = fill_region(region, name, &plan, options);
cleanup:
  region_plan_free(&plan);
  if (rc != 0 && region != NULL)
    free_region(region);
  *made = region;
  return rc;
}

static void link_region(struct percore_region *region) {
  pthread_mutex_lock(&regions_mutex);
  region->next = regions;
  regions = region;
  pthread_mutex_unlock(&regions_mutex);
}

static void unlink_region(struct percore_region *region) {
  pthread_mutex_lock(&regions_mutex);
  struct percore_region **link = &regions;
  while (*link != region)
    link = &(*link)->next;
  *link = region->next;
  pthread_mutex_unlock(&regions_mutex);
}

static int make_and_serve(struct percore_region **region, const char *name,
                          const struct percore_table *tables,
                          uint32_t table_count,
                          const struct percore_options *options) {
  struct percore_region *made;
  if (make_region(&made, name, tables, table_count, options) != 0)
    return -1;
  made->quiet = options->quiet != 0;
  made->numbers_cores = options->cores != 0;
  link_region(made); /* before it is served: a fork must find it */
  if (region_server_start(made, name, options) != 0) {
    unlink_region(made);
    free_region(made);
    return -1;
  }
  *region = made;
  return 0;
}

int percore_create(struct percore_region **region, const char *name,
                   const struct percore_table *tables, uint32_t table_count,
                   const struct percore_options *given) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  struct percore_options options = {0};
  if (given != NULL && given->size < sizeof(given->size)) {
    errno = EINVAL;
    *region = region_make_sink(name, &options);
    return -1;
  }
  if (given != NULL)
    memcpy(&options, given,
           given->size < sizeof(options) ? given->size : sizeof(options));
  if (options.extra_slots == 0)
    options.extra_slots = 8;
  pthread_once(&once, watch_forks);
  if (make_and_serve(region, name, tables, table_count, &options) == 0)
    return 0;
  *region = region_make_sink(name, &options);
  return -1;
}

static bool has_name(const struct percore_region *region, const char *name,
                     const char *instance) {
  const struct region_header *header = region->header;
  const char *strings = (const char *)region->map + header->strings_offset;
  return strcmp(strings + header->name, name) == 0 &&
         strcmp(strings + header->instance, instance != NULL ? instance : "") ==
             0;
}

int region_own_memory(const char *name, const char *instance,
                      const unsigned char *known_id, uint64_t *size) {
  int memfd = -1;
  errno = ENOENT;
  pthread_mutex_lock(&regions_mutex);
  for (struct percore_region *r = regions; r != NULL && memfd < 0;
       r = r->next) {
    if (r->forked || !has_name(r, name, instance))
      continue;
    errno = EALREADY;
    if (memcmp(r->header->region_id, known_id, sizeof(r->header->region_id)) ==
        0)
      break;
    memfd = fcntl(r->memfd, F_DUPFD_CLOEXEC, 0);
    *size = r->size;
    if (memfd < 0)
      break;
  }
  pthread_mutex_unlock(&regions_mutex);
  return memfd;
}

static bool has_attached(struct percore_region *region) {
  if (!region_lock(region))
    return false; /* in a child: none of its threads is */
  bool attached = false;
  for (uint32_t s = 0; s < region->header->slot_count; s++)
    attached |=
        region->slots[s].tid != 0 && !region_owner_is_dead(&region->slots[s]);
  region_unlock(region);
  return attached;
}

int percore_destroy(struct percore_region *region) {
  if (region->is_sink)
    return 0;
  if (has_attached(region)) {
    errno = EBUSY;
    return -1;
  }
  unlink_region(region);
  /* Set before the connections end, so that readers find it then. */
  __atomic_store_n(&region->header->ended, 1, __ATOMIC_RELEASE);
  region_server_stop(region);
  free_region(region);
  return 0;
}
