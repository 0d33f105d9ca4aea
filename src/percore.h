/* percore.h: counts events, per core, where other programs read the counts.
 *
 * A region is a file in shared memory to which one process writes. It consists
 * of tables; a table consists of rows, and a row of 64-bit cells. The program
 * describes the tables to percore_create. C99, C++98 and later; percore.hpp
 * adds classes for C++17. Link with -lpercore (pkg-config percore). percore(3)
 * is the manual and has a tutorial; percore-region(7) specifies the bytes.
 *
 *   percore_tune.h     what few programs that count need
 *   percore_load.h     loads of cores, for schedulers
 *   percore_reader.h   reads regions
 *
 * A call that fails still returns a usable handle. Its updates go to private
 * memory that no program reads (a sink), so that the update paths need no test
 * and the application never stops for its statistics. errno reports what
 * happened; an application may ignore it. A NULL region is a sink. Updates do
 * not check handles: with one that no call has made, such as zeros, the program
 * crashes or overwrites other memory. With PERCORE_DEBUG defined, it aborts
 * with a message, and at other mistakes that percore(3) lists.
 *
 *   call                                  concurrently on the same region
 *   percore_create                        any thread
 *   percore_row_add, row_remove, attach,
 *   table                                 any thread; serialise on a mutex:
 *                                         not from a signal handler
 *   updates of PER_CORE rows, poll,
 *   sleep, wake                           only the thread that owns the slot
 *   updates of OWNED rows                 one thread at a time per row; the
 *                                         application synchronises a handover
 *   percore_shared_row, shared_add        any thread, and signal handlers
 *
 * No call is a cancellation point (pthreads(7)), and none takes more than 8 KiB
 * of stack.
 *
 * Updates do not allocate, lock, check for errors or make system calls. The
 * only exceptions are percore_poll and percore_wake, which ask the kernel for
 * the thread's CPU time after a round of more than 100 us. */
#ifndef PERCORE_H
#define PERCORE_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#define PERCORE_CAST_(type, value) static_cast<type>(value)
#define PERCORE_ADDRESS_(type, value) reinterpret_cast<type>(value)
#else
#define PERCORE_CAST_(type, value) ((type)(value))
#define PERCORE_ADDRESS_(type, value) ((type)(value))
#endif

/* ---------------------------------------------------------------------------
 * Describing a region
 */

/* How a table is stored, and which threads may update it. */
enum percore_storage {
  /* One copy per slot, and one for threads without a slot. */
  PERCORE_PER_CORE = 0,
  PERCORE_OWNED = 1, /* one copy; one writer at a time per row */
  PERCORE_SHARED = 2 /* one copy; any number of writers */
};

enum percore_kind {
  PERCORE_COUNTER = 0,  /* only grows; readers show its rate */
  PERCORE_UPDOWN = 1,   /* grows and shrinks; never set */
  PERCORE_GAUGE = 2,    /* signed; set by percore_set */
  PERCORE_STATE = 3,    /* set to the number of a named state */
  PERCORE_HISTOGRAM = 4 /* counts values by size; follows all other fields */
};

/* How readers combine the values of a gauge from the slots of a PER_CORE table.
 * Counters, up-down counters and histograms are always summed, and states are
 * never combined. */
enum percore_aggregation {
  PERCORE_SUM = 0,
  PERCORE_MIN = 1,
  PERCORE_MAX = 2,
  PERCORE_NONE = 3
};

/* How readers print the keys of rows without names. */
enum percore_key {
  PERCORE_KEY_DECIMAL = 0,
  PERCORE_KEY_HEX = 1,  /* 16 digits */
  PERCORE_KEY_IPV4 = 2, /* low 32 bits, 10.0.0.1 is 0x0a000001 */
  PERCORE_KEY_MAC = 3   /* low 48 bits, 02:00:00:00:00:01 is 0x020000000001 */
};

/* A field of each row of a table. Updates name it by its index in the array. */
struct percore_field {
  const char *name; /* [a-z][a-z0-9_]* */
  const char *unit; /* packets, bytes, errors, operations, cycles, ns, 1, .. */
  const char *help; /* one line; may be NULL */
  enum percore_kind kind;
  enum percore_aggregation aggregation;
  /* Histograms: each value below 2^sub_bits has its own bucket, and the values
   * from each larger power of two to the next are divided among 2^sub_bits
   * buckets. Values of 2^max_bits and more share the last bucket. */
  uint32_t sub_bits; /* 0 to 8 */
  uint32_t max_bits; /* sub_bits + 1 to 64 */
  /* States: the names of the values 0, 1, ... */
  const char *const *states;
  uint32_t state_count;
};

