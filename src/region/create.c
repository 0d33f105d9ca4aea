/* create.c: creates and destroys regions, and turns them into sinks in a forked
 * child. */
#include "percore_config.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "file.h"
#include "process.h"
#include "writer.h"

#include "base/cancellation.h"
#include "base/clock.h"
#include "base/sized.h"

static pthread_mutex_t regions_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct percore_region *regions;

/* ---------------------------------------------------------------------------
 * Fork: the child's handles must not reach the parent's region
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

/* Makes only system calls, because other threads of the parent may have held
 * any lock. Without `inherit`, the child has no memory at the addresses of a
 * region (MADV_DONTFORK), so it cannot keep the region alive either. */
static void after_fork_in_child(void) {
  static const struct percore_region_status of_parent = {
      .error = ENODEV,
      .reason = "the region belongs to the parent process; create another "
                "region in this process"};
  region_process_forget();
  for (struct percore_region *r = regions; r != NULL; r = r->next) {
    pthread_mutex_unlock(&r->mutex);
    if (r->is_sink)
      continue;
    r->is_child = true;
    r->is_sink = !r->inherit;
    r->failure = of_parent;
    region_forget_slot();
    /* Otherwise the child would count in its parent's region or slots. */
    if (!(r->inherit ? region_seats_fork(r)
                     : region_memory_drop(r->map, r->size, false)))
      _exit(127);
  }
  pthread_mutex_unlock(&regions_mutex);
}

/* As early as possible: handlers run in this order in the child, and another
 * one might map memory where the region was. */
static __attribute__((constructor)) void watch_forks(void) {
  pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

/* ---------------------------------------------------------------------------
 * Creating
 */

static int map_file(struct percore_region *region, int fd) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && region->size > limit.rlim_cur)
    return region_failed(EFBIG); /* ftruncate would send SIGXFSZ */
  if (ftruncate(fd, (off_t)region->size) != 0)
    return -1;
  region->map = region_memory_map(fd, region->size, PROT_READ | PROT_WRITE);
  if (region->map == NULL)
    return -1;
  if (region->inherit)
    region->again = region_memory_map(fd, region->size, PROT_READ | PROT_WRITE);
  else if (madvise(region->map, region->size, MADV_DONTFORK) != 0)
    return -1;
  return !region->inherit || region->again != NULL ? 0 : -1;
}

static void write_directory(struct percore_region *region,
                            const struct region_plan *plan) {
  const struct region_header *header = &region->header;
  region_plan_write(plan, region->map);
  region->shared = region_at(region, 0);
  region->slots = region_at(region, header->slots_offset);
  for (uint32_t s = 0; s < header->slot_count; s++)
    region->slots[s].core = s < header->core_count ? (int32_t)s : -1;
}

/* Memory of the library for the region. */
static int make_state(struct percore_region *region) {
  region->state = calloc(region->table_count, sizeof(*region->state));
  region->sums = calloc(2 * PERCORE_MAX_COLUMNS, sizeof(*region->sums));
  region->places =
      calloc((region->header.slot_count + 1ull) * region->table_count,
             sizeof(*region->places));
  region->held = calloc(region->header.slot_count, sizeof(*region->held));
  return region->state != NULL && region->sums != NULL &&
                 region->places != NULL && region->held != NULL &&
                 region_places_make(region, region->header.slot_count)
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
  region_grace_init(region);
  return 0;
}

static void free_region(struct percore_region *region) {
  int saved = errno;
  for (uint32_t t = 0; region->state != NULL && t < region->table_count; t++) {
    key_index_free(&region->state[t].names);
    if (region->state[t].removed != NULL)
      munmap(region->state[t].removed, region->state[t].removed_size);
  }
  if (region->owners != NULL)
    munmap(region->owners, region->owners_size);
  region_seats_free(region);
  region_places_free(region);
  free(region->tables);
  free(region->fields);
  free(region->strings);
  free(region->state);
  free(region->sums);
  free(region->held);
  if (region->map != NULL)
    munmap(region->map, region->size);
  if (region->again != NULL)
    munmap(region->again, region->size);
  pthread_mutex_destroy(&region->mutex);
  free(region);
  errno = saved;
}

static int fill_file(struct percore_region *region,
                     const struct region_plan *plan) {
  const struct region_header *header = &region->header;
  if (region_provide(region, 0,
                     header->slots_offset +
                         header->slot_count * sizeof(struct region_slot)) != 0)
    return -1;
  write_directory(region, plan);
  return begin_tables(region);
}

/* Enters the region in the list as soon as a child would have its memory. No
 * other thread forks meanwhile: a child would have the descriptor, too, and as
 * long as it has, the file is locked. */
static int map_and_fill(struct percore_region *region, struct region_plan *plan,
                        struct region_new_file *file) {
  pthread_mutex_lock(&regions_mutex);
  int rc = region_file_begin(file);
  if (rc == 0)
    rc = map_file(region, file->fd);
  if (rc == 0 && region_file_lock(file))
    plan->header.flags |= REGION_LOCK_TELLS;
  region->header.flags = plan->header.flags;
  if (rc == 0)
    rc = fill_file(region, plan);
  if (rc == 0) {
    region->next = regions;
    regions = region;
  }
  pthread_mutex_unlock(&regions_mutex);
  return rc;
}

static void leave_list(const struct percore_region *region) {
  struct percore_region **link = &regions;
  while (*link != region)
    link = &(*link)->next;
  *link = region->next;
}

