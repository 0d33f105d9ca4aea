/* percore_update.h: the inline update paths of percore.h, which includes it.
 *
 * Updates do not allocate, lock, check for errors or make system calls: a
 * handle is usable whether or not the call that made it succeeded. The only
 * exceptions are percore_poll, percore_poll_at and percore_wake, which ask the
 * kernel for the thread's CPU time after a round of more than 100 us.
 *
 * Cells of PER_CORE and OWNED tables have one writer at a time, so an add is a
 * relaxed load, an add and a relaxed store, without a lock prefix: no count is
 * lost, and readers never see half a value. Cells of SHARED tables and of the
 * shared block of a PER_CORE table have any number of writers: relaxed
 * fetch-and-add.
 *
 * Consistency of several cells: a section increments a sequence counter at its
 * begin and at its end. Stores inside the section are ordered after the odd
 * value (release fence, paired with the reader's load-acquire of the counter)
 * and before the even value (store-release, paired with the acquire fence
 * before the reader's second load). A store-release of the odd value would not
 * be enough: on aarch64 later stores could become visible before it.
 */
#ifndef PERCORE_UPDATE_H
#define PERCORE_UPDATE_H

#ifndef PERCORE_H
#error "include <percore.h>"
#endif

#include <time.h>

#ifdef __cplusplus
extern "C" {
#define PERCORE_CAST_(type, value) static_cast<type>(value)
#else
#define PERCORE_CAST_(type, value) ((type)(value))
#endif

/* A library with a different ABI does not define this symbol, so that linking
 * fails if the header does not match the library. The percore sources
 * themselves are compiled with PERCORE_BUILDING. */
extern const char percore_abi_2;
#ifndef PERCORE_BUILDING
__attribute__((used)) static const char *const percore_abi_check_ =
    &percore_abi_2;
#endif

/* With PERCORE_DEBUG defined, mistakes end the program with a message. The
 * checks are implemented in debug.c. */
#ifdef PERCORE_DEBUG
void percore_debug_at_(const char *file, int line);
void percore_debug_fail_(const char *message) __attribute__((noreturn));
void percore_debug_slot_(const void *head);
void percore_debug_row_(const void *cells);
void percore_debug_cell_(const void *cells, uint32_t column, int is_set);
void percore_debug_histogram_(const void *cells, uint32_t column,
                              uint32_t sub_bits, uint32_t buckets);
void percore_debug_section_(const uint64_t *sequence, int begins);
#define PERCORE_AT_ percore_debug_at_(__FILE__, __LINE__)
#define PERCORE_CHECK_(holds, message)                                         \
  ((holds) ? (void)0 : percore_debug_fail_(message))
#define PERCORE_DEBUG_(call) percore_debug_##call
#else
#define PERCORE_AT_ ((void)0)
#define PERCORE_CHECK_(holds, message) ((void)0)
#define PERCORE_DEBUG_(call) ((void)0)
#endif

#define PERCORE_MAX_COLUMNS 4096 /* per row, histogram buckets included */

/* The head of a slot block. Only the owner of the slot writes it. */
struct percore_slot_head {
  uint64_t sequence;   /* odd inside begin/end */
  uint64_t quiescent;  /* number of quiescent points passed, without polls */
  uint64_t origin_tsc; /* total_cycles counts from here; see percore_polled_ */
  uint64_t asleep_tsc; /* when the thread called percore_sleep; 0: awake */
  /* For the checks of the thread's CPU time; see poll.c. */
  uint64_t long_round; /* in ticks; only longer rounds are checked */
  uint64_t checked_tsc;
  uint64_t checked_cpu_ns;
  uint64_t checked_sleep; /* the value of sleep_cycles at the last check */
  /* The row of the built-in table `core`. */
  uint64_t total_cycles;
  uint64_t busy_cycles;
  uint64_t sleep_cycles;
  uint64_t polls;
  uint64_t empty_polls;
  uint64_t items;
  uint64_t absent_cycles; /* awake, but off the CPU; see poll.c */
  uint64_t reserved_cell;
};

/* Handles: small structures, passed by value. Their members are private. */
typedef struct {
  struct percore_slot_head *head;
} percore_slot_t;

typedef struct {
  size_t offset;   /* from the start of a slot block to row 0 */
  uint32_t stride; /* distance from row to row, in bytes; 0 in a sink */
  uint32_t max_rows;
} percore_core_table_t;

typedef struct {
  unsigned char *rows;
  uint32_t stride;
  uint32_t max_rows;
  /* The sequence word of row 0; a scratch word if the table is not CONSISTENT.
   */
  unsigned char *sequences;
  size_t sequence_stride; /* 0 if the table is not CONSISTENT */
} percore_owned_table_t;

typedef struct {
  unsigned char *rows;
  uint32_t stride;
  uint32_t max_rows;
} percore_shared_table_t;

typedef struct {
  uint64_t *core_cells;
} percore_core_row_t;

typedef struct {
  uint64_t *owned_cells;
  uint64_t *sequence;
} percore_owned_row_t;

typedef struct {
  uint64_t *shared_cells;
} percore_shared_row_t;

/* The first column and the shape of a histogram field. */
typedef struct {
  uint32_t column;
  uint32_t sub_bits; /* 2^sub_bits buckets per power of two */
  uint32_t buckets;
} percore_histogram_t;

/* ---------------------------------------------------------------------------
 * From table and row number to the cells
 */

static inline unsigned char *percore_bytes_(void *memory) {
  return PERCORE_CAST_(unsigned char *, memory);
}

static inline uint64_t *percore_words_(void *memory) {
  return PERCORE_CAST_(uint64_t *, memory);
}

/* True if the table has the row, or the row is the sink of a failed
 * percore_row_add, or the table is a sink. */
#define PERCORE_HAS_ROW_(table, row)                                           \
  ((table).stride == 0 || (row) <= (table).max_rows)
#define PERCORE_NO_TABLE_ "the handle of the table has not been made"
#define PERCORE_NO_SUCH_ROW_                                                   \
  "the table has no such row: add rows with percore_row_add"

static inline struct percore_slot_head *percore_head_(percore_slot_t slot) {
  PERCORE_CHECK_(slot.head, "the slot has not been attached");
  return slot.head;
}

/* For what only the thread may do that holds the slot. */
static inline struct percore_slot_head *percore_own_head_(percore_slot_t slot) {
  PERCORE_CHECK_(slot.head, "the slot has not been attached");
  PERCORE_DEBUG_(slot_(slot.head));
  return slot.head;
}

/* Returns the handle of a row of a PER_CORE table in a slot. Nothing is checked
 * unless PERCORE_DEBUG is defined: the slot must come from percore_attach, the
 * table from percore_core_table, and the row number from percore_row_add or
 * percore_row_add_at. */
static inline percore_core_row_t percore_core_row(percore_slot_t slot,
                                                  percore_core_table_t table,
                                                  uint32_t row) {
  percore_core_row_t handle;
  PERCORE_CHECK_(table.offset, PERCORE_NO_TABLE_);
  PERCORE_CHECK_(PERCORE_HAS_ROW_(table, row), PERCORE_NO_SUCH_ROW_);
  handle.core_cells =
      percore_words_(percore_bytes_(percore_head_(slot)) + table.offset +
                     PERCORE_CAST_(size_t, table.stride) * row);
  return handle;
}

static inline percore_owned_row_t percore_owned_row(percore_owned_table_t table,
                                                    uint32_t row) {
  percore_owned_row_t handle;
  PERCORE_CHECK_(table.rows, PERCORE_NO_TABLE_);
  PERCORE_CHECK_(PERCORE_HAS_ROW_(table, row), PERCORE_NO_SUCH_ROW_);
  handle.owned_cells =
      percore_words_(table.rows + PERCORE_CAST_(size_t, table.stride) * row);
  handle.sequence =
      percore_words_(table.sequences + row * table.sequence_stride);
  return handle;
}

/* Returns the handle of a row of a SHARED table, or of a row in the shared
 * block of a PER_CORE table. */
static inline percore_shared_row_t
percore_shared_row(percore_shared_table_t table, uint32_t row) {
  percore_shared_row_t handle;
  PERCORE_CHECK_(table.rows, PERCORE_NO_TABLE_);
  PERCORE_CHECK_(PERCORE_HAS_ROW_(table, row), PERCORE_NO_SUCH_ROW_);
  handle.shared_cells =
      percore_words_(table.rows + PERCORE_CAST_(size_t, table.stride) * row);
  return handle;
}

/* ---------------------------------------------------------------------------
 * Cells with one writer
 */

static inline void percore_own_add_(uint64_t *cell, uint64_t n) {
  uint64_t value = __atomic_load_n(cell, __ATOMIC_RELAXED);
  __atomic_store_n(cell, value + n, __ATOMIC_RELAXED);
}

static inline void percore_own_set_(uint64_t *cell, uint64_t value) {
  __atomic_store_n(cell, value, __ATOMIC_RELAXED);
}

static inline void percore_cell_add_(uint64_t *cells, uint32_t column,
                                     uint64_t n) {
  PERCORE_DEBUG_(cell_(cells, column, 0));
  percore_own_add_(&cells[column], n);
}

static inline void percore_cell_grow_(uint64_t *cells, uint32_t column,
                                      uint64_t value, uint64_t *last) {
  percore_cell_add_(cells, column, value < *last ? value : value - *last);
  *last = value;
}

static inline void percore_cell_set_(uint64_t *cells, uint32_t column,
                                     uint64_t value) {
  PERCORE_DEBUG_(cell_(cells, column, 1));
  percore_own_set_(&cells[column], value);
}

/* Returns the bucket of a value. Each value below 2^sub_bits has its own
 * bucket, and the values from each larger power of two to the next are divided
 * among 2^sub_bits buckets of equal width. Values beyond the last bucket count
 * in the last bucket. */
static inline uint32_t
percore_histogram_bucket(uint32_t sub_bits, uint32_t buckets, uint64_t value) {
  uint64_t small = PERCORE_CAST_(uint64_t, 1) << sub_bits, bucket = value;
  if (value >= small) {
    uint32_t shift =
        63u - PERCORE_CAST_(uint32_t, __builtin_clzll(value)) - sub_bits;
    bucket = (PERCORE_CAST_(uint64_t, shift + 1) << sub_bits) +
             ((value >> shift) - small);
  }
  return bucket < buckets ? PERCORE_CAST_(uint32_t, bucket) : buckets - 1;
}

static inline void percore_cell_hist_add_(uint64_t *cells,
                                          percore_histogram_t histogram,
                                          uint64_t value) {
  uint32_t bucket =
      percore_histogram_bucket(histogram.sub_bits, histogram.buckets, value);
  PERCORE_DEBUG_(histogram_(cells, histogram.column, histogram.sub_bits,
                            histogram.buckets));
  percore_own_add_(&cells[histogram.column + bucket], 1);
}

/* percore_add, percore_updown_add, percore_set, percore_hist_add and
 * percore_prefetch accept a percore_core_row_t or a percore_owned_row_t, and do
 * not compile with a percore_shared_row_t. */
#ifdef __cplusplus
} /* extern "C": overloads have C++ linkage */
static inline uint64_t *percore_cells_(percore_core_row_t row) {
  return row.core_cells;
}
static inline uint64_t *percore_cells_(percore_owned_row_t row) {
  return row.owned_cells;
}
/* A value for percore_set. From C++11 on, a fraction does not compile. */
#if __cplusplus >= 201103L
template <class Value> static inline uint64_t percore_whole_(Value value) {
  return static_cast<uint64_t>(value);
}
void percore_whole_(float);
void percore_whole_(double);
void percore_whole_(long double);
#else
#define percore_whole_(value) static_cast<uint64_t>(value)
#endif
extern "C" {
#else
static inline uint64_t *percore_core_cells_(percore_core_row_t row) {
  return row.core_cells;
}
static inline uint64_t *percore_owned_cells_(percore_owned_row_t row) {
  return row.owned_cells;
}
#define percore_cells_(row)                                                    \
  __extension__ _Generic((row), percore_core_row_t                             \
                         : percore_core_cells_, percore_owned_row_t            \
                         : percore_owned_cells_)(row)
struct percore_takes_no_fractions_ {
  int member;
};
#define percore_whole_(value)                                                  \
  (uint64_t)(__extension__ _Generic(                                           \
      (value), float                                                           \
      : (struct percore_takes_no_fractions_){0}, double                        \
      : (struct percore_takes_no_fractions_){0}, long double                   \
      : (struct percore_takes_no_fractions_){0}, default                       \
      : (value)))
#endif

/* Adds n to a counter. */
#define percore_add(row, column, n)                                            \
  (PERCORE_AT_, percore_cell_add_(percore_cells_(row), (column), (n)))

/* Adds n, which may be negative, to an up-down counter. It is never set, so the
 * sum over the slots is right even if one core adds and another subtracts. */
#define percore_updown_add(row, column, n)                                     \
  percore_add(row, column, PERCORE_CAST_(uint64_t, PERCORE_CAST_(int64_t, n)))

/* Adds how much a counter that another program or device keeps, such as the
 * statistics of a NIC, has grown since *last, and stores its value in *last. If
 * it fell, it has begun again at 0. Set *last to 0 to include what it counted
 * before, otherwise to its present value. */
#define percore_add_growth(row, column, value, last)                           \
  (PERCORE_AT_,                                                                \
   percore_cell_grow_(percore_cells_(row), (column), (value), (last)))

/* Sets a gauge, whose values are signed, or a state. The value must be of an
 * integer type: a gauge of 0.25 s is one of 250 ms. */
#define percore_set(row, column, value)                                        \
  (PERCORE_AT_,                                                                \
   percore_cell_set_(percore_cells_(row), (column), percore_whole_(value)))

/* Counts a value in a histogram. */
#define percore_hist_add(row, histogram, value)                                \
  (PERCORE_AT_,                                                                \
   percore_cell_hist_add_(percore_cells_(row), (histogram), (value)))

/* Prefetches a row for writing. In large tables with updates in random order,
 * call this one batch ahead of the updates. */
#define percore_prefetch(row) __builtin_prefetch(percore_cells_(row), 1, 3)

/* ---------------------------------------------------------------------------
 * Cells with many writers
 */

/* Adds n to a cell. Any thread and signal handlers may call this. */
static inline void percore_shared_add(percore_shared_row_t row, uint32_t column,
                                      uint64_t n) {
  PERCORE_DEBUG_(cell_(row.shared_cells, column, 0));
  __atomic_fetch_add(&row.shared_cells[column], n, __ATOMIC_RELAXED);
}

/* Sets a gauge or a state of a SHARED table, like percore_set; the last call
 * wins. */
#define percore_shared_set(row, column, value)                                 \
  (PERCORE_AT_, percore_shared_set_((row), (column), percore_whole_(value)))
static inline void percore_shared_set_(percore_shared_row_t row,
                                       uint32_t column, uint64_t value) {
  PERCORE_DEBUG_(cell_(row.shared_cells, column, 1));
  __atomic_store_n(&row.shared_cells[column], value, __ATOMIC_RELAXED);
}

/* ---------------------------------------------------------------------------
 * Sections: readers see all updates of a section or none
 */

/* The counter is odd already if a thread ended inside a section of the row. The
 * thread sanitizer of gcc knows no fences. */
static inline void percore_sequence_begin_(uint64_t *sequence) {
#ifdef __SANITIZE_THREAD__
  __atomic_fetch_or(sequence, 1, __ATOMIC_ACQ_REL);
#else
  uint64_t now = __atomic_load_n(sequence, __ATOMIC_RELAXED);
  __atomic_store_n(sequence, now | 1, __ATOMIC_RELAXED);
  __atomic_thread_fence(__ATOMIC_RELEASE);
#endif
}

static inline void percore_sequence_end_(uint64_t *sequence) {
  uint64_t now = __atomic_load_n(sequence, __ATOMIC_RELAXED);
  PERCORE_DEBUG_(section_(sequence, 0));
  __atomic_store_n(sequence, now + 1, __ATOMIC_RELEASE);
}

/* Begin and end a section of updates of any PER_CORE rows of this slot.
 * Sections must not nest (with PERCORE_DEBUG defined, nesting aborts) and
 * should be short: a handful of adds. */
static inline void percore_begin(percore_slot_t slot) {
  uint64_t *sequence = &percore_own_head_(slot)->sequence;
  PERCORE_DEBUG_(section_(sequence, 1));
  percore_sequence_begin_(sequence);
}

static inline void percore_end(percore_slot_t slot) {
  percore_sequence_end_(&percore_own_head_(slot)->sequence);
}

/* Begin and end a section of updates of one row of an OWNED table that has
 * PERCORE_CONSISTENT. In other tables they update a scratch word and have no
 * effect. If a thread ends inside a section, readers report the row as torn
 * until the next section of the row ends. */
static inline void percore_row_begin(percore_owned_row_t row) {
  PERCORE_DEBUG_(row_(row.owned_cells));
  percore_sequence_begin_(row.sequence);
}

static inline void percore_row_end(percore_owned_row_t row) {
  PERCORE_DEBUG_(row_(row.owned_cells));
  percore_sequence_end_(row.sequence);
}

/* ---------------------------------------------------------------------------
 * The worker's own time, and quiescent points
 */

/* Returns the time of a clock that is the same on all cores, in ticks of the
 * region's tsc_hz: the TSC on x86, the generic timer on arm64, nanoseconds
 * elsewhere. */
static inline uint64_t percore_tsc(void) {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
  uint64_t now;
  __asm__ volatile("mrs %0, cntvct_el0" : "=r"(now));
  return now;
#else
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return PERCORE_CAST_(uint64_t, now.tv_sec) * 1000000000u +
         PERCORE_CAST_(uint64_t, now.tv_nsec);
#endif
}

/* Counts a quiescent point. */
static inline void percore_pass_(uint64_t *points) {
  uint64_t passed = __atomic_load_n(points, __ATOMIC_RELAXED);
  __atomic_store_n(points, passed + 1, __ATOMIC_RELEASE);
}

/* A quiescent point: this thread no longer uses any row that it looked up
 * before this call, so rows removed so far can be reused. The store is a
 * release and pairs with the acquire in percore_row_add. The full barrier
 * before the thread looks up its next row is issued by percore_row_remove or
 * percore_row_add on behalf of all threads (membarrier). */
static inline void percore_quiescent(percore_slot_t slot) {
  percore_pass_(&percore_own_head_(slot)->quiescent);
}

/* Returns up to when total_cycles has the thread's time: when it last polled,
 * and later by the time that it slept since. */
static inline uint64_t percore_polled_(const struct percore_slot_head *head) {
  return head->origin_tsc + head->total_cycles;
}

/* Implemented in poll.c. percore_poll_long_ accounts for a long round, during
 * which the thread may have lost its CPU. percore_check_cpu_ checks how much
 * CPU time the thread received before and while it slept. */
void percore_poll_long_(percore_slot_t slot, uint64_t tsc, uint64_t n)
    __attribute__((cold));
void percore_check_cpu_(percore_slot_t slot, uint64_t tsc)
    __attribute__((cold));

/* Ends a round of a busy-polling loop that handled n items. If n > 0, the time
 * since the previous call counts as busy. In a round of more than 100 us, time
 * in which the CPU ran other threads does not count as busy. tsc is when the
 * round ended, as returned by percore_tsc (on x86 also by DPDK's rte_rdtsc). A
 * loop that reads the clock at the start of each round should call this there,
 * with that time and with the items of the previous round. This is a quiescent
 * point. */
static inline __attribute__((always_inline)) void
percore_poll_at(percore_slot_t slot, uint64_t tsc, uint64_t n) {
  struct percore_slot_head *head = percore_own_head_(slot);
  uint64_t total = tsc - head->origin_tsc, elapsed = total - head->total_cycles;
  if (__builtin_expect(elapsed > head->long_round, 0)) {
    percore_poll_long_(slot, tsc, n);
    return;
  }
  /* In this order, a poll takes the fewest cycles. */
  percore_own_add_(&head->items, n);
  percore_own_add_(&head->empty_polls, n == 0);
  percore_own_set_(&head->total_cycles, total);
  percore_own_add_(&head->busy_cycles, n ? elapsed : 0);
  percore_pass_(&head->polls);
}

/* Reads the clock and calls percore_poll_at. */
static inline __attribute__((always_inline)) void
percore_poll(percore_slot_t slot, uint64_t n) {
  percore_poll_at(slot, percore_tsc(), n);
}

/* Call these before and after anything that may block. The time between them
 * counts in total_cycles and sleep_cycles but not as busy, and the worker does
 * not appear stuck. If they are called inside a round, the rest of the round
 * counts as busy if the percore_poll that ends the round has items. From
 * percore_sleep to percore_wake the thread is at a quiescent point: after
 * percore_wake, do not use rows that were looked up before percore_sleep. */
static inline void percore_sleep(percore_slot_t slot) {
  percore_quiescent(slot);
  __atomic_store_n(&slot.head->asleep_tsc, percore_tsc() | 1, __ATOMIC_RELEASE);
}

static inline void percore_wake(percore_slot_t slot) {
  struct percore_slot_head *head = percore_own_head_(slot);
  uint64_t now = percore_tsc(), slept = now - head->asleep_tsc;
  if (head->asleep_tsc == 0 || slept > now)
    slept = 0; /* no percore_sleep, or the clock has restarted */
  /* The round goes on as if it had begun that much later. */
  percore_own_add_(&head->total_cycles, slept);
  percore_own_add_(&head->sleep_cycles, slept);
  __atomic_store_n(&head->asleep_tsc, 0, __ATOMIC_RELAXED);
  /* Going to sleep also takes CPU time. Unless that CPU time is accounted for
   * here, the next check would overlook as much time that the thread spends off
   * its CPU. */
  if (now - head->checked_tsc > 16 * head->long_round)
    percore_check_cpu_(slot, now);
}

#ifdef __cplusplus
}
#endif

