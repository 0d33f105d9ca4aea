/* create.c: creates and destroys regions, and turns them into sinks in a forked
 * child. */
#include "percore_config.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "message.h"
#include "writer.h"

#include "base/cancellation.h"
#include "base/clock.h"
#include "base/sized.h"

static pthread_mutex_t regions_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct percore_region *regions;

/* ---------------------------------------------------------------------------
 * Fork: the child's handles must not reach the parent's region
 */

/* The robust mutexes that the forking thread holds. The child holds none, but
 * musl, unlike glibc, leaves it the list: it would change those of the parent.
 */
static struct robust_list_head *held;

static void before_fork(void) {
  size_t size;
  pthread_mutex_lock(&regions_mutex);
  if (syscall(SYS_get_robust_list, 0, &held, &size) != 0)
    held = NULL;
  for (struct percore_region *r = regions; r != NULL; r = r->next)
    pthread_mutex_lock(&r->mutex);
}

static void after_fork_in_parent(void) {
  for (struct percore_region *r = regions; r != NULL; r = r->next)
    pthread_mutex_unlock(&r->mutex);
  pthread_mutex_unlock(&regions_mutex);
}

/* Makes only system calls, because other threads of the parent may have held
 * any lock. A child that counts in the region keeps the descriptor with which
 * it allocates memory. */
static void after_fork_in_child(void) {
  if (held != NULL)
    held->list.next = &held->list;
  for (struct percore_region *r = regions; r != NULL; r = r->next) {
    pthread_mutex_init(&r->mutex, NULL);
    if (r->is_child && !r->inherit)
      continue;
    r->is_child = true;
    region_server_close(r);
    region_forget_slot();
    if (r->inherit)
      region_seats_fork(r);
    region_close_fd(&r->shared);
    if (!r->inherit)
      region_close_fd(&r->memfd);
    /* Otherwise the child would count in its parent's region or slots. */
    if (!(r->inherit ? region_owners_fork(r)
                     : region_memory_drop(r->map, r->size)))
      _exit(127);
  }
  pthread_mutex_init(&regions_mutex, NULL);
}

static void watch_forks(void) {
  pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

/* ---------------------------------------------------------------------------
 * Creating
 */

/* Readers must not allocate memory in the region, nor call write(2), which on
 * some kernels takes the lock of the inode before it fails. So they receive a
 * read-only descriptor, and only this user and root may open the memory again.
 * Without /proc, they receive a copy of this one. */
static void share_memory(struct percore_region *region) {
  char path[32];
  (void)fchmod(region->memfd, 0444);
  snprintf(path, sizeof(path), "/proc/self/fd/%d", region->memfd);
  region->shared = open(path, O_RDONLY | O_CLOEXEC);
  if (region->shared < 0)
    region->shared = fcntl(region->memfd, F_DUPFD_CLOEXEC, 0);
}

static int make_memory(struct percore_region *region, const char *name,
                       const struct percore_options *options) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && region->size > limit.rlim_cur)
    return region_failed(EFBIG); /* ftruncate would send SIGXFSZ */
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
  share_memory(region);
  if (region->shared < 0)
    return -1;
  /* This mapping stays writable, but no process can create another writable
   * mapping.
   */
  return fcntl(region->memfd, F_ADD_SEALS, REGION_SEALS);
}

static int provide_directory(struct percore_region *region,
                             const struct region_plan *plan) {
  const struct region_header *header = &plan->header;
  uint64_t length =
      header->slots_offset + header->slot_count * sizeof(struct region_slot);
  if (region_is_huge(region))
    length = region->size;
  return region_provide(region, 0, length);
}

static void write_directory(struct percore_region *region,
                            struct region_plan *plan) {
  struct region_header *header = &plan->header;
  header->pid = getpid();
  header->tsc_hz = region_tsc_hz();
  header->start_realtime_ns = clock_now_ns(CLOCK_REALTIME);
  header->start_boottime_ns = clock_now_ns(CLOCK_BOOTTIME);
  if (getrandom(header->region_id, sizeof(header->region_id), 0) !=
      sizeof(header->region_id))
    memcpy(header->region_id, &header->start_boottime_ns, 8);
  region_plan_write(plan, region->map);
  region->header = region_at(region, 0);
  region->tables = region_at(region, header->tables_offset);
  region->fields = region_at(region, header->fields_offset);
  region->slots = region_at(region, header->slots_offset);
  region->table_count = header->table_count;
  for (uint32_t s = 0; s < header->slot_count; s++)
    region->slots[s].core = s < header->core_count ? (int32_t)s : -1;
}

/* Memory of the library for the region. */
static int make_state(struct percore_region *region) {
  uint32_t columns = 0;
  for (uint32_t t = 0; t < region->table_count; t++)
    if (region->tables[t].columns > columns)
      columns = region->tables[t].columns;
  region->state = calloc(region->table_count, sizeof(*region->state));
  region->sums = calloc(2 * (size_t)columns, sizeof(*region->sums));
  region->cells = region->sums + columns;
  region->places =
      calloc((region->header->slot_count + 1ull) * region->table_count,
             sizeof(*region->places));
  return region->state != NULL && region->sums != NULL &&
                 region->places != NULL &&
                 region_places_make(region, region->header->slot_count)
             ? region_owners_init(region)
             : -1;
}

