/* percore.h: the public interface of libpercore.
 *
 * It provides core loads, for schedulers that need to know which core has free
 * time, and regions, through which fast paths publish per-core counters and
 * other programs read them. C99, C++98 and later; percore.hpp adds classes for
 * C++17. Link with -lpercore (pkg-config percore). percore(3) is the manual.
 *
 * No call is a cancellation point (pthreads(7)), and none takes more than 8 KiB
 * of stack. */
#ifndef PERCORE_H
#define PERCORE_H

#include <stddef.h>
#include <stdint.h>

#include "percore_update.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------------------
 * Loads
 *
 * The load of a core is unhalted time / wall time between two updates, from 0
 * to 1, no matter whether tasks, interrupts or softirqs ran. It is the load of
 * one hardware thread: if the sibling of a core is fully loaded, the core can
 * do about half as much work as its own load suggests; see
 * percore_load_get_sibling.
 *
 * Hardware counters leave out time that a hypervisor stole. The source "bpf",
 * and on older kernels the source "idle", count time stolen from a running core
 * as load, because the core could not do other work during that time. They do
 * not count time stolen while the core wakes up.
 *
 *   call                            concurrently on the same handle
 *   percore_load_update             any thread; updates serialise on a mutex
 *   percore_load_get and the like   any thread, lock-free, never blocks; two
 *                                   loads may cover different windows
 *   percore_load_close              no other call at the same time
 */

/* A member that is 0 selects its default. Set size to sizeof(struct
 * percore_load_options). */
struct percore_load_options {
  size_t size;
  const char *source;       /* "auto" (default), "mperf", "ref-cycles", "event",
                               "bpf", "idle" */
  const char *event;        /* for the source "event": "pmu/name/" or "r1a8" */
  double base_frequency_hz; /* of the event; default: it is measured */
  const char *cores;        /* such as "0-15,32"; default: all */
  /* How to read isolated cores: "idle" (default), "bpf" (a pinned clock),
   * "hardware" or "skip". "idle" and "bpf" do not disturb the cores. */
  const char *isolated_cores;
  const char *also_isolated; /* more cores that must not be disturbed */
  int frequency; /* 1: enables percore_load_frequency, which uses a third
                    descriptor per core */
  /* In seconds, up to 3600; the default depends on the source. */
  double shortest_window;
  /* 1: take the loads that another program measures and publishes (the board),
   * and measure nothing. Without event, base_frequency_hz, shortest_window, and
   * the options that say how to measure. */
  int from_board;
  /* In seconds, up to 3600; default 15: refuses a board of a longer interval,
   * whose loads would be too old for this program. */
  double board_interval_max;
  /* Boards of root and of this program's user are believed, and those of this
   * user. */
  unsigned board_uid;
  int bounds; /* 1: enables percore_load_get_low and percore_load_get_high */
};

struct percore_load;

/* Chooses a source for each core of this machine and opens its counters, or
 * opens the board. Takes some milliseconds: sources are tested in threads of
 * their own (percore_load_proof is "pending" meanwhile), and until then cores
 * use the source "idle". The affinity of the caller never changes. options may
 * be NULL: this program measures. Returns 0, or -1 with errno: EINVAL (an
 * invalid option), ENOMEM, ENOENT (no cores found; with from_board, no fresh
 * board that this user may read and believes), ENOTSUP (no source of loads works
 * here). Counters use two descriptors per core. At least 256 descriptors stay
 * free for the program, and the limit on open files is never changed; cores for
 * which no descriptor is left use the source "idle". */
int percore_load_open(struct percore_load **load,
                      const struct percore_load_options *options);

/* Samples all cores. The loads then cover the time since the previous update,
 * or since percore_load_open. A window lasts at least 10 ms with hardware
 * counters, and 200 ms with the source "idle" (its error is 2.3 points rms at
 * 200 ms and 0.45 at 1 s). If a thread calls this before the window is that
 * long, the call returns 0 and leaves the loads unchanged.
 *
 * Price: two system calls for all cores, and one for each core with a hardware
 * counter, or with the source "idle" where the idle loop may poll; with `bounds`,
 * five more for each idle state of each core on a machine that wakes often.
 *
 * From the board, reads the newest loads without a system call; until the next
 * are due, it only reads the clock. While there is no fresh board, all loads are
 * unknown, and it looks for one at most every second; for a writer that is
 * stopped, it may wait once for up to a second.
 *
 * Returns 1 if the loads are new, 0 if not, or -1 with errno: ENOTSUP (no source
 * works now; all loads are unknown until one does), ENOENT (there is no fresh
 * board), ENOMEM. */
