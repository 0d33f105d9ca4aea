/* fields: the columns of a map: what the members of its values are called. */
#ifndef PERCORE_MAP_FIELDS_H
#define PERCORE_MAP_FIELDS_H

#include "types.h"

#define MAP_NAME_SIZE 64
#define MAP_FIELDS_MAX 512

struct map_field {
  char name[MAP_NAME_SIZE]; /* [a-z][a-z0-9_]* */
  char help[128];           /* "": none */
  uint32_t offset;          /* in the value */
  uint8_t size;             /* 1, 2, 4 or 8 */
  bool is_signed;
  bool is_gauge; /* else a counter, which wraps at 2^(8 * size) */
  bool is_tagged;
  bool is_withheld; /* falls, so it is no counter */
};

struct map_fields {
  struct map_field *list;
  size_t len;
};

/* Takes the integer members of the value's type: nested structs become
 * outer_inner, elements of arrays name_0, name_1 ... Unsigned integers are
 * counters, all else is a gauge, unless a tag says otherwise:
 *
 *   __u32 queued __attribute__((btf_decl_tag("percore:gauge")));
 *
 * Tags are percore:gauge, percore:counter and percore:help=TEXT. Of a
 * union the first member is taken. Bit fields, pointers, spin locks, timers and
 * padding are left out, and so are members whose names are equal once they are
 * in lower case. `why` then names
 * one of those, else it is "". */
int map_fields_read(struct map_fields *fields, const struct btf_types *types,
                    const struct map_info *info, char why[MAP_WHY_SIZE]);

void map_fields_free(struct map_fields *fields);

/* The value of a field, extended to 64 bits by its sign. */
uint64_t map_field_value(const struct map_field *field, const void *value);

/* Writes text as [a-z][a-z0-9_]*; false if nothing is left. Without
 * underscores: [a-z][a-z0-9]*, for names of regions and tables. */
bool map_clean_name(char *name, size_t size, const char *text,
                    bool underscores);

#endif
