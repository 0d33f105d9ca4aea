/* types: reads type information (BTF) with libbpf. libbpf is loaded on first
 * use, so that collectd can load the plugin on machines without libbpf. */
#ifndef PERCORE_MAP_TYPES_H
#define PERCORE_MAP_TYPES_H

#include "base/portable.h"
#include "map.h"

#define BTF_TAGS_MAX 4096

struct btf; /* defined by libbpf */

/* A map's type information. `key` and `value` are the ids of their types; 0:
 * unknown. */
struct btf_types {
  struct btf *btf;
  uint32_t key, value;
  /* The ids of the declaration tags that begin with "percore:", because they
   * are looked up for every member. */
  uint32_t tags[BTF_TAGS_MAX];
  size_t tags_len;
};

/* Loads the type information of a map from the kernel, which requires
 * CAP_SYS_ADMIN. Returns -ENOENT if the map has none. */
int btf_open(struct btf_types *types, const struct bpf_map_info *info,
             char why[WHY_SIZE]);
/* Takes what libbpf has loaded, and the ids of the types of a map's key and
 * value. btf_close frees it. Returns -ELIBACC if there is no libbpf. */
int btf_take(struct btf_types *types, struct btf *btf, uint32_t key,
             uint32_t value);
void btf_close(struct btf_types *types);

/* The functions below accept any id, even in malformed BTF. */

/* Returns the type with this id, or NULL if no type has it. */
const struct btf_type *btf_type(const struct btf *btf, uint32_t id);

/* Returns the name at this offset of the string section, or "" if there is
 * none. */
const char *btf_name(const struct btf *btf, uint32_t offset);

/* Strips typedefs, qualifiers, type tags and variable declarations: sets *id to
 * the type below them and returns that type. Returns NULL if there is none or
 * the chain is too long. */
const struct btf_type *btf_resolve(const struct btf *btf, uint32_t *id);

/* True if a typedef by which the type was declared has such a name. */
bool btf_is_declared_as(const struct btf *btf, uint32_t id,
                        bool (*says)(const char *name));

/* True if the type was declared as __be16, __be32 or __be64. */
bool btf_is_network_order(const struct btf *btf, uint32_t id);

/* Returns the size of a type in bytes; negative: it is unknown or too large. */
long btf_size(const struct btf *btf, uint32_t id);

/* Finds a declaration tag that begins with "percore:" and `word`, and that is
 * attached to member `member` of a type or, if `member` is -1, to the type
 * itself. Returns the text after `word`, or NULL if there is no such tag. */
const char *btf_tag(const struct btf_types *types, uint32_t id, int member,
                    const char *word);

/* Returns the BTF_KIND_* of a type. */
static inline uint32_t btf_kind(const struct btf_type *type) {
  return type->info >> 24 & 0x7f;
}

/* Returns how many members, enumerators or variables a type has. Linux 7.2
 * counts with 24 bits, but libbpf up to 1.7 checks only as many as the lower 16
 * bits say, and which libbpf is loaded is not known when percore is compiled.
 */
static inline uint32_t btf_count(const struct btf_type *type) {
  return type->info & 0xffff;
}

/* Returns the data that follow the header of a type, such as its members or
 * variables. */
const void *btf_tail(const struct btf_type *type);

/* Returns the BTF_INT_ENCODING of an integer: a set of BTF_INT_SIGNED,
 * BTF_INT_CHAR and BTF_INT_BOOL. Returns 0 for all other types. */
uint32_t btf_encoding(const struct btf_type *type);

/* A member that becomes a field or part of a name. */
struct btf_part {
  const char *name;
  uint32_t type;
  uint32_t bit;  /* offset in bits; a multiple of 8 unless a bit field */
  uint32_t bits; /* size of a bit field; otherwise 0 */
};

/* Writes member `i` of a struct or union to *place. Returns false if percore
 * leaves the member out, because it is padding or its name begins with '_'. */
bool btf_find_member(struct btf_part *place, const struct btf *btf,
                     const struct btf_type *type, uint32_t i);

#endif
