/* keys: names the rows of a map after the map's keys. */
#ifndef PERCORE_MAP_KEYS_H
#define PERCORE_MAP_KEYS_H

#include "fields.h"

/* How to write the unsigned integers of keys. */
enum map_key_form {
  MAP_KEY_BY_TYPE = 0,
  MAP_KEY_HEX = 1, /* two digits for each byte */
  MAP_KEY_IPV4 = 2 /* those of 4 bytes as addresses */
};

/* Writes a name for the key; the name is never empty. Unless `form` or the tag
 * percore:ipv4 or percore:hex of a member says otherwise, writes an unsigned
 * integer of 4 bytes whose type, member or map is named like an IPv4 address
 * (ipv4, saddr ...; of a __be32 also addr, ip, src, dst ...) as an IPv4
 * address, and other integers in decimal: a __be16, __be32 or __be64 as the
 * number that the network sees. Writes struct in6_addr and __u8[16] as an IPv6
 * address, __u8[6] as a MAC address, an array of char as text, and enumerators
 * by name. Joins the members of a struct, and its bit fields, with '-'. Writes
 * a key of an LPM_TRIE as 10.0.0.0/8. Without type information, writes keys of
 * 1, 2, 4 and 8 bytes in decimal and all others in hexadecimal. A name
 * that does not fit ends with "...". */
void map_key_name(char name[MAP_ROW_NAME_SIZE], const struct btf_types *types,
                  const struct bpf_map_info *info, const void *key,
                  enum map_key_form form);

#endif
