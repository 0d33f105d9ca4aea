/* directory.h: parses and checks the immutable part of a region.
 *
 * A producer may be hostile, so the reader checks a private copy of the
 * directory once. If the directory passes the check, every part lies inside the
 * region and overlaps no other part, every string is terminated, and every name
 * and shape is valid. Live words (rows in use, generations, labels) can
 * change at any time, so readers check them at each use.
 */
#ifndef PERCORE_REGION_DIRECTORY_H
#define PERCORE_REGION_DIRECTORY_H

#include "fault.h"
#include "layout.h"

struct region_directory {
  struct region_header header;
  const char *name;
  const char *instance; /* NULL if the region has no instance */
  uint32_t table_count; /* includes `core`, the first table */
  uint32_t field_count;
  struct region_table *tables;
  struct region_field *fields;
  /* The tables as the application described them. */
  struct percore_table *described;
  struct percore_field *described_fields;
  const char **states; /* of all fields */
  char *strings;
};

/* Parses a private copy of `size` bytes. Returns 0, or -1 with nothing to free,
 * and sets *fault: EPROTO with the rule that the region breaks, or ENOMEM. */
int region_directory_parse(struct region_directory *directory,
                           const unsigned char *copy, size_t size,
                           uint64_t region_size, struct region_fault *fault);

/* Reads the header and the directory of a region of region_size bytes with
 * pread(2), because a file may shrink while it is mapped, and parses them. Sets
 * *fault as region_directory_parse does, or to the errno of pread(2). */
int region_directory_read(struct region_directory *directory, int fd,
                          uint64_t region_size, struct region_fault *fault);

void region_directory_free(struct region_directory *directory);

#endif