struct percore_table {
  const char *name; /* [a-z][a-z0-9]*, but not `host` or `core` */
  const char *help; /* one line; may be NULL */
  enum percore_storage storage;
  const struct percore_field *fields;
  uint32_t field_count;
  uint32_t max_rows; /* 0: one row, which needs no percore_row_add */
  /* 24, 56 or 120, including the final NUL; 0: rows have keys. */
  uint32_t row_name_size;
  enum percore_key key;
  uint32_t row_align, flags; /* see percore_tune.h */
};

/* A member that is 0 selects its default. Members of this and the structs above
 * that a newer percore.h adds must be 0 with an older library, which otherwise
 * fails with EINVAL. */
struct percore_options {
  const char *instance;    /* distinguishes regions with the same name */
  const char *runtime_dir; /* default: $PERCORE_RUNTIME_DIR, or /run/percore */
  /* In addition to one per possible core. Default: 8 (256 with `inherit`), or
   * the number of threads that the process has, if more. */
  uint32_t extra_slots;
  /* 1: children of fork(2), and their children, attach slots of their own in
   * this region. See percore(3), FORK. */
  int inherit;
  /* See percore_tune.h. */
  uint32_t cores;
  int all_users, quiet, off;
};

struct percore_region;

/* Creates a region: a file in the runtime directory, which readers find there.
 * After that, the library has no descriptor and no thread. The region is always
 * usable. On failure it is a sink, a line on stderr gives the reason unless the
 * option `quiet` is set, and percore_status returns the reason. For EINVAL it
 * names the table, the field and the rule that the description breaks. options
 * may be NULL. Any number of processes may create regions of the same name:
 * readers add them up. When a process exits, readers learn that its region has
 * ended. Sets errno to 0 or to the reason:
 *   ENOENT        the runtime directory does not exist
 *   EACCES        this user may not create files in the runtime directory
 *   ENOSPC        the file system of the runtime directory is full
 *   EINVAL        a name, a table, a field or an option breaks a rule
 *   ENAMETOOLONG  the file's path is too long, or the names of region, table
 *                 and field together are too long
 *   ENOMEM        the region exceeds a memory limit or the free memory
 *   EFBIG         RLIMIT_FSIZE is less than the size of the region
 *   or an errno of open(2) or mmap(2).
 */
#define percore_create(name, tables, table_count, options)                     \
  percore_create_((name), (tables), (table_count), (options),                  \
                  sizeof(struct percore_options))
struct percore_region *percore_create_(const char *name,
                                       const struct percore_table *tables,
                                       uint32_t table_count,
                                       const struct percore_options *options,
                                       size_t options_size);

/* ---------------------------------------------------------------------------
 * Rows
 */

/* Adds a row by name, or by key in tables without names, where name must be
 * NULL. Returns its number, 1 to max_rows, and sets errno to 0, or to EEXIST if
 * the row was live already. The counts of a new row begin at 0. On failure,
 * returns 0, the number of a row that is a sink, and sets errno:
 *   ENOSPC        max_rows rows are live
 *   EAGAIN        attached threads may still update the oldest removed row:
 *                 try again when each of them has passed a quiescent point,
 *                 sleeps, or has ended
 *   ENOMEM        no memory for another 2 MiB of rows, and no removed row
 *   EINVAL        no such table, an empty or too long name, or a single-row
 *                 table
 *   EPERM         this is a child of fork(2), and the name is new
 *   ENODEV        the region is a sink */
uint32_t percore_row_add(struct percore_region *region, uint32_t table,
                         const char *name, uint64_t key);

/* Removes a row. Before the call, make the row unreachable for attached
 * threads, and make sure that threads that are not attached no longer update
 * it. The row stays readable until it is reused. Removed rows are reused oldest
 * first, each after every attached thread has passed a quiescent point
 * (percore_poll, _sleep, _quiescent, _detach). flags: 0 or
 * PERCORE_NO_UPDATE_IN_FLIGHT (percore_tune.h). Returns 0, or -1 with EINVAL,
 * ENOENT (not live), ENODEV, ENOMEM, EPERM (this is a child of fork(2)),
 * ENOTSUP (a PER_CORE table with gauges or states, or a single-row table). */
int percore_row_remove(struct percore_region *region, uint32_t table,
                       uint32_t row, uint32_t flags);

