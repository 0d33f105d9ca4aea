/* writer.h: a region in the memory of its producer. Private to the files of the
 * writer: writer, owner, handles, provide, sum, grace, row, reset, poll, slot,
 * status and create.
 *
 * A sink is memory that no reader sees. Handles of failed calls, and regions
 * that could not be created, write to a sink.
 *
 * The region's mutex guards every member that is not marked as fixed after
 * create. It does not guard cells, which their owners may write at any time. */
#ifndef PERCORE_REGION_WRITER_H
#define PERCORE_REGION_WRITER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "base/key_index.h"

#include "fault.h"
#include "memory.h"

/* An element of a table's list of removed rows (grace.c). */
struct removed_row {
  uint32_t older, newer; /* indices of the neighbours */
  /* The grace period after which the row can be reused; 0: immediately. */
  uint64_t grace;
};

struct table_state {
  struct key_index names; /* live rows that were added by name */
  uint32_t rows_reserved;
  uint32_t next_unused; /* rows below this have been used or added by number */
  /* max_rows + 2 elements, mapped when first needed. */
  struct removed_row *removed;
  size_t removed_size;
};

struct slot_state {
  uint64_t holder; /* the number of the thread that holds the slot; 0: none */
  uint64_t seen;   /* quiescent counter when the last grace period began */
  uint64_t passed; /* last grace period that is over for this slot */
};

/* Grace periods (see grace.c), numbered from 1. Each begins with a full barrier
 * on every thread; then the quiescent counter of every slot is read. A period
 * is over when, for each slot, the counter has changed or the owner sleeps or
 * has ended. */
struct grace {
  /* Numbers of the last period that began, and of the last that is over. */
  uint64_t begun, over;
  uint64_t begun_ns; /* CLOCK_MONOTONIC */
};

/* Instead of the number of a thread: this is a forked child, and a thread of
 * its parent held the slot or the seat. */
#define REGION_OF_PARENT UINT64_MAX

/* What a thread holds: a slot, or the right to one (slot.c). Seats are not
 * freed before the region, because handles point to them. */
struct seat {
  struct percore_seat_ handle;
  struct percore_region *region;
  uint64_t thread; /* the number of the thread; 0: free */
  uint32_t slot;   /* or one of the following */
  int wanted;      /* the core passed to percore_attach */
  char name[8 * REGION_SLOT_NAME_WORDS];
  struct seat *next;
};
#define SEAT_SINK UINT32_MAX
#define SEAT_UNDECIDED (UINT32_MAX - 1) /* the core is not chosen yet */

struct percore_region {
  pthread_mutex_t mutex;
  /* Fixed after create. The header, the tables and the fields are private
   * copies: what others can write is no offset and no limit. */
  unsigned char *map;
  unsigned char *again; /* with inherit: a second mapping; see owner.c */
  uint64_t size;
  /* It has no memory that a reader sees: it could not be created, and only
   * no_seat, quiet and failure are set; or this process is a child without
   * `inherit`. */
  bool is_sink;
  bool quiet;
  bool numbers_cores;                   /* the application numbers the cores */
  bool inherit;                         /* children of fork count in it */
  struct percore_region_status failure; /* why it is a sink */
  struct region_header header;
  struct region_table *tables;
  struct region_field *fields;
  char *strings;
  struct region_header *shared; /* in the region: for the live members */
  struct region_slot *slots;
  uint32_t table_count; /* includes `core` */
  struct seat no_seat;  /* of threads without a slot */
  /* Guarded by the mutex. */
  bool is_child; /* this process is a child of the producer and counts in it */
  /* See owner.c. */
  uint64_t *owners;
  size_t owners_size;
  /* True if a thread attached for a core that its affinity excludes, and a
   * warning has been printed. */
  bool warned_affinity;
  bool warned_refusal; /* an attach failed, though not for want of a slot */
  struct table_state *state;
  struct slot_state *held;
  struct seat *seats; /* read without the mutex: by percore_this_slot */
  /* For each slot, and after them for the copies outside the slots: a place for
   * each table. Those of a slot are made when a thread takes it. */
  struct percore_place_ **places;
  struct grace grace;
  uint64_t *sums; /* for sum.c: room for two rows */
  uint64_t room;  /* free memory, as far as the present call knows */
  bool is_full;   /* the file system had no room at the last try */
  /* Guarded by the mutex of the list of regions. */
  struct percore_region *next;
};

/* ---------------------------------------------------------------------------
 * Where the parts of a region lie
 */

static inline void *region_at(const struct percore_region *region,
                              uint64_t offset) {
  return region->map + offset;
}

static inline uint64_t region_block_offset(const struct percore_region *region,
                                           uint32_t slot) {
  return region->header.blocks_offset + slot * region->header.block_stride;
}

static inline struct percore_slot_head *
region_block(const struct percore_region *region, uint32_t slot) {
  return region_at(region, region_block_offset(region, slot));
}

