/* Tests the board: what one sampler publishes, programs read. The writer and
 * the reader are real and in one process; the clock is that of the test. */
#include "board/publish.h"
#include "board/read.h"
#include "calls.h"
#include "percore_tune.h"

#include "unit.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#define CORES 4
#define INTERVAL_S 2
#define S UINT64_C(1000000000)
#define AGE_MAX_NS (15 * S)

static char folder[64];
static struct board *board;
static struct board_reader *reader;
static int siblings[CORES] = {1, 0, 2, 3}, nodes[CORES] = {0, 0, 1, 1};
static struct core_figures cores[CORES];
static struct topology topology;
static struct snapshot snapshot;
static char said[512];
static int said_len;

static void say(void *context, enum journal_level level, const char *line) {
  (void)context, (void)level;
  snprintf(said, sizeof(said), "%s", line);
  said_len++;
}

static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * S + (uint64_t)now.tv_nsec;
}

/* The reader's clock, if it is not the real one. */
static uint64_t played_ns;
static int clock_reads;

static uint64_t clock_ns(void *context, clockid_t clock) {
  (void)context, (void)clock;
  clock_reads++;
  return played_ns > 0 ? played_ns : now_ns();
}

static struct machine machine = {.clock_ns = clock_ns};

/* Reads the board at this time; 0: now. */
static int update_at(uint64_t time_ns) {
  played_ns = time_ns;
  return board_reader_update(reader);
}

static const struct journal journal = {.write = say};

static void begin(void) {
  strcpy(folder, "/tmp/percore-board-XXXXXX");
  assert_non_null(mkdtemp(folder));
  setenv("PERCORE_RUNTIME_DIR", folder, 1);
  topology =
      (struct topology){.cores_len = CORES, .node = nodes, .sibling = siblings};
  for (int i = 0; i < CORES; i++) {
    cores[i] = (struct core_figures){.core = i,
                                     .online = true,
                                     .source = SOURCE_MPERF,
                                     .proof = PROOF_PROVEN,
                                     .busy = 0.1 * i,
                                     .busy_low = 0.05 * i,
                                     .busy_high = 0.1 * i,
                                     .busy_min = 0,
                                     .busy_max = 1,
                                     .taken = NAN,
                                     .idle_poll = NAN,
                                     .steal = NAN,
                                     .frequency_hz = 2e9};
    for (int period = 0; period < 4; period++)
      cores[i].load_average[period] = 0.01 * (period + 1);
  }
  snapshot = (struct snapshot){.interval_ns = INTERVAL_S * S,
                               .period_s = {60, 300, 900, 10},
                               .periods_len = 4,
                               .cores_len = CORES,
                               .cores = cores};
  said_len = 0;
  played_ns = 0;
  board = board_open(BOARD_GROUP, &journal);
  reader = board_reader_open(&machine, CORES, AGE_MAX_NS);
  assert_non_null(reader);
}

static void end(void) {
  board_close(board);
  board_reader_close(reader);
  unsetenv("PERCORE_RUNTIME_DIR");
  DIR *dir = opendir(folder);
  for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;)
    (void)unlinkat(dirfd(dir), entry->d_name, 0);
  closedir(dir);
  rmdir(folder);
}

static void publish(void) { board_publish(board, &snapshot, &topology); }

static double load_in(const struct board_reader *of, int core) {
  struct board_core row;
  return board_reader_core(of, core, &row) ? row.load : NAN;
}

static double load_of(int core) { return load_in(reader, core); }

TEST(what_is_published_is_read) {
  struct board_core core;
  cores[3].taken = 0.25;
  publish();
  assert_int_equal(update_at(0), 1);
  for (int i = 0; i < CORES; i++) {
    assert_true(board_reader_core(reader, i, &core));
    assert_near(core.load, 0.1 * i, 1e-6);
    assert_near(core.load_low, 0.05 * i, 1e-6);
    assert_near(core.taken, i == 3 ? 0.25 : 0.1 * i, 1e-6);
    assert_near(core.steal, 0, 0);
    assert_near(core.frequency_hz, 2e9, 0);
    assert_near(core.node, nodes[i], 0);
    assert_near(core.sibling, siblings[i], 0);
    assert_near(core.average[3], 0.04, 1e-6);
  }
  assert_int_equal(board_reader_average(reader, 10), BOARD_AVERAGE + 3);
  assert_int_equal(board_reader_average(reader, 20), BOARD_COLUMNS);
}

TEST(until_the_next_picture_is_due_the_last_one_is_true) {
  publish();
  uint64_t published_ns = now_ns();
  assert_int_equal(update_at(published_ns), 1);
  cores[1].busy = 0.75;
  publish();
  clock_reads = 0;
  assert_int_equal(update_at(published_ns + INTERVAL_S * S * 9 / 10), 0);
  assert_int_equal(clock_reads, 1);
  assert_int_equal(update_at(published_ns + INTERVAL_S * S), 1);
  assert_near(load_of(1), 0.75, 1e-6);
}

