/* percore_tune.h: what few programs that count need, in addition to percore.h.
 * Each part says which. */
#ifndef PERCORE_TUNE_H
#define PERCORE_TUNE_H

#include "percore.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------------------
 * Members of struct percore_options
 *
 * cores        for data planes that number their cores themselves: how many
 *              there are. Default: the possible cores of this machine. The
 *              numbers are then not checked against affinity.
 * all_users    for regions that are no secret. 1: every user who may list the
 *              runtime directory may read the region, not only root and the
 *              directory's group
 * quiet        for programs that report percore_status in their own way. 1:
 *              print nothing on stderr
 * off          for programs whose users may switch statistics off. 1: make a
 *              sink, without memory or message
 */

/* ---------------------------------------------------------------------------
 * Members of struct percore_table
 *
 * row_align    for OWNED tables whose rows belong to different threads. With
 *              64, 128, ... bytes, rows of different owners share no cache line
 * flags        of the following
 */

enum percore_table_flags {
  /* For OWNED tables whose readers relate fields: each row has a sequence word
   * for percore_begin and percore_end. */
  PERCORE_CONSISTENT = 1,
  /* For tables with very many rows: saves a word per row and column, but
   * percore_reset fails with ENOTSUP. */
  PERCORE_NO_RESET = 2
};

/* ---------------------------------------------------------------------------
 * Regions
 */

/* For modules that are unloaded, and tests. When a process exits, its regions
 * end without this.
 *
 * Tells readers that the region has ended cleanly, so that collectd does not
 * report a failure, and unmaps the region. Its file stays until a reader has
 * its last counts. No handle may be used afterwards. A child of fork(2) only
 * leaves the region. The calling thread's own slots are released. Returns 0, or
 * -1 with EBUSY while other threads that are still running are attached. */
int percore_destroy(struct percore_region *region);

/* For programs that show their users whether they can be read. */
struct percore_region_status {
  int served; /* 1: readers can find the region; 0: it is a sink */
  int error;  /* the errno that is the cause if served is 0; otherwise 0 */
  uint32_t slots, slots_attached;
  uint64_t attaches_refused; /* attach calls that found no free slot */
  uint64_t adds_refused; /* row_add calls that added no row, or found none */
  /* One line: why the region was not created, or what it refused and which
   * thread is the cause; otherwise "". */
  char reason[256];
  /* Of adds_refused: calls that failed with EAGAIN, because a thread might
   * still use the removed rows. */
  uint64_t adds_postponed;
};

/* Reports the state of a region. Returns 0, or -1 with EINVAL. */
#define percore_status(region, status)                                         \
  percore_status_((region), (status), sizeof(struct percore_region_status))
int percore_status_(struct percore_region *region,
                    struct percore_region_status *status, size_t size);

/* ---------------------------------------------------------------------------
 * Slots
 */

/* For callbacks that do not receive the slot as an argument, and for threads
 * that only count in OWNED tables and are not attached: returns the slot that
 * the calling thread attached last and still holds, or a sink if the thread
 * holds no slot. Takes about 2 ns; more if the thread alternates
 * between regions or has no slot. */
percore_slot_t percore_this_slot(struct percore_region *region);

/* For threads that move to another core, or stop counting long before they end:
 * releases a slot of the calling thread. The counts in the slot are kept.
 * Returns 0, or -1 with EINVAL (a sink, or not a slot of this thread). */
int percore_detach(percore_slot_t slot);

/* For threads that update rows which other threads remove, and neither poll nor
 * sleep: a quiescent point, like percore_poll, but without the clock. */
static inline void percore_quiescent(percore_slot_t slot) {
  percore_pass_(&percore_own_head_(slot)->quiescent);
}

/* For programs that measure durations: returns the time of a clock that is the
 * same on all cores, in ticks of the region's tsc_hz: the TSC on x86, the
 * generic timer on arm64, nanoseconds elsewhere. */
static inline uint64_t percore_tsc(void) { return percore_clock_(); }

/* ---------------------------------------------------------------------------
 * Rows
 */