static inline uint64_t *region_generation(const struct percore_region *region,
                                          const struct region_table *table,
                                          uint32_t row) {
  return region_at(region, table->generations_offset + 8ull * row);
}

static inline uint64_t *region_label(const struct percore_region *region,
                                     const struct region_table *table,
                                     uint32_t row) {
  return region_at(region, table->labels_offset +
                               (uint64_t)row * region_label_size(table));
}

static inline struct region_table_live *
region_live(const struct percore_region *region,
            const struct region_table *table) {
  return region_at(region, table->live_offset);
}

static inline uint64_t *region_base(const struct percore_region *region,
                                    const struct region_table *table,
                                    uint64_t offset, uint32_t row) {
  return region_at(region, offset + 8ull * row * table->columns);
}

/* The cells of the single copy, past the row's sequence counter. */
static inline uint64_t *region_single(const struct percore_region *region,
                                      const struct region_table *table,
                                      uint32_t row) {
  uint64_t sequence = (table->flags & REGION_TABLE_CONSISTENT) != 0 ? 8 : 0;
  return region_at(region, table->single_offset +
                               (uint64_t)row * table->row_stride + sequence);
}

/* Begin and end a change of a row or slot by its generation word. The fence
 * pairs with the reader's acquire fence before its second load of the word, the
 * release with its first load, which is an acquire. */
static inline void region_begin_change(uint64_t *generation,
                                       uint64_t changing) {
  __atomic_store_n(generation, changing, __ATOMIC_RELAXED);
  __atomic_thread_fence(__ATOMIC_RELEASE);
}

static inline void region_end_change(uint64_t *generation,
                                     enum region_state state) {
  __atomic_store_n(generation, region_changed(*generation, state),
                   __ATOMIC_RELEASE);
}

/* Closes the section that a thread left open when it ended. */
static inline void region_close_section(uint64_t *sequence) {
  uint64_t now = __atomic_load_n(sequence, __ATOMIC_RELAXED);
  if (now & 1)
    __atomic_store_n(sequence, now + 1, __ATOMIC_RELEASE);
}

/* One more than the highest row ever used, as far as the table has so many. */
static inline uint64_t region_rows_in_use(const struct percore_region *region,
                                          const struct region_table *table) {
  uint64_t rows = region_live(region, table)->rows_in_use;
  return rows < table->max_rows ? rows : table->max_rows;
}

static inline bool region_row_is_live(const struct percore_region *region,
                                      const struct region_table *table,
                                      uint32_t row) {
  return row < region_rows_in_use(region, table) &&
         region_state(*region_generation(region, table, row)) == REGION_LIVE;
}

/* The files of the writer. Each file may call functions of the files listed
 * before it. */

/* writer.c */

/* Locks the region and returns true unless it is a sink; otherwise returns
 * false with ENODEV. */
bool region_lock(struct percore_region *region);
void region_unlock(struct percore_region *region);

/* Like region_lock, but also returns false with EINVAL if the table does not
 * exist, and with EPERM if a child would change rows. *table is the number that
 * the application gave the table; the call adds 1 to it, because table 0 of the
 * directory is `core`. If table is NULL, no table is checked. */
bool region_lock_table(struct percore_region *region, uint32_t *table,
                       bool changes_rows);

/* Writes a line to stderr, unless the region is quiet. */
__attribute__((format(printf, 2, 3))) void
region_say(const struct percore_region *region, const char *format, ...);

/* Waits for a millisecond, whatever signals come. */
void region_pause(void);

/* Returns how many threads this process has, at least 1. */
uint32_t region_count_threads(void);

/* Returns the ticks of percore_tsc per second, which the first call measures.
 */
uint64_t region_tsc_hz(void);

/* owner.c */

int region_owners_init(struct percore_region *region);

/* Makes sure that the calling thread gives its slots and seats back when it
 * ends. Returns false with errno if it does not: ENOMEM, or ECANCELED if it
 * ends already. */
bool region_thread_may_attach(void);

/* In a forked child: turns the slots of the parent's threads into sinks, which
 * their handles still reach. Returns false if this fails. */
bool region_owners_fork(struct percore_region *region);

/* Takes a slot for the calling thread. Returns false if another thread holds
 * it. With `inherit`, `exactly` also takes those of the parent's threads and of
 * processes whose pid says nothing. region_slot_leave gives it back. */
bool region_slot_take(struct percore_region *region, uint32_t s, bool exactly);
void region_slot_leave(struct percore_region *region, uint32_t s);

/* Returns the number of the calling thread, which no other thread of the
 * process gets. */
uint64_t region_thread_number(void);

/* True if the calling thread holds the slot. */
bool region_slot_is_own(const struct percore_region *region, uint32_t s);
/* True if a thread of the parent held it when this process was forked. */
bool region_slot_is_of_parent(const struct percore_region *region, uint32_t s);
/* True if this process counts in such a slot, without having attached. */
bool region_slot_is_lost(const struct percore_region *region, uint32_t s);
/* True if a thread of any process holds it. */
bool region_slot_has_owner(const struct percore_region *region, uint32_t s);

