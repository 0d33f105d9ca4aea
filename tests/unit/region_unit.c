#include "percore_config.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "region_unit.h"

static const struct percore_field global_fields[] = {
    {.name = "rounds", .unit = "operations"},
    {.name = "queue",
     .unit = "1",
     .kind = PERCORE_GAUGE,
     .aggregation = PERCORE_MAX},
};

static const struct percore_field port_fields[] = {
    {.name = "packets", .unit = "packets", .help = "received"},
    {.name = "bytes", .unit = "bytes"},
    {.name = "depth", .unit = "packets", .kind = PERCORE_UPDOWN},
    {.name = "latency",
     .unit = "ns",
     .kind = PERCORE_HISTOGRAM,
     .sub_bits = 2,
     .max_bits = 10},
};

static const struct percore_field session_fields[] = {
    {.name = "packets", .unit = "packets"},
    {.name = "bytes", .unit = "bytes"},
};

static const char *const link_states[] = {"down", "up"};
static const struct percore_field slow_fields[] = {
    {.name = "requests", .unit = "operations"},
    {.name = "link",
     .unit = "1",
     .kind = PERCORE_STATE,
     .states = link_states,
     .state_count = 2},
};

#define FIELDS(array) .fields = array, .field_count = COUNT_OF(array)

const struct percore_table unit_tables[TABLES] = {
    [GLOBALS] = {.name = "globals", FIELDS(global_fields)},
    [PORT] = {.name = "port",
              .help = "where packets come in",
              FIELDS(port_fields),
              .max_rows = PORT_ROWS,
              .row_name_size = 24},
    [SESSION] = {.name = "session",
                 .storage = PERCORE_OWNED,
                 FIELDS(session_fields),
                 .max_rows = SESSION_ROWS,
                 .key = PERCORE_KEY_HEX,
                 .flags = PERCORE_CONSISTENT},
    [SLOW] = {.name = "slow",
              .storage = PERCORE_SHARED,
              FIELDS(slow_fields),
              .max_rows = 2,
              .row_name_size = 56},
    [FLOW] = {.name = "flow",
              .storage = PERCORE_OWNED,
              FIELDS(session_fields),
              .max_rows = 2,
              .flags = PERCORE_NO_RESET},
};

/* Links no_timer.c to each test that uses this file. */
extern const void *const unit_no_timer;
const void *const unit_no_timer = setitimer;

static char runtime_dir[64];

/* In a tmpfs, as the runtime directory should be, if there is one here. */
void unit_make_runtime_dir(void) {
  strcpy(runtime_dir, access("/dev/shm", W_OK) == 0
                          ? "/dev/shm/percore-unit-XXXXXX"
                          : "/tmp/percore-unit-XXXXXX");
  assert_non_null(mkdtemp(runtime_dir));
  setenv("PERCORE_RUNTIME_DIR", runtime_dir, 1);
}

void unit_remove_runtime_dir(void) {
  DIR *dir = opendir(runtime_dir);
  assert_non_null(dir);
  for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir))
    if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
      unlinkat(dirfd(dir), entry->d_name, 0);
  closedir(dir);
  rmdir(runtime_dir);
}

struct percore_region *unit_create(void) {
  struct percore_options options = {.cores = 4, .extra_slots = 2};
  struct percore_region *region;
  assert_return_code(
      create_region(&region, "unit", unit_tables, TABLES, &options), 0);
  return region;
}

void unit_end(struct percore_region *region) {
  while (percore_detach(percore_this_slot(region)) == 0)
    ;
  assert_return_code(percore_destroy(region), errno);
}

percore_slot_t unit_attach(struct percore_region *region, int core) {
  percore_slot_t slot;
  assert_return_code(attach_another(region, core, &slot), errno);
  return slot;
}

percore_table_t unit_owned_table(struct percore_region *region,
                                 uint32_t table) {
  percore_table_t handle;
  assert_return_code(open_table(region, table, &handle), errno);
  return handle;
}

uint32_t unit_row(struct percore_region *region, uint32_t table,
                  const char *name) {
  uint32_t row;
  assert_return_code(make_row(region, table, name, &row), errno);
  return row;
}

uint32_t unit_row_of_key(struct percore_region *region, uint32_t table,
                         uint64_t key) {
  uint32_t row;
  assert_return_code(make_row_key(region, table, key, &row), errno);
  return row;
}

struct region_reader *unit_connect(void) {
  struct region_reader *reader;
  assert_return_code(region_reader_open(&reader, "unit", NULL, NULL), 0);
  assert_int_equal(region_reader_refresh(reader), REGION_CAME);
  return reader;
}

void unit_totals(struct region_reader *reader, uint32_t table, uint32_t row,
                 uint64_t *values) {
  struct region_tile tile;
  assert_return_code(region_tile_init(&tile, reader, table + 1, 1, 0), 0);
  region_tile_read(reader, &tile, row);
  assert_int_equal(tile.rows, 1);
  assert_int_equal(region_state(tile.generations[0]), REGION_LIVE);
  memcpy(values, tile.totals, tile.columns * sizeof(*values));
  region_tile_free(&tile);
}

uint64_t unit_read(uint32_t table, uint32_t row, uint32_t column) {
  uint64_t values[64];
  struct region_reader *reader = unit_connect();
  unit_totals(reader, table, row, values);
  region_reader_close(reader);
  return values[column];
}

uint64_t unit_shown(struct region_reader *reader, uint32_t table, uint32_t row,
                    uint32_t column) {
  struct region_tile tile;
  assert_return_code(region_tile_init(&tile, reader, table + 1, 1,
                                      REGION_WANT_BIRTHS | REGION_WANT_RESETS),
                     0);
  region_tile_read(reader, &tile, row);
  assert_int_equal(tile.rows, 1);
  uint64_t shown =
      region_row_shown(region_reader_directory(reader), &tile, 0, column);
  region_tile_free(&tile);
  return shown;
}

void unit_end_region(struct percore_region **region) { unit_end(*region); }

void unit_close_reader(struct region_reader **reader) {
  region_reader_close(*reader);
}