static int begin_tables(struct percore_region *region) {
  if (make_state(region) != 0)
    return -1;
  for (uint32_t t = 0; t < region->table_count; t++) {
    const struct region_table *table = &region->tables[t];
    key_index_init(&region->state[t].names, region_label(region, table, 0),
                   region_label_size(table));
    if (region_provide(region, table->live_offset,
                       sizeof(struct region_table_live)) != 0)
      return -1;
    if (!(table->flags & REGION_TABLE_SINGLE)) {
      /* the row that is a sink */
      if (region_provide(region, table->single_offset, table->row_stride) != 0)
        return -1;
      continue;
    }
    if (region_provide_rows(region, t, 1) != 0)
      return -1;
    region_row_begin_single(region, t);
  }
  return region_grace_init(region);
}

static int fill_region(struct percore_region *region, const char *name,
                       struct region_plan *plan,
                       const struct percore_options *options) {
  if (make_memory(region, name, options) != 0 ||
      provide_directory(region, plan) != 0)
    return -1;
  write_directory(region, plan);
  return begin_tables(region);
}

static void free_region(struct percore_region *region) {
  int saved = errno;
  for (uint32_t t = 0; region->state != NULL && t < region->table_count; t++) {
    key_index_free(&region->state[t].names);
    if (region->state[t].removed != NULL)
      munmap(region->state[t].removed, region->state[t].removed_size);
  }
  region_close_fd(&region->memfd);
  region_close_fd(&region->shared);
  if (region->owners != NULL)
    munmap(region->owners, region->owners_size);
  free(region->holders);
  region_seats_free(region);
  if (region->places != NULL)
    region_places_free(region);
  free(region->state);
  free(region->sums);
  free(region->grace.slots);
  if (region->map != NULL)
    munmap(region->map, region->size);
  pthread_mutex_destroy(&region->server.turn);
  pthread_mutex_destroy(&region->mutex);
  free(region);
  errno = saved;
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

static bool is_as_planned(const struct percore_region *region,
                          const struct region_plan *plan) {
  const struct region_header *a = region->header, *b = &plan->header;
  return a->region_size == b->region_size && a->table_count == b->table_count &&
         a->field_count == b->field_count &&
         a->strings_size == b->strings_size &&
         memcmp(region->tables, plan->tables,
                a->table_count * sizeof(*plan->tables)) == 0 &&
         memcmp(region->fields, plan->fields,
                a->field_count * sizeof(*plan->fields)) == 0 &&
         memcmp(region_at(region, a->strings_offset), plan->strings,
                a->strings_size) == 0;
}

/* A program may repeat percore_create until it succeeds. Returns the region of
 * the attempt before, so that the program does not get a region for each
 * attempt; NULL if there is none. */
static struct percore_region *
find_unserved(const struct region_plan *plan, const char *name,
              const struct percore_options *options) {
  pthread_mutex_lock(&regions_mutex);
  struct percore_region *r = regions;
  while (r != NULL &&
         (r->is_child || r->unserved == 0 ||
          !region_server_claims(r, name, options) || !is_as_planned(r, plan)))
    r = r->next;
  if (r != NULL)
    r->unserved = region_server_restore(r);
  pthread_mutex_unlock(&regions_mutex);
  return r;
}

/* A region is in the list from the moment in which it has memory, so that a
 * fork finds it; other threads may serve it only while it is complete. */
static void complete(struct percore_region *region) {
  pthread_mutex_lock(&regions_mutex);
  region->is_complete = true;
  (void)region_lock(region);
  region->unserved = region->server.error;
  region_unlock(region);
  pthread_mutex_unlock(&regions_mutex);
}

/* Makes the region that a plan describes. Returns NULL with errno on failure.
 */
static struct percore_region *
make_planned(const char *name, struct region_plan *plan,
             const struct percore_options *options) {
  struct percore_region *region = calloc(1, sizeof(*region));
  if (region == NULL)
    return NULL;
  *region = (struct percore_region){.memfd = -1,
                                    .shared = -1,
                                    .size = plan->header.region_size,
                                    .page_size = plan->header.page_size,
                                    .block_stride = plan->header.block_stride,
                                    .quiet = options->quiet != 0,
                                    .inherit = options->inherit != 0,
                                    .numbers_cores = options->cores != 0};
  region->no_seat = (struct seat){
      .handle = {region_sink_head}, .region = region, .slot = SEAT_SINK};
  pthread_mutex_init(&region->mutex, NULL);
  region_server_init(region);
  if (fill_region(region, name, plan, options) == 0) {
    link_region(region);
    if (region_server_start(region, name, options) == 0) {
      complete(region);
      if (region->unserved != 0)
        region_warn_unserved(region);
      return region;
    }
    unlink_region(region);
  }
  free_region(region);
  return NULL;
}

/* Makes a region and serves it. Returns NULL with a fault or errno on failure.
 */
static struct percore_region *make_region(const char *name,
                                          const struct region_records *records,
                                          const struct percore_options *options,
                                          struct region_fault *fault) {
  struct region_plan plan;
  struct percore_region *region = NULL;
  uint32_t cores =
      options->cores != 0 ? options->cores : region_possible_cores();
  uint64_t page_size =
      options->huge_pages ? REGION_HUGE_PAGE : (uint64_t)sysconf(_SC_PAGESIZE);
  if (region_plan_take(&plan, name, records, options, cores, page_size,
                       fault) == 0) {
    region = find_unserved(&plan, name, options);
    if (region == NULL)
      region = make_planned(name, &plan, options);
  }
  region_plan_free(&plan);
  return region;
}

/* A program that already has many threads is likely to attach them. A slot that
 * is never used takes 128 bytes. */
static uint32_t default_extra_slots(bool inherit) {
  enum { LEAST = 8, LEAST_INHERIT = 256, MOST = 1024 };
  uint32_t threads = region_count_threads();
  uint32_t least = inherit ? LEAST_INHERIT : LEAST;
  return threads < least ? least : threads < MOST ? threads : MOST;
}

/* The options that the application's version of percore.h defines; newer ones
 * have their defaults. */
static bool take_options(struct percore_options *options,
                         const struct percore_options *given, size_t size,
                         struct region_fault *fault) {
  *options = (struct percore_options){0};
  if (given != NULL && !sized_take(options, sizeof(*options), given, size))
    return region_fails(fault, EINVAL, SIZED_NEWER);
  if ((unsigned)options->serving > PERCORE_SERVE_POLLED)
    return region_fails(fault, EINVAL,
                        "options.serving must be PERCORE_SERVE_THREAD or "
                        "PERCORE_SERVE_POLLED");
  if (options->extra_slots == 0)
    options->extra_slots = default_extra_slots(options->inherit != 0);
  return true;
}

/* Makes a region of records of this version. */
static struct percore_region *create(const char *name,
                                     const struct region_records *records,
                                     const struct percore_options *given,
                                     size_t options_size) {
  struct percore_options options;
  struct region_fault fault = {0};
  bool valid = take_options(&options, given, options_size, &fault);
  if (valid && options.off) {
    errno = 0;
    return &region_sink;
  }
  struct percore_region *made =
      valid ? make_region(name, records, &options, &fault) : NULL;
  if (made != NULL) {
    errno = made->unserved;
    return made;
  }
  if (fault.error == 0)
    fault.error = errno;
  made = region_make_sink(name, &options, &fault);
  errno = fault.error;
  return made;
}

struct percore_region *
percore_create_(const char *name, const struct percore_table *tables,
                uint32_t table_count, const struct percore_options *options,
                size_t options_size, size_t table_size, size_t field_size) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  const struct region_records records = {tables, table_count, table_size,
                                         field_size};
  NOT_CANCELLED;
  pthread_once(&once, watch_forks);
  return create(name, &records, options, options_size);
}

