/* keys: names for the rows of a map, made from its keys. */
#ifndef PERCORE_MAP_KEYS_H
#define PERCORE_MAP_KEYS_H

#include "types.h"

/* Writes the name of a key, which is never empty. A __be32 is an IPv4 address,
 * a struct in6_addr or __u8[16] an IPv6 address, __u8[6] a MAC address, a
 * __be16 a port, an array of char text; enumerators are written by name, other
 * integers in decimal; members of structs are joined by '-'. Without type
 * information, keys of 1, 2, 4 and 8 bytes are written in decimal, all others
 * in hexadecimal. Returns false if the name does not fit. */
bool map_key_name(char name[MAP_ROW_NAME_SIZE], const struct btf_types *types,
                  const struct map_info *info, const void *key);

#endif
