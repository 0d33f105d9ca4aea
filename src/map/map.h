/* map: reads what XDP programs count. Opens BPF maps of other programs, learns
 * from BTF the names of their keys and values, and reads their entries.
 *
 * Knows neither collectd nor cycles, and nothing inside region/: publish.[ch]
 * alone uses percore.h, as any producer does.
 *
 * Functions that can fail return 0 or a negative errno, and write a line to
 * `why`: what failed and, if anything helps, what to do.
 */
#ifndef PERCORE_MAP_MAP_H
#define PERCORE_MAP_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAP_WHY_SIZE 256
#define MAP_ROW_NAME_SIZE 120 /* with NUL */

/* What the kernel tells about a map. */
struct map_info {
  uint32_t type; /* enum bpf_map_type */
  uint32_t id;   /* not reused before the next boot */
  uint32_t key_size, value_size, max_entries;
  uint32_t btf_id, btf_key_type_id, btf_value_type_id; /* 0: none */
  char name[16]; /* cut to 15 bytes by the kernel */
};

struct map {
  int fd;
  struct map_info info;
  uint32_t copies; /* copies of each value: one per possible core, or 1 */
  size_t stride;   /* bytes from one copy to the next */
};

/* Opens a map by its pin, for reading only. Refuses a pin in a directory that
 * any user may write. -ENOENT: there is no such file; -EINVAL: it is not a map.
 */
int map_open_pin(struct map *map, const char *path, char why[MAP_WHY_SIZE]);

/* Opens a map by its number, which takes CAP_SYS_ADMIN. */
int map_open_id(struct map *map, uint32_t id, char why[MAP_WHY_SIZE]);

/* The lowest number above id, or 0 after the last one (or without
 * CAP_SYS_ADMIN, with errno EPERM). */
uint32_t map_next_id(uint32_t id);

void map_close(struct map *map);

/* Arrays have an entry for every index; in all other maps entries come and go.
 */
bool map_is_array(const struct map_info *info);
bool map_is_per_cpu(const struct map_info *info);

/* True for ARRAY, HASH and LRU_HASH, and their PERCPU kinds. */
bool map_can_be_read(const struct map_info *info);

/* "percpu_hash", or NULL for types that percore does not know. */
const char *map_type_name(uint32_t type);

/* The numbers of the possible cores in the order of the copies of a value.
 * Returns how many there are, at most size. */
size_t map_possible_cores(int *cores, size_t size);

/* Receives each entry; values holds map->copies values, map->stride bytes
 * apart. Returns false to end the pass. */
typedef bool map_entry_fn(void *context, const void *key, const void *values);

/* Reads every entry once. Entries that are added or deleted meanwhile may or
 * may not be read. The kernel holds the lock of a hash bucket while it copies
 * the bucket, so do not call this more often than needed. Returns 0, 1 if the
 * pass was ended before the last entry, or a negative errno. */
int map_read(const struct map *map, map_entry_fn *entry, void *context,
             char why[MAP_WHY_SIZE]);

#endif
