#include "keys.h"

#include "base/utf8.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <linux/bpf.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define DEPTH_MAX 8

struct writer {
  const struct btf *btf;
  char *name;
  size_t length; /* length of the whole name, even if it does not fit */
  const unsigned char *key;
  uint32_t key_size;
};

__attribute__((format(printf, 2, 3))) static void put(struct writer *writer,
                                                      const char *format, ...) {
  size_t room = writer->length < MAP_ROW_NAME_SIZE
                    ? MAP_ROW_NAME_SIZE - writer->length
                    : 0;
  va_list list;
  va_start(list, format);
  int length = vsnprintf(room > 0 ? writer->name + writer->length : NULL, room,
                         format, list);
  va_end(list);
  writer->length += length > 0 ? (size_t)length : 0;
}

/* ---------------------------------------------------------------------------
 * Single values
 */

static void put_hex(struct writer *writer, const unsigned char *at,
                    uint32_t size, const char *separator) {
  for (uint32_t i = 0; i < size && writer->length < MAP_ROW_NAME_SIZE; i++)
    put(writer, "%s%02x", i > 0 ? separator : "", at[i]);
}

static void put_address(struct writer *writer, int family,
                        const unsigned char *at) {
  char text[INET6_ADDRSTRLEN];
  put(writer, "%s", inet_ntop(family, at, text, sizeof(text)));
}

static void put_text(struct writer *writer, const unsigned char *at,
                     uint32_t size) {
  char text[2 * MAP_ROW_NAME_SIZE];
  size_t length = strnlen((const char *)at, size);
  utf8_clean(text, sizeof(text), (const char *)at, length, "_", "");
  put(writer, "%s", text);
}

/* True for the name of a type, a member or a map that holds IPv4 addresses,
 * because many programs declare them as __u32. */
static bool says_ipv4(const char *name) {
  static const char *const parts[] = {"__be32",  "ipv4",  "ip4",
                                      "in_addr", "saddr", "daddr"};
  for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
    if (strstr(name, parts[i]) != NULL)
      return true;
  return false;
}

static bool says_port(const char *name) { return strcmp(name, "__be16") == 0; }

/* True if a typedef by which the type was declared has such a name. */
static bool is_declared_as(const struct btf *btf, uint32_t id,
                           bool (*says)(const char *name)) {
  uint32_t end = id;
  if (btf_resolve(btf, &end) == NULL)
    return false;
  for (; id != end; id = btf_type(btf, id)->type)
    if (says(btf_name(btf, btf_type(btf, id)->name_off)))
      return true;
  return false;
}

static void put_integer(struct writer *writer, uint32_t id,
                        const struct btf_type *type, const char *name,
                        const unsigned char *at) {
  const struct btf *btf = writer->btf;
  bool is_signed = (btf_encoding(type) & BTF_INT_SIGNED) != 0;
  if (type->size == 4 && !is_signed &&
      (says_ipv4(name) || is_declared_as(btf, id, says_ipv4)))
    put_address(writer, AF_INET, at);
  else if (type->size == 2 && is_declared_as(btf, id, says_port))
    put(writer, "%u", at[0] * 256u + at[1]);
  else if (type->size == 0 || type->size > sizeof(uint64_t))
    put_hex(writer, at, type->size, "");
  else if (is_signed)
    put(writer, "%" PRId64, (int64_t)map_integer(at, type->size, true));
  else
    put(writer, "%" PRIu64, map_integer(at, type->size, false));
}

/* Writes a bit field that begins `bit` bits after the begin of the key. */
static void put_bits(struct writer *writer, uint64_t bit, uint32_t bits) {
  uint64_t value = 0;
  if ((bit + bits + 7) / 8 > writer->key_size || bits > 64)
    return;
  for (uint64_t at = bit; at < bit + bits; at++) {
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    value = value << 1 | (writer->key[at / 8] >> (7 - at % 8) & 1);
#else
    value |= (uint64_t)(writer->key[at / 8] >> at % 8 & 1) << (at - bit);
#endif
  }
  put(writer, "%" PRIu64, value);
}

static void put_enum(struct writer *writer, const struct btf_type *type,
                     const unsigned char *at) {
  uint64_t value = map_integer(at, type->size, false);
  const struct btf_enum *enumerators = btf_tail(type);
  for (uint32_t i = 0; i < btf_count(type) && type->size == 4; i++)
    if ((uint32_t)enumerators[i].val == value) {
      const char *name = btf_name(writer->btf, enumerators[i].name_off);
      put_text(writer, (const unsigned char *)name, (uint32_t)strlen(name));
      return;
    }
  put(writer, "%" PRIu64, value);
}

/* ---------------------------------------------------------------------------
 * Types
 */

static void put_type(struct writer *writer, uint32_t id, const char *name,
                     uint64_t offset, int depth);

