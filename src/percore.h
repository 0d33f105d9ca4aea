/* percore.h: the public interface of libpercore.
 *
 * Loads of cores, for schedulers that want to know which core has room;
 * regions, for fast paths that publish counters per core, and for programs that
 * read them. C99, C++98 and later; percore.hpp has more for C++17. Link with
 * -lpercore (pkg-config percore).
 */
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
 * to 1, whatever ran there: tasks, interrupts, softirq. It is per hardware
 * thread: a core beside a fully loaded sibling has about half its room, so look
 * at percore_load_get_sibling too.
 *
 * Hardware counters leave out time that a hypervisor stole. The source "bpf",
 * and on older kernels the source "idle", cannot tell time that was stolen from
 * a running core from time in which it ran, and counts both: the core had no
 * room. Time stolen while the core wakes is not counted.
 *
 *   call                            beside others on the same handle
 *   percore_load_update             any thread; updates serialise on a mutex
 *   percore_load_get and the like   any thread, never blocks, lock-free;
 *                                   two calls may be of two windows
 *   percore_load_close              alone
 */

/* Zero is the default of every member; set size to sizeof. */
struct percore_load_options {
  size_t size;
  const char *source; /* "auto" (default), "mperf", "ref-cycles", "event",
                         "bpf", "idle" */
  const char *event; /* that the source "event" counts: "pmu/name/" or "r1a8" */
  double base_frequency_hz;   /* of the event; default: find out */
  const char *cores;          /* such as "0-15,32"; default: all */
  const char *isolated_cores; /* read by "idle" (default) or a pinned clock,
                                 "bpf", which disturb nobody, by "hardware", or
                                 not: "skip" */
  const char *also_isolated; /* a list of cores that the kernel does not isolate
                                and that must not be disturbed either */
  int frequency; /* 1: percore_load_frequency; a third descriptor a core */
  double shortest_window; /* seconds, up to 3600; default: by the source */
};

struct percore_load;

/* Opens counters on cores of this machine, choosing the source per core and
 * proving it, which takes up to a second in a thread of its own. The affinity
 * of the caller is never changed. options may be NULL. Returns 0, or -1 with
 * errno: EINVAL (an option), ENOMEM, ENOENT (no cores can be found), ENOTSUP
 * (no source of loads works here). Counters take two descriptors a core. 256
 * descriptors of the limit of open files stay free, and the limit is never
 * changed; cores for which there is no descriptor have the source "idle". */
int percore_load_open(struct percore_load **load,
                      const struct percore_load_options *options);

/* Samples all cores; loads are those of the time since the last update (the
 * first follows open). No window is shorter than 10 ms with hardware counters
 * or 200 ms with the source "idle" (2.3 points rms there, 0.45 at 1 s): a call
 * that comes earlier, from whatever thread, returns 0 and leaves the loads as
 * they are. Returns 0, or -1 with errno and the loads as they were. */
int percore_load_update(struct percore_load *load);

/* The load of a core, 0 to 1, at the last update; -1 for a core without a
 * value: offline, not existing, or in its first window. */
double percore_load_get(const struct percore_load *load, int core);

/* The lower bound of that load, or -1: less than the load only with the source
 * "bpf", and with "idle" on older kernels, where all steal is taken off. What
 * ran on the core is between the two. */
double percore_load_get_low(const struct percore_load *load, int core);

/* The length of the window of that load in seconds, or -1 without a value.
 * *age, unless NULL, gets the seconds since its end. */
double percore_load_get_window(const struct percore_load *load, int core,
                               double *age);

/* The load of the busiest other hardware thread on the same physical core; -1
 * if there is none or it has no value. */
double percore_load_get_sibling(const struct percore_load *load, int core);

/* Where a core's load comes from: "mperf", "ref-cycles", "event", "bpf",
 * "idle", or "none". A static string. */
const char *percore_load_source(const struct percore_load *load, int core);

/* How far that source can be trusted: "proven", "unproven" (it could not be put
 * to the test), "pending" (not yet), or "tick-sampled" (this kernel's tick is
 * not dynamic, so that "idle" misses work between two ticks). Updates repeat
 * tests that could not be run, in a thread of their own. A static string. */