TEST(offline_cores_and_cores_without_load_are_unknown) {
  cores[1].online = false;
  cores[2].busy = NAN;
  publish();
  assert_int_equal(update_at(0), 1);
  assert_nan(load_of(1));
  assert_nan(load_of(2));
  assert_near(load_of(3), 0.3, 1e-6);
}

TEST(without_a_board_there_is_nothing) {
  assert_int_equal(update_at(0), -ESTALE);
}

TEST(a_frozen_board_is_dead_after_two_intervals) {
  publish();
  uint64_t published_ns = now_ns();
  assert_int_equal(update_at(published_ns), 1);
  assert_int_equal(update_at(published_ns + INTERVAL_S * S * 3 / 2), 0);
  assert_int_equal(update_at(published_ns + INTERVAL_S * S * 21 / 10), -ESTALE);
}

TEST(a_board_that_ended_is_dead_after_two_intervals) {
  publish();
  uint64_t published_ns = now_ns();
  assert_int_equal(update_at(published_ns), 1);
  board_close(board);
  board = NULL;
  assert_int_equal(update_at(published_ns + INTERVAL_S * S * 21 / 10), -ESTALE);
}

TEST(a_board_that_took_its_place_is_read) {
  snapshot.interval_ns = S / 2;
  publish();
  assert_int_equal(update_at(0), 1);
  board_close(board);
  board = board_open(BOARD_GROUP, &journal);
  snapshot.interval_ns = INTERVAL_S * S;
  cores[0].busy = 0.5;
  snapshot.periods_len = 3;
  publish();
  uint64_t later_ns = now_ns();
  /* Two intervals of the old board, but not of the new. */
  assert_int_equal(update_at(later_ns + S), -ESTALE);
  assert_int_equal(update_at(later_ns + S), 1);
  assert_near(load_of(0), 0.5, 1e-6);
}

TEST(a_board_that_is_slower_than_wanted_is_not_taken) {
  snapshot.interval_ns = AGE_MAX_NS + 1;
  publish();
  assert_int_equal(update_at(0), -ESTALE);
}

/* Returns how many boards have this mode. */
static int boards_with(mode_t mode) {
  int count = 0;
  struct stat file;
  DIR *dir = opendir(folder);
  assert_non_null(dir);
  for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
    if (strncmp(entry->d_name, "board.", 6) == 0) {
      assert_int_equal(fstatat(dirfd(dir), entry->d_name, &file, 0), 0);
      count += (file.st_mode & 07777) == mode;
    }
  closedir(dir);
  return count;
}

TEST(a_board_for_all_can_be_read_by_all) {
  publish();
  assert_int_equal(boards_with(0640), 1);
  assert_int_equal(boards_with(0644), 0);
  board_close(board);
  board = board_open(BOARD_ALL, &journal);
  publish();
  assert_int_equal(boards_with(0644), 1);
}

TEST(a_board_that_has_ended_is_not_taken) {
  publish();
  board_close(board);
  board = NULL;
  assert_int_equal(update_at(0), -ESTALE);
}

static pthread_t creator;

/* Creating a region begins with the number of its file. */
ssize_t __real_getrandom(void *buffer, size_t size, unsigned flags);
ssize_t __wrap_getrandom(void *buffer, size_t size, unsigned flags);
ssize_t __wrap_getrandom(void *buffer, size_t size, unsigned flags) {
  creator = pthread_self();
  return __real_getrandom(buffer, size, flags);
}

/* A lock of the directory, for which it may wait, delays no load. */
TEST(another_thread_than_that_of_the_loads_creates_the_board) {
  creator = pthread_self();
  publish();
  assert_true(board_is_published(board));
  assert_false(pthread_equal(creator, pthread_self()));
}

/* ---------------------------------------------------------------------------
 * Hostile boards
 */

/* Publishes a board of zeros that is fresh. Its last field is an average. */
static struct percore_region *publish_lies(enum percore_storage storage,
                                           uint32_t field_count,
                                           uint32_t machine_cores,
                                           percore_table_t *rows) {
  static char names[PERCORE_MAX_COLUMNS][BOARD_NAME_SIZE];
  static struct percore_field fields[PERCORE_MAX_COLUMNS];
  const struct percore_table table = {
      .name = "cores",
      .storage = storage,
      .fields = fields,
      .field_count = field_count,
      .max_rows = machine_cores,
      .flags = storage == PERCORE_OWNED ? PERCORE_CONSISTENT : 0};
  struct percore_region *region;
  for (uint32_t f = 0; f < field_count; f++) {
    snprintf(names[f], sizeof(names[f]), "other_%u", f);
    fields[f] = (struct percore_field){
        .name = f < BOARD_AVERAGE      ? board_column(f)->field.name
                : f + 1 == field_count ? "average_60s"
                                       : names[f],
        .unit = "1",
        .kind = PERCORE_GAUGE};
  }
  assert_int_equal(create_region(&region, BOARD_NAME, &table, 1, NULL), 0);
  open_table(region, 0, rows);
  for (uint32_t core = 0; core < CORES; core++)
    percore_row_add_at(region, 0, core + 1, NULL, core);
  for (uint32_t core = 0; storage == PERCORE_OWNED && core < CORES; core++) {
    percore_row_t row = percore_row(*rows, core);
    percore_set(row, BOARD_COLUMN(time_ns), now_ns());
    percore_set(row, BOARD_COLUMN(interval_ns), INTERVAL_S * S);
    percore_set(row, BOARD_COLUMN(source), 1);
  }
  return region;
}

