/* Measures the cost of reading a region, for the reader and for the writer.
 *
 * 1e7 cells are read in tiles as the plugin does, with the birth of each row:
 * OWNED rows with four and with sixteen counters, and PER_CORE rows
 * with sixteen counters in sixteen slots. A writer adds to random rows, first
 * without a reader and then while a reader reads everything ten times a second.
 */
#include "percore_config.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../unit/calls.h"
#include "bench.h"
#include "percore_tune.h"
#include "region/reader.h"

enum {
  CELLS = 10000000,
  COLUMNS = 16,
  SLOTS = 16,
  PASSES = 61, /* the first 20 to 40 passes are slower */
  BLOCKS = 40
};

/* Sums in four lanes, because the additions of a single lane would be the
 * bottleneck. */
static uint64_t sum_of(const uint64_t *cells, uint32_t count) {
  uint64_t a = 0, b = 0, c = 0, d = 0;
  for (uint32_t i = 0; i + 4 <= count; i += 4) {
    a += __atomic_load_n(&cells[i], __ATOMIC_RELAXED);
    b += __atomic_load_n(&cells[i + 1], __ATOMIC_RELAXED);
    c += __atomic_load_n(&cells[i + 2], __ATOMIC_RELAXED);
    d += __atomic_load_n(&cells[i + 3], __ATOMIC_RELAXED);
  }
  return a + b + c + d;
}

/* Reads all rows once. Returns the nanoseconds that this took. */
static double read_all(struct region_reader *reader, struct region_tile *tile) {
  uint64_t start = now_ns();
  for (uint32_t row = 0; tile->rows > 0 || row == 0; row += tile->rows)
    region_tile_read(reader, tile, row);
  return (double)(now_ns() - start);
}

struct writing {
  percore_table_t table;
  uint32_t rows;
  double ns[BLOCKS]; /* per add */
  bool done;
};

/* Adds to random rows and measures the time per add, in blocks of about 20 ms.
 */
static void *write_rows(void *argument) {
  enum { ADDS = 1000000 };
  struct writing *writing = argument;
  uint64_t x = 88172645463325252u;
  pin(1);
  for (int block = 0; block < BLOCKS; block++) {
    uint64_t start = now_ns();
    for (int i = 0; i < ADDS; i++) {
      x ^= x << 13, x ^= x >> 7, x ^= x << 17;
      percore_add(percore_row(writing->table, (uint32_t)(x % writing->rows)), 0,
                  1);
    }
    writing->ns[block] = (double)(now_ns() - start) / ADDS;
  }
  __atomic_store_n(&writing->done, true, __ATOMIC_RELEASE);
  return NULL;
}

static double time_writes(struct region_reader *reader,
                          struct region_tile *tile, percore_table_t table,
                          uint32_t rows, bool read) {
  static struct writing writing;
  struct timespec pause = {.tv_nsec = 100000000};
  pthread_t thread;
  writing.table = table;
  writing.rows = rows;
  writing.done = false;
  pthread_create(&thread, NULL, write_rows, &writing);
  while (!__atomic_load_n(&writing.done, __ATOMIC_ACQUIRE)) {
    if (read)
      read_all(reader, tile);
    nanosleep(&pause, NULL);
  }
  pthread_join(thread, NULL);
  return median(writing.ns, BLOCKS);
}

/* Loads and sums every cell in order, as a lower bound for a reader. Returns
 * the nanoseconds that this took. */
static double load_all(const uint64_t *cells, uint32_t blocks, size_t stride) {
  uint64_t start = now_ns(), sum = 0;
  for (uint32_t b = 0; b < blocks; b++)
    sum += sum_of(cells + b * stride, CELLS / blocks);
  __asm__ volatile("" ::"r"(sum));
  return (double)(now_ns() - start);
}

static void print_reads(struct region_reader *reader, struct region_tile *tile,
                        const char *what, const uint64_t *cells,
                        uint32_t blocks, size_t stride) {
  double ns[PASSES], bare[PASSES];
  double first = read_all(reader, tile);
  for (int i = 0; i < PASSES; i++) {
    ns[i] = read_all(reader, tile);
    bare[i] = load_all(cells, blocks, stride);
  }
  double tiles = median(ns, PASSES) / CELLS;
  double loads = median(bare, PASSES) / CELLS;
  printf(
      "1e7 cells, %s: first pass %.2f ns per cell, then %.2f; a bare loop of "
      "loads and adds %.2f (ratio %.2f)\n",
      what, first / CELLS, tiles, loads, tiles / loads);
}

