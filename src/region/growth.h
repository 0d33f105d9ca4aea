/* growth.h: what the rows of a table counted since the last look.
 *
 * Of a row that is followed its last raw cells are kept and which object it
 * was: 8 bytes for each column that is followed, and 8 more. A new object in a
 * row counts from its birth; what the one before it counted last is not lost. A
 * reset changes nothing. Rows for which there is no memory are followed as one:
 * of them there is a sum. It knows no names: an account of a name, over rows
 * and producers, is the sum of what its objects counted.
 */
#ifndef PERCORE_REGION_GROWTH_H
#define PERCORE_REGION_GROWTH_H

#include "allowance.h"
#include "reader.h"

struct region_growth {
  struct region_allowance *allowance;
  uint32_t *columns; /* that are followed: counters and histograms */
  uint32_t columns_len;
  uint64_t steps_back; /* cells that went back within one object, which an
                          honest producer does not do */
  uint32_t
      rows_unfollowed; /* since region_growth_begin: met in the sum alone */
  uint64_t *rest;      /* [place in columns]: what those counted */
  uint64_t *cores; /* [core][place]: what all rows counted on single cores */
  /* private */
  struct region_growth_chunk *chunks;
  uint32_t chunk_shift, max_rows, core_count;
  bool has_bases, sums_rest, cores_known;
  uint64_t *rest_last, *cores_last; /* raw sums at the last look, and now */
  uint64_t *rest_now, *cores_now;
  uint64_t *counted, *earlier;
  size_t bytes; /* of the allowance */
};

enum region_growth_want {
  REGION_GROWTH_REST = 1, /* the sum of rows for which there is no memory */
  REGION_GROWTH_CORES = 2 /* `cores` */
};

/* For one producer's table. wanted[column] says what is followed; NULL: all.
 * NULL with ENOMEM. */
struct region_growth *
region_growth_new(const struct region_directory *directory, uint32_t table,
                  const uint8_t *wanted, uint32_t want,
                  struct region_allowance *allowance);
void region_growth_free(struct region_growth *growth);

/* Instead of a look where that would take memory; false if it would not. Whose
 * first look comes later begins with that look. */
bool region_growth_pass(struct region_growth *growth,
                        const struct region_tile *tile, uint32_t i);

/* Gives a number to the object in a row that was looked at; 0 at first.
 * Nothing happens if it is another object by now. */
#define REGION_TAG_MOST 0x7fffffffu
void region_growth_set_tag(struct region_growth *growth, uint32_t row,
                           uint64_t generation, uint32_t tag);

struct region_growth_look {
  const uint64_t *counted; /* [place]: by this object since the last look */
  const uint64_t *earlier; /* by others in this row before it; NULL: nothing */
  uint32_t earlier_tag;    /* of what was here at the last look */
  bool earlier_only;       /* which was the only one of those */
  uint32_t tag;
  bool is_new;      /* first look at this object */
  bool from_birth;  /* and all it counted is in counted */
  bool removed;     /* it is */
  bool was_removed; /* and was so at the last look */
};

/* A round: begin, a look at each place of each tile, end. A row that is met for
 * the first time counted from its birth with `count`, else nothing yet. False
 * if there is no object, or it is not followed for want of memory: then it is
 * in the sum. Arrays live until the next look. */
void region_growth_begin(struct region_growth *growth);
bool region_growth_look(struct region_growth *growth,
                        const struct region_tile *tile, uint32_t i, bool count,
                        struct region_growth_look *look);

/* Adds a tile's cores to those of the round. */
void region_growth_add_cores(struct region_growth *growth,
                             const struct region_tile *tile, bool count);

/* Makes `rest` and `cores` of what was met since region_growth_begin. */
void region_growth_end(struct region_growth *growth);

#endif
