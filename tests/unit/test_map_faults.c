/* Lets each call of the C library fail once while a BPF map is published, and
 * checks that the process goes on and that the region misses no count. The
 * linker replaces the functions below (--wrap), and this file simulates bpf(2).
 * Each call fails in a process of its own. */
#include "percore_config.h"

#include "base/bpf.h"
#include "map/source.h"

#include "region_unit.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>

enum {
  CHILDREN = 16,
  ENTRIES = 3,
  ROWS_MAX = 64,
  UPDATES = 8,
  CALLS_MAX = 2000,
  FAULTLESS_EXIT = 7
};

/* ---------------------------------------------------------------------------
 * Calls that fail
 */

static _Thread_local bool counting; /* only the thread of the test counts */
static int calls, failing;          /* number of the call that fails */
static char region[16];
static const char *failed = "none";

static bool fails(const char *name) {
  if (!counting || ++calls != failing)
    return false;
  failed = name;
  return true;
}

#define FAULT(result, name, error, value, parameters, arguments)               \
  result __real_##name parameters;                                             \
  result __wrap_##name parameters;                                             \
  result __wrap_##name parameters {                                            \
    if (fails(#name)) {                                                        \
      errno = error;                                                           \
      return value;                                                            \
    }                                                                          \
    return __real_##name arguments;                                            \
  }

FAULT(void *, malloc, ENOMEM, NULL, (size_t size), (size))
FAULT(void *, calloc, ENOMEM, NULL, (size_t len, size_t size), (len, size))
FAULT(void *, realloc, ENOMEM, NULL, (void *old, size_t size), (old, size))
FAULT(void *, reallocarray, ENOMEM, NULL, (void *old, size_t len, size_t size),
      (old, len, size))
FAULT(char *, strdup, ENOMEM, NULL, (const char *text), (text))
FAULT(int, open, EMFILE, -1, (const char *path, int flags, mode_t mode),
      (path, flags, mode))
FAULT(FILE *, fopen, EMFILE, NULL, (const char *path, const char *mode),
      (path, mode))
FAULT(char *, fgets, EIO, NULL, (char *line, int size, FILE *file),
      (line, size, file))
FAULT(int, stat, EIO, -1, (const char *path, struct stat *status),
      (path, status))
FAULT(int, fstat, EIO, -1, (int fd, struct stat *status), (fd, status))
FAULT(int, statfs, EIO, -1, (const char *path, struct statfs *system),
      (path, system))
FAULT(void *, mmap, ENOMEM, MAP_FAILED,
      (void *at, size_t size, int protection, int flags, int fd, off_t offset),
      (at, size, protection, flags, fd, offset))
FAULT(int, mprotect, ENOMEM, -1, (void *at, size_t size, int protection),
      (at, size, protection))
FAULT(int, madvise, EIO, -1, (void *at, size_t size, int advice),
      (at, size, advice))
FAULT(int, memfd_create, EMFILE, -1, (const char *name, unsigned flags),
      (name, flags))
FAULT(int, ftruncate, EFBIG, -1, (int fd, off_t size), (fd, size))
FAULT(int, fallocate, ENOSPC, -1, (int fd, int mode, off_t from, off_t size),
      (fd, mode, from, size))
FAULT(int, fcntl, ENOLCK, -1, (int fd, int command, long argument),
      (fd, command, argument))
FAULT(int, flock, ENOLCK, -1, (int fd, int operation), (fd, operation))
FAULT(int, socket, EMFILE, -1, (int family, int type, int protocol),
      (family, type, protocol))
FAULT(int, bind, ENOSPC, -1,
      (int fd, const struct sockaddr *address, socklen_t length),
      (fd, address, length))
FAULT(int, connect, EAGAIN, -1,
      (int fd, const struct sockaddr *address, socklen_t length),
      (fd, address, length))
FAULT(int, listen, EADDRINUSE, -1, (int fd, int backlog), (fd, backlog))
FAULT(int, chmod, EPERM, -1, (const char *path, mode_t mode), (path, mode))
FAULT(int, fchmod, EPERM, -1, (int fd, mode_t mode), (fd, mode))
FAULT(int, eventfd, EMFILE, -1, (unsigned value, int flags), (value, flags))
FAULT(int, epoll_create1, EMFILE, -1, (int flags), (flags))
FAULT(int, epoll_ctl, ENOMEM, -1,
      (int epoll, int operation, int fd, struct epoll_event *event),
      (epoll, operation, fd, event))