int percore_load_update(struct percore_load *load);

/* Returns the load of a core, 0 to 1, at the last update; -1 if no load is
 * known because the core is offline, does not exist, is in its first window, or
 * was paused with its virtual machine. */
double percore_load_get(const struct percore_load *load, int core);

/* Stores what percore_load_get returns for cores 0 to n - 1. For many cores,
 * this is faster. */
void percore_load_get_all(const struct percore_load *load, double *loads,
                          int n);

/* Return bounds of the load of a core at the last update, or -1 without the
 * option `bounds` or if no load is known. The true load is between them. They include the resolution of the
 * source, the time of its reading, and time that may have been stolen by a
 * hypervisor. */
double percore_load_get_low(const struct percore_load *load, int core);
double percore_load_get_high(const struct percore_load *load, int core);

/* Returns the length in seconds of the window of a core's load, or -1 if no
 * load is known. Unless age is NULL, *age receives the time in seconds since
 * the window ended. */
double percore_load_get_window(const struct percore_load *load, int core,
                               double *age);

/* Returns the load of the busiest other hardware thread on the same physical
 * core; -1 if the core has no other thread or the load of no other thread is
 * known. */
double percore_load_get_sibling(const struct percore_load *load, int core);

/* Returns the source of a core's load: "mperf", "ref-cycles", "event", "bpf",
 * "idle", or "none". Do not free the string. */
const char *percore_load_source(const struct percore_load *load, int core);

/* Returns how far the source of a core's load can be trusted: "proven",
 * "unproven" (it could not be tested), "pending" (its test has not ended), or
 * "tick-sampled" (the tick of this kernel is not dynamic, so "idle" misses work
 * between two ticks). Updates repeat tests that could not be run, in a separate
 * thread. Do not free the string. */
const char *percore_load_proof(const struct percore_load *load, int core);

/* Returns the mean frequency, in Hz, of a core while it was not halted; -1 if
 * unknown. Needs the option `frequency` and the source "mperf". */
double percore_load_frequency(const struct percore_load *load, int core);

/* Returns 1 with the option from_board, and 0 otherwise. An update that finds
 * the board dead (it ended, two intervals passed without new loads, or it says
 * what cannot be) makes all loads unknown. */
int percore_load_is_board(const struct percore_load *load);

enum percore_load_by {
  /* Load without polls that found nothing (percore_poll), where the board
   * knows them, else load: the room for work of the thread that polls. */
  PERCORE_BY_TAKEN = 0,
  PERCORE_BY_AVERAGE = 1, /* load average; needs the board */
  PERCORE_BY_LOAD = 2     /* the room for a thread of its own */
};

/* A member that is 0 selects its default. Set size to sizeof(struct
 * percore_load_choice). */
struct percore_load_choice {
  size_t size;
  enum percore_load_by by;
  double period;         /* of the average, in seconds; default 60 */
  const int *candidates; /* the cores to choose from; default: all */
  int candidate_count;
  const int *node;     /* only cores of this NUMA node; default: of any */
  int avoid_isolated;  /* 1: no isolated cores */
  int ignore_siblings; /* 1: other hardware threads take no room */
  /* The share of a core that the job takes, above 0 to 1; default 1: a whole
   * core. Until the next loads, a chosen core has less room by it. */
  double need;
};

/* Stores the n cores with the most room in `cores`, the best first, as of the
 * last update, and returns how many it found; fewer than n if fewer have a
 * known load. choice may be NULL. Callers that ask at the same time get
 * different answers: see percore(3), CHOOSING A CORE. Any thread may call this.
 * Returns -1 with errno: EINVAL, ENOMEM, or ENOTSUP (no such average). */
int percore_load_best(struct percore_load *load,
                      const struct percore_load_choice *choice, int *cores,
                      int n);

/* Returns the number of cores, including offline ones. Cores are numbered from
 * 0. */
int percore_load_count(const struct percore_load *load);

void percore_load_close(struct percore_load *load);