void region_serve_polled(void) {
  pthread_mutex_lock(&regions_mutex);
  for (struct percore_region *r = regions; r != NULL; r = r->next)
    if (r->is_complete)
      (void)percore_serve(r);
  pthread_mutex_unlock(&regions_mutex);
}

bool region_find(const void *address, const struct percore_region **found) {
  uintptr_t at = (uintptr_t)address;
  if (pthread_mutex_trylock(&regions_mutex) != 0)
    return false;
  *found = region_sink_has(address) ? &region_sink : NULL;
  for (struct percore_region *r = regions; r != NULL && *found == NULL;
       r = r->next)
    if (at - (uintptr_t)r->map < r->size)
      *found = r->is_child && !r->inherit ? &region_sink : r;
  pthread_mutex_unlock(&regions_mutex);
  return true;
}

bool region_find_seat(const void *seat, const struct percore_region **found) {
  if (pthread_mutex_trylock(&regions_mutex) != 0)
    return false;
  *found = NULL;
  for (struct percore_region *r = regions; r != NULL && *found == NULL;
       r = r->next)
    for (const struct seat *s = r->seats; s != NULL; s = s->next)
      if (s == seat)
        *found = r;
  pthread_mutex_unlock(&regions_mutex);
  return true;
}

static bool has_attached(struct percore_region *region) {
  if (!region_lock(region))
    return false; /* no thread is attached in a forked child */
  bool attached = region_has_undecided(region);
  for (uint32_t s = 0; s < region->header->slot_count; s++)
    attached |= region->is_child ? region_slot_is_held_here(region, s)
                                 : region_slot_has_owner(region, s);
  region_unlock(region);
  return attached;
}

int percore_destroy(struct percore_region *region) {
  NOT_CANCELLED;
  if (region == NULL || region->is_sink)
    return 0;
  region_detach_own(region);
  if (has_attached(region))
    return region_failed(EBUSY);
  unlink_region(region);
  /* Set `ended` before the connections end, because readers check it when their
   * connection ends. */
  if (!region->is_child)
    __atomic_store_n(&region->header->ended, 1, __ATOMIC_RELEASE);
  region_server_stop(region);
  free_region(region);
  return 0;
}
