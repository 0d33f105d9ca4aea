/* Measures the cost of the usual patterns of fast-path statistics, with four
 * counters per packet. Each pattern is measured in three ways: with other work
 * for each packet; with packets only; and with packets only, in two workers
 * that count in the same rows. SHARED, PER_CORE and sections are percore's; the
 * other patterns are implemented below.
 *
 * A figure is a median over blocks of packets. From the time of each block, the
 * time of the preceding block without counters is subtracted. */
#include "percore_config.h"

#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "percore.h"

enum {
  ROWS = 4,
  COUNTERS = 4,
  PACKETS = 1000, /* per block with other work */
  TIGHT_PACKETS = 20000,
  BLOCKS = 201,
  TRIES = 1001,
  BURST = 32, /* packets in a buffer */
  WORKERS = 2
};

typedef struct {
  uint64_t cell[8];
} __attribute__((aligned(128))) row_t;

static row_t plain_rows[ROWS], locked_rows[ROWS], buffered_rows[ROWS];
static struct {
  char taken;
} __attribute__((aligned(128))) lock, core_lock[WORKERS];

struct worker {
  pthread_t thread;
  int core, of, way; /* `of`: number of workers */
  uint64_t met;      /* the value of `arrived` when all workers have arrived */
  uint64_t work[4];  /* state of the other work */
  percore_slot_t slot;
  percore_core_table_t core_table;
  percore_shared_table_t shared_table;
  row_t own_rows[ROWS];
  uint64_t buffer[ROWS][COUNTERS];
  unsigned buffered;
  double packet;        /* cycles without counters */
  double extra[16];     /* cycles per counter, by pattern */
  uint64_t packets[16]; /* packets counted, by pattern */
};

/* ---------------------------------------------------------------------------
 * The other work for a packet takes about 1000 cycles at two to three
 * instructions per cycle. If it filled every execution port of the core, its
 * time would vary by 20 %. There is no loop, because the prediction of its end
 * would also vary. The function is not inline, so that every pattern runs the
 * same code.
 */

#define STEP                                                                   \
  a *= 0x9e3779b97f4a7c15u; /* each step needs the last */                     \
  b += 3, c ^= 5, d -= 7;                                                      \
  __asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d));
#define STEPS_4 STEP STEP STEP STEP
#define STEPS_16 STEPS_4 STEPS_4 STEPS_4 STEPS_4
#define STEPS_64 STEPS_16 STEPS_16 STEPS_16 STEPS_16

static __attribute__((noinline)) void other_work(uint64_t *work) {
  uint64_t a = work[0], b = work[1], c = work[2], d = work[3];
  STEPS_64 STEPS_64 STEPS_64 STEPS_64 STEPS_64;
  work[0] = a, work[1] = b, work[2] = c, work[3] = d;
}

/* ---------------------------------------------------------------------------
 * Patterns: each function counts a packet of `bytes` bytes in a row
 */

#define INLINE static inline __attribute__((always_inline))

INLINE void add_relaxed(uint64_t *cell, uint64_t n) {
  __atomic_store_n(cell, __atomic_load_n(cell, __ATOMIC_RELAXED) + n,
                   __ATOMIC_RELAXED);
}

INLINE void add_packet(uint64_t *cell, uint64_t bytes) {
  add_relaxed(&cell[0], 1);
  add_relaxed(&cell[1], bytes);
  add_relaxed(&cell[2], bytes & 1);
  add_relaxed(&cell[3], bytes >> 10);
}

INLINE void take(char *taken) {
  while (__atomic_exchange_n(taken, 1, __ATOMIC_ACQUIRE))
    while (__atomic_load_n(taken, __ATOMIC_RELAXED))
      ;
}

INLINE void give(char *taken) { __atomic_store_n(taken, 0, __ATOMIC_RELEASE); }

INLINE void nothing(struct worker *worker, uint32_t row, uint64_t bytes) {
  __asm__ volatile("" ::"r"(worker), "r"(row), "r"(bytes));
}

INLINE void shared_plain(struct worker *worker, uint32_t row, uint64_t bytes) {
  (void)worker;
  add_packet(plain_rows[row].cell, bytes);
}

INLINE void shared_lock(struct worker *worker, uint32_t row, uint64_t bytes) {
  (void)worker;
  take(&lock.taken);
  add_packet(locked_rows[row].cell, bytes);
  give(&lock.taken);
}

INLINE void shared_atomic(struct worker *worker, uint32_t row, uint64_t bytes) {
  percore_shared_row_t shared = percore_shared_row(worker->shared_table, row);
  percore_shared_add(shared, 0, 1);
  percore_shared_add(shared, 1, bytes);
  percore_shared_add(shared, 2, bytes & 1);
  percore_shared_add(shared, 3, bytes >> 10);
}

