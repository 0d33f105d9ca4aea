/* directory.h: the immutable part of a region, as far as it can be believed.
 *
 * Whoever hands over a region may be hostile. The directory is checked in a
 * private copy, once; what passes has every offset inside the region, every
 * string ended, every name and shape allowed. Live words (rows in use,
 * generations, labels) change under the reader and are checked at each use.
 */
#ifndef PERCORE_REGION_DIRECTORY_H
#define PERCORE_REGION_DIRECTORY_H

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
 * sizeof(struct region_header) bytes; 0 if these are no region that can be
 * read, with a reason of one line. region_size is that of the descriptor. */
size_t region_directory_size(const struct region_header *header,
                             uint64_t region_size, uint64_t max_size,
                             const char **why);

/* Parses a private copy of so many bytes. Returns 0, or -1 with EPROTO and a
 * reason, or ENOMEM; nothing needs freeing then. */
int region_directory_parse(struct region_directory *directory,
                           const unsigned char *copy, size_t size,
                           uint64_t region_size, uint64_t max_size,
                           const char **why);

void region_directory_free(struct region_directory *directory);

#endif
