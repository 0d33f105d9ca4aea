#include "btf.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define BTF_MAGIC 0xeb9f

/* The struct btf_header of linux/btf.h. Older systems do not provide that
 * file. */
struct header {
  uint16_t magic;
  uint8_t version;
  uint8_t flags;
  uint32_t header_len;
  /* Offsets count from the end of the header. */
  uint32_t type_offset, type_len;
  uint32_t string_offset, string_len;
};

/* True if `name` is one of the NUL-terminated strings. The first string is
 * empty, so a NUL precedes every other string. */
static bool has_string(const char *strings, size_t len, const char *name) {
  size_t name_size = strlen(name) + 1;
  for (const char *p = strings, *end = strings + len;
       (p = memmem(p, (size_t)(end - p), name, name_size)) != NULL; p++)
    if (p > strings && p[-1] == '\0')
      return true;
  return false;
}

int btf_search(const char *btf, size_t size, const char *const *names,
               bool *found, size_t names_len) {
  struct header header;
  memset(found, 0, names_len * sizeof(*found));
  if (size < sizeof(header))
    return -EINVAL;
  memcpy(&header, btf, sizeof(header));
  uint64_t begin = (uint64_t)header.header_len + header.string_offset;
  if (header.magic != BTF_MAGIC || begin > size ||
      header.string_len > size - begin)
    return -EINVAL;
  for (size_t i = 0; i < names_len; i++)
    found[i] = has_string(btf + begin, header.string_len, names[i]);
  return 0;
}

int btf_find(const struct machine *machine, const char *const *names,
             bool *found, size_t names_len) {
  char *btf = NULL;
  size_t size = 0;
  memset(found, 0, names_len * sizeof(*found));
  ssize_t length =
      machine_read_long(machine, "/sys/kernel/btf/vmlinux", &btf, &size);
  int status = length < 0
                   ? (int)length
                   : btf_search(btf, (size_t)length, names, found, names_len);
  free(btf);
  return status;
}
