/* Lets each call of the C library fail once while a BPF map is published, and
 * checks that the process goes on and that the region misses no count. This
 * file simulates bpf(2). */
#include "percore_config.h"

#include "base/bpf.h"
#include "map/feed.h"

#include "region_unit.h"

#include "faults.h"

#include <fcntl.h>

enum { ENTRIES = 3, ROWS_MAX = 64, UPDATES = 8 };

static char region[16];

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
  struct region_reader_options options = {0};
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
    publisher->feeds[0].next_ns = 0;
  map_publisher_update(publisher);
  faults_on = false;
  if (publisher->region != NULL)
    see();
}

/* Publishes the map while a call fails. Returns how many counts the region
 * misses in the end. */
static int publish(void) {
  snprintf(region, sizeof(region), "unit%d", fault_at);
  static struct map_field field = {.name = "packets", .size = sizeof(uint64_t)};
  static const struct map_publisher_options options = {.region = region,
                                                       .say = ignore};
  static const struct map_table table = {.path = "/sys/pin",
                                         .name = "flows",
                                         .fields_at = {&field, 1},
                                         .max_rows = ROWS_MAX};
  struct map_publisher *publisher = NULL;
  uint64_t missing = 0;
  for (int n = 0; n < UPDATES; n++) {
    faults_on = n + 1 < UPDATES;
    for (uint64_t key = 0; key < ENTRIES; key++)
      if (key == 0 || n > 3) /* entries come later, too */
        counts[key] += key + 1;
    if (publisher == NULL)
      publisher = map_publisher_open(&options);
    if (publisher == NULL)
      continue;
    (void)map_publisher_add(publisher, &table, true);
    update(publisher);
  }
  for (int key = 0; key < ENTRIES; key++)
    missing += counts[key] - seen[key].total;
  region_reader_close(reader);
  map_publisher_close(publisher);
  return (int)missing;
}

static void try_all(uint32_t map_type) {
  int core[CORES_MAX];
  bool per_cpu = map_type == BPF_MAP_TYPE_PERCPU_HASH;
  type = map_type;
  copies = per_cpu ? (uint32_t)map_possible_cores(core, CORES_MAX) : 1;
  threads_are_exempt = true;
  fail_each_call(publish, 1);
}

TEST(a_call_that_fails_once_loses_no_count_of_an_array) {
  try_all(BPF_MAP_TYPE_ARRAY);
}

TEST(a_call_that_fails_once_loses_no_count_of_a_map_per_core) {
  try_all(BPF_MAP_TYPE_PERCPU_HASH);
}

const struct unit_fixtures unit_fixtures = {
    .before_each = unit_make_runtime_dir,
    .after_each = unit_remove_runtime_dir};
