/* types: reads type information (BTF) with libbpf. libbpf is loaded on first
 * use, so that collectd can load the plugin on machines without libbpf. */
#ifndef PERCORE_MAP_TYPES_H
#define PERCORE_MAP_TYPES_H

#include "map.h"

#include <linux/btf.h>

struct btf; /* defined by libbpf */

/* The types of a map's key and value; 0 if unknown. */
struct btf_types {
  struct btf *btf;
  uint32_t key, value;
  uint32_t *tags; /* declaration tags that begin with "percore:" */
  size_t tags_len;
};

/* Loads the type information of a map: from the object file of its program if
 * `file` is not NULL, otherwise from the kernel, which requires CAP_SYS_ADMIN.
 * Fails with -ENOENT if the map has no type information or the file does not
 * define the map. */
int btf_open(struct btf_types *types, const struct map_info *info,
             const char *file, char why[MAP_WHY_SIZE]);
void btf_close(struct btf_types *types);

/* The functions below accept any id, even in malformed BTF. */

/* Returns NULL if no type has this id. */
const struct btf_type *btf_type(const struct btf *btf, uint32_t id);

/* Returns "" if the offset holds no name. */
const char *btf_name(const struct btf *btf, uint32_t offset);

/* Strips typedefs, const, volatile and type tags, and sets *id to the type
 * below them. Returns NULL if the type does not exist or the chain is too long.
 */
const struct btf_type *btf_resolve(const struct btf *btf, uint32_t *id);

/* Returns the size of a type in bytes, or -1. */
long btf_size(const struct btf *btf, uint32_t id);

/* Finds the declaration tag of a type, or of one of its members (-1: the type
 * itself), that begins with "percore:" and `word`. Returns the rest of the tag,
 * or NULL. */
const char *btf_tag(const struct btf_types *types, uint32_t id, int member,
                    const char *word);

/* Returns the data that follows a type: its members, elements or variables. */
const void *btf_tail(const struct btf_type *type);

/* Returns the BTF_INT_ENCODING of an integer: a set of BTF_INT_SIGNED,
 * BTF_INT_CHAR and BTF_INT_BOOL. Returns 0 for all other types. */
uint32_t btf_encoding(const struct btf_type *type);

/* A member that becomes a field or part of a name. */
struct btf_part {
  const char *name;
  uint32_t type, offset; /* offset in bytes */
};

/* Finds member `i`. Returns false if percore leaves the member out: bit fields,
 * padding, and members whose names begin with '_'. */
bool btf_find_member(struct btf_part *place, const struct btf *btf,
                     const struct btf_type *type, uint32_t i);

#endif
