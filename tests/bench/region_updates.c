/* Measures the cost of updates of a region and, in the same run, the cost of
 * hand-written code:
 *
 *   percore_add          a hand-written relaxed load, add and store
 *   begin, 4 adds, end   four adds
 *   percore_poll,        a loop that only reads the clock, which both need
 *   percore_poll_at
 *   1e6 OWNED rows       the same work without counters; also with a prefetch
 *                        some packets ahead, in huge pages and in small pages
 *
 * Also measures how long it takes to create and to destroy a region.
 *
 * The results are medians of interleaved blocks, in nanoseconds and in core
 * cycles. A chain of dependent adds measures the length of a cycle. */
#include "percore_config.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "percore.h"

enum { BLOCKS = 61, FLOWS = 1000000, AHEAD = 16 };

/* ---------------------------------------------------------------------------
 * Tight loops on one row of four counters
 */

static const struct percore_field fields[] = {
    {.name = "packets", .unit = "packets"},
    {.name = "bytes", .unit = "bytes"},
    {.name = "drops", .unit = "packets"},
    {.name = "errors", .unit = "errors"},
};

#define FLOW_TABLE(table_name)                                                 \
  {                                                                            \
    .name = table_name, .storage = PERCORE_OWNED, .fields = fields,            \
    .field_count = 4, .max_rows = FLOWS, .flags = PERCORE_NO_RESET             \
  }

enum { PORT, RESERVED, ADDED, TABLES };
static const struct percore_table tables[TABLES] = {
    [PORT] = {.name = "port", .fields = fields, .field_count = 4},
    [RESERVED] = FLOW_TABLE("reserved"),
    [ADDED] = FLOW_TABLE("added"),
};

struct bench {
  percore_slot_t slot;
  percore_core_row_t row;
  percore_owned_table_t flows;
  uint32_t *order; /* the order in which the flows are updated */
};

enum { ROUNDS = 200000, ADDS_PER_ROUND = 4 };

static inline void add_by_hand(uint64_t *cell, uint64_t n) {
  __atomic_store_n(cell, __atomic_load_n(cell, __ATOMIC_RELAXED) + n,
                   __ATOMIC_RELAXED);
}

/* Written out, because compilers do not unroll loops over atomic accesses. */
static void by_hand(struct bench *bench) {
  uint64_t *cells = bench->row.core_cells;
  for (uint64_t i = 0; i < ROUNDS; i++) {
    add_by_hand(&cells[0], i);
    add_by_hand(&cells[1], i);
    add_by_hand(&cells[2], i);
    add_by_hand(&cells[3], i);
  }
}

/* Keeps the handle in a local variable, as workers do: through a pointer it
 * would be loaded again after each store. */
static void by_add(struct bench *bench) {
  percore_core_row_t row = bench->row;
  for (uint64_t i = 0; i < ROUNDS; i++) {
    percore_add(row, 0, i);
    percore_add(row, 1, i);
    percore_add(row, 2, i);
    percore_add(row, 3, i);
  }
}

static void in_sections(struct bench *bench) {
  percore_core_row_t row = bench->row;
  percore_slot_t slot = bench->slot;
  for (uint64_t i = 0; i < ROUNDS; i++) {
    percore_begin(slot);
    percore_add(row, 0, i);
    percore_add(row, 1, i);
    percore_add(row, 2, i);
    percore_add(row, 3, i);
    percore_end(slot);
  }
}

/* ---------------------------------------------------------------------------
 * Rounds of an empty loop. Work in the rounds would overlap the clock's reading
 * by an unknown time, so that differences would say nothing.
 */

enum { POLLS = 100000 };

static void by_clock(struct bench *bench) {
  (void)bench;
  for (int i = 0; i < POLLS; i++)
    __asm__ volatile("" ::"r"(percore_tsc()));
}

static void by_poll(struct bench *bench) {
  percore_slot_t slot = bench->slot;
  for (uint64_t i = 0; i < POLLS; i++)
    percore_poll(slot, i & 1);
}

