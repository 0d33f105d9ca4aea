/* types: type information (BTF), read by libbpf, which is loaded on first use,
 * so that collectd can load the plugin on machines without libbpf. */
#ifndef PERCORE_MAP_TYPES_H
#define PERCORE_MAP_TYPES_H

#include "map.h"

#include <linux/btf.h>

struct btf; /* libbpf's */

/* The types of a map's key and value; 0: unknown. */
struct btf_types {
  struct btf *btf;
  uint32_t key, value;
  uint32_t *tags; /* declaration tags that begin with "percore:" */
  size_t tags_len;
};

/* Loads the type information of a map: from the kernel, which takes
 * CAP_SYS_ADMIN, or from the object file of its program if `file` is not NULL.
 * -ENOENT: the map has none, or the file does not have the map. */
int btf_open(struct btf_types *types, const struct map_info *info,
             const char *file, char why[MAP_WHY_SIZE]);
void btf_close(struct btf_types *types);

/* The functions below accept any id, even in malformed BTF. */

/* NULL if there is no such type. */
const struct btf_type *btf_type(const struct btf *btf, uint32_t id);

/* "" if there is none. */
const char *btf_name(const struct btf *btf, uint32_t offset);

/* The type behind typedefs, const, volatile and type tags. Sets *id to its
 * number. NULL if there is no such type, or the chain is too long. */
const struct btf_type *btf_resolve(const struct btf *btf, uint32_t *id);

/* The size of a type in bytes, or -1. */
long btf_size(const struct btf *btf, uint32_t id);

/* Finds the declaration tag of a type, or of one of its members (-1: the type
 * itself), that begins with "percore:" and this word. Returns the rest of the
 * tag, or NULL. */
const char *btf_tag(const struct btf_types *types, uint32_t id, int member,
                    const char *word);

/* The data after a type: its members, elements or variables. */
const void *btf_tail(const struct btf_type *type);

#endif