const char *percore_load_proof(const struct percore_load *load, int core);

/* The frequency, in Hz, at which a core ran while it was not halted; -1 if it
 * is not known: it takes the option, and the source "mperf". */
double percore_load_frequency(const struct percore_load *load, int core);

/* Cores are numbered from 0 to this - 1; some of them may be offline. */
int percore_load_count(const struct percore_load *load);

void percore_load_close(struct percore_load *load);

/* ---------------------------------------------------------------------------
 * Regions: a fast path publishes counters
 *
 * A region is one process's shared memory: tables of rows, rows of cells of 64
 * bits. It is described once, at percore_create, and never changes its shape.
 * percore(3) has a worked example; percore-region(7) has the bytes.
 *
 * Whatever fails here still hands out a usable handle, onto private memory that
 * nobody reads (a sink), so that the update paths need no test and the
 * application never stops for its statistics. The return value and errno say
 * what happened; an application may ignore them.
 *
 *   call                                  beside others on the same region
 *   percore_create                        any thread
 *   percore_reserve, row_add, row_add_at,
 *   row_remove, reset, attach, detach,
 *   serve, status, the handle calls       any thread; serialise on a mutex:
 *                                         not from a signal handler
 *   updates of PER_CORE rows, begin, end,
 *   poll, sleep, wake, quiescent          only the thread that owns the slot
 *   updates of OWNED rows                 one thread at a time per row; who
 *                                         hands a row on orders that itself
 *   percore_shared_add                    any thread, and signal handlers
 *   percore_destroy                       alone
 *   a percore_reader                      one thread at a time
 */

/* How a table is stored, and who may write it. */
enum percore_storage {
  PERCORE_PER_CORE = 0, /* one copy per slot, and one shared by the others */
  PERCORE_OWNED = 1,    /* one copy; one writer at a time per row */
  PERCORE_SHARED = 2    /* one copy; any number of writers */
};

enum percore_kind {
  PERCORE_COUNTER = 0,  /* only grows; readers make rates of it */
  PERCORE_GAUGE = 1,    /* grows and shrinks by percore_gauge_add */
  PERCORE_LEVEL = 2,    /* is set by percore_set */
  PERCORE_STATE = 3,    /* is set to the number of a named state */
  PERCORE_HISTOGRAM = 4 /* counts values by size; after all other fields */
};

/* What a level is over the slots of a PER_CORE table. A counter, a gauge and a
 * histogram are always summed, a state never. */
enum percore_aggregation {
  PERCORE_SUM = 0,
  PERCORE_MIN = 1,
  PERCORE_MAX = 2,
  PERCORE_NONE = 3
};

/* What rows are called by where they have a number instead of a name. */
enum percore_key {
  PERCORE_KEY_DECIMAL = 0,
  PERCORE_KEY_HEX = 1,  /* 16 digits */
  PERCORE_KEY_IPV4 = 2, /* low 32 bits, 10.0.0.1 is 0x0a000001 */
  PERCORE_KEY_MAC = 3   /* low 48 bits, 02:00:00:00:00:01 is 0x020000000001 */
};

enum percore_table_flags {
  /* OWNED: each row has a sequence counter for percore_row_begin and _end. */
  PERCORE_CONSISTENT = 1,
  /* Saves a word per row and column. percore_reset then fails. */
  PERCORE_NO_RESET = 2
};

/* Gone since 0.2.0: a compile error that names the successor. */
#define PERCORE_NO_BASES PERCORE_NO_BASES_is_gone_use_PERCORE_NO_RESET

#define PERCORE_MAX_COLUMNS 4096 /* of a row, histogram buckets included */

/* A field: a column, or for a histogram a run of columns. The column of a field
 * that is no histogram is its number in the array. */
struct percore_field {
  const char *name; /* [a-z][a-z0-9_]* */
  const char *unit; /* packets, bytes, errors, operations, cycles, ns, 1, .. */
  const char *help; /* one line, may be NULL */
  enum percore_kind kind;
  enum percore_aggregation aggregation;
  /* Histograms: values below 2^sub_bits have a bucket each, each further power
   * of two has 2^sub_bits; values of 2^max_bits and more share the last. */
  uint32_t sub_bits; /* 0 to 8 */
  uint32_t max_bits; /* sub_bits + 1 to 64 */
  /* States: what 0, 1, .. are called. */
  const char *const *states;
  uint32_t state_count;
};