static void by_poll_at(struct bench *bench) {
  percore_slot_t slot = bench->slot;
  for (uint64_t i = 0; i < POLLS; i++) {
    uint64_t tsc = percore_tsc();
    __asm__ volatile("" ::"r"(tsc));
    percore_poll_at(slot, tsc, i & 1);
  }
}

/* ---------------------------------------------------------------------------
 * Random flows with about 1000 cycles of other work
 */

static uint64_t other_work(uint64_t x) {
  for (int i = 0; i < 200; i++) {
    x *= 0x9e3779b97f4a7c15u;
    x ^= x >> 29;
  }
  return x;
}

enum { PACKETS = 32000 };

static void without_counters(struct bench *bench) {
  uint64_t x = 1;
  for (uint32_t p = 0; p < PACKETS; p++) {
    x = other_work(x);
    __asm__ volatile("" ::"r"(bench->order[p]), "r"(x));
  }
}

static void count_flow(const struct bench *bench, uint32_t flow, uint64_t x) {
  percore_owned_row_t row = percore_owned_row(bench->flows, flow);
  percore_add(row, 0, 1);
  percore_add(row, 1, x & 1023);
  percore_add(row, 2, x & 1);
  percore_add(row, 3, 0);
}

static void without_prefetch(struct bench *bench) {
  uint64_t x = 1;
  for (uint32_t p = 0; p < PACKETS; p++) {
    x = other_work(x);
    count_flow(bench, bench->order[p], x);
  }
}

static void with_prefetch(struct bench *bench) {
  uint64_t x = 1;
  for (uint32_t p = 0; p < PACKETS; p++) {
    percore_prefetch(percore_owned_row(bench->flows, bench->order[p + AHEAD]));
    x = other_work(x);
    count_flow(bench, bench->order[p], x);
  }
}

/* ---------------------------------------------------------------------------
 * Running
 */

typedef void (*variant)(struct bench *bench);

/* Runs the variants alternately. Stores the median of each variant, in
 * nanoseconds per step. */
static void measure(struct bench *bench, const variant *variants, int count,
                    double steps, double *medians) {
  static double times[4][BLOCKS];
  for (int block = 0; block < BLOCKS; block++)
    for (int v = 0; v < count; v++) {
      /* Uses different rows each time, so that the rows are not in the cache.
       */
      if (bench->order != NULL)
        for (uint32_t p = 0; p < PACKETS + AHEAD; p++)
          bench->order[p] = (bench->order[p] * 1103515245u + 12345u) % FLOWS;
      uint64_t start = now_ns();
      variants[v](bench);
      times[v][block] = (double)(now_ns() - start) / steps;
    }
  for (int v = 0; v < count; v++)
    medians[v] = median(times[v], BLOCKS);
}

struct tight {
  struct percore_region *region;
  int core;
  pthread_barrier_t *start;
  double medians[3];
};

static void *run_tight(void *argument) {
  static const variant variants[] = {by_hand, by_add, in_sections};
  struct tight *tight = argument;
  struct bench bench = {0};
  percore_core_table_t table;
  pin(tight->core);
  percore_attach(tight->region, "bench", tight->core, &bench.slot);
  percore_core_table(tight->region, PORT, &table);
  bench.row = percore_core_row(bench.slot, table, 0);
  pthread_barrier_wait(tight->start);
  measure(&bench, variants, 3, (double)ROUNDS * ADDS_PER_ROUND, tight->medians);
  percore_detach(tight->region, bench.slot);
  return NULL;
}

static void print_tight(struct percore_region *region, int workers,
                        double cycle) {
  struct tight tights[2];
  pthread_t threads[2];
  pthread_barrier_t start;
  pthread_barrier_init(&start, NULL, (unsigned)workers);
  for (int i = 0; i < workers; i++) {
    tights[i] = (struct tight){.region = region, .core = i, .start = &start};
    pthread_create(&threads[i], NULL, run_tight, &tights[i]);
  }
  for (int i = 0; i < workers; i++) {
    pthread_join(threads[i], NULL);
    const double *m = tights[i].medians;
    printf("%d worker(s), core %d: by hand %.2f cycles, percore_add %.2f "
           "(ratio %.3f), in sections of 4 %.2f (%+.2f per counter)\n",
           workers, i, m[0] / cycle, m[1] / cycle, m[1] / m[0], m[2] / cycle,
           (m[2] - m[1]) / cycle);
  }
}

