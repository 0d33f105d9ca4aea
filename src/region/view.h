/* view.h: a mapped region, and which of its pages are backed by memory. The
 * other pages are holes, which have never been written. Private to the files
 * that read regions.
 *
 * A producer may hold the lock of its memory's file position or inode for ever:
 * it lets the kernel copy to or from a page whose fault is never answered. So
 * nothing here seeks, allocates, or uses the file position. */
#ifndef PERCORE_REGION_VIEW_H
#define PERCORE_REGION_VIEW_H

#include "cells.h"
#include "connection.h"
#include "directory.h"
#include "reader.h"

/* What the reader knows about a table. */
struct region_known {
  uint32_t checked_columns; /* columns that are read under a sequence counter */
  bool all_sums;            /* the table has no gauges and no states */
};

struct region_view {
  int memfd;
  const unsigned char *map; /* NULL if no region is mapped */
  uint64_t size;
  /* One bit for each page: whether it is known to be backed by memory. Sealed
   * memory never gets new holes, so a bit stays set. */
  uint64_t *present;
  uint64_t absent; /* the page that was last found to be a hole, or all 0 */
  unsigned page_bits;
  bool may_ask; /* the kernel tells which pages are resident */
  struct region_directory directory;
  struct region_known *known;         /* indexed by table */
  struct region_allowance *allowance; /* NULL if memory is not limited */
  size_t bytes;                       /* bytes taken from the allowance */
};

/* Maps a region and parses its directory. Takes over the descriptor in every
 * case. Returns 0, or -1 and sets *fault as region_directory_parse does, or to
 * EDQUOT (the allowance is exhausted). */
int region_view_open(struct region_view *view, int memfd,
                     struct region_allowance *allowance,
                     struct region_fault *fault);
void region_view_close(struct region_view *view);

/* Finds out whether a page is backed by memory. */
bool region_view_ask(struct region_view *view, uint64_t page);

/* Forgets which page was a hole: its next access asks the kernel again. */
static inline void region_view_forget(struct region_view *view) {
  view->absent = UINT64_MAX;
}

/* True if a load from these bytes allocates no memory. If not, the bytes are 0.
 */
static inline bool region_view_has(struct region_view *view, uint64_t offset,
                                   uint64_t length) {
  uint64_t end = (offset + length - 1) >> view->page_bits;
  for (uint64_t page = offset >> view->page_bits; page <= end; page++)
    if (!(view->present[page / 64] >> page % 64 & 1) &&
        !region_view_ask(view, page))
      return false;
  return true;
}

/* Loads words; those in holes are 0. `ahead` is the end of the bytes that will
 * be loaded soon. */
void region_view_load(struct region_view *view, uint64_t offset, size_t count,
                      uint64_t ahead, uint64_t *values);

static inline const uint64_t *region_view_words(const struct region_view *view,
                                                uint64_t offset) {
  return (const uint64_t *)(const void *)(view->map + offset);
}

static inline uint64_t region_view_block(const struct region_view *view,
                                         uint32_t slot) {
  return view->directory.header.blocks_offset +
         slot * view->directory.header.block_stride;
}

/* Loads a word with acquire semantics; one in a hole is 0. */
static inline uint64_t region_view_word(struct region_view *view,
                                        uint64_t offset) {
  return region_view_has(view, offset, 8)
             ? region_load_acquire(region_view_words(view, offset))
             : 0;
}

struct region_reader {
  struct region_reader_options options;
  struct region_allowance *allowance;
  char path[108];
  struct region_connection connection; /* to the producer of `view` */
  struct region_connection coming;     /* to a producer that is not read yet */
  bool is_absent; /* region_reader_find: the socket does not exist */
  bool silent;    /* the last producer was waited for in vain */
  struct region_view view;
  bool left;  /* the view's producer is gone */
  bool ended; /* the last producer that left had called percore_destroy */
  uint64_t producer; /* number of the view's producer */
  struct region_fault fault;
  char text[REGION_FAULT_LINE + 128]; /* result of region_reader_error */
};

/* How many attempts to make if data changes while it is being read. */
enum { REGION_TRIES = 8 };

#endif
