/* fields: the fields of a map's values, which become the columns of a table. */
#ifndef PERCORE_MAP_FIELDS_H
#define PERCORE_MAP_FIELDS_H

#include "types.h"

#define MAP_NAME_SIZE 64
#define MAP_FIELDS_MAX 512

struct map_field {
  char name[MAP_NAME_SIZE]; /* [a-z][a-z0-9_]* */
  char help[128];           /* may be "" */
  uint32_t offset;          /* offset in the value, in bytes */
  uint8_t size;             /* 1, 2, 4 or 8 */
  /* Of a histogram, each bucket is a field. Bucket b counts values from 2^(b-1)
   * to 2^b. 0: no histogram. */
  uint8_t bucket, buckets;
  bool is_signed;
  bool is_gauge; /* false: a counter, which wraps at 2^(8 * size) */
  bool is_tagged;
};

struct map_fields {
  struct map_field *list;
  size_t len;
};

/* Makes a field from each integer member of the value's type; enumerations and
 * bools also count as integers. A member of a nested struct is named
 * outer_inner, and the elements of an array are named name_0, name_1 and so on.
 * Unsigned integers become counters and all other members become gauges, unless
 * a tag says otherwise:
 *
 *   __u32 queued __attribute__((btf_decl_tag("percore:gauge")));
 *
 * A member `slots` of a struct `hist`, and an array with the tag percore:log2,
 * is a histogram of at most 64 buckets; histograms are the last fields.
 *
 * The tags are percore:gauge, percore:counter, percore:log2 and
 * percore:help=TEXT. Only the
 * first member of a union is used. Members of the types __be16, __be32 and
 * __be64, bit fields, pointers, spin locks, timers,
 * padding, and arrays of bytes or of more than 256 elements are left out, and
 * so are all members whose names are equal in lower case.
 *
 * Returns 0 or a negative errno. On success, `why` contains a warning if names
 * are equal or if there are more than MAP_FIELDS_MAX fields; otherwise it is
 * "". */
int map_fields_read(struct map_fields *fields, const struct btf_types *types,
                    const struct bpf_map_info *info, char why[WHY_SIZE]);

void map_fields_free(struct map_fields *fields);

/* Returns an integer of 1 to 8 bytes, and otherwise 0. Signed integers are
 * sign-extended to 64 bits. */
uint64_t map_integer(const void *at, uint32_t size, bool is_signed);

/* Returns the value of a field, sign-extended to 64 bits. */
uint64_t map_field_value(const struct map_field *field, const void *value);

/* Makes a name from `text`: skips everything before the first letter, converts
 * letters to lower case, and keeps digits. Replaces each other character by an
 * underscore if `underscores` is true, and drops it otherwise. Cuts a name that
 * does not fit into `size` bytes. Returns false if the name would be empty. */
bool map_clean_name(char *name, size_t size, const char *text,
                    bool underscores);

#endif
