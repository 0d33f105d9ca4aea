#include "types.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LIBRARY "libbpf.so.1"
#define FILE_SIZE_MAX (64 << 20) /* bytes; object files take a few MiB */
#define PREFIX "percore:"
#define PREFIX_LEN (sizeof(PREFIX) - 1)

/* ---------------------------------------------------------------------------
 * libbpf
 */

static struct {
  struct btf *(*load_from_kernel)(uint32_t id);
  struct btf *(*parse)(const char *path, void *extensions);
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
      {"btf__parse", &libbpf.parse},
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

/* True if `name` may be the map's name, which the kernel truncates to 15 bytes.
 */
static bool is_called(const char *name, const struct bpf_map_info *info) {
  size_t length = strlen(info->name);
  return strncmp(name, info->name, length) == 0 &&
         (name[length] == '\0' || length == sizeof(info->name) - 1);
}

/* Returns the type that a member of a map's declaration points to, or 0. In
 * `struct { __type(key, struct flow); .. } flows SEC(".maps")`, the member key
 * is a pointer to the type of the key. */
static uint32_t pointed_to(const struct btf *btf, uint32_t map_type,
                           const char *member_name) {
  const struct btf_type *type = btf_resolve(btf, &map_type);
  if (type == NULL || btf_kind(type) != BTF_KIND_STRUCT)
    return 0;
  for (uint32_t i = 0; i < btf_count(type); i++) {
    struct btf_part member;
    if (!btf_find_member(&member, btf, type, i) ||
        strcmp(member.name, member_name) != 0)
      continue;
    const struct btf_type *pointer = btf_resolve(btf, &member.type);
    return pointer != NULL && btf_kind(pointer) == BTF_KIND_PTR ? pointer->type
                                                                : 0;
  }
  return 0;
}

/* Finds the types of a map in an object file by the map's name. A map of global
 * variables is named after its program and section, such as "gtpx.bss". */
static int find_in_file(struct btf_types *types,
                        const struct bpf_map_info *info, char why[WHY_SIZE]) {
  const struct btf *btf = types->btf;
  const char *section = strchr(info->name, '.');
  uint32_t count = libbpf.count(btf), found = 0;
  for (uint32_t id = 1; id < count; id++) {
    const struct btf_type *type = btf_type(btf, id);
    if (type == NULL)
      continue;
    const char *name = btf_name(btf, type->name_off);
    if (btf_kind(type) == BTF_KIND_DATASEC && section != NULL &&
        strcmp(name, section) == 0) {
      types->value = id;
      found++;
    }
    if (btf_kind(type) != BTF_KIND_VAR || !is_called(name, info))
      continue;
    uint32_t value = pointed_to(btf, id, "value");
    if (value == 0 || btf_size(btf, value) != (long)info->value_size)
      continue;
    types->key = pointed_to(btf, id, "key");
    types->value = value;
    found++;
  }
  if (found == 1)
    return 0;
  return why_fails(
      why, -ENOENT,
      found == 0
          ? "Btf: the file has no map %s with values of %u bytes"
          : "Btf: the file has more than one map %s with values of %u bytes",
      info->name, info->value_size);
}

/* Reads the type information in `file`. Checks the file first, because libbpf
 * would wait forever for a FIFO and would read a file of any size. Returns 0 or
 * a negative errno. */
static int parse_file(struct btf_types *types, const char *file,
                      char why[WHY_SIZE]) {
  struct stat status;
  char path[32];
  int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    return why_fails(why, -errno, "Btf: cannot open %s: %s", file,
                     strerror(errno));
  bool is_good = fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
                 status.st_size <= FILE_SIZE_MAX;
  snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
  types->btf = is_good ? libbpf.parse(path, NULL) : NULL;
  int error = errno;
  close(fd);
  if (!is_good)
    return why_fails(why, -EINVAL,
                     "Btf: %s is not a regular file of at most %d MiB", file,
                     FILE_SIZE_MAX >> 20);
  return types->btf != NULL
             ? 0
             : why_fails(why, -error, "Btf: %s has no type information: %s",
                         file, strerror(error));
}

static int find_types(struct btf_types *types, const struct bpf_map_info *info,
                      const char *file, char why[WHY_SIZE]) {
  if (file != NULL) {
    int status = parse_file(types, file, why);
    return status == 0 ? find_in_file(types, info, why) : status;
  }
  types->btf = libbpf.load_from_kernel(info->btf_id);
  if (types->btf == NULL)
    return why_fails(why, -errno, "cannot read its type information: %s%s",
                     strerror(errno),
                     errno == EPERM ? "; run as root (CAP_SYS_ADMIN), or "
                                      "set Btf in collectd's configuration"
                                    : "");
  types->key = info->btf_key_type_id;
  types->value = info->btf_value_type_id;
  return 0;
}

int btf_open(struct btf_types *types, const struct bpf_map_info *info,
             const char *file, char why[WHY_SIZE]) {
  *types = (struct btf_types){0};
  if (file == NULL && info->btf_id == 0)
    return why_fails(
        why, -ENOENT,
        "it was loaded without type information (BTF): compile its program "
        "with clang -g, or set FieldAt in collectd's configuration");
  if (!has_library())
    return why_fails(why, -ELIBACC, "cannot load " LIBRARY ": install libbpf1");
  int status = find_types(types, info, file, why);
  if (status == 0)
    find_tags(types);
  else
    btf_close(types);
  return status;
}

void btf_close(struct btf_types *types) {
  if (types->btf != NULL)
    libbpf.free(types->btf);
  *types = (struct btf_types){0};
}
