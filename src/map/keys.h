/* keys: names the rows of a map after the map's keys. */
#ifndef PERCORE_MAP_KEYS_H
#define PERCORE_MAP_KEYS_H

#include "fields.h"

/* Writes a name for the key; the name is never empty. Writes a __be32, and any
 * unsigned integer of 4 bytes whose type, member or map is named like an IPv4
 * address (ipv4, saddr ...), as an IPv4 address, struct in6_addr and __u8[16]
 * as an IPv6 address, __u8[6] as a MAC address, a __be16 as a port, and an
 * array of char as text. Writes enumerators by name and other integers in
 * decimal. Joins the members of a struct, and its bit fields, with '-'. Writes
 * a key of an LPM_TRIE as 10.0.0.0/8. Without type information, writes keys of
 * 1, 2, 4 and 8 bytes in decimal and all others in hexadecimal. A name
 * that does not fit ends with "...". */
void map_key_name(char name[MAP_ROW_NAME_SIZE], const struct btf_types *types,
                  const struct bpf_map_info *info, const void *key);

#endif