/* ---------------------------------------------------------------------------
 * Regions: a fast path publishes counters
 *
 * A region is shared memory to which one process writes. It consists of tables;
 * a table consists of rows, and a row of 64-bit cells. The description of the
 * tables is passed to percore_create, and the shape of a region never changes.
 * percore(3) has a tutorial; percore-region(7) specifies the bytes.
 *
 * A call that fails still returns a usable handle. Its updates go to private
 * memory that no program reads (a sink), so that the update paths need no test
 * and the application never stops for its statistics. The return value and
 * errno report what happened; an application may ignore them. Updates do not
 * check handles: with one that no call has made, such as zeros, the program
 * crashes or overwrites other memory. With PERCORE_DEBUG defined, it aborts
 * with a message, and at other mistakes that percore(3) lists.
 *
 *   call                                  concurrently on the same region
 *   percore_create                        any thread
 *   percore_reserve, row_add, row_add_at,
 *   row_remove, reset, attach, detach,
 *   serve, status, the handle calls       any thread; serialise on a mutex:
 *                                         not from a signal handler
 *   updates of PER_CORE rows, begin, end,
 *   poll, sleep, wake, quiescent          only the thread that owns the slot
 *   updates of OWNED rows                 one thread at a time per row; the
 *                                         application synchronises a handover
 *   percore_shared_add                    any thread, and signal handlers
 *   percore_destroy                       no other call at the same time
 *   a percore_reader                      one thread at a time
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
  PERCORE_UPDOWN = 1,   /* grows and shrinks through percore_updown_add */
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

enum percore_table_flags {
  /* OWNED tables: each row has a sequence counter for percore_row_begin and
   * percore_row_end. */
  PERCORE_CONSISTENT = 1,
  /* Saves a word per row and column, but percore_reset fails with ENOTSUP. */
  PERCORE_NO_RESET = 2
};

/* Not the number of a row, for objects without a row. Do not count in it. It
 * is not PERCORE_ALL_ROWS either, so resetting it resets nothing. */
#define PERCORE_NO_ROW (UINT32_MAX - 1)

/* A field is one column or, for a histogram, several consecutive columns. The
 * column of any other field is its index in the array. */
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
  /* 64, 128, ... bytes: rows of different owners share no cache line. */
  uint32_t row_align;
  uint32_t flags; /* enum percore_table_flags */
};

enum percore_serving {
  PERCORE_SERVE_THREAD = 0, /* by a thread of the library */
  PERCORE_SERVE_POLLED = 1  /* by the application: percore_fd, _serve */
};

/* A member that is 0 selects its default. Set size to sizeof(struct
 * percore_options). A library that is older than the program's percore.h takes
 * longer structs, also those below, if the members that it does not have are 0,
 * and otherwise fails with EINVAL. */
struct percore_options {
  size_t size;
  /* Distinguishes regions with the same name. "*": the lowest number from 1 on
   * that no process has. */
  const char *instance;
  const char *runtime_dir; /* default: $PERCORE_RUNTIME_DIR, or /run/percore */
  enum percore_serving serving;
  /* In addition to one per possible core. Default: 8 (256 with `inherit`), or
   * the number of threads that the process has, if more. */
  uint32_t extra_slots;
  /* Default: the possible cores of this machine. Otherwise core numbers are
   * the application's own and are not checked against affinity. */
  uint32_t cores;
  int huge_pages; /* 1: put the whole region in huge pages, allocated at once */
  int quiet; /* 1: print nothing on stderr; percore_status returns the reason */
  int off;   /* 1: make a sink, without memory, thread or message */
  /* 1: every user who can reach the runtime directory may read the region, not
   * only root and the directory's group */
  int all_users;
  /* 1: children of fork(2), and their children, attach slots of their own in
   * this region. See percore(3), FORK. */
  int inherit;
  /* sizeof(struct percore_table) and sizeof(struct percore_field): set both.
   * Default: the sizes in libpercore 0.2. */
  uint32_t table_size, field_size;
};

struct percore_region;

