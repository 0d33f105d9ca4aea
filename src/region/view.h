/* view.h: the words of a region's file. Private to the files that read regions.
 *
 * A file is mapped if its user is trusted and its header says that memory has
 * been allocated for all parts in use. Any other file is read with pread(2),
 * because its user may truncate it, or punch holes into it, at any time: a load
 * from a mapping would then end this process, be charged for memory, or wait.
 * The users of a view do not know which way it is. */
#ifndef PERCORE_REGION_VIEW_H
#define PERCORE_REGION_VIEW_H

#include "cells.h"
#include "directory.h"
#include "file.h"
#include "reader.h"

/* What the reader knows about a table. */
struct region_known {
  uint32_t checked_columns; /* columns that are read under a sequence counter */
  bool all_sums;            /* the table has no gauges and no states */
};

struct region_view {
  uint64_t size;            /* of the file; 0: there is no region */
  const unsigned char *map; /* NULL: read with pread(2) */
  struct region_file file;  /* opened when needed */
  const char *dir;          /* of the file; the reader's */
  char name[NAME_MAX + 1];
  bool is_cut; /* words could not be read: the file was truncated or removed */
  struct region_directory directory;
  struct region_known *known;         /* indexed by table */
  struct region_allowance *allowance; /* NULL if memory is not limited */
  size_t bytes;                       /* bytes taken from the allowance */
};

/* Opens a file of a directory, parses the region's directory, and maps the file
 * if it may. `dir` must outlive the view. Returns 0, or -1 and sets *fault as
 * region_directory_parse does, or to EDQUOT (the allowance is exhausted). */
int region_view_open(struct region_view *view, const char *dir,
                     const char *name, struct region_allowance *allowance,
                     struct region_fault *fault);
void region_view_close(struct region_view *view);

/* Opens the file again, if it is closed. Returns 0, or -1 and sets *fault: it
 * has been removed. */
int region_view_reopen(struct region_view *view, struct region_fault *fault);

/* Loads words; those that cannot be read are 0, and set is_cut. `ahead` is the
 * offset up to which more words will be loaded soon. Each word has a value that
 * was stored in one piece. */
void region_view_load(struct region_view *view, uint64_t offset, size_t count,
                      uint64_t ahead, uint64_t *values);

/* Returns the place of words that can be loaded where they are; NULL: use
 * region_view_load. */
static inline const uint64_t *region_view_place(const struct region_view *view,
                                                uint64_t offset) {
  return view->map != NULL
             ? (const uint64_t *)(const void *)(view->map + offset)
             : NULL;
}

/* Loads a word with acquire semantics. */
static inline uint64_t region_view_word(struct region_view *view,
                                        uint64_t offset) {
  const uint64_t *place = region_view_place(view, offset);
  uint64_t word;
  if (place != NULL)
    return region_load_acquire(place);
  region_view_load(view, offset, 1, offset, &word);
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  return word;
}

/* Settles which words of three readings in a row are whole, where the kernel
 * may copy half a word before and half after a store: the second reading of a
 * counter lies between the others, that of a gauge equals the third. Returns
 * false if a word is neither. */
bool region_view_settles(const uint64_t *first, const uint64_t *second,
                         const uint64_t *third, size_t count);

static inline uint64_t region_view_block(const struct region_view *view,
                                         uint32_t slot) {
  return view->directory.header.blocks_offset +
         slot * view->directory.header.block_stride;
}

struct region_reader {
  struct region_reader_options options;
  struct region_title title;
  char *dir;
  char file[NAME_MAX + 1]; /* the present one, or the only one; "" */
  bool is_fixed;           /* no other file is ever read */
  struct region_view view;
  pid_t pid;  /* in this pid namespace; 0 if not visible */
  bool left;  /* nobody can write to the view's file any more */
  bool ended; /* the producer that left had called percore_destroy */
  struct region_fault fault;
  char text[REGION_FAULT_LINE + 128]; /* result of region_reader_error */
};

/* How many attempts to make if data changes while it is being read. */
enum { REGION_TRIES = 8 };

#endif