struct percore_table {
  const char *name; /* [a-z][a-z0-9]*, neither `host` nor `core` */
  const char *help; /* one line, may be NULL */
  enum percore_storage storage;
  const struct percore_field *fields;
  uint32_t field_count;
  uint32_t max_rows;      /* 0: one row, which needs no percore_row_add */
  uint32_t row_name_size; /* 24, 56 or 120 with the final NUL; 0: a key */
  enum percore_key key;
  uint32_t row_align; /* 0, or 64, 128 ..: OWNED rows of different owners */
  uint32_t flags;     /* enum percore_table_flags */
};

enum percore_serving {
  PERCORE_SERVE_THREAD = 0, /* by a thread of the library */
  PERCORE_SERVE_POLLED = 1  /* in the application's loop, percore_fd */
};

/* Zero is the default of every member; set size to sizeof. */
struct percore_options {
  size_t size;
  const char *instance;    /* where a process is one of several */
  const char *runtime_dir; /* default $PERCORE_RUNTIME_DIR, /run/percore */
  enum percore_serving serving;
  const int *serve_cpus; /* default: all allowed that are no slot's */
  uint32_t serve_cpu_count;
  uint32_t extra_slots; /* besides one per possible core; default 8 */
  uint32_t cores; /* default: the possible cores of this machine; else cores
                   * are numbers of your own, compared with no affinity */
  int huge_pages; /* 1: the whole region in huge pages, allocated now */
  int quiet;      /* 1: nothing is said on stderr; percore_status has why */
};

struct percore_region;

/* Makes a region and serves it. *region is always usable; on failure it is a
 * sink, and a line on stderr says why unless the options are quiet. Returns 0,
 * or -1 with errno:
 *   EINVAL        a name, a shape or an option that is not allowed
 *   EADDRINUSE    another process serves this name and instance
 *   ENAMETOOLONG  the path of the socket, or what collectd would call a value
 *   ENOMEM        it would not fit into the memory limit or the free memory
 *   EFBIG         RLIMIT_FSIZE is less than the region
 *   EPERM         a socket that another user's producer left in a sticky
 *                 directory when it died; its user or root removes it
 *   and those of memfd_create(2), mmap(2), open(2), bind(2), pthread_create(3)
 */
int percore_create(struct percore_region **region, const char *name,
                   const struct percore_table *tables, uint32_t table_count,
                   const struct percore_options *options);

/* Tells readers that the region ends in order, so that collectd does not report
 * a failure; removes socket and lock file, and unmaps the region. No handle may
 * be used afterwards. Returns 0, or -1 with EBUSY while live threads are
 * attached. */
int percore_destroy(struct percore_region *region);

struct percore_region_status {
  size_t size;      /* set to sizeof */
  int served;       /* 1: readers find it; 0: a sink, also after fork(2) */
  int error;        /* errno of why it is a sink */
  uint32_t readers; /* connected now */
  uint32_t slots, slots_attached;
  uint64_t attaches_refused; /* for want of a slot */
  uint64_t adds_refused;     /* for want of rows or memory */
  char reason[256];          /* why it is a sink, one line; else "" */
};

/* Reports the state of a region. Any thread. Returns 0, or -1 with EINVAL
 * (size). */
int percore_status(struct percore_region *region,
                   struct percore_region_status *status);

/* PERCORE_SERVE_POLLED: a descriptor that is readable (poll(2), epoll(7)) when
 * percore_serve has work; -1 with ENODEV for a sink or a served region. */
int percore_fd(const struct percore_region *region);

/* Answers readers that connected or asked since the last call, and every two
 * seconds recreates the socket if it was removed; never blocks. Returns 0, or
 * -1 with ENODEV. */
int percore_serve(struct percore_region *region);