/* So that the checks know the line of the caller. */
#ifdef PERCORE_DEBUG
#define percore_core_row(slot, table, row)                                     \
  (PERCORE_AT_, percore_core_row(slot, table, row))
#define percore_owned_row(table, row)                                          \
  (PERCORE_AT_, percore_owned_row(table, row))
#define percore_shared_row(table, row)                                         \
  (PERCORE_AT_, percore_shared_row(table, row))
#define percore_shared_add(row, column, n)                                     \
  (PERCORE_AT_, percore_shared_add(row, column, n))
#define percore_begin(slot) (PERCORE_AT_, percore_begin(slot))
#define percore_end(slot) (PERCORE_AT_, percore_end(slot))
#define percore_row_begin(row) (PERCORE_AT_, percore_row_begin(row))
#define percore_row_end(row) (PERCORE_AT_, percore_row_end(row))
#define percore_quiescent(slot) (PERCORE_AT_, percore_quiescent(slot))
#define percore_poll_at(slot, tsc, n)                                          \
  (PERCORE_AT_, percore_poll_at(slot, tsc, n))
#define percore_poll(slot, n) (PERCORE_AT_, percore_poll(slot, n))
#define percore_sleep(slot) (PERCORE_AT_, percore_sleep(slot))
#define percore_wake(slot) (PERCORE_AT_, percore_wake(slot))
#endif

#endif
