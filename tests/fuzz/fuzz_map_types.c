/* Fuzz target: type information of BPF maps.
 *
 * The input is a struct head, types and strings. The target adds the header of
 * a BTF file, so that libbpf accepts it. Whatever the types say, only bytes of
 * the key and of the value may be read, names of fields and rows must be valid,
 * and a refused map must have a reason. */
#include <dlfcn.h>
#include <linux/btf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "map/fields.h"
#include "map/keys.h"
#include "region/layout.h"

enum { KEY_SIZE = 23 };

struct head {
  uint8_t strings;              /* their length in words */
  uint8_t key_size, value_size; /* less 1 */
  uint8_t key_type, value_type; /* as reported by the kernel */
  uint8_t is_section;           /* the map has global variables */
  uint8_t key[KEY_SIZE];
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int write_file(const uint8_t *body, size_t size, size_t strings) {
  struct btf_header header = {.magic = BTF_MAGIC,
                              .version = 1,
                              .hdr_len = sizeof(header),
                              .type_len = (uint32_t)(size - strings),
                              .str_off = (uint32_t)(size - strings),
                              .str_len = (uint32_t)strings};
  int fd = memfd_create("btf", 0);
  if (fd < 0 || write(fd, &header, sizeof(header)) != sizeof(header) ||
      write(fd, body, size) != (ssize_t)size)
    abort();
  return fd;
}

/* Returns NULL if libbpf refuses the types, or is not installed. */
static struct btf *parse(int fd) {
  static void *library;
  struct btf *(*function)(const char *path, void *extensions);
  char path[32];
  if (library == NULL && (library = dlopen("libbpf.so.1", RTLD_NOW)) == NULL)
    return NULL;
  void *symbol = dlsym(library, "btf__parse");
  memcpy(&function, &symbol, sizeof(function));
  snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
  return function(path, NULL);
}

static void read_fields(const struct btf_types *types,
                        const struct bpf_map_info *map) {
  char why[WHY_SIZE];
  struct map_fields fields;
  char *value = calloc(1, map->value_size); /* ASan checks bounds */
  if (map_fields_read(&fields, types, map, why) != 0 && why[0] == '\0')
    abort();
  for (size_t f = 0; f < fields.len; f++)
    if (map_field_value(&fields.list[f], value) != 0 ||
        !region_name_is_valid(fields.list[f].name, true) ||
        !region_text_is_valid(fields.list[f].help))
      abort();
  map_fields_free(&fields);
  free(value);
}

static void name_key(const struct btf_types *types,
                     const struct bpf_map_info *map, const uint8_t *key) {
  char name[MAP_ROW_NAME_SIZE];
  char *exact = malloc(map->key_size);
  memcpy(exact, key, map->key_size);
  map_key_name(name, types, map, exact, (enum map_key_form)(map->key_size % 3));
  if (name[0] == '\0' || !region_text_is_valid(name))
    abort();
  free(exact);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct head head;
  if (size < sizeof(head))
    return 0;
  memcpy(&head, data, sizeof(head));
  size_t body = (size - sizeof(head)) & ~(size_t)3, strings = head.strings * 4u;
  if (strings == 0 || strings > body)
    return 0;
  int fd = write_file(data + sizeof(head), body, strings);
  struct bpf_map_info map = {.key_size = head.key_size % KEY_SIZE + 1,
                             .value_size = head.value_size + 1};
  strcpy(map.name, head.is_section % 2 != 0 ? "m.bss" : "m");
  struct btf_types types;
  struct btf *btf = parse(fd);
  close(fd);
  if (btf == NULL || btf_take(&types, btf, head.key_type, head.value_type) != 0)
    return 0;
  read_fields(&types, &map);
  name_key(&types, &map, head.key);
  btf_close(&types);
  return 0;
}