/* Provides memory for rows 0 to rows - 1 of a table, in every attached slot and
 * those to come; percore_row_add makes no system call up to there. Large parts
 * become huge pages, which takes some ms for each 2 MiB and interrupts all
 * cores: call it before the workers begin. Returns 0, or -1 with EINVAL,
 * ENODEV, or ENOMEM with what there was before. */
int percore_reserve(struct percore_region *region, uint32_t table,
                    uint32_t rows);

/* Tables by their number in the array given to percore_create. Return 0, or -1
 * with EINVAL (no such table, or not of this storage) or ENODEV (a sink), and a
 * handle that is safe to use either way. percore_shared_table takes SHARED
 * tables, and PER_CORE ones for their shared block. */
int percore_core_table(struct percore_region *region, uint32_t table,
                       percore_core_table_t *handle);
int percore_owned_table(struct percore_region *region, uint32_t table,
                        percore_owned_table_t *handle);
int percore_shared_table(struct percore_region *region, uint32_t table,
                         percore_shared_table_t *handle);

/* A histogram by the number of its table and field. As above; on failure the
 * handle counts in one column of a sink. */
int percore_histogram(struct percore_region *region, uint32_t table,
                      uint32_t field, percore_histogram_t *handle);

/* Adds a row by name (or by key, in tables without names). *row is always
 * usable. A row starts at 0 whatever its cells hold. Returns 0, or -1 with
 *   EEXIST        a live row has that name; *row is that row
 *   ENOSPC        max_rows are live
 *   EAGAIN        the oldest removed row waits for attached threads: a call
 *                 succeeds once each of them has passed a quiescent point after
 *                 this one, sleeps, or has ended
 *   ENOMEM        no memory for another 2 MiB of rows
 *   EINVAL        no such table, an empty or too long name, a single row
 *   ENODEV        the region is a sink
 * On all but EEXIST *row is a sink. */
int percore_row_add(struct percore_region *region, uint32_t table,
                    const char *name, uint32_t *row);
int percore_row_add_key(struct percore_region *region, uint32_t table,
                        uint64_t key, uint32_t *row);

/* The same for callers with row numbers of their own. The name is not compared
 * with those of other rows. EEXIST: that row is live. EAGAIN: the row was
 * removed and waits as above. name may be NULL in tables without names, where
 * key counts.
 */
int percore_row_add_at(struct percore_region *region, uint32_t table,
                       uint32_t row, const char *name, uint64_t key);

enum percore_remove_flags {
  /* The caller knows that no update of this row is under way or to come. */
  PERCORE_NO_UPDATE_IN_FLIGHT = 1
};

/* Removes a row. Its values stay readable until it is used again, the oldest
 * first, and only after every attached thread has passed a quiescent point
 * (percore_quiescent, _poll, _sleep, _detach). Take the row out of the reach of
 * the workers before. Threads that are not attached must be done with it.
 * Returns 0, or -1 with EINVAL, ENOENT (not live), ENODEV, ENOTSUP (a PER_CORE
 * table with levels or states, a single row). */
int percore_row_remove(struct percore_region *region, uint32_t table,
                       uint32_t row, uint32_t flags);

#define PERCORE_ALL_TABLES UINT32_MAX
#define PERCORE_ALL_ROWS UINT32_MAX

/* Makes counters and histograms show 0 from now on. No cell is written and no
 * rate changes; gauges, levels and states stay. Waits for workers inside a
 * section, for at most 0.1 s a row. Returns 0, or -1 with EINVAL, ENOENT (not
 * live), ENODEV, ENOTSUP (PERCORE_NO_RESET), EAGAIN (a worker stayed inside a
 * section; rows from there on are as they were). */
int percore_reset(struct percore_region *region, uint32_t table, uint32_t row);

/* Gives the calling thread a slot for a core: that of the core if it is free or
 * its owner died, else an extra one with the same label. core -1 is the core
 * the thread runs on; with DPDK pass -1, as rte_lcore_to_cpu_id returns a
 * number within a socket, not that of a logical CPU. A thread whose affinity
 * excludes the core gets an extra slot with the core's label, if one is free,
 * and a line on stderr says so once. name (cut to 39 bytes) is shown to people.
 * *slot is always usable, by this thread. A slot's label stays: detach and
 * attach after moving to another core. Returns 0, or -1 with EINVAL (no such
 * core), ENOSPC (no slot left), ENOMEM, ENODEV; the slot is a sink then.
 */