static __attribute__((noinline)) void flush(struct worker *worker) {
  for (int row = 0; row < ROWS; row++)
    for (int c = 0; c < COUNTERS; c++) {
      if (worker->buffer[row][c] != 0)
        __atomic_fetch_add(&buffered_rows[row].cell[c], worker->buffer[row][c],
                           __ATOMIC_RELAXED);
      worker->buffer[row][c] = 0;
    }
  worker->buffered = 0;
}

INLINE void shared_buffered(struct worker *worker, uint32_t row,
                            uint64_t bytes) {
  add_packet(worker->buffer[row], bytes);
  if (++worker->buffered == BURST)
    flush(worker);
}

INLINE void per_core(struct worker *worker, uint32_t row, uint64_t bytes) {
  percore_core_row_t own =
      percore_core_row(worker->slot, worker->core_table, row);
  percore_add(own, 0, 1);
  percore_add(own, 1, bytes);
  percore_add(own, 2, bytes & 1);
  percore_add(own, 3, bytes >> 10);
}

INLINE void per_core_section(struct worker *worker, uint32_t row,
                             uint64_t bytes) {
  percore_begin(worker->slot);
  per_core(worker, row, bytes);
  percore_end(worker->slot);
}

INLINE void per_core_lock(struct worker *worker, uint32_t row, uint64_t bytes) {
  take(&core_lock[worker->core].taken);
  add_packet(worker->own_rows[row].cell, bytes);
  give(&core_lock[worker->core].taken);
}

#define PATTERNS(each)                                                         \
  each(nothing, "") each(shared_plain, "shared, not synchronised")             \
      each(shared_lock, "shared, lock") each(shared_atomic, "shared, atomic")  \
          each(shared_buffered, "shared, buffered") each(per_core, "per core") \
              each(per_core_section, "per core, sequence counter")             \
                  each(per_core_lock, "per core, lock")

/* Defines a block of packets only, and a block of packets with other work. */
#define BLOCKS_OF(pattern, title)                                              \
  static                                                                       \
      __attribute__((noinline)) void tight_##pattern(struct worker *worker) {  \
    for (uint32_t p = 0; p < TIGHT_PACKETS; p++)                               \
      pattern(worker, p % ROWS, 64 + (p & 1023));                              \
  }                                                                            \
  static                                                                       \
      __attribute__((noinline)) void worked_##pattern(struct worker *worker) { \
    for (uint32_t p = 0; p < PACKETS; p++) {                                   \
      other_work(worker->work);                                                \
      pattern(worker, p % ROWS, 64 + (worker->work[1] & 1023));                \
    }                                                                          \
  }
PATTERNS(BLOCKS_OF)

#define ENTRY(pattern, title) {title, {tight_##pattern, worked_##pattern}},
enum { TIGHT, WITH_WORK, WAYS };
static const struct {
  const char *title;
  void (*block[WAYS])(struct worker *worker);
} patterns[] = {PATTERNS(ENTRY)};
enum { COUNT = sizeof(patterns) / sizeof(patterns[0]), FIRST = 1 };
enum { SHARED_PLAIN = 1 };

/* ---------------------------------------------------------------------------
 * Running
 */

enum { CORE_TABLE, SHARED_TABLE };
static char dir[] = "/tmp/percore-bench-XXXXXX";
static struct percore_region *region;
static uint64_t arrived;

/* Spins until all workers have called this, so that they continue at the same
 * moment. */
static void meet(struct worker *worker) {
  worker->met += (uint64_t)worker->of;
  __atomic_add_fetch(&arrived, 1, __ATOMIC_ACQ_REL);
  for (int spins = 0; __atomic_load_n(&arrived, __ATOMIC_ACQUIRE) < worker->met;
       spins++)
    if (spins > 10000)
      sched_yield();
}

static uint64_t wall_ns(void) { return clock_now_ns(CLOCK_MONOTONIC); }

/* Returns true if all workers ran at the same time for most of the block; a
 * worker that waits for its core does not disturb the others. Returns the same
 * result in every worker. */
static bool ran_together(struct worker *worker, uint64_t begin, uint64_t end) {
  static uint64_t begins[WORKERS], ends[WORKERS];
  begins[worker->core] = begin;
  ends[worker->core] = end;
  meet(worker);
  uint64_t first = begin, last = end, both_from = begin, both_to = end;
  for (int w = 0; w < worker->of; w++) {
    first = begins[w] < first ? begins[w] : first;
    last = ends[w] > last ? ends[w] : last;
    both_from = begins[w] > both_from ? begins[w] : both_from;
    both_to = ends[w] < both_to ? ends[w] : both_to;
  }
  meet(worker); /* all workers have read the arrays */
  return both_to > both_from && (both_to - both_from) * 5 > (last - first) * 4;
}

static uint64_t length_of(const struct worker *worker) {
  return worker->way == TIGHT ? TIGHT_PACKETS : PACKETS;
}

/* Runs a block. Returns the cycles per packet; *alike is true if all workers
 * ran at the same time for most of the block. */