FAULT(int, pthread_create, EAGAIN, EAGAIN,
      (pthread_t * thread, const pthread_attr_t *attributes,
       void *(*run)(void *), void *argument),
      (thread, attributes, run, argument))

/* ---------------------------------------------------------------------------
 * The map
 */

static uint32_t type, copies;
static uint64_t counts[ENTRIES]; /* of the first copy; 0: no such entry */

/* Every descriptor is that of a map. */
ssize_t __wrap_readlink(const char *path, char *target, size_t size);
ssize_t __wrap_readlink(const char *path, char *target, size_t size) {
  (void)path;
  if (fails("readlink")) {
    errno = EACCES;
    return -1;
  }
  return (ssize_t)snprintf(target, size, "anon_inode:bpf-map");
}

static void describe(const union bpf_attr *attr) {
  struct bpf_map_info info = {.type = type,
                              .id = 1,
                              .key_size = sizeof(uint32_t),
                              .value_size = sizeof(uint64_t),
                              .max_entries = ENTRIES};
  memcpy((void *)(uintptr_t)attr->info.info, &info, sizeof(info));
}

static int look_up_batch(union bpf_attr *attr) {
  uint32_t *keys = (void *)(uintptr_t)attr->batch.keys;
  uint64_t *values = (void *)(uintptr_t)attr->batch.values;
  bool is_array = type == BPF_MAP_TYPE_ARRAY;
  uint32_t len = 0;
  for (uint32_t key = 0; key < ENTRIES; key++)
    if (is_array || counts[key] > 0) {
      keys[len] = key;
      memset(&values[len * copies], 0, copies * sizeof(*values));
      values[len++ * copies] = counts[key];
    }
  attr->batch.count = len;
  return ENOENT;
}

static int simulate_bpf(int command, union bpf_attr *attr) {
  switch (command) {
  case BPF_OBJ_GET:
    return 0;
  case BPF_OBJ_GET_INFO_BY_FD:
    describe(attr);
    return 0;
  default:
    return look_up_batch(attr);
  }
}

long __real_syscall(long number, ...);
long __wrap_syscall(long number, long a, long b, long c, long d, long e,
                    long f);
long __wrap_syscall(long number, long a, long b, long c, long d, long e,
                    long f) {
  if (number != SYS_bpf)
    return __real_syscall(number, a, b, c, d, e, f);
  errno = fails("bpf") ? ENOMEM : simulate_bpf((int)a, (void *)(uintptr_t)b);
  if (errno != 0)
    return -1;
  return a == BPF_OBJ_GET ? __real_open("/dev/null", O_RDONLY | O_CLOEXEC, 0)
                          : 0;
}

/* ---------------------------------------------------------------------------
 * One fault
 */

static void ignore(void *context, const char *line) {
  (void)context;
  (void)line;
}

static struct region_reader *reader;
static struct {
  uint32_t row;
  uint64_t generation, shown, total;
} seen[ENTRIES];

/* Adds what the row has grown by to the total of its key. */
static void see_row(const struct region_tile *tile, uint32_t i) {
  char name[REGION_ROW_NAME_SIZE];
  uint64_t generation = tile->generations[i];
  if (region_state(generation) != REGION_LIVE ||
      !region_reader_row_name(reader, 1, i, generation, name))
    return;
  int key = name[0] - '0';
  uint64_t shown =
      region_row_shown(region_reader_directory(reader), tile, i, 0);
  bool again = seen[key].row == i && seen[key].generation == generation;
  seen[key].total += shown - (again ? seen[key].shown : 0);
  seen[key].row = i;
  seen[key].generation = generation;
  seen[key].shown = shown;
}