int percore_attach(struct percore_region *region, const char *name, int core,
                   percore_slot_t *slot);

/* The slot that the calling thread attached last and still holds, for callbacks
 * that are not given one; a sink if it holds none. Costs a call, about 2 ns;
 * more where a thread changes between regions, and a system call without a
 * slot. */
percore_slot_t percore_this_slot(const struct percore_region *region);

/* Gives a slot back, by the thread that owns it; its counts stay. Returns 0, or
 * -1 with EINVAL (a sink, or not attached). */
int percore_detach(struct percore_region *region, percore_slot_t slot);

/* ---------------------------------------------------------------------------
 * Regions: reading them
 *
 * Values are those of the last percore_refresh; what a reader returns pointers
 * to lives until the next percore_refresh that returns 1, or percore_close.
 */

struct percore_reader;

enum percore_reader_state {
  PERCORE_ABSENT = 0, /* nobody serves it, or it was refused */
  PERCORE_ALIVE = 1,
  PERCORE_GONE = 2 /* its last values can still be read */
};

/* Prepares reading of a region; instance may be NULL. It need not exist yet. A
 * region of this process is found by its name and instance alone, whichever
 * runtime directory it is in, and read without its socket: no call waits, and
 * no thread has to serve. Returns 0, or -1 with errno: EINVAL, ENAMETOOLONG,
 * ENOMEM. */
int percore_open(struct percore_reader **reader, const char *region,
                 const char *instance);

/* Connects where there is no connection, and learns which tables and rows there
 * are. Blocks for at most one second (connecting to a stopped producer). Forks
 * a process that receives the region, and which is gone when this returns 0 or
 * 1. Returns 1 if this is another producer than at the last call, 0 if not, or
 * -1 with errno: ENOENT, ECONNREFUSED, EACCES, ETIMEDOUT .. (nobody serves it),
 * EPROTO (it breaks a rule of percore-region(7)) or EFBIG (more than 4 GiB):
 * refused, percore_reader_error says why. */
int percore_refresh(struct percore_reader *reader);

enum percore_reader_state
percore_reader_state(const struct percore_reader *reader);

/* One line on the last failure, "" if there was none. */
const char *percore_reader_error(const struct percore_reader *reader);

/* Tables as the producer described them, `core` first; NULL beyond the last.
 * max_rows is 0 for tables of a single row. */
const struct percore_table *percore_reader_table(struct percore_reader *reader,
                                                 uint32_t table);

/* Rows are numbered from 0 to this - 1; some of them may be free. */
uint32_t percore_reader_rows(struct percore_reader *reader, uint32_t table);

/* Cells of a row; the column of a field. */
uint32_t percore_reader_columns(struct percore_reader *reader, uint32_t table);
uint32_t percore_reader_column(struct percore_reader *reader, uint32_t table,
                               uint32_t field);

/* Slots are numbered from 0 to this - 1; the core a slot counts for, or -1 if
 * it was never used. */
uint32_t percore_reader_slots(struct percore_reader *reader);
int percore_reader_slot_core(struct percore_reader *reader, uint32_t slot);

#define PERCORE_TOTAL (-1)        /* over all slots and the shared block */
#define PERCORE_SHARED_BLOCK (-2) /* of a PER_CORE table */

/* Reads a row now: of all slots, of the shared block, or of one slot. name
 * (may be NULL) becomes the row's, cut to name_size; values, one per column, at
 * most count of them. Totals count from when the row was added, or last reset.
 * Those of one slot since it was first used. Returns 0, 1 if values may be of
 * different moments (the writer was always inside a section), or -1 with errno:
 * ENOENT (no such row), EINVAL, ENODEV (no region). */
int percore_read_row(struct percore_reader *reader, uint32_t table,
                     uint32_t row, int slot, char *name, size_t name_size,
                     uint64_t *values, uint32_t count);

void percore_close(struct percore_reader *reader);

#ifdef __cplusplus
}
#endif

#endif