/* ---------------------------------------------------------------------------
 * Handles: small structures, passed by value. Their members are private to C
 * and C++. For other languages, `rows` and `stride` of a table say where its
 * rows are: see percore(3), OTHER LANGUAGES.
 */

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

/* What a thread holds: a slot that it has attached. */
struct percore_seat_ {
  struct percore_slot_head *head;
};

typedef struct {
  struct percore_seat_ *seat;
} percore_slot_t;

/* The cells of a histogram field: its first column and its shape. */
struct percore_shape_ {
  uint32_t column;
  uint32_t sub_bits; /* 2^sub_bits buckets per power of two */
  uint32_t buckets;  /* 1 for other fields */
};

/* What updates need to know about a table, in private memory. The sequence word
 * of a row is at sequence + (address of its cells & mask). */
struct percore_place_ {
  uintptr_t sequence, mask;
  struct percore_shape_ shapes[1]; /* one for each field */
};

typedef struct {
  unsigned char *rows;
  const struct percore_place_ *place;
  uint32_t stride; /* distance from row to row, in bytes; 0: one row */
  uint32_t max_rows;
} percore_table_t;

typedef struct {
  uint64_t *cells;
  const struct percore_place_ *place;
} percore_row_t;

typedef struct {
  uint64_t *shared_cells;
} percore_shared_row_t;

/* For percore_attach: the core that the thread runs on, and for threads that
 * are not pinned, such as those of a pool: their counts are in the sums over
 * all cores, and in those of no core. */
#define PERCORE_THIS_CORE (-1)
#define PERCORE_NO_CORE (-2)

/* Gives the calling thread a slot that counts for a core: the core's own slot
 * if it is free or its owner has ended, otherwise an extra slot. With
 * PERCORE_THIS_CORE, the core is the one on which the thread runs when it first
 * calls percore_table or percore_poll, so that its creator may pin it until
 * then. With DPDK, too, pass PERCORE_THIS_CORE, because rte_lcore_to_cpu_id
 * returns the number of a core within its socket, not that of a logical CPU. A
 * thread whose affinity excludes the core gets an extra slot if one is free,
 * and a line on stderr reports this. Tools show the name, cut to 39 bytes; name
 * may be NULL. A thread that attaches again with the same name and core gets
 * the slot that it has. Only this thread may use the slot. The core of a slot
 * never changes: after moving to another core, call percore_detach and attach
 * again. A thread that ends gives its slots back. Sets errno to 0, or to EINVAL
 * (no such core), ENOSPC (no slot left), ENOMEM or ENODEV; the slot is then a
 * sink. */
percore_slot_t percore_attach(struct percore_region *region, const char *name,
                              int core);

/* Returns a handle of a PER_CORE or OWNED table, given by its index in the
 * array passed to percore_create: of the rows that the slot has, or of the
 * table's only copy. Sets errno to 0, or to EINVAL (no such table, or a SHARED
 * table) or ENODEV (the slot is a sink); the handle is then one of a sink. Any
 * slot of the region has the OWNED tables, also the sink that percore_this_slot
 * returns to a thread that is not attached. */
#ifdef __cplusplus /* a function beside the struct of that name */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#endif
percore_table_t percore_table(percore_slot_t slot, uint32_t table);
#ifdef __cplusplus
#pragma GCC diagnostic pop
#endif

/* Returns a handle of a row of a SHARED table, or of the copy of a PER_CORE
 * table for threads without a slot. Sets errno like percore_table. */
percore_shared_row_t percore_shared_row(struct percore_region *region,
                                        uint32_t table, uint32_t row);

/* ---------------------------------------------------------------------------
 * Debugging
 */

/* A library with a different ABI does not define this symbol, so that linking
 * fails if the header does not match the library. The percore sources
 * themselves are compiled with PERCORE_BUILDING. */
extern const char percore_abi_1;
#ifndef PERCORE_BUILDING
__attribute__((used)) static const char *const percore_abi_check_ =
    &percore_abi_1;
#endif

/* With PERCORE_DEBUG defined, mistakes end the program with a message. The
 * checks are implemented in debug.c. */
#ifdef PERCORE_DEBUG
void percore_debug_at_(const char *file, int line);
void percore_debug_fail_(const char *message) __attribute__((noreturn));
void percore_debug_slot_(const void *seat);
percore_table_t percore_debug_table_(percore_slot_t slot, uint32_t table);
void percore_debug_row_(const void *cells);
void percore_debug_cell_(const void *cells, uint32_t column, int is_set);
void percore_debug_observe_(const void *cells, uint32_t field);
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