/* Creates a region and serves it. *region is always usable. On failure, a line
 * on stderr gives the reason unless the option `quiet` is set, and
 * percore_status returns the reason. For EINVAL it names the table, the field
 * and the rule that the description breaks. Returns 0, or -1 with errno.
 *
 * With these errors, the region counts, but readers cannot find it yet. The
 * serving thread, or percore_serve, tries again every two seconds; so does
 * percore_create with the same arguments, which returns the same region. When
 * an attempt succeeds, readers see all counts.
 *   ENOENT        the runtime directory does not exist
 *   EACCES        this user may not create files in the runtime directory
 *   EADDRINUSE    another process serves this name and instance
 *   EPERM         another user's producer died and left its socket in a sticky
 *                 directory; that user or root must remove the socket
 *   or another errno of open(2), flock(2) or bind(2)
 * With all others, the region is a sink.
 *   EINVAL        a name, a table, a field or an option breaks a rule
 *   ENAMETOOLONG  the socket's path is too long, or the names of region, table
 *                 and field together are too long
 *   ENOMEM        the region exceeds a memory limit or the free memory
 *   EFBIG         RLIMIT_FSIZE is less than the size of the region
 *   ENOTSUP       the kernel has no robust mutexes (qemu-user)
 *   or an errno of memfd_create(2), mmap(2) or pthread_create(3).
 */
int percore_create(struct percore_region **region, const char *name,
                   const struct percore_table *tables, uint32_t table_count,
                   const struct percore_options *options);

/* Tells readers that the region has ended cleanly, so that collectd does not
 * report a failure. Removes the socket and the lock file, and unmaps the
 * region. No handle may be used afterwards. A child of fork(2) only leaves the
 * region. Returns 0, or -1 with EBUSY while threads that are still running are
 * attached. */
int percore_destroy(struct percore_region *region);

struct percore_region_status {
  size_t size; /* set to sizeof */
  /* 1: readers can find the region; 0: they cannot find it yet, or it is a
   * sink, as in a forked child. In a child that counts in the region: as it was
   * at the fork. */
  int served;
  int error; /* the errno that is the cause if served is 0; otherwise 0 */
  uint32_t readers; /* how many readers are connected */
  uint32_t slots, slots_attached;
  uint64_t attaches_refused; /* attach calls that found no free slot */
  uint64_t adds_refused; /* row_add calls that found no free row or memory */
  /* One line: why the region is not served, or what it refused and which thread
   * is the cause; otherwise "". */
  char reason[256];
  /* Of adds_refused: calls that failed with EAGAIN, because a thread might
   * still use the removed rows. */
  uint64_t adds_postponed;
};

/* Reports the state of a region. Returns 0, or -1 with EINVAL (size). */
int percore_status(struct percore_region *region,
                   struct percore_region_status *status);

/* For PERCORE_SERVE_POLLED: returns a descriptor that is readable (poll(2),
 * epoll(7)) when percore_serve has work to do. Returns -1 with ENODEV if the
 * region is a sink or a thread serves it. */
int percore_fd(const struct percore_region *region);

/* Answers readers that have connected or sent a request since the last call. At
 * most every two seconds, also checks that the socket exists, and recreates it
 * if it was removed. Never blocks. Returns 0, or -1 with ENODEV like
 * percore_fd. */
int percore_serve(struct percore_region *region);

/* Allocates memory for rows 0 to rows - 1 of a table, in every slot that is
 * attached now or later, so that percore_row_add makes no system call for these
 * rows. Puts large parts into huge pages, which takes some milliseconds per 2
 * MiB and interrupts all cores, so call this before the workers start. Returns
 * 0, or -1 with EINVAL, ENODEV, ENOMEM or EPERM (this is a child of fork(2));
 * on failure nothing changes. */
int percore_reserve(struct percore_region *region, uint32_t table,
                    uint32_t rows);

/* Make handles of tables, given by their index in the array passed to
 * percore_create. Return 0, or -1 with EINVAL (no such table, or a table of
 * another storage) or ENODEV (the region is a sink). The handle is usable even
 * on failure. percore_shared_table accepts SHARED tables. It also accepts
 * PER_CORE tables: the handle is then for the shared block, which threads
 * without a slot update. */
int percore_core_table(struct percore_region *region, uint32_t table,
                       percore_core_table_t *handle);
int percore_owned_table(struct percore_region *region, uint32_t table,
                        percore_owned_table_t *handle);
int percore_shared_table(struct percore_region *region, uint32_t table,
                         percore_shared_table_t *handle);

