/* view.h: a mapped region, and which of its parts are known to be backed by
 * memory. The other parts may be holes, which have never been written. Private
 * to the files that read regions. */
#ifndef PERCORE_REGION_VIEW_H
#define PERCORE_REGION_VIEW_H

#include "connection.h"
#include "directory.h"
#include "reader.h"

/* What the reader knows about a table. */
struct region_known {
  /* How many bytes of each part are known to be backed by memory. Loading from
   * a hole would allocate memory, charged to the reader. A sealed region never
   * gets new holes, so these numbers only grow. */
  uint64_t live, generations, labels, births, resets, single;
  uint32_t checked_columns; /* columns that are read under a sequence counter */
  bool all_sums;            /* the table has no gauges and no states */
};

struct region_view {
  int memfd;
  const unsigned char *map; /* NULL if no region is mapped */
  uint64_t size;
  bool huge; /* the region is in huge pages, and none is missing */
  struct region_directory directory;
  struct region_known *known; /* indexed by table */
  /* How many bytes of the rows in each slot, indexed by slot and table, and of
   * the slot records are known to be backed by memory. */
  uint64_t *slot_known, slots_known;
  struct region_allowance *allowance; /* NULL if memory is not limited */
  size_t bytes;                       /* bytes taken from the allowance */
};

/* Maps a region and parses its directory. Takes over the descriptor in every
 * case. Returns 0, or -1 and sets *fault as region_directory_parse does, or to
 * EFBIG (larger than max_size) or EDQUOT (the allowance is exhausted). */
int region_view_open(struct region_view *view, int memfd, uint64_t size,
                     uint64_t max_size, struct region_allowance *allowance,
                     struct region_fault *fault);
void region_view_close(struct region_view *view);

/* Gives a view's bytes back to the allowance, so that its possible replacement
 * can take them. Returns how many bytes these are. If the view is kept, call
 * region_view_take_back to take them again. Between the two calls, nothing else
 * may take from the allowance.
 */
size_t region_view_lend(struct region_view *view);
void region_view_take_back(struct region_view *view, size_t bytes);

/* Returns how many of the `length` bytes at offset come before the first hole.
 * *known, which this updates, is how many bytes from offset on are known to be
 * backed by memory.
 */
uint64_t region_view_data(const struct region_view *view, uint64_t offset,
                          uint64_t length, uint64_t *known);

/* Returns how many of the rows first to first + count - 1 of an array come
 * before the first hole. *known is how many bytes of the array are known to be
 * backed by memory. */
uint32_t region_view_rows(const struct region_view *view, uint64_t offset,
                          uint64_t stride, uint32_t first, uint32_t count,
                          uint64_t *known);

/* Returns how many of the first `rows` generation words come before the first
 * hole. */
uint32_t region_view_generation_rows(struct region_view *view, uint32_t table,
                                     uint32_t rows);

static inline const uint64_t *region_view_words(const struct region_view *view,
                                                uint64_t offset) {
  return (const uint64_t *)(const void *)(view->map + offset);
}

static inline const uint64_t *
region_view_generations(const struct region_view *view, uint32_t table) {
  return region_view_words(view,
                           view->directory.tables[table].generations_offset);
}

static inline uint64_t region_view_block(const struct region_view *view,
                                         uint32_t slot) {
  return view->directory.header.blocks_offset +
         slot * view->directory.header.block_stride;
}

static inline uint64_t region_load(const uint64_t *word) {
  return __atomic_load_n(word, __ATOMIC_RELAXED);
}

static inline uint64_t region_load_acquire(const uint64_t *word) {
  return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/* Returns the live words of a table, or NULL if they are not backed by memory.
 */
const struct region_table_live *region_view_live(struct region_view *view,
                                                 uint32_t table);

/* Loads the label of a row, and issues an acquire fence, so that the caller can
 * load the generation word again afterwards. Returns false, and fills in zeros,
 * if the label is not backed by memory. */
enum { REGION_LABEL_WORDS = REGION_ROW_NAME_SIZE / 8 };
bool region_view_label(struct region_view *view, uint32_t table, uint32_t row,
                       uint64_t words[REGION_LABEL_WORDS]);

/* Returns the record of a slot, or NULL if it is not backed by memory because
 * the slot has never been used. */
const struct region_slot *region_view_slot(struct region_view *view,
                                           uint32_t slot);

/* Copies the record of a slot. Returns false if it was changing at every
 * attempt; the copy may then mix two owners. */
bool region_view_copy_slot(const struct region_slot *slot,
                           struct region_slot *copy);

struct region_reader {
  struct region_reader_options options;
  struct region_allowance *allowance;
  char path[108];
  struct region_connection connection; /* to the producer of `view` */
  struct region_connection coming;     /* to a producer that is not read yet */
  /* The listening user; -1 if no process listens or the user is unknown. */
  uid_t listener;
  pid_t child; /* that received for this reader; 0: it has ended */
  struct region_view view;
  bool left;  /* the view's producer is gone */
  bool ended; /* the last producer that left had called percore_destroy */
  uint64_t producer; /* number of the view's producer */
  pid_t pid;
  uid_t uid;
  struct region_fault fault;
  char text[REGION_FAULT_LINE + 128]; /* result of region_reader_error */
};

/* In reader_rows.c: returns how many of the rows in use come before the first
 * hole in the generation words. */
uint32_t region_rows_with_generations(struct region_reader *reader, uint32_t t);

/* How many attempts to make if data changes while it is being read. */
enum { REGION_TRIES = 8 };

#endif
