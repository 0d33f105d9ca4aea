/* directory.h: the immutable part of a region, as far as it can be believed.
 *
 * A producer may be hostile. The directory is checked in a private copy, once.
 * In a directory that passes, every part lies inside the region and overlaps no
 * other, every string ends, and every name and shape is allowed. Live words
 * (rows in use, generations, labels) change under the reader and are checked at
 * each use.
 */
#ifndef PERCORE_REGION_DIRECTORY_H
#define PERCORE_REGION_DIRECTORY_H

#include "fault.h"
#include "layout.h"

struct region_directory {
  struct region_header header;
  const char *name;
  const char *instance; /* NULL if there is none */
  uint32_t table_count; /* `core` included, it is the first */
  uint32_t field_count;
  struct region_table *tables;
  struct region_field *fields;
  /* the same as the producer described them */
  struct percore_table *described;
  struct percore_field *described_fields;
  const char **states; /* of all fields */
  char *strings;
  size_t strings_left; /* how much of them parsing may still take */
};

/* How many bytes region_directory_parse needs, from a copy of the first
 * sizeof(struct region_header) bytes; 0 with a fault if the header is not that
 * of a region which can be read. region_size is that of the descriptor. */
size_t region_directory_size(const struct region_header *header,
                             uint64_t region_size, uint64_t max_size,
                             struct region_fault *fault);

/* Parses a private copy of `size` bytes. Returns 0, or -1 with a fault: EPROTO
 * and the rule that the region breaks, EFBIG (larger than max_size), ENOMEM;
 * nothing needs freeing then. */
int region_directory_parse(struct region_directory *directory,
                           const unsigned char *copy, size_t size,
                           uint64_t region_size, uint64_t max_size,
                           struct region_fault *fault);

void region_directory_free(struct region_directory *directory);

/* ---------------------------------------------------------------------------
 * geometry.c, for directory.c
 */

/* Header, records and strings lie in the directory, slots and blocks after it.
 */
bool region_header_places_are_valid(const struct region_header *header,
                                    struct region_fault *fault);

/* Columns, strides and places of all tables: no two parts of the region
 * overlap, so that all of them together are no larger than the region. */
bool region_geometry_is_valid(const struct region_directory *directory,
                              struct region_fault *fault);

#endif
