/* writer.h: a region as its producer holds it. Private to the files that make
 * up the writer: create.c, slot.c, row.c, reset.c, serve.c, handles.c.
 *
 * Everything here is guarded by the region's mutex, but what is marked as fixed
 * after create. The cells are not: their owners write them whenever they like.
 */
#ifndef PERCORE_REGION_WRITER_H
#define PERCORE_REGION_WRITER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "layout.h"
#include "row_index.h"

/* The writer's record of a removed row; a list through the array. */
struct removed_row {
  uint32_t older, newer; /* row + 1; 0 at the ends */
  uint64_t grace;        /* the period that frees it; 0: free at once */
};

struct table_state {
  struct row_index names; /* of live rows added by name */
  uint32_t rows_reserved;
  uint32_t next_unused;        /* rows below were used, or added by number */
  struct removed_row *removed; /* max_rows, mapped when first needed */
  size_t removed_size;
  uint32_t oldest, newest; /* of the removed rows; row + 1 */
};

struct grace_slot {
  uint64_t seen;   /* the quiescent counter when the last period began */
  uint64_t passed; /* the last period known to be over for this slot */
};

/* Periods, counted from 1: each began with a full barrier on every thread and a
 * look at every slot; it is over when each slot has moved on, sleeps, or has no
 * living owner. */
struct grace {
  uint64_t begun, over; /* the last ones */
  uint64_t begun_ns;    /* CLOCK_MONOTONIC */
  struct grace_slot *slots;
};

struct server;

struct percore_region {
  pthread_mutex_t mutex;
  /* fixed after create */
  unsigned char *map;
  uint64_t size;
  uint64_t page_size;
  int memfd;
  bool is_sink; /* there is only sink_block, and why */
  bool quiet;
  bool numbers_cores; /* by itself: they are not this machine's */
  struct percore_region_status failure; /* of a sink: error and reason */
  struct region_header *header;
  const struct region_table *tables;
  const struct region_field *fields;
  struct region_slot *slots;
  uint32_t table_count; /* `core` included */
  uint64_t block_stride;
  unsigned char *sink_block; /* a slot block of private memory */
  struct server *server;
  /* guarded by the mutex */
  bool forked; /* this is a child of the producer: all is sink */
  bool said_elsewhere;
  struct table_state *state;
  struct grace grace;
  struct percore_region *next; /* guarded by the list of regions */
};

/* ---------------------------------------------------------------------------
 * Between the files of the writer
 */

/* Locks and returns true if the region can be changed; else errno is ENODEV. */
bool region_lock(struct percore_region *region);
void region_unlock(struct percore_region *region);

static inline struct percore_slot_head *
region_block(const struct percore_region *region, uint32_t slot) {
  return (struct percore_slot_head *)(void *)(region->map +
                                              region->header->blocks_offset +
                                              slot *
                                                  region->header->block_stride);
}

static inline uint64_t *region_generation(const struct percore_region *region,
                                          const struct region_table *table,
                                          uint32_t row) {
  return (uint64_t *)(void *)(region->map + table->generations_offset) + row;
}

static inline uint64_t *region_label(const struct percore_region *region,
                                     const struct region_table *table,
                                     uint32_t row) {
  return (uint64_t *)(void *)(region->map + table->labels_offset +
                              (uint64_t)row * table->label_stride);
}

static inline struct region_table_live *
region_live(const struct percore_region *region,
            const struct region_table *table) {
  return (struct region_table_live *)(void *)(region->map + table->live_offset);
}

static inline uint64_t *region_base(const struct percore_region *region,
                                    const struct region_table *table,
                                    uint64_t offset, uint32_t row) {
  return (uint64_t *)(void *)(region->map + offset) +
         (uint64_t)row * table->columns;
}

/* The cells of the single copy, past the row's sequence counter. */
static inline uint64_t *region_single(const struct percore_region *region,
                                      const struct region_table *table,
                                      uint32_t row) {
  unsigned char *start =
      region->map + table->single_offset + (uint64_t)row * table->row_stride;
  return (uint64_t *)(void *)start +
         ((table->flags & REGION_TABLE_CONSISTENT) != 0);
}

