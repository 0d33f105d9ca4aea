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
  bool is_signed;
  bool is_gauge; /* otherwise a counter, which wraps at 2^(8 * size) */
  bool is_tagged;
  bool is_withheld; /* no longer read, because it decreased and so is not a
                       counter */
};

struct map_fields {
  struct map_field *list;
  size_t len;
};

/* Makes a field of each integer member of the value's type. Members of nested
 * structs are named outer_inner, elements of arrays name_0, name_1 ... Unsigned
 * integers are counters and all others gauges, unless a tag says otherwise:
 *
 *   __u32 queued __attribute__((btf_decl_tag("percore:gauge")));
 *
 * Tags are percore:gauge, percore:counter and percore:help=TEXT. Only the first
 * member of a union is used. Bit fields, pointers, spin locks, timers and
 * padding are left out, and so are all members whose names are equal in lower
 * case. If names are equal, or if there are more than MAP_FIELDS_MAX fields,
 * writes a warning to `why`; otherwise "". */
int map_fields_read(struct map_fields *fields, const struct btf_types *types,
                    const struct map_info *info, char why[MAP_WHY_SIZE]);

void map_fields_free(struct map_fields *fields);

/* Returns the value of a field; signed fields are sign-extended to 64 bits. */
uint64_t map_field_value(const struct map_field *field, const void *value);

/* Makes a name from text: letters in lower case, digits and, if underscores is
 * true, an underscore for each other character; it begins with a letter.
 * Returns false if nothing is left. */
bool map_clean_name(char *name, size_t size, const char *text,
                    bool underscores);

#endif
