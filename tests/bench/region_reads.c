/* What reading a region costs the reader, and what it costs the writer.
 *
 * 1e7 cells: OWNED rows of four and of sixteen counters, read as tiles of 64
 * rows (totals only, as for sums and rates). The writer adds to random rows all
 * the while, alone and beside a reader that reads everything ten times a
 * second. */
#include "percore_config.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "percore.h"
#include "region/reader.h"

enum { CELLS = 10000000, COLUMNS = 16, PASSES = 9, BLOCKS = 40 };

/* CPU time of this thread, so that others on the machine do not count. */
static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *values, size_t count) {
  qsort(values, count, sizeof(*values), compare);
  return values[count / 2];
}

static void pin(int core) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET((size_t)core, &cpus);
  sched_setaffinity(0, sizeof(cpus), &cpus);
}

/* One pass over all rows; ns, and the sum so that nothing is left out. */
static double read_all(struct region_reader *reader, struct region_tile *tile,
                       uint64_t *sum) {
  uint64_t start = now_ns();
  *sum = 0;
  for (uint32_t row = 0; tile->rows > 0 || row == 0; row += tile->rows) {
    region_tile_read(reader, tile, row);
    for (uint32_t i = 0; i < tile->rows * tile->columns; i++)
      *sum += tile->totals[i];
  }
  return (double)(now_ns() - start);
}

struct writing {
  percore_owned_table_t table;
  uint32_t rows;
  double ns[BLOCKS]; /* per add */
  bool done;
};

/* Adds to random rows in blocks of about 20 ms. */
static void *write_rows(void *argument) {
  enum { ADDS = 1000000 };
  struct writing *writing = argument;
  uint64_t x = 88172645463325252u;
  pin(1);
  for (int block = 0; block < BLOCKS; block++) {
    uint64_t start = now_ns();
    for (int i = 0; i < ADDS; i++) {
      x ^= x << 13, x ^= x >> 7, x ^= x << 17;
      percore_add(
          percore_owned_row(writing->table, (uint32_t)(x % writing->rows)), 0,
          1);
    }
    writing->ns[block] = (double)(now_ns() - start) / ADDS;
  }
  __atomic_store_n(&writing->done, true, __ATOMIC_RELEASE);
  return NULL;
}

static double write_beside(struct region_reader *reader,
                           struct region_tile *tile,
                           percore_owned_table_t table, uint32_t rows,
                           bool read) {
  static struct writing writing;
  struct timespec pause = {.tv_nsec = 100000000};
  pthread_t thread;
  uint64_t sum;
  writing.table = table;
  writing.rows = rows;
  writing.done = false;
  pthread_create(&thread, NULL, write_rows, &writing);
  while (!__atomic_load_n(&writing.done, __ATOMIC_ACQUIRE)) {
    if (read)
      read_all(reader, tile, &sum);
    nanosleep(&pause, NULL);
  }
  pthread_join(thread, NULL);
  return median(writing.ns, BLOCKS);
}

/* The least that can be: every cell loaded and summed, in order. */
static double load_all(percore_owned_table_t table) {
  const uint64_t *cells = percore_owned_row(table, 0).owned_cells;
  uint64_t start = now_ns(), sum = 0;
  for (uint32_t i = 0; i < CELLS; i++)
    sum += __atomic_load_n(&cells[i], __ATOMIC_RELAXED);
  __asm__ volatile("" ::"r"(sum));
  return (double)(now_ns() - start);
}

static void print_reads(struct region_reader *reader, struct region_tile *tile,
                        percore_owned_table_t table) {
  double ns[PASSES], bare[PASSES];
  uint64_t sum;
  double first = read_all(reader, tile, &sum);
  for (int i = 0; i < PASSES; i++) {
    ns[i] = read_all(reader, tile, &sum);
    bare[i] = load_all(table);
  }
  double tiles = median(ns, PASSES) / CELLS;
  double loads = median(bare, PASSES) / CELLS;
  printf(
      "1e7 cells in rows of %u: first pass %.2f ns a cell, then %.2f; a bare "
      "loop of loads %.2f (ratio %.2f)\n",
      tile->columns, first / CELLS, tiles, loads, tiles / loads);
}

static void print_writes(struct region_reader *reader, struct region_tile *tile,
                         percore_owned_table_t table, uint32_t rows) {
  double ratios[5];
  if (sysconf(_SC_NPROCESSORS_ONLN) < 2) {
    printf("skipped: writer and reader need two cores\n");
    return;
  }
  for (int i = 0; i < 5; i++) {
    double alone = write_beside(reader, tile, table, rows, false);
    double beside = write_beside(reader, tile, table, rows, true);
    ratios[i] = beside / alone;
    printf("writer on random rows: %.1f ns an add alone, %.1f beside 10 reads "
           "a second (ratio %.3f)\n",
           alone, beside, ratios[i]);
  }
  printf("median ratio %.3f\n", median(ratios, 5));
}

static int run(const char *dir, uint32_t columns, bool writes) {
  static const char *const names[COLUMNS] = {"a", "b", "c", "d", "e", "f",
                                             "g", "h", "i", "j", "k", "l",
                                             "m", "n", "o", "p"};
  struct percore_field fields[COLUMNS];
  struct percore_table table = {.name = "flow",
                                .storage = PERCORE_OWNED,
                                .fields = fields,
                                .field_count = columns,
                                .max_rows = CELLS / columns,
                                .flags = PERCORE_NO_BASES};
  struct percore_options options = {.size = sizeof(options),
                                    .runtime_dir = dir};
  struct region_reader_options reading = {.runtime_dir = dir,
                                          .hello_wait_ms = 1000};
  struct percore_region *region;
  struct region_reader *reader;
  struct region_tile tile;
  percore_owned_table_t flows;
  for (uint32_t c = 0; c < columns; c++)
    fields[c] = (struct percore_field){.name = names[c]};
  if (percore_create(&region, "bench", &table, 1, &options) != 0 ||
      percore_owned_table(region, 0, &flows) != 0) {
    perror("percore_create");
    return 1;
  }
  for (uint32_t row = 0; row < table.max_rows; row++)
    percore_row_add_at(region, 0, row, NULL, row);
  if (region_reader_open(&reader, "bench", NULL, &reading) != 0 ||
      region_reader_refresh(reader) != REGION_CAME ||
      region_tile_init(&tile, reader, 1, 64, 0) != 0) {
    perror("region_reader");
    return 1;
  }
  print_reads(reader, &tile, flows);
  if (writes)
    print_writes(reader, &tile, flows, table.max_rows);
  region_tile_free(&tile);
  region_reader_close(reader);
  return percore_destroy(region);
}

int main(void) {
  char dir[] = "/tmp/percore-bench-XXXXXX", path[64];
  if (mkdtemp(dir) == NULL)
    return 1;
  pin(0);
  int rc = run(dir, 4, true) | run(dir, COLUMNS, false);
  snprintf(path, sizeof(path), "%s/bench.lock", dir);
  unlink(path);
  rmdir(dir);
  return rc;
}