/* create.c: cells that nobody reads, a slot block with spare space. */
extern struct percore_region region_sink;
unsigned char *region_sink_cells(void);

/* handles.c: from the application's number of a table to the directory's, where
 * `core` is 0. false with EINVAL if there is no such table. */
bool region_user_table(const struct percore_region *region, uint32_t *table);

/* provide.c: memory for the rows reserved so far in one slot; for rows up to
 * this number in all used slots and the shared parts. 0, or -1 with ENOMEM. */
int region_provide_slot_rows(struct percore_region *region, uint32_t slot);
int region_provide_rows(struct percore_region *region, uint32_t table,
                        uint32_t rows);

/* row.c: the single row of a table comes to life. */
void region_row_begin_single(struct percore_region *region, uint32_t table);

/* reset.c: tables as the directory counts them. 0, or -1 with errno. */
int region_reset(struct percore_region *region, uint32_t table, uint32_t row);

/* slot.c: whether the thread that owns a slot is no more. */
bool region_owner_is_dead(const struct region_slot *slot);
/* slot.c: in a forked child, for percore_this_slot. */
void region_forget_slot(void);

/* status.c: a sink that remembers why (errno), and says so unless options are
 * quiet. */
struct percore_region *region_make_sink(const char *name,
                                        const struct percore_options *options);

/* create.c: the memory of the region of this process with this name and
 * instance (NULL: none). *size is its size. A descriptor for the caller to
 * close; -1 with ENOENT, or with EALREADY if its id is the known one. */
int region_own_memory(const char *name, const char *instance,
                      const unsigned char *known_id, uint64_t *size);

/* poll.c: a thread's slot begins to count its time. */
void region_poll_begin(struct percore_slot_head *head);

struct region_clocks {
  uint64_t tsc, cpu_ns; /* of one thread, at one moment */
};

/* Ticks for which the thread was awake and off its CPU since the last look. */
uint64_t region_poll_absence(struct percore_slot_head *head,
                             const struct region_clocks *now, uint64_t hz);
/* Accounts for a round that ended at tsc with n items, during which the thread
 * was off its CPU for `absence` ticks. */
void region_poll_long(struct percore_slot_head *head, uint64_t tsc, uint64_t n,
                      uint64_t absence);

/* create.c: ticks of percore_tsc per second. */
uint64_t region_tsc_hz(void);

/* grace.c */
int region_grace_init(struct percore_region *region);
int region_removed_init(struct percore_region *region, uint32_t table);
void region_remove_later(struct percore_region *region, uint32_t table,
                         uint32_t row, bool safe_now);
/* The oldest removed row that may be used again; false if there is none. */
bool region_take_removed(struct percore_region *region, uint32_t table,
                         uint32_t *row);
/* Takes this very row. false: it is not among them, or not yet safe. */
bool region_take_this_removed(struct percore_region *region, uint32_t table,
                              uint32_t row);
bool region_has_removed(const struct percore_region *region, uint32_t table);

/* sum.c: over every slot ever used and the shared block; under the sequence
 * counters, as a reader would. false if a thread that lives stayed inside a
 * section: cells may be of different moments. Whoever knows that nobody updates
 * the row need not care. */
bool region_sum_row(const struct percore_region *region,
                    const struct region_table *table, uint32_t row,
                    uint64_t *sums);

/* serve.c. start: 0, or -1 with errno. */
int region_server_start(struct percore_region *region, const char *name,
                        const struct percore_options *options);
void region_server_stop(struct percore_region *region);
/* In a forked child: closes without a word. */
void region_server_abandon(struct percore_region *region);
/* How many readers are connected. */
uint32_t region_server_readers(const struct percore_region *region);
/* After slots were attached or detached: where the thread may run. */
void region_server_avoid_slots(struct percore_region *region);

#endif