/* ---------------------------------------------------------------------------
 * From table and row number to the cells
 */

static inline uint64_t *percore_words_(void *memory) {
  return PERCORE_CAST_(uint64_t *, memory);
}

/* Returns the handle of a row. Nothing is checked unless PERCORE_DEBUG is
 * defined: the number must come from percore_row_add or percore_row_add_at, or
 * be 0. Row 0 is a sink: objects from calloc(3), whose row is 0, count nowhere.
 * In a table of a single row, every number stands for that row. */
static inline percore_row_t percore_row(percore_table_t table, uint32_t row) {
  percore_row_t handle;
  PERCORE_CHECK_(table.rows, "the handle of the table has not been made");
  PERCORE_CHECK_(table.stride == 0 || row <= table.max_rows,
                 "the table has no such row: add rows with percore_row_add");
  handle.cells =
      percore_words_(table.rows + PERCORE_CAST_(size_t, table.stride) * row);
  handle.place = table.place;
  return handle;
}

/* ---------------------------------------------------------------------------
 * Cells with one writer at a time: an update is a relaxed load, an add and a
 * relaxed store, without a lock prefix. No count is lost, and readers never see
 * half a value.
 */

static inline void percore_own_add_(uint64_t *cell, uint64_t n) {
  uint64_t value = __atomic_load_n(cell, __ATOMIC_RELAXED);
  __atomic_store_n(cell, value + n, __ATOMIC_RELAXED);
}

static inline void percore_own_set_(uint64_t *cell, uint64_t value) {
  __atomic_store_n(cell, value, __ATOMIC_RELAXED);
}

static inline void percore_cell_add_(percore_row_t row, uint32_t column,
                                     uint64_t n) {
  PERCORE_DEBUG_(cell_(row.cells, column, 0));
  percore_own_add_(&row.cells[column], n);
}

static inline void percore_cell_set_(uint64_t *cells, uint32_t column,
                                     uint64_t value) {
  PERCORE_DEBUG_(cell_(cells, column, 1));
  percore_own_set_(&cells[column], value);
}

/* Returns the bucket of a value. */
static inline uint32_t percore_bucket_(uint32_t sub_bits, uint32_t buckets,
                                       uint64_t value) {
  uint64_t small = PERCORE_CAST_(uint64_t, 1) << sub_bits, bucket = value;
  if (value >= small) {
    uint32_t shift =
        63u - PERCORE_CAST_(uint32_t, __builtin_clzll(value)) - sub_bits;
    bucket = (PERCORE_CAST_(uint64_t, shift + 1) << sub_bits) +
             ((value >> shift) - small);
  }
  return bucket < buckets ? PERCORE_CAST_(uint32_t, bucket) : buckets - 1;
}

static inline void percore_observe_(percore_row_t row, uint32_t field,
                                    uint64_t value) {
  const struct percore_shape_ *shape = &row.place->shapes[field];
  uint32_t bucket;
  PERCORE_DEBUG_(observe_(row.cells, field));
  bucket = percore_bucket_(shape->sub_bits, shape->buckets, value);
  percore_own_add_(&row.cells[shape->column + bucket], 1);
}

/* percore_set accepts rows of both types. A value must be of an integer type: a
 * gauge of 0.25 s is one of 250 ms. From C++11 on, and in C, a fraction does
 * not compile. */
#ifdef __cplusplus
} /* extern "C": overloads have C++ linkage */
static inline uint64_t *percore_cells_(percore_row_t row) { return row.cells; }
static inline uint64_t *percore_cells_(percore_shared_row_t row) {
  return row.shared_cells;
}
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
static inline uint64_t *percore_row_cells_(percore_row_t row) {
  return row.cells;
}
static inline uint64_t *percore_shared_row_cells_(percore_shared_row_t row) {
  return row.shared_cells;
}
#define percore_cells_(row)                                                    \
  __extension__ _Generic((row), percore_row_t                                  \
                         : percore_row_cells_, percore_shared_row_t            \
                         : percore_shared_row_cells_)(row)
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

/* Adds n to a counter, or n, which may be negative, to an up-down counter. */
#define percore_add(row, field, n)                                             \
  (PERCORE_AT_, percore_cell_add_((row), (field), percore_whole_(n)))

/* Sets a gauge, whose values are signed, or a state. In a SHARED table, the
 * last call wins. */