static void print_polls(struct percore_region *region, double cycle) {
  static const variant variants[] = {by_clock, by_poll, by_poll_at};
  struct bench bench = {0};
  double medians[3];
  percore_attach(region, "polls", -1, &bench.slot);
  measure(&bench, variants, 3, POLLS, medians);
  printf("an empty round that only reads the clock: %.1f cycles; with "
         "percore_poll instead: %.1f; with percore_poll_at, too: %.1f\n",
         medians[0] / cycle, medians[1] / cycle, medians[2] / cycle);
  percore_detach(region, bench.slot);
}

static void print_flows(struct percore_region *region, uint32_t table,
                        const char *pages, double cycle) {
  static const variant variants[] = {without_counters, without_prefetch,
                                     with_prefetch};
  struct bench bench = {.order = calloc(PACKETS + AHEAD, sizeof(uint32_t))};
  double medians[3];
  uint64_t x = 88172645463325252u;
  percore_owned_table(region, table, &bench.flows);
  for (uint32_t f = 0; f < FLOWS; f++)
    percore_row_add_at(region, table, f, NULL, f);
  for (uint32_t p = 0; p < PACKETS + AHEAD; p++) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    bench.order[p] = (uint32_t)(x % FLOWS);
  }
  measure(&bench, variants, 3, PACKETS, medians);
  printf(
      "1e6 OWNED rows of 4 in %s pages, random, with %.0f cycles "
      "of other work per packet: %.1f cycles per update, with prefetch %.1f\n",
      pages, medians[0] / cycle, (medians[1] - medians[0]) / cycle / 4,
      (medians[2] - medians[0]) / cycle / 4);
  free(bench.order);
}

/* Call this first: the first percore_create of a process measures the frequency
 * of the clock. */
static void print_lives(const struct percore_options *options) {
  enum { LIVES = 101 };
  double creates[LIVES], destroys[LIVES];
  for (int i = 0; i < LIVES; i++) {
    struct percore_region *region;
    uint64_t start = clock_now_ns(CLOCK_MONOTONIC);
    if (percore_create(&region, "life", tables, 1, options) != 0)
      perror("percore_create");
    uint64_t created = clock_now_ns(CLOCK_MONOTONIC);
    percore_destroy(region);
    uint64_t destroyed = clock_now_ns(CLOCK_MONOTONIC);
    creates[i] = (double)(created - start) / 1e6;
    destroys[i] = (double)(destroyed - created) / 1e6;
  }
  printf("the first percore_create %.2f ms; ", creates[0]);
  printf("the others %.2f ms, percore_destroy %.2f ms (medians)\n",
         median(creates, LIVES), median(destroys, LIVES));
}

int main(void) {
  struct percore_region *region;
  struct percore_options options = {.size = sizeof(options)};
  char dir[] = "/tmp/percore-bench-XXXXXX";
  options.runtime_dir = mkdtemp(dir);
  print_lives(&options);
  if (percore_create(&region, "bench", tables, TABLES, &options) != 0) {
    perror("percore_create");
    return 1;
  }
  double cycle = cycle_ns();
  printf("a core cycle is %.3f ns\n", cycle);
  print_tight(region, 1, cycle);
  if (sysconf(_SC_NPROCESSORS_ONLN) >= 2)
    print_tight(region, 2, cycle);
  print_polls(region, cycle);
  percore_reserve(region, RESERVED, FLOWS);
  print_flows(region, RESERVED, "huge", cycle);
  print_flows(region, ADDED, "small", cycle);
  percore_destroy(region);
  rmdir(dir);
  return 0;
}
