#include "keys.h"

#include "base/utf8.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <inttypes.h>
#include <linux/bpf.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define DEPTH_MAX 8

struct writer {
  const struct btf_types *types;
  enum map_key_form form;
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

static bool has_any(const char *name, const char *const *parts, size_t len) {
  for (size_t i = 0; i < len; i++)
    if (strstr(name, parts[i]) != NULL)
      return true;
  return false;
}

/* True for the name of a type, a member or a map that holds IPv4 addresses,
 * because many programs declare them as __u32. */
static bool says_ipv4(const char *name) {
  static const char *const parts[] = {"ipv4", "ip4", "in_addr", "saddr",
                                      "daddr"};
  return has_any(name, parts, sizeof(parts) / sizeof(parts[0]));
}

/* True for the name of a __be32 that holds an address. Others hold identifiers,
 * such as the TEID of a tunnel. */
static bool says_address(const char *name) {
  static const char *const parts[] = {"addr", "src", "dst", "source", "dest"};
  for (const char *ip = strstr(name, "ip"); ip != NULL;
       ip = strstr(ip + 1, "ip"))
    if ((ip == name || ip[-1] == '_') && !isalpha((unsigned char)ip[2]))
      return true;
  return has_any(name, parts, sizeof(parts) / sizeof(parts[0]));
}

static bool is_address(const struct writer *writer, uint32_t id,
                       const char *name) {
  const struct btf *btf = writer->types->btf;
  if (writer->form != MAP_KEY_BY_TYPE)
    return writer->form == MAP_KEY_IPV4;
  return says_ipv4(name) || btf_is_declared_as(btf, id, says_ipv4) ||
         (btf_is_network_order(btf, id) && says_address(name));
}

static void put_unsigned(struct writer *writer, uint64_t value, uint32_t size) {
  if (writer->form == MAP_KEY_HEX)
    put(writer, "%0*" PRIx64, (int)size * 2, value);
  else
    put(writer, "%" PRIu64, value);
}

static uint64_t network_integer(const unsigned char *at, uint32_t size) {
  uint64_t value = 0;
  for (uint32_t i = 0; i < size; i++)
    value = value << 8 | at[i];
  return value;
}

static void put_integer(struct writer *writer, uint32_t id,
                        const struct btf_type *type, const char *name,
                        const unsigned char *at) {
  bool is_signed = (btf_encoding(type) & BTF_INT_SIGNED) != 0;
  if (type->size == 0 || type->size > sizeof(uint64_t))
    put_hex(writer, at, type->size, "");
  else if (is_signed)
    put(writer, "%" PRId64, (int64_t)map_integer(at, type->size, true));
  else if (type->size == 4 && is_address(writer, id, name))
    put_address(writer, AF_INET, at);
  else if (btf_is_network_order(writer->types->btf, id))
    put_unsigned(writer, network_integer(at, type->size), type->size);
  else
    put_unsigned(writer, map_integer(at, type->size, false), type->size);
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
      const char *name = btf_name(writer->types->btf, enumerators[i].name_off);
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
  long size = btf_size(writer->types->btf, array->type);
  uint32_t element_id = array->type;
  const struct btf_type *element = btf_resolve(writer->types->btf, &element_id);
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

static enum map_key_form tagged_form(const struct btf_types *types, uint32_t id,
                                     int member) {
  return btf_tag(types, id, member, "hex") != NULL    ? MAP_KEY_HEX
         : btf_tag(types, id, member, "ipv4") != NULL ? MAP_KEY_IPV4
                                                      : MAP_KEY_BY_TYPE;
}

static void put_struct(struct writer *writer, uint32_t id,
                       const struct btf_type *type, uint64_t offset,
                       int depth) {
  const char *struct_name = btf_name(writer->types->btf, type->name_off);
  if (strcmp(struct_name, "in6_addr") == 0 && type->size == 16) {
    put_address(writer, AF_INET6, writer->key + offset);
    return;
  }
  bool any = false;
  for (uint32_t i = 0; i < btf_count(type); i++) {
    struct btf_part member;
    if (!btf_find_member(&member, writer->types->btf, type, i))
      continue;
    enum map_key_form outer = writer->form;
    if (outer == MAP_KEY_BY_TYPE)
      writer->form = tagged_form(writer->types, id, (int)i);
    put(writer, "%s", any ? "-" : "");
    any = true;
    if (member.bits > 0)
      put_bits(writer, offset * 8 + member.bit, member.bits);
    else
      put_type(writer, member.type, member.name, offset + member.bit / 8,
               depth);
    writer->form = outer;
  }
}

/* Writes the part of the key that begins at `offset`, has the type `id`, and is
 * declared by this name. Writes nothing if malformed BTF places this part
 * outside the key. */
static void put_type(struct writer *writer, uint32_t id, const char *name,
                     uint64_t offset, int depth) {
  uint32_t resolved = id;
  const struct btf_type *type = btf_resolve(writer->types->btf, &resolved);
  long size = btf_size(writer->types->btf, id);
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
    put_struct(writer, resolved, type, offset, depth + 1);
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
                  const struct bpf_map_info *info, const void *key,
                  enum map_key_form form) {
  struct writer writer = {.types = types,
                          .form = form,
                          .name = name,
                          .key = key,
                          .key_size = info->key_size};
  uint32_t size = info->key_size;
  name[0] = '\0';
  if (info->type == BPF_MAP_TYPE_LPM_TRIE && size > sizeof(uint32_t))
    put_prefix(&writer);
  else if (types->btf != NULL && types->key != 0)
    put_type(&writer, types->key, info->name, 0, 0);
  else if (size == 4 && form == MAP_KEY_IPV4)
    put_address(&writer, AF_INET, key);
  else if (size == 1 || size == 2 || size == 4 || size == 8)
    put_unsigned(&writer, map_integer(key, size, false), size);
  else
    put_hex(&writer, key, size, "");
  if (writer.length == 0)
    put(&writer, "-");
  if (writer.length >= MAP_ROW_NAME_SIZE)
    cut(name);
}
