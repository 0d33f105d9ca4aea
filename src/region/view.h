/* view.h: a mapped region, and which parts of it have memory. Private to the
 * reader's files. */
#ifndef PERCORE_REGION_VIEW_H
#define PERCORE_REGION_VIEW_H

#include "connection.h"
#include "directory.h"
#include "reader.h"

/* How many bytes of a part are known not to be a hole. A load from a hole would
 * allocate memory, charged to the reader. A sealed region never gets new holes,
 * so these numbers only grow. */
struct region_known {
  uint64_t live, generations, labels, births, resets, single;
};

struct region_view {
  int memfd;
  const unsigned char *map; /* NULL without a region */
  uint64_t size;
  bool huge; /* holes were filled when it was mapped */
  struct region_directory directory;
  struct region_known *known; /* per table */
  uint64_t *slot_known;       /* per slot and table */
  uint64_t slots_known;       /* of the array of slot records */
  uint32_t *checked_columns;  /* per table: read under a sequence counter */
  bool *all_sums;             /* per table: no levels and no states */
  struct region_allowance *allowance; /* NULL: unlimited */
  size_t bytes;                       /* taken from the allowance */
};

/* Maps a region and parses its directory; takes over the descriptor in any
 * case. 0, or -1 with a fault: those of region_directory_parse, or ENOMEM if
 * the allowance has no room. */
int region_view_open(struct region_view *view, int memfd, uint64_t size,
                     uint64_t max_size, struct region_allowance *allowance,
                     struct region_fault *fault);
void region_view_close(struct region_view *view);

/* Gives back a view's share of the allowance until it is taken back, so that
 * another view can be opened in its place. Take nothing else in between. */
size_t region_view_lend(struct region_view *view);
void region_view_take_back(struct region_view *view, size_t bytes);

/* How many of the `length` bytes at offset come before the first hole. */
uint64_t region_view_data(const struct region_view *view, uint64_t offset,
                          uint64_t length, uint64_t *known);

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

struct region_reader {
  struct region_reader_options options;
  struct region_allowance *allowance;
  char path[108];
  struct region_connection connection; /* of the view's producer */
  struct region_connection coming;     /* until its region is opened */
  uid_t listener;                      /* -1: nobody listens, or unknown */
  struct region_view view;
  bool left;         /* the view's producer is gone */
  bool ended;        /* the last producer that left called percore_destroy */
  uint64_t producer; /* the number of the view's producer */
  pid_t pid;
  uid_t uid;
  struct region_fault fault;
  char text[REGION_FAULT_LINE + 128]; /* path and fault as one line */
};

/* reader_rows.c: the number of rows in use whose generation words have memory.
 */
uint32_t region_rows_with_generations(struct region_reader *reader, uint32_t t);

/* How often to try again to read what changes meanwhile. */
enum { REGION_TRIES = 8 };

#endif