/* Makes a handle of a histogram, given by the indices of its table and field.
 * Returns 0 or -1 like percore_core_table. After EINVAL, use the handle only
 * with rows of sinks: in any other row it counts in column 0. */
int percore_histogram(struct percore_region *region, uint32_t table,
                      uint32_t field, percore_histogram_t *handle);

/* Adds a row by name, or by key in tables without names. *row is always usable.
 * The counts of a new row begin at 0. Returns 0, or -1 with
 *   EEXIST        a live row has that name; *row is that row
 *   ENOSPC        max_rows rows are live
 *   EAGAIN        attached threads may still update the oldest removed row:
 *                 try again when each of them has passed a quiescent point,
 *                 sleeps, or has ended
 *   ENOMEM        no memory for another 2 MiB of rows, and no removed row
 *   EINVAL        no such table, an empty or too long name, or a single-row
 *                 table
 *   EPERM         this is a child of fork(2), and the name is new
 *   ENODEV        the region is a sink
 * On every error but EEXIST, *row is a sink. */
int percore_row_add(struct percore_region *region, uint32_t table,
                    const char *name, uint32_t *row);
int percore_row_add_key(struct percore_region *region, uint32_t table,
                        uint64_t key, uint32_t *row);

/* Adds a row with a number that the caller chooses. The name is not compared
 * with those of other rows. In tables without names, name must be NULL and key
 * is the row's key. Returns 0, or -1 like percore_row_add, but EEXIST means
 * that the row is live, and EAGAIN that it was removed and threads may still
 * update it. */
int percore_row_add_at(struct percore_region *region, uint32_t table,
                       uint32_t row, const char *name, uint64_t key);

enum percore_remove_flags {
  /* The caller guarantees that no thread will update this row any more. */
  PERCORE_NO_UPDATE_IN_FLIGHT = 1
};

/* Removes a row. Before the call, make the row unreachable for attached
 * threads, and make sure that threads that are not attached no longer update
 * it. The row stays readable until it is reused. Removed rows are reused oldest
 * first, each after every attached thread has passed a quiescent point
 * (percore_quiescent, _poll, _sleep, _detach). Returns 0, or -1 with EINVAL,
 * ENOENT (not live), ENODEV, ENOMEM, EPERM (this is a child of fork(2)),
 * ENOTSUP (a PER_CORE table with gauges or states, or a single-row table). */
int percore_row_remove(struct percore_region *region, uint32_t table,
                       uint32_t row, uint32_t flags);

#define PERCORE_ALL_TABLES UINT32_MAX
#define PERCORE_ALL_ROWS UINT32_MAX

/* Makes counters and histograms show 0. Does not write to cells or change
 * rates; up-down counters, gauges and states keep their values. Accepts
 * PERCORE_ALL_TABLES and PERCORE_ALL_ROWS. Waits for workers inside a section,
 * at most 0.1 s per row. Returns 0, or -1 with EINVAL, ENOENT (not live),
 * ENODEV, EPERM (this is a child of fork(2)), ENOTSUP (PERCORE_NO_RESET), or
 * EAGAIN (a worker stayed inside a section; the row that it may be updating and
 * the rows after it were not reset). */
int percore_reset(struct percore_region *region, uint32_t table, uint32_t row);

/* For percore_attach: threads that are not pinned, such as those of a pool.
 * Their counts are in the sums over all cores, and in those of no core. */
#define PERCORE_NO_CORE (-2)

/* Gives the calling thread a slot that counts for a core: the core's own slot
 * if it is free or its owner has ended, otherwise an extra slot. core -1 means
 * the core on which the thread is running. With DPDK pass -1, because
 * rte_lcore_to_cpu_id returns the number of a core within its socket, not that
 * of a logical CPU. PERCORE_NO_CORE gives an extra slot that counts for no
 * core. A thread whose affinity excludes the core gets an extra
 * slot if one is free, and a line on stderr reports this. Tools show the name,
 * cut to 39 bytes; name may be NULL. *slot is always usable, but only by this
 * thread. The core of a slot never changes: after moving to another core,
 * detach and attach again. Returns 0, or -1 with EINVAL (no such core), ENOSPC
 * (no slot left), ENOMEM or ENODEV; *slot is then a sink. */
int percore_attach(struct percore_region *region, const char *name, int core,
                   percore_slot_t *slot);