#define percore_set(row, field, value)                                         \
  (PERCORE_AT_,                                                                \
   percore_cell_set_(percore_cells_(row), (field), percore_whole_(value)))

/* Counts a value in a histogram. */
#define percore_observe(row, field, value)                                     \
  (PERCORE_AT_, percore_observe_((row), (field), percore_whole_(value)))

/* ---------------------------------------------------------------------------
 * Cells with many writers: relaxed fetch-and-add
 */

static inline void percore_shared_add_(percore_shared_row_t row,
                                       uint32_t column, uint64_t n) {
  PERCORE_DEBUG_(cell_(row.shared_cells, column, 0));
  __atomic_fetch_add(&row.shared_cells[column], n, __ATOMIC_RELAXED);
}

/* Like percore_add. Any thread and signal handlers may call this. */
#define percore_shared_add(row, field, n)                                      \
  (PERCORE_AT_, percore_shared_add_((row), (field), percore_whole_(n)))

/* ---------------------------------------------------------------------------
 * The worker's own time, and quiescent points
 */

static inline uint64_t percore_clock_(void) {
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

/* For what only the thread may do that holds the slot. */
static inline struct percore_slot_head *percore_own_head_(percore_slot_t slot) {
  PERCORE_CHECK_(slot.seat, "the slot has not been attached");
  PERCORE_DEBUG_(slot_(slot.seat));
  return slot.seat->head;
}

/* Counts a quiescent point: the thread no longer uses any row that it looked up
 * before, so rows removed so far can be reused. The store is a release and
 * pairs with the acquire in percore_row_add. The full barrier before the thread
 * looks up its next row is issued by percore_row_remove or percore_row_add on
 * behalf of all threads (membarrier). */
static inline void percore_pass_(uint64_t *points) {
  uint64_t passed = __atomic_load_n(points, __ATOMIC_RELAXED);
  __atomic_store_n(points, passed + 1, __ATOMIC_RELEASE);
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
 * round ended, as returned by percore_tsc (on x86 also by DPDK's rte_rdtsc); 0:
 * now, by the clock. A loop that reads the clock at the start of each round
 * should call this there, with that time and with the items of the previous
 * round. This is a quiescent point: the thread no longer uses any row that it
 * looked up before. */
static inline __attribute__((always_inline)) void
percore_poll(percore_slot_t slot, uint64_t n, uint64_t tsc) {
  struct percore_slot_head *head = percore_own_head_(slot);
  uint64_t now = tsc != 0 ? tsc : percore_clock_();
  uint64_t total = now - head->origin_tsc, elapsed = total - head->total_cycles;
  if (__builtin_expect(elapsed > head->long_round, 0)) {
    percore_poll_long_(slot, now, n);
    return;
  }
  /* In this order, a poll takes the fewest cycles. */
  percore_own_add_(&head->items, n);
  percore_own_add_(&head->empty_polls, n == 0);
  percore_own_set_(&head->total_cycles, total);
  percore_own_add_(&head->busy_cycles, n ? elapsed : 0);
  percore_pass_(&head->polls);
}

/* Call these before and after anything that may block. The time between them
 * counts in total_cycles and sleep_cycles but not as busy, and the worker does
 * not appear stuck. If they are called inside a round, the rest of the round
 * counts as busy if the percore_poll that ends the round has items. From
 * percore_sleep to percore_wake the thread is at a quiescent point: after
 * percore_wake, do not use rows that were looked up before percore_sleep. */
static inline void percore_sleep(percore_slot_t slot) {
  struct percore_slot_head *head = percore_own_head_(slot);
  percore_pass_(&head->quiescent);
  __atomic_store_n(&head->asleep_tsc, percore_clock_() | 1, __ATOMIC_RELEASE);
}

static inline void percore_wake(percore_slot_t slot) {
  struct percore_slot_head *head = percore_own_head_(slot);
  uint64_t now = percore_clock_(), slept = now - head->asleep_tsc;
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
#define percore_table(slot, table)                                             \
  (PERCORE_AT_, percore_debug_table_(slot, table))
#define percore_row(table, row) (PERCORE_AT_, percore_row(table, row))
#define percore_poll(slot, n, tsc) (PERCORE_AT_, percore_poll(slot, n, tsc))
#define percore_sleep(slot) (PERCORE_AT_, percore_sleep(slot))
#define percore_wake(slot) (PERCORE_AT_, percore_wake(slot))
#endif

#endif