static double time_block(struct worker *worker, int pattern, bool *alike) {
  double cycle = cycle_now_ns();
  meet(worker);
  uint64_t begin = wall_ns(), start = now_ns();
  patterns[pattern].block[worker->way](worker);
  double ns = (double)(now_ns() - start) / length_of(worker);
  *alike = ran_together(worker, begin, wall_ns());
  return ns / cycle;
}

/* Measures a pattern. Returns how many blocks with counters were run. */
static uint64_t measure_pattern(struct worker *worker, int pattern) {
  static _Thread_local double extra[BLOCKS], without[BLOCKS];
  size_t count = 0;
  bool alike;
  uint64_t tries = 0;
  for (; count < BLOCKS && tries < TRIES; tries++) {
    without[count] = time_block(worker, 0, &alike);
    extra[count] = time_block(worker, pattern, &alike) - without[count];
    count += alike;
  }
  worker->extra[pattern] = count > 0 ? median(extra, count) / COUNTERS : NAN;
  worker->packet = count > 0 ? median(without, count) : NAN;
  return tries;
}

static void *run(void *argument) {
  struct worker *worker = argument;
  pin(worker->core);
  percore_attach(region, "bench", worker->core, &worker->slot);
  percore_core_table(region, CORE_TABLE, &worker->core_table);
  percore_shared_table(region, SHARED_TABLE, &worker->shared_table);
  for (int i = 0; i < 4; i++)
    worker->work[i] = 0x9e3779b97f4a7c15u * (uint64_t)(i + 1);
  for (int p = FIRST; p < COUNT; p++)
    worker->packets[p] = measure_pattern(worker, p) * length_of(worker);
  percore_detach(region, worker->slot);
  return NULL;
}

struct result {
  double packet;       /* cycles without counters */
  double extra[COUNT]; /* cycles per counter */
  double lost;         /* percent of the counts that were lost */
};

/* Runs the workers and returns the means of their results. */
static struct result measure(int workers, int way) {
  static struct worker all[WORKERS];
  struct result result = {0};
  memset(plain_rows, 0, sizeof(plain_rows));
  arrived = 0;
  for (int w = 0; w < workers; w++) {
    all[w] = (struct worker){.core = w, .of = workers, .way = way};
    pthread_create(&all[w].thread, NULL, run, &all[w]);
  }
  for (int w = 0; w < workers; w++) {
    pthread_join(all[w].thread, NULL);
    result.packet += all[w].packet / workers;
    for (int p = 0; p < COUNT; p++)
      result.extra[p] += all[w].extra[p] / workers;
  }
  uint64_t there = 0, counted = 0;
  for (int row = 0; row < ROWS; row++)
    there += plain_rows[row].cell[0];
  for (int w = 0; w < workers; w++)
    counted += all[w].packets[SHARED_PLAIN];
  result.lost = 100 * (1 - (double)there / (double)counted);
  return result;
}

static bool create_region(void) {
  static const struct percore_field fields[COUNTERS] = {{.name = "packets"},
                                                        {.name = "bytes"},
                                                        {.name = "odd"},
                                                        {.name = "long"}};
  static const struct percore_table tables[] = {
      [CORE_TABLE] = {.name = "port",
                      .fields = fields,
                      .field_count = COUNTERS,
                      .max_rows = ROWS,
                      .row_name_size = 24},
      [SHARED_TABLE] = {.name = "slow",
                        .storage = PERCORE_SHARED,
                        .fields = fields,
                        .field_count = COUNTERS,
                        .max_rows = ROWS,
                        .row_name_size = 24,
                        .row_align = 128},
  };
  char name[16];
  struct percore_options options = {.size = sizeof(options),
                                    .runtime_dir = mkdtemp(dir)};
  bool made = percore_create(&region, "bench", tables, 2, &options) == 0;
  for (uint32_t row = 0, added; made && row < ROWS; row++) {
    snprintf(name, sizeof(name), "row%u", row);
    made = percore_row_add(region, CORE_TABLE, name, &added) == 0 &&
           percore_row_add(region, SHARED_TABLE, name, &added) == 0;
  }
  return made;
}

int main(void) {
  struct result tight, one, two = {0};
  bool pair = sysconf(_SC_NPROCESSORS_ONLN) >= WORKERS;
  if (!create_region()) {
    perror("percore_create");
    return 1;
  }
  tight = measure(1, TIGHT);
  one = measure(1, WITH_WORK);
  if (pair)
    two = measure(WORKERS, TIGHT);
  printf("cycles per counter, with four counters per packet: with %.0f cycles "
         "of other work;\nwith packets only; with packets only, in two workers "
         "on the same rows\n",
         one.packet);
  for (int p = FIRST; p < COUNT; p++) {
    printf("%-28s %8.2f %8.2f", patterns[p].title, one.extra[p],
           tight.extra[p]);
    if (pair)
      printf(" %8.2f", two.extra[p]);
    if (pair && p == SHARED_PLAIN)
      printf(", loses %.1f %% of the counts", two.lost);
    printf("\n");
  }
  percore_destroy(region);
  rmdir(dir);
  return 0;
}