/* Returns the slot that the calling thread attached last and still holds, or a
 * sink if the thread holds no slot. Use this in callbacks that do not receive
 * the slot as an argument. Takes about 2 ns; more if the thread alternates
 * between regions or has no slot. */
percore_slot_t percore_this_slot(const struct percore_region *region);

/* Releases a slot of the calling thread. The counts in the slot are kept.
 * Returns 0, or -1 with EINVAL (a sink, or not a slot of this thread). */
int percore_detach(struct percore_region *region, percore_slot_t slot);

/* ---------------------------------------------------------------------------
 * Regions: reading them
 *
 * Pointers that a reader returns are valid until percore_refresh returns 1, or
 * until percore_close.
 */

struct percore_reader;

enum percore_reader_state {
  PERCORE_ABSENT = 0, /* no process serves the region, or it was refused */
  PERCORE_ALIVE = 1,
  /* The producer has ended; its last values can still be read. */
  PERCORE_GONE = 2
};

/* Creates a reader of a region, which need not exist yet; instance may be NULL.
 * A region of any size is read: it takes address space, not memory.
 * Returns 0, or -1 with errno: EINVAL, ENAMETOOLONG or ENOMEM;
 * *reader is then NULL. */
int percore_open(struct percore_reader **reader, const char *region,
                 const char *instance);

/* Connects if the reader is not connected, and checks whether the producer is
 * alive. While the reader is not connected, also serves the regions of this
 * process for which percore_serve must be called. Blocks for at most one
 * second, if the producer is stopped, and then not again until a producer has
 * answered. While the reader has no region, starts a
 * process with clone(2) that receives the region; no fork handler runs, and
 * that process has ended when this returns 0 or 1. Returns 1 if the producer
 * has changed since the last call, 0 if it is the same, or -1 with errno;
 * percore_reader_error has the reason:
 *   ENOENT, ECONNREFUSED, EACCES, ETIMEDOUT, ...   no process serves the region
 *   EPROTO   the region breaks a rule of percore-region(7)
 *   EBUSY    a producer of the same user sent what cannot be closed */
int percore_refresh(struct percore_reader *reader);

enum percore_reader_state
percore_reader_state(const struct percore_reader *reader);

/* Returns one line that describes why the reader has no region or no
 * connection, or "" if nothing is wrong. The text is valid until the next call
 * for this reader. */
const char *percore_reader_error(const struct percore_reader *reader);

/* Returns the user of the producer, or -1 before there was one. */
unsigned percore_reader_uid(const struct percore_reader *reader);

/* The number of the built-in table `core` for the calls below. Other tables
 * have the numbers that they have in percore_create. */
#define PERCORE_TABLE_CORE (UINT32_MAX - 1)

/* Returns the description of a table. Returns NULL after the last table or if
 * the reader has no region. max_rows is 0 for single-row tables. */
const struct percore_table *percore_reader_table(struct percore_reader *reader,
                                                 uint32_t table);

/* Returns one more than the highest row that has ever been used. Lower rows may
 * have been removed. */
uint32_t percore_reader_rows(struct percore_reader *reader, uint32_t table);

/* Return the number of columns of a table, and the first column of a field. */
uint32_t percore_reader_columns(struct percore_reader *reader, uint32_t table);
uint32_t percore_reader_column(struct percore_reader *reader, uint32_t table,
                               uint32_t field);

/* Return the number of the table (PERCORE_TABLE_CORE for `core`), of the field
 * in a table, or of the live row with this name, or -1 if there is none. A row
 * is found by the name that percore_read_row copies, among all rows that were
 * ever used. */
int64_t percore_reader_find_table(struct percore_reader *reader,
                                  const char *name);
int64_t percore_reader_find_field(struct percore_reader *reader, uint32_t table,
                                  const char *name);
int64_t percore_reader_find_row(struct percore_reader *reader, uint32_t table,
                                const char *name);

/* Returns how many objects have used a row, including the present one; 0 if the
 * row is not live. If it has changed between two reads, the row belongs to
 * another object. */
uint32_t percore_reader_incarnation(struct percore_reader *reader,
                                    uint32_t table, uint32_t row);

/* Returns the smallest value that a bucket of a histogram counts: the column of
 * the bucket is that of the field plus its number. The next bucket begins where
 * this one ends. 0 if the field is not a histogram. */