static void print_writes(struct region_reader *reader, struct region_tile *tile,
                         percore_table_t table, uint32_t rows) {
  double ratios[5];
  if (sysconf(_SC_NPROCESSORS_ONLN) < 2) {
    printf("skipped: writer and reader need two cores\n");
    return;
  }
  for (int i = 0; i < 5; i++) {
    double alone = time_writes(reader, tile, table, rows, false);
    double with_reads = time_writes(reader, tile, table, rows, true);
    ratios[i] = with_reads / alone;
    printf("writer on random rows: %.1f ns per add alone, %.1f with 10 reads "
           "per second (ratio %.3f)\n",
           alone, with_reads, ratios[i]);
  }
  printf("median ratio %.3f\n", median(ratios, 5));
}

static const char *const names[COLUMNS] = {"a", "b", "c", "d", "e", "f",
                                           "g", "h", "i", "j", "k", "l",
                                           "m", "n", "o", "p"};

/* A region with one table, all rows of which are in use, and its reader. */
struct bench {
  struct percore_region *region;
  struct region_reader *reader;
  struct region_tile tile;
  uint32_t rows, copies;
  percore_slot_t slots[SLOTS]; /* PER_CORE rows only */
};

/* Call this before memory is reserved, so that the rows can be in huge pages.
 */
static int attach_slots(struct bench *bench) {
  for (uint32_t s = 0; bench->copies > 1 && s < bench->copies; s++)
    if (attach_thread(bench->region, NULL, (int)s, &bench->slots[s]) != 0)
      return -1;
  return 0;
}

static int begin(struct bench *bench, const char *dir,
                 enum percore_storage storage, uint32_t columns,
                 uint32_t copies) {
  struct percore_field fields[COLUMNS];
  struct percore_table table = {.name = "flow",
                                .storage = storage,
                                .fields = fields,
                                .field_count = columns,
                                .max_rows = CELLS / columns / copies,
                                .flags = PERCORE_NO_RESET};
  struct percore_options options = {.runtime_dir = dir, .cores = SLOTS};
  for (uint32_t c = 0; c < columns; c++)
    fields[c] = (struct percore_field){.name = names[c]};
  setenv("PERCORE_RUNTIME_DIR", dir, true); /* for the reader */
  bench->rows = table.max_rows;
  bench->copies = copies;
  if (create_region(&bench->region, "bench", &table, 1, &options) != 0 ||
      attach_slots(bench) != 0 ||
      percore_reserve(bench->region, 0, bench->rows) != 0) {
    perror("percore_create");
    return -1;
  }
  for (uint32_t row = 0; row < bench->rows; row++)
    percore_row_add_at(bench->region, 0, row, NULL, row);
  if (region_reader_open(&bench->reader, "bench", NULL, NULL) != 0 ||
      region_reader_refresh(bench->reader) != REGION_CAME ||
      region_tile_init(&bench->tile, bench->reader, 1,
                       region_tile_rows(bench->reader, 1, 1),
                       REGION_WANT_BIRTHS) != 0) {
    perror("region_reader");
    return -1;
  }
  return 0;
}

static int end(struct bench *bench) {
  region_tile_free(&bench->tile);
  region_reader_close(bench->reader);
  for (uint32_t s = 0; bench->copies > 1 && s < bench->copies; s++)
    percore_detach(bench->slots[s]);
  return percore_destroy(bench->region);
}

static int run_owned(const char *dir, uint32_t columns) {
  struct bench bench;
  percore_table_t flows;
  char what[64];
  snprintf(what, sizeof(what), "OWNED rows of %u", columns);
  if (begin(&bench, dir, PERCORE_OWNED, columns, 1) != 0 ||
      open_table(bench.region, 0, &flows) != 0)
    return -1;
  print_reads(bench.reader, &bench.tile, what, percore_row(flows, 1).cells, 1,
              0);
  if (columns == 4)
    print_writes(bench.reader, &bench.tile, flows, bench.rows);
  return end(&bench);
}

static int run_per_core(const char *dir) {
  struct bench bench;
  if (begin(&bench, dir, PERCORE_PER_CORE, COLUMNS, SLOTS) != 0)
    return -1;
  for (int s = 0; s < SLOTS; s++)
    for (uint32_t row = 1; row <= bench.rows; row++)
      percore_add(percore_row(percore_table(bench.slots[s], 0), row), 0, 1);
  const uint64_t *first =
      percore_row(percore_table(bench.slots[0], 0), 1).cells;
  const uint64_t *second =
      percore_row(percore_table(bench.slots[1], 0), 1).cells;
  print_reads(bench.reader, &bench.tile, "PER_CORE rows of 16 in 16 slots",
              first, SLOTS, (size_t)(second - first));
  return end(&bench);
}

int main(void) {
  char dir[] = "/tmp/percore-bench-XXXXXX";
  if (mkdtemp(dir) == NULL)
    return 1;
  pin(0);
  int rc = run_owned(dir, 4) | run_owned(dir, COLUMNS) | run_per_core(dir);
  rmdir(dir);
  return rc;
}