/* Changes the directory without the lock of the fork handlers: somebody else
 * can hold the directory's lock for as long as it likes. */
static int make_file(struct percore_region *region, struct region_plan *plan,
                     const char *name, const struct percore_options *options) {
  struct region_new_file file;
  region_files_clean(options->runtime_dir, name);
  if (region_file_make(&file, options->runtime_dir, name, options->instance,
                       options->all_users != 0) != 0)
    return -1;
  bool filled = map_and_fill(region, plan, &file) == 0;
  int rc = region_file_finish(&file, filled);
  if (filled && rc != 0) {
    pthread_mutex_lock(&regions_mutex);
    leave_list(region);
    pthread_mutex_unlock(&regions_mutex);
  }
  if (rc != 0 && region->is_full)
    errno = ENOSPC;
  return rc;
}

static void sign(struct region_header *header, bool inherit) {
  region_process_sign(header);
  header->tsc_hz = region_tsc_hz();
  header->start_realtime_ns = clock_now_ns(CLOCK_REALTIME);
  header->start_boottime_ns = clock_now_ns(CLOCK_BOOTTIME);
  header->flags = inherit ? 0 : REGION_POPULATED;
}

/* Returns NULL with a fault or errno on failure. */
static struct percore_region *make_region(const char *name,
                                          const struct percore_table *tables,
                                          uint32_t table_count,
                                          const struct percore_options *options,
                                          struct region_fault *fault) {
  struct region_plan plan;
  struct percore_region *region = NULL;
  uint32_t cores =
      options->cores != 0 ? options->cores : region_possible_cores();
  if (region_plan_make(&plan, name, tables, table_count, options, cores,
                       (uint64_t)sysconf(_SC_PAGESIZE), fault) == 0)
    region = calloc(1, sizeof(*region));
  if (region == NULL) {
    region_plan_free(&plan);
    return NULL;
  }
  sign(&plan.header, options->inherit != 0);
  *region = (struct percore_region){
      .size = plan.header.region_size,
      .quiet = options->quiet != 0,
      .inherit = options->inherit != 0,
      .numbers_cores = options->cores != 0,
      .header = plan.header,
      .tables = plan.tables,
      .fields = plan.fields,
      .strings = plan.strings,
      .table_count = plan.header.table_count,
      .no_seat = {{region_sink_head}, .region = region, .slot = SEAT_SINK}};
  pthread_mutex_init(&region->mutex, NULL);
  if (make_file(region, &plan, name, options) == 0)
    return region;
  free_region(region);
  return NULL;
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
  if (options->runtime_dir == NULL)
    options->runtime_dir = region_runtime_dir();
  if (options->extra_slots == 0)
    options->extra_slots = default_extra_slots(options->inherit != 0);
  return true;
}

struct percore_region *percore_create_(const char *name,
                                       const struct percore_table *tables,
                                       uint32_t table_count,
                                       const struct percore_options *given,
                                       size_t options_size) {
  struct percore_options options;
  struct region_fault fault = {0};
  struct percore_region *made = NULL;
  NOT_CANCELLED;
  if (take_options(&options, given, options_size, &fault))
    made = options.off
               ? &region_sink
               : make_region(name, tables, table_count, &options, &fault);
  if (made == NULL) {
    if (fault.error == 0)
      fault.error = errno;
    made = region_make_sink(name, &options, &fault);
  }
  errno = fault.error;
  return made;
}

void region_thread_ends(void) {
  pthread_mutex_lock(&regions_mutex);
  for (struct percore_region *r = regions; r != NULL; r = r->next)
    if (region_lock(r)) {
      region_detach_own(r);
      region_unlock(r);
    }
  pthread_mutex_unlock(&regions_mutex);
}

/* Not while a thread of any process has a slot. While another process has the
 * region mapped, readers know that it has not ended. */
static void end_if_unused(struct percore_region *region) {
  if (region_attached_slots(region) == 0)
    __atomic_store_n(&region->shared->ended, 1, __ATOMIC_RELEASE);
}

/* Takes no lock that another thread has, or that this thread has in a function
 * that a signal handler has interrupted. */
void region_process_ends(void) {
  if (pthread_mutex_trylock(&regions_mutex) != 0)
    return;
  for (struct percore_region *r = regions; r != NULL; r = r->next)
    if (pthread_mutex_trylock(&r->mutex) == 0) {
      if (!r->is_sink) {
        region_detach_own(r);
        end_if_unused(r);
      }
      pthread_mutex_unlock(&r->mutex);
    }
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
      *found = r;
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

/* Returns false while threads of this process are attached. Children that count
 * have a mapping of their own: as long as any does, the region has not ended.
 */
static bool end_region(struct percore_region *region) {
  if (!region_lock(region))
    return true; /* in a forked child, of which no thread is attached */
  region_detach_own(region);
  bool attached = region_is_attached(region);
  if (!attached)
    end_if_unused(region);
  region_unlock(region);
  return !attached;
}

int percore_destroy(struct percore_region *region) {
  NOT_CANCELLED;
  if (region == NULL || region->map == NULL)
    return 0;
  if (!end_region(region))
    return region_failed(EBUSY);
  pthread_mutex_lock(&regions_mutex);
  leave_list(region);
  free_region(region); /* no fork before it is unmapped */
  pthread_mutex_unlock(&regions_mutex);
  return 0;
}