uint64_t percore_reader_bucket(struct percore_reader *reader, uint32_t table,
                               uint32_t field, uint32_t bucket);

/* Returns the quantile q (0 to 1) of a histogram, as the middle of its bucket,
 * from all values of a row that percore_read_row copied; -1 if nothing was
 * counted or the field is not a histogram. */
double percore_reader_quantile(struct percore_reader *reader, uint32_t table,
                               uint32_t field, const uint64_t *values,
                               double q);

/* Return the number of slots, and the core that a slot counts for:
 * PERCORE_NO_CORE, or -1 if the slot has never been used. */
uint32_t percore_reader_slots(struct percore_reader *reader);
int percore_reader_slot_core(struct percore_reader *reader, uint32_t slot);

#define PERCORE_TOTAL (-1) /* the sum over all slots and the shared block */

/* Reads a row: the total (PERCORE_TOTAL) or one slot. Copies the row's name,
 * cut to name_size bytes, unless name is NULL, and at most count values, one
 * per column. A total counts from when the row was added or last reset; values
 * of one slot count from when the region was created. Returns 0; 1 if the
 * values may be from different moments, because the writer was inside a section
 * at every attempt; or -1 with errno ENOENT (no such row), EINVAL, ENODEV (no
 * region). */
int percore_read_row(struct percore_reader *reader, uint32_t table,
                     uint32_t row, int slot, char *name, size_t name_size,
                     uint64_t *values, uint32_t count);

void percore_close(struct percore_reader *reader);

/* ---------------------------------------------------------------------------
 * Updates as functions of the library, for programs that are not written in C
 * or C++: percore_NAME_fn does what percore_NAME of percore_update.h does, and
 * a call costs about 10 cycles more. percore_owned_NAME_fn takes a row of an
 * OWNED table. Handles are passed by value: structures of one or two pointers
 * or of integers.
 */

percore_core_row_t percore_core_row_fn(percore_slot_t slot,
                                       percore_core_table_t table,
                                       uint32_t row);
percore_owned_row_t percore_owned_row_fn(percore_owned_table_t table,
                                         uint32_t row);
percore_shared_row_t percore_shared_row_fn(percore_shared_table_t table,
                                           uint32_t row);

void percore_add_fn(percore_core_row_t row, uint32_t column, uint64_t n);
void percore_updown_add_fn(percore_core_row_t row, uint32_t column, int64_t n);
void percore_add_growth_fn(percore_core_row_t row, uint32_t column,
                           uint64_t value, uint64_t *last);
void percore_set_fn(percore_core_row_t row, uint32_t column, int64_t value);
void percore_hist_add_fn(percore_core_row_t row, percore_histogram_t histogram,
                         uint64_t value);
void percore_prefetch_fn(percore_core_row_t row);

void percore_owned_add_fn(percore_owned_row_t row, uint32_t column, uint64_t n);
void percore_owned_updown_add_fn(percore_owned_row_t row, uint32_t column,
                                 int64_t n);
void percore_owned_add_growth_fn(percore_owned_row_t row, uint32_t column,
                                 uint64_t value, uint64_t *last);
void percore_owned_set_fn(percore_owned_row_t row, uint32_t column,
                          int64_t value);
void percore_owned_hist_add_fn(percore_owned_row_t row,
                               percore_histogram_t histogram, uint64_t value);
void percore_owned_prefetch_fn(percore_owned_row_t row);

void percore_shared_add_fn(percore_shared_row_t row, uint32_t column,
                           uint64_t n);
void percore_shared_set_fn(percore_shared_row_t row, uint32_t column,
                           uint64_t value);

void percore_begin_fn(percore_slot_t slot);
void percore_end_fn(percore_slot_t slot);
void percore_row_begin_fn(percore_owned_row_t row);
void percore_row_end_fn(percore_owned_row_t row);

uint64_t percore_tsc_fn(void);
void percore_quiescent_fn(percore_slot_t slot);
void percore_poll_fn(percore_slot_t slot, uint64_t n);
void percore_poll_at_fn(percore_slot_t slot, uint64_t tsc, uint64_t n);
void percore_sleep_fn(percore_slot_t slot);
void percore_wake_fn(percore_slot_t slot);

#ifdef __cplusplus
}
#endif

#endif