uint32_t region_attached_slots(const struct percore_region *region);

/* handles.c: a region that is a sink, whether an address is in its memory, and
 * the heads of sinks and of slots that are not chosen yet. */
extern struct percore_region region_sink;
bool region_sink_has(const void *address);
extern struct percore_slot_head *const region_sink_head;
extern struct percore_slot_head region_undecided;

/* The seat of threads that hold none. NULL stands for a sink. */
bool region_is_no_seat(const struct seat *seat);
struct seat *region_no_seat(struct percore_region *region);

/* Makes the places of the tables in a slot, or of those outside the slots:
 * slot_count. Returns false with ENOMEM. */
bool region_places_make(struct percore_region *region, uint32_t slot);
void region_places_free(struct percore_region *region);

/* provide.c: allocate memory for a range of the region, for the reserved rows
 * of one slot, or for rows 0 to rows - 1 in every used slot and outside the
 * slots. Return 0, or -1 with ENOMEM. */
int region_provide(struct percore_region *region, uint64_t offset,
                   uint64_t length);
int region_provide_slot_rows(struct percore_region *region, uint32_t slot);
int region_provide_rows(struct percore_region *region, uint32_t table,
                        uint32_t rows);

/* sum.c: sums the cells of a row over the single copy and every slot ever used,
 * and checks the sequence counters as a reader does. The sums are in
 * region->sums. Returns false if a running thread stayed inside a section; the
 * sums may then include only some of its updates. */
bool region_row_sum(const struct percore_region *region,
                    const struct region_table *table, uint32_t row);

/* grace.c */

void region_grace_init(struct percore_region *region);

/* Maps the list of removed rows when a table first needs it. Returns 0, or -1
 * with errno.
 */
int region_removed_init(struct percore_region *region, uint32_t table);

/* Makes a row GONE and adds it to the list of removed rows. safe_now: the row
 * can be reused immediately, because no thread still updates it. */
void region_remove_later(struct percore_region *region, uint32_t table,
                         uint32_t row, bool safe_now);

/* Take the oldest removed row, or a given removed row. Return 0, or -1 with
 * ENOSPC (no removed row is left) or EAGAIN (the row is not safe to reuse yet).
 */
int region_take_removed(struct percore_region *region, uint32_t table,
                        uint32_t *row);
int region_take_this_removed(struct percore_region *region, uint32_t table,
                             uint32_t row);

/* True if the calling thread may still use a removed row: it is attached, did
 * not remove the row, and has not passed a quiescent point since. */
bool region_row_is_in_use(const struct percore_region *region, uint32_t table,
                          uint32_t row);

/* row.c */

/* Makes the row of a single-row table live. */
void region_row_begin_single(struct percore_region *region, uint32_t table);

/* Sets the gauges and states of a slot to 0. */
void region_clear_gauges(struct percore_region *region, uint32_t slot);

/* poll.c */

/* Begins to account for the time of a slot's thread. */
void region_poll_begin(struct percore_slot_head *head);

/* Returns for how many ticks (hz per second) the thread has been awake but off
 * its CPU since the last check. tsc and cpu_ns are the time and the thread's
 * CPU time at this check. */
uint64_t region_poll_absence(struct percore_slot_head *head, uint64_t tsc,
                             uint64_t cpu_ns, uint64_t hz);

/* Accounts for time off the CPU before tsc in a round that has not ended. */
void region_poll_absent(struct percore_slot_head *head, uint64_t tsc,
                        uint64_t absence);

/* Accounts for a round that ended at tsc with n items and during which the
 * thread was off its CPU for `absence` ticks. */
void region_poll_long(struct percore_slot_head *head, uint64_t tsc, uint64_t n,
                      uint64_t absence);

/* slot.c */

/* Chooses the slot of a seat whose core is not chosen yet. */
void region_decide(struct seat *seat);

/* Detaches the calling thread from a region, which must be locked. */
void region_detach_own(struct percore_region *region);

/* True if a thread of this process holds a seat. */
bool region_is_attached(const struct percore_region *region);

/* In a forked child that counts in the region: makes the seats and slots of the
 * parent's threads sinks. Returns false if this fails. */
bool region_seats_fork(struct percore_region *region);
void region_seats_free(struct percore_region *region);

/* Makes percore_this_slot forget the slot. */
void region_forget_slot(void);

/* status.c: makes a sink that remembers why it was made, and reports the reason
 * on stderr unless the options say quiet. */
struct percore_region *region_make_sink(const char *name,
                                        const struct percore_options *options,
                                        const struct region_fault *fault);

/* create.c */

/* Detach the calling thread, which ends, from all regions; and end the regions
 * that nobody uses, because the process ends. */
void region_thread_ends(void);
void region_process_ends(void);

/* Find the region that has the address, or the seat: &region_sink if it is in a
 * sink, NULL if it is in no region. Return false if the list of regions is
 * locked. */
bool region_find(const void *address, const struct percore_region **found);
bool region_find_seat(const void *seat, const struct percore_region **found);

#endif