/* Reads the region, as collectd does after each update. */
static void see(void) {
  struct region_reader_options options = {.hello_wait_ms = 5000};
  struct region_tile tile;
  enum region_event event = REGION_AS_BEFORE;
  if (reader == NULL)
    assert_return_code(region_reader_open(&reader, region, NULL, &options), 0);
  for (int i = 0; i < 2 && event != REGION_CAME; i++)
    event = region_reader_refresh(reader);
  if (event == REGION_CAME)
    for (int key = 0; key < ENTRIES; key++)
      seen[key].generation = 0;
  assert_return_code(region_tile_init(&tile, reader, 1, ROWS_MAX,
                                      REGION_WANT_BIRTHS | REGION_WANT_RESETS),
                     0);
  region_tile_read(reader, &tile, 0);
  for (uint32_t i = 0; i < tile.rows; i++)
    see_row(&tile, i);
  region_tile_free(&tile);
}

/* Reads the map, even if it has just been read. */
static void update(struct map_publisher *publisher) {
  if (publisher->len > 0)
    publisher->sources[0].next_ns = 0;
  map_publisher_update(publisher);
  counting = false;
  if (publisher->region != NULL)
    see();
}

/* Publishes the map while call number `failing` fails. Returns 1 if the region
 * misses counts in the end, FAULTLESS_EXIT if no call failed, and otherwise 0.
 */
static int publish(void) {
  static const struct map_field_at field = {"packets", 0, sizeof(uint64_t)};
  static const struct map_publisher_options options = {.region = region,
                                                       .say = ignore};
  static const struct map_table table = {.path = "/sys/pin",
                                         .name = "flows",
                                         .fields_at = &field,
                                         .fields_at_len = 1,
                                         .max_rows = ROWS_MAX};
  struct map_publisher *publisher = NULL;
  uint64_t missing = 0;
  for (int n = 0; n < UPDATES; n++) {
    counting = n + 1 < UPDATES;
    for (uint64_t key = 0; key < ENTRIES; key++)
      if (key == 0 || n > 3) /* entries come later, too */
        counts[key] += key + 1;
    if (publisher == NULL && map_publisher_open(&publisher, &options) != 0)
      continue;
    (void)map_publisher_add(publisher, &table, true);
    update(publisher);
  }
  for (int key = 0; key < ENTRIES; key++)
    missing += counts[key] - seen[key].total;
  region_reader_close(reader);
  map_publisher_close(publisher);
  if (missing != 0 || calls >= failing)
    return missing != 0;
  return FAULTLESS_EXIT;
}

static pid_t start_child(int n) {
  pid_t child = fork();
  assert_return_code(child, errno);
  if (child != 0)
    return child;
  failing = n;
  snprintf(region, sizeof(region), "unit%d", n);
  int status = publish();
  if (status == 1)
    fprintf(stderr, "call %d, %s, failed: counts are missing\n", n, failed);
  _exit(status);
}

/* Returns false if no call failed in the child. */
static bool await_child(pid_t child) {
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  if (WIFSIGNALED(status))
    print_message("a child ended with signal %d\n", WTERMSIG(status));
  assert_true(WIFEXITED(status));
  assert_int_not_equal(WEXITSTATUS(status), 1);
  return WEXITSTATUS(status) != FAULTLESS_EXIT;
}

static void try_all(uint32_t map_type) {
  int core[MAP_CORES_MAX], n = 1;
  pid_t children[CHILDREN];
  bool any = true, per_cpu = map_type == BPF_MAP_TYPE_PERCPU_HASH;
  type = map_type;
  copies = per_cpu ? (uint32_t)map_possible_cores(core, MAP_CORES_MAX) : 1;
  while (any) {
    for (int i = 0; i < CHILDREN; i++)
      children[i] = start_child(n++);
    for (int i = 0; i < CHILDREN; i++)
      any &= await_child(children[i]);
    assert_true(n < CALLS_MAX);
  }
  assert_true(n > 100);
}

static void a_call_that_fails_once_loses_no_count_of_an_array(void **state) {
  unit_need_receivers(state);
  try_all(BPF_MAP_TYPE_ARRAY);
}

static void
a_call_that_fails_once_loses_no_count_of_a_map_per_core(void **state) {
  unit_need_receivers(state);
  try_all(BPF_MAP_TYPE_PERCPU_HASH);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_call_that_fails_once_loses_no_count_of_an_array),
      cmocka_unit_test(a_call_that_fails_once_loses_no_count_of_a_map_per_core),
  };
  return cmocka_run_group_tests(tests, unit_make_runtime_dir,
                                unit_remove_runtime_dir);
}