/* For large tables whose rows are added while packets wait: allocates memory
 * for rows 1 to rows of a table, in every slot that is
 * attached now or later, so that percore_row_add makes no system call for these
 * rows. Puts large parts into huge pages, which takes some milliseconds per 2
 * MiB and interrupts all cores, so call this before the workers start. Returns
 * 0, or -1 with EINVAL, ENODEV, ENOMEM or EPERM (this is a child of fork(2));
 * on failure nothing changes. */
int percore_reserve(struct percore_region *region, uint32_t table,
                    uint32_t rows);

/* For tables whose rows have the numbers of something else, such as ports: adds
 * a row with a number that the caller chooses, 1 to max_rows. The name is not
 * compared with those of other rows. In tables without names, name must be NULL
 * and key is the row's key. Returns 0, or -1 with errno like percore_row_add,
 * but EEXIST means that the row is live, and EAGAIN that it was removed and
 * threads may still update it. */
int percore_row_add_at(struct percore_region *region, uint32_t table,
                       uint32_t row, const char *name, uint64_t key);

enum percore_remove_flags {
  /* For programs with a grace period of their own (RCU): the caller guarantees
     that no thread will update this row any more. */
  PERCORE_NO_UPDATE_IN_FLIGHT = 1
};

#define PERCORE_ALL_TABLES UINT32_MAX
#define PERCORE_ALL_ROWS UINT32_MAX

/* For programs with a command that clears counters: makes counters and
 * histograms show 0. Does not write to cells or change
 * rates; up-down counters, gauges and states keep their values. Accepts
 * PERCORE_ALL_TABLES and PERCORE_ALL_ROWS. Waits for workers inside a section,
 * at most 0.1 s per row. Returns 0, or -1 with EINVAL, ENOENT (not live),
 * ENODEV, EPERM (this is a child of fork(2)), ENOTSUP (PERCORE_NO_RESET), or
 * EAGAIN (a worker stayed inside a section; the row that it may be updating and
 * the rows after it were not reset). */
int percore_reset(struct percore_region *region, uint32_t table, uint32_t row);

/* For large tables with updates in random order: prefetches a row for writing.
 * Call this one batch ahead of the updates. */
#define percore_prefetch(row) __builtin_prefetch(percore_cells_(row), 1, 3)

/* ---------------------------------------------------------------------------
 * Sections, for counters that readers relate, such as packets and bytes: they
 * see all updates of a section or none
 *
 * A section increments a sequence counter at its begin and at its end. Stores
 * inside the section are ordered after the odd value (release fence, paired
 * with the reader's load-acquire of the counter) and before the even value
 * (store-release, paired with the acquire fence before the reader's second
 * load). A store-release of the odd value would not be enough: on aarch64 later
 * stores could become visible before it.
 */

static inline uint64_t *percore_sequence_(percore_row_t row) {
  return PERCORE_ADDRESS_(
      uint64_t *,
      row.place->sequence +
          (PERCORE_ADDRESS_(uintptr_t, row.cells) & row.place->mask));
}

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

/* Begin and end a section: of updates of any PER_CORE rows of the same slot, or
 * of one row of an OWNED table that has PERCORE_CONSISTENT; in other tables
 * they have no effect. Sections must not nest (with PERCORE_DEBUG defined,
 * nesting aborts) and should be short: a handful of adds. If a thread ends
 * inside a section, readers report the row as torn until the next section of
 * the row ends. */
static inline void percore_begin(percore_row_t row) {
  PERCORE_CHECK_(row.place, "the handle of the row has not been made");
  PERCORE_DEBUG_(row_(row.cells));
  PERCORE_DEBUG_(section_(percore_sequence_(row), 1));
  percore_sequence_begin_(percore_sequence_(row));
}

static inline void percore_end(percore_row_t row) {
  PERCORE_CHECK_(row.place, "the handle of the row has not been made");
  PERCORE_DEBUG_(row_(row.cells));
  percore_sequence_end_(percore_sequence_(row));
}

#ifdef __cplusplus
}
#endif

#ifdef PERCORE_DEBUG
#define percore_begin(row) (PERCORE_AT_, percore_begin(row))
#define percore_end(row) (PERCORE_AT_, percore_end(row))
#define percore_quiescent(slot) (PERCORE_AT_, percore_quiescent(slot))
#endif

#endif