TEST(lies_are_not_believed) {
  static const struct {
    uint64_t load, taken;
    int64_t later_ns;
    uint32_t machine_cores;
    int status;
  } lies[] = {{0, 0, 0, CORES, 1},
              {1000000, 1, 0, CORES, 1},
              {1000001, 0, 0, CORES, 1},
              {UINT64_MAX, 0, 0, CORES, 1},
              {1, 2, 0, CORES, 1},
              {0, 0, 100 * (int64_t)S, CORES, -ESTALE},
              {0, 0, -100 * (int64_t)S, CORES, -ESTALE},
              {0, 0, INT64_MIN, CORES, -ESTALE},
              {0, 0, 0, CORES + 1, -ESTALE},
              {0, 0, 0, 100000, -ESTALE}};
  for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
    percore_table_t rows;
    struct percore_region *region = publish_lies(PERCORE_OWNED, BOARD_AVERAGE,
                                                 lies[i].machine_cores, &rows);
    percore_row_t row = percore_row(rows, 1);
    percore_set(row, BOARD_COLUMN(load), lies[i].load);
    percore_set(row, BOARD_COLUMN(taken), lies[i].taken);
    if (lies[i].later_ns != 0)
      percore_set(row, BOARD_COLUMN(time_ns),
                  now_ns() + (uint64_t)lies[i].later_ns);
    struct board_reader *fresh = board_reader_open(&machine, CORES, AGE_MAX_NS);
    assert_int_equal(board_reader_update(fresh), lies[i].status);
    if (lies[i].status == 1) {
      assert_true(isnan(load_in(fresh, 0)) == (i > 1));
      assert_near(load_in(fresh, 1), 0, 0);
    }
    board_reader_close(fresh);
    percore_destroy(region);
  }
}

TEST(an_average_in_a_column_that_is_not_read_is_not_known) {
  static const struct {
    uint32_t field_count;
    size_t column;
  } boards[] = {{BOARD_AVERAGE + 1, BOARD_AVERAGE},
                {BOARD_COLUMNS, BOARD_COLUMNS - 1},
                {BOARD_COLUMNS + 1, BOARD_COLUMNS},
                {BOARD_COLUMNS + 9, BOARD_COLUMNS}};
  for (size_t i = 0; i < sizeof(boards) / sizeof(boards[0]); i++) {
    percore_table_t rows;
    struct percore_region *region =
        publish_lies(PERCORE_OWNED, boards[i].field_count, CORES, &rows);
    struct board_reader *fresh = board_reader_open(&machine, CORES, AGE_MAX_NS);
    assert_int_equal(board_reader_update(fresh), 1);
    assert_int_equal(board_reader_average(fresh, 60), boards[i].column);
    board_reader_close(fresh);
    percore_destroy(region);
  }
}

/* Rows of such a table are sums over all slots, which take seconds to read. */
TEST(a_board_with_a_copy_of_its_rows_for_each_slot_is_not_read) {
  percore_table_t rows;
  percore_slot_t slot;
  struct percore_region *region =
      publish_lies(PERCORE_PER_CORE, BOARD_AVERAGE, CORES, &rows);
  assert_int_equal(attach_thread(region, "liar", 0, &slot), 0);
  percore_row_t row = percore_row(percore_table(slot, 0), 1);
  percore_set(row, BOARD_COLUMN(time_ns), now_ns());
  percore_set(row, BOARD_COLUMN(interval_ns), INTERVAL_S * S);
  assert_int_equal(update_at(0), -ESTALE);
  percore_detach(slot);
  percore_destroy(region);
}

TEST(while_a_row_is_written_the_last_picture_is_true) {
  percore_table_t rows;
  struct percore_region *region =
      publish_lies(PERCORE_OWNED, BOARD_AVERAGE, CORES, &rows);
  percore_row_t row = percore_row(rows, 1);
  assert_int_equal(update_at(0), 1);
  percore_begin(row);
  percore_set(row, BOARD_COLUMN(time_ns), now_ns());
  assert_int_equal(update_at(now_ns() + INTERVAL_S * S), 0);
  assert_near(load_of(1), 0, 0);
  percore_end(row);
  assert_int_equal(update_at(now_ns() + INTERVAL_S * S), 1);
  percore_destroy(region);
}

TEST(a_region_of_that_name_that_is_no_board_is_not_read) {
  static const struct percore_field field = {.name = "load", .unit = "1"};
  static const struct percore_table table = {.name = "picture",
                                             .storage = PERCORE_OWNED,
                                             .fields = &field,
                                             .field_count = 1};
  struct percore_region *region;
  assert_int_equal(create_region(&region, BOARD_NAME, &table, 1, NULL), 0);
  assert_int_equal(update_at(0), -ESTALE);
  percore_destroy(region);
}

const struct unit_fixtures unit_fixtures = {.before_each = begin,
                                            .after_each = end};