static void put_array(struct writer *writer, const struct btf_type *type,
                      const char *name, uint64_t offset, int depth) {
  const struct btf_array *array = btf_tail(type);
  const unsigned char *at = writer->key + offset;
  long size = btf_size(writer->btf, array->type);
  uint32_t element_id = array->type;
  const struct btf_type *element = btf_resolve(writer->btf, &element_id);
  if (element == NULL || size <= 0 ||
      (uint64_t)size * array->nelems > writer->key_size - offset)
    return;
  bool is_char = (btf_encoding(element) & (BTF_INT_CHAR | BTF_INT_SIGNED)) != 0;
  if (size == 1 && is_char)
    put_text(writer, at, array->nelems);
  else if (size == 1 && array->nelems == 6)
    put_hex(writer, at, 6, ":");
  else if (size == 1 && array->nelems == 16)
    put_address(writer, AF_INET6, at);
  else if (size == 1)
    put_hex(writer, at, array->nelems, "");
  else
    for (uint32_t i = 0;
         i < array->nelems && writer->length < MAP_ROW_NAME_SIZE; i++) {
      put(writer, "%s", i > 0 ? "-" : "");
      put_type(writer, array->type, name, offset + (uint64_t)size * i, depth);
    }
}

static void put_struct(struct writer *writer, const struct btf_type *type,
                       uint64_t offset, int depth) {
  const char *struct_name = btf_name(writer->btf, type->name_off);
  if (strcmp(struct_name, "in6_addr") == 0 && type->size == 16) {
    put_address(writer, AF_INET6, writer->key + offset);
    return;
  }
  bool any = false;
  for (uint32_t i = 0; i < btf_count(type); i++) {
    struct btf_part member;
    if (!btf_find_member(&member, writer->btf, type, i))
      continue;
    put(writer, "%s", any ? "-" : "");
    any = true;
    if (member.bits > 0)
      put_bits(writer, offset * 8 + member.bit, member.bits);
    else
      put_type(writer, member.type, member.name, offset + member.bit / 8,
               depth);
  }
}

/* Writes the part of the key that begins at `offset`, has the type `id`, and is
 * declared by this name. Writes nothing if malformed BTF places this part
 * outside the key. */
static void put_type(struct writer *writer, uint32_t id, const char *name,
                     uint64_t offset, int depth) {
  uint32_t resolved = id;
  const struct btf_type *type = btf_resolve(writer->btf, &resolved);
  long size = btf_size(writer->btf, id);
  if (type == NULL || size < 0 || offset > writer->key_size ||
      (uint64_t)size > writer->key_size - offset || depth == DEPTH_MAX ||
      writer->length >= MAP_ROW_NAME_SIZE)
    return;
  const unsigned char *at = writer->key + offset;
  switch (btf_kind(type)) {
  case BTF_KIND_INT:
    put_integer(writer, id, type, name, at);
    break;
  case BTF_KIND_ENUM:
  case BTF_KIND_ENUM64:
    put_enum(writer, type, at);
    break;
  case BTF_KIND_ARRAY:
    put_array(writer, type, name, offset, depth + 1);
    break;
  case BTF_KIND_STRUCT:
    put_struct(writer, type, offset, depth + 1);
    break;
  default:
    put_hex(writer, at, (uint32_t)size, "");
    break;
  }
}

/* Writes a key of an LPM_TRIE as PREFIX/LENGTH. */
static void put_prefix(struct writer *writer) {
  uint32_t length, size = writer->key_size - (uint32_t)sizeof(length);
  const unsigned char *at = writer->key + sizeof(length);
  memcpy(&length, writer->key, sizeof(length));
  if (size == 4 || size == 16)
    put_address(writer, size == 4 ? AF_INET : AF_INET6, at);
  else
    put_hex(writer, at, size, "");
  put(writer, "/%u", length);
}

/* Ends a name that does not fit with "...". */
static void cut(char name[MAP_ROW_NAME_SIZE]) {
  char begin[MAP_ROW_NAME_SIZE - 3];
  utf8_clean(begin, sizeof(begin), name, strlen(name), "", "");
  snprintf(name, MAP_ROW_NAME_SIZE, "%s...", begin);
}

void map_key_name(char name[MAP_ROW_NAME_SIZE], const struct btf_types *types,
                  const struct bpf_map_info *info, const void *key) {
  struct writer writer = {
      .btf = types->btf, .name = name, .key = key, .key_size = info->key_size};
  uint32_t size = info->key_size;
  name[0] = '\0';
  if (info->type == BPF_MAP_TYPE_LPM_TRIE && size > sizeof(uint32_t))
    put_prefix(&writer);
  else if (types->btf != NULL && types->key != 0)
    put_type(&writer, types->key, info->name, 0, 0);
  else if (size == 1 || size == 2 || size == 4 || size == 8)
    put(&writer, "%" PRIu64, map_integer(key, size, false));
  else
    put_hex(&writer, key, size, "");
  if (writer.length == 0)
    put(&writer, "-");
  if (writer.length >= MAP_ROW_NAME_SIZE)
    cut(name);
}
