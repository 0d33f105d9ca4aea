/* Lets each call of the C library fail once while a region is made, changed and
 * read, and checks that the process goes on, that a call of libpercore which
 * failed succeeds when it is repeated, and that no count is lost. */
#include <dirent.h>
#include <sched.h>
#include <sys/random.h>
#include <time.h>

#include "region_unit.h"

#include "faults.h"

FAULT(ssize_t, pread, EIO, -1, (int fd, void *into, size_t size, off_t from),
      (fd, into, size, from))
FAULT(int, openat, EMFILE, -1,
      (int dir, const char *name, int flags, mode_t mode),
      (dir, name, flags, mode))
FAULT(int, fstatat, EIO, -1,
      (int dir, const char *name, struct stat *status, int flags),
      (dir, name, status, flags))
FAULT(int, renameat, ENOSPC, -1,
      (int from, const char *old, int to, const char *name),
      (from, old, to, name))
FAULT(int, unlinkat, EIO, -1, (int dir, const char *name, int flags),
      (dir, name, flags))
FAULT(DIR *, opendir, EMFILE, NULL, (const char *path), (path))
FAULT(int, munlock, ENOMEM, -1, (const void *at, size_t size), (at, size))
FAULT(ssize_t, getrandom, ENOSYS, -1, (void *into, size_t size, unsigned flags),
      (into, size, flags))
FAULT(int, sched_getaffinity, EINVAL, -1,
      (pid_t tid, size_t size, cpu_set_t *cpus), (tid, size, cpus))

enum { TRIES = 50, ADDED = 7, ROWS = 3 };

static void pause_ms(long ms) {
  nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

/* Repeats a call until it returns 0 or more. Returns -1 from the function if
 * the call always fails. */
#define REPEAT(call)                                                           \
  do {                                                                         \
    int tries_left = TRIES;                                                    \
    while ((call) < 0 && --tries_left > 0)                                     \
      pause_ms(1);                                                             \
    if (tries_left == 0) {                                                     \
      fprintf(stderr, "%s: %s\n", #call, strerror(errno));                     \
      return -1;                                                               \
    }                                                                          \
  } while (0)

static int add_port(struct percore_region *region, const char *name,
                    uint32_t *row) {
  int status = make_row(region, PORT, name, row);
  return status == 0 || errno == EEXIST ? 0 : -1;
}

static int count(struct percore_region *region) {
  percore_slot_t slot;
  char name[16];
  REPEAT(attach_thread(region, "worker", 0, &slot));
  for (uint32_t row, r = 0; r < ROWS; r++) {
    snprintf(name, sizeof(name), "eth%u", r);
    REPEAT(add_port(region, name, &row));
    percore_add(percore_row(percore_table(slot, PORT), row), PACKETS, ADDED);
  }
  REPEAT(percore_detach(slot));
  return 0;
}

/* Returns 0 if the own region's row has the expected count. */
static int check_own(const char *name, uint64_t expected) {
  struct percore_reader *reader;
  uint64_t value = 0;
  int64_t row = -1;
  REPEAT(percore_open(&reader, name, NULL));
  REPEAT(percore_refresh(reader));
  REPEAT(row = percore_reader_find(reader, PERCORE_FIND_ROW, PORT, "eth1"));
  REPEAT(percore_read_row(reader, PORT, (uint32_t)row, PERCORE_TOTAL, NULL, 0,
                          &value, 1));
  percore_close(reader);
  return value == expected ? 0 : -1;
}

static int connect_to(struct region_reader *reader) {
  (void)region_reader_refresh(reader);
  return region_reader_directory(reader) != NULL ? 0 : -1;
}

/* The same through the region's socket. */
static int check_served(struct region_reader *reader, uint64_t expected) {
  struct region_tile tile;
  int64_t row = -1;
  REPEAT(connect_to(reader));
  REPEAT(row = region_reader_find_row(reader, PORT + 1, "eth1"));
  REPEAT(region_tile_init(&tile, reader, PORT + 1, PORT_ROWS + 1,
                          REGION_WANT_BIRTHS | REGION_WANT_RESETS));
  region_tile_read(reader, &tile, 0);
  uint64_t value = region_row_shown(region_reader_directory(reader), &tile,
                                    (uint32_t)row, PACKETS);
  region_tile_free(&tile);
  return value == expected ? 0 : -1;
}

/* Counts, reads, removes a row, and counts in another row of the same name. */
static int use(struct percore_region *region, const char *name) {
  const struct region_reader_options options = {0};
  struct region_reader *reader;
  uint32_t row;
  REPEAT(region_reader_open(&reader, name, NULL, &options));
  for (uint64_t n = 1; n <= 2; n++) {
    REPEAT(count(region));
    if (check_own(name, n * ADDED) != 0 || check_served(reader, n * ADDED) != 0)
      return (int)n;
  }
  REPEAT(percore_reset(region, PERCORE_ALL_TABLES, PERCORE_ALL_ROWS));
  if (check_served(reader, 0) != 0)
    return 3;
  REPEAT(add_port(region, "eth1", &row));
  REPEAT(percore_row_remove(region, PORT, row, PERCORE_NO_UPDATE_IN_FLIGHT));
  REPEAT(count(region));
  if (check_served(reader, ADDED) != 0)
    return 4;
  region_reader_close(reader);
  return 0;
}

static int play(void) {
  struct percore_region *region;
  const struct percore_options options = {
      .cores = 4, .extra_slots = 2, .quiet = 1};
  char name[16];
  snprintf(name, sizeof(name), "unit%d", fault_at);
  faults_on = true;
  REPEAT(create_region(&region, name, unit_tables, TABLES, &options));
  int wrong = use(region, name);
  faults_on = false;
  return wrong != 0 ? wrong : percore_destroy(region);
}

TEST(a_call_that_fails_once_loses_no_count_and_succeeds_when_repeated) {
  fail_each_call(play, 1);
}

const struct unit_fixtures unit_fixtures = {
    .before_each = unit_make_runtime_dir,
    .after_each = unit_remove_runtime_dir};
