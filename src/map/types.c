#include "types.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define LIBRARY "libbpf.so.1"
#define PREFIX "percore:"
#define PREFIX_LEN (sizeof(PREFIX) - 1)

/* ---------------------------------------------------------------------------
 * libbpf
 */

static struct {
  struct btf *(*load_from_kernel)(uint32_t id);
  void (*free)(struct btf *btf);
  uint32_t (*count)(const struct btf *btf);
  const struct btf_type *(*type)(const struct btf *btf, uint32_t id);
  const char *(*name)(const struct btf *btf, uint32_t offset);
  int (*resolve)(const struct btf *btf, uint32_t id);
  int64_t (*size)(const struct btf *btf, uint32_t id);
  void *(*set_print)(void *print);
} libbpf;

static bool library_loaded;

static void load_library(void) {
  static const struct {
    const char *name;
    void *function;
  } functions[] = {
      {"btf__load_from_kernel_by_id", &libbpf.load_from_kernel},
      {"btf__free", &libbpf.free},
      {"btf__type_cnt", &libbpf.count},
      {"btf__type_by_id", &libbpf.type},
      {"btf__name_by_offset", &libbpf.name},
      {"btf__resolve_type", &libbpf.resolve},
      {"btf__resolve_size", &libbpf.size},
      {"libbpf_set_print", &libbpf.set_print},
  };
  void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
  for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
    void *symbol = library != NULL ? dlsym(library, functions[i].name) : NULL;
    if (symbol == NULL)
      return;
    memcpy(functions[i].function, &symbol, sizeof(symbol));
  }
  libbpf.set_print(NULL); /* by default libbpf writes messages to stderr */
  library_loaded = true;
}

static bool has_library(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, load_library);
  return library_loaded;
}

/* ---------------------------------------------------------------------------
 * Types
 */

const struct btf_type *btf_type(const struct btf *btf, uint32_t id) {
  return libbpf.type(btf, id);
}

const char *btf_name(const struct btf *btf, uint32_t offset) {
  const char *name = libbpf.name(btf, offset);
  return name != NULL ? name : "";
}

const void *btf_tail(const struct btf_type *type) { return type + 1; }

uint32_t btf_encoding(const struct btf_type *type) {
  uint32_t word = 0;
  if (btf_kind(type) == BTF_KIND_INT)
    memcpy(&word, btf_tail(type), sizeof(word));
  return BTF_INT_ENCODING(word);
}

bool btf_find_member(struct btf_part *place, const struct btf *btf,
                     const struct btf_type *type, uint32_t i) {
  const struct btf_member *member =
      (const struct btf_member *)btf_tail(type) + i;
  const char *name = btf_name(btf, member->name_off);
  bool has_sizes = BTF_INFO_KFLAG(type->info);
  uint32_t offset = member->offset;
  *place = (struct btf_part){
      .name = name,
      .type = member->type,
      .bit = has_sizes ? BTF_MEMBER_BIT_OFFSET(offset) : offset,
      .bits = has_sizes ? BTF_MEMBER_BITFIELD_SIZE(offset) : 0};
  return (place->bits > 0 || place->bit % 8 == 0) && name[0] != '_' &&
         strncmp(name, "pad", 3) != 0;
}

const struct btf_type *btf_resolve(const struct btf *btf, uint32_t *id) {
  int resolved = libbpf.resolve(btf, *id);
  if (resolved < 0)
    return NULL;
  *id = (uint32_t)resolved;
  return btf_type(btf, *id);
}

bool btf_is_declared_as(const struct btf *btf, uint32_t id,
                        bool (*says)(const char *name)) {
  uint32_t end = id;
  if (btf_resolve(btf, &end) == NULL)
    return false;
  for (; id != end; id = btf_type(btf, id)->type)
    if (says(btf_name(btf, btf_type(btf, id)->name_off)))
      return true;
  return false;
}

static bool says_network_order(const char *name) {
  return strcmp(name, "__be16") == 0 || strcmp(name, "__be32") == 0 ||
         strcmp(name, "__be64") == 0;
}

bool btf_is_network_order(const struct btf *btf, uint32_t id) {
  return btf_is_declared_as(btf, id, says_network_order);
}

long btf_size(const struct btf *btf, uint32_t id) {
  int64_t size = libbpf.size(btf, id);
  return size <= INT32_MAX ? (long)size : -1;
}

static void find_tags(struct btf_types *types) {
  uint32_t count = libbpf.count(types->btf);
  for (uint32_t id = 1; id < count && types->tags_len < BTF_TAGS_MAX; id++) {
    const struct btf_type *type = btf_type(types->btf, id);
    if (type != NULL && btf_kind(type) == BTF_KIND_DECL_TAG &&
        strncmp(btf_name(types->btf, type->name_off), PREFIX, PREFIX_LEN) == 0)
      types->tags[types->tags_len++] = id;
  }
}

const char *btf_tag(const struct btf_types *types, uint32_t id, int member,
                    const char *word) {
  for (size_t i = 0; i < types->tags_len; i++) {
    const struct btf_type *type = btf_type(types->btf, types->tags[i]);
    const int32_t *tagged_member = btf_tail(type);
    if (type->type != id || *tagged_member != member)
      continue;
    const char *text = btf_name(types->btf, type->name_off) + PREFIX_LEN;
    if (strncmp(text, word, strlen(word)) == 0)
      return text + strlen(word);
  }
  return NULL;
}

/* ---------------------------------------------------------------------------
 * The types of a map
 */

int btf_take(struct btf_types *types, struct btf *btf, uint32_t key,
             uint32_t value) {
  *types = (struct btf_types){.btf = btf, .key = key, .value = value};
  if (!has_library())
    return -ELIBACC;
  find_tags(types);
  return 0;
}

int btf_open(struct btf_types *types, const struct bpf_map_info *info,
             char why[WHY_SIZE]) {
  *types = (struct btf_types){0};
  if (info->btf_id == 0)
    return why_fails(
        why, -ENOENT,
        "it was loaded without type information (BTF): compile its program "
        "with clang -g, or set FieldAt in collectd's configuration");
  if (!has_library())
    return why_fails(why, -ELIBACC, "cannot load " LIBRARY ": install libbpf1");
  struct btf *btf = libbpf.load_from_kernel(info->btf_id);
  if (btf == NULL)
    return why_fails(why, -errno, "cannot read its type information: %s%s",
                     strerror(errno),
                     errno == EPERM ? "; run as root (CAP_SYS_ADMIN), or "
                                      "set FieldAt in collectd's configuration"
                                    : "");
  return btf_take(types, btf, info->btf_key_type_id, info->btf_value_type_id);
}

void btf_close(struct btf_types *types) {
  if (types->btf != NULL)
    libbpf.free(types->btf);
  *types = (struct btf_types){0};
}
