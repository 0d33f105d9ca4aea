/* map: reads BPF maps of other programs, such as the counters of XDP programs,
 * and publishes them as regions. The way of an entry:
 *
 *   open.c     opens its map by a pin or an id
 *   learn.c    learns the fields of the map's values (fields.c) from type
 *              information (types.c), once for each map
 *   read.c     copies all entries of the map from the kernel
 *   feed.c     finds the entry among the known ones (known.c), computes what it
 *              has grown since the last reading (growth.c), and adds this to
 *              its row of the region, which is named after the key (keys.c)
 *
 * publish.c calls these for each map, and has created the region, in which each
 * map is a table. From there on it is a region like any other: collectd's
 * plugin reads it as src/plugin/regions.h draws, percore in src/tool/rates.c
 * and dump.c. This folder does not depend on collectd or cycles/, nor on the
 * internals of region/: it uses percore.h, as any producer does.
 *
 * Functions that can fail return 0 or a negative errno. If they fail, they
 * write one line to `why`: what failed and, where possible, what to do. */
#ifndef PERCORE_MAP_MAP_H
#define PERCORE_MAP_MAP_H

#include "base/core_set.h"
#include "base/why.h"

#include <linux/bpf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAP_ROW_NAME_SIZE 120 /* including the final NUL */
#define MAP_POSSIBLE "/sys/devices/system/cpu/possible"

struct map {
  int fd;
  /* What the kernel reports; `id` is not reused until the next boot, and `name`
   * is cut to 15 bytes. */
  struct bpf_map_info info;
  /* Number of copies of each value: one per possible core in a per-CPU map,
   * otherwise 1. */
  uint32_t copies;
  size_t stride; /* distance from one copy to the next, in bytes */
};

/* Opens a pinned map for reading. Returns -ENOENT if the file `path` does not
 * exist, and -EINVAL if it is not a map. */
int map_open_pin(struct map *map, const char *path, char why[WHY_SIZE]);

/* Opens a map for reading by its id, which requires CAP_SYS_ADMIN. */
int map_open_id(struct map *map, uint32_t id, char why[WHY_SIZE]);

/* Returns the lowest map id above `id`, or 0 if no id is greater. Without
 * CAP_SYS_ADMIN, returns 0 and sets errno to EPERM. */
uint32_t map_next_id(uint32_t id);

void map_close(struct map *map);

/* True for arrays, which always have an entry for every index. In all other
 * maps, entries are added and deleted. */
bool map_is_array(const struct bpf_map_info *info);
bool map_is_per_cpu(const struct bpf_map_info *info);

/* True for the types that percore can read: ARRAY, HASH and LRU_HASH, their
 * PERCPU variants, and LPM_TRIE. */
bool map_can_be_read(const struct bpf_map_info *info);

/* Returns a name such as "percpu_hash", or NULL for a type that percore does
 * not know. */
const char *map_type_name(uint32_t type);

/* Writes the core numbers of at most `size` possible cores, in the order in
 * which a per-CPU value's copies are stored. Returns how many numbers it wrote,
 * or 0 if it cannot read the list of possible cores. */
size_t map_possible_cores(int *cores, size_t size);

/* Called for each entry. `values` points to the map->copies copies of the
 * value, which are map->stride bytes apart. Returns false to end the pass. */
typedef bool map_entry_fn(void *context, const void *key, const void *values);

/* Makes one pass over the map and calls `entry` for every entry. An entry that
 * is added or deleted during the pass may or may not be read, and entries may
 * be read twice if others are deleted. The kernel locks each hash bucket while
 * it copies the bucket, so call this function no more often than needed.
 * Returns 0 after a complete pass, 1 if `entry` returned false, or a negative
 * errno. */
int map_read(const struct map *map, map_entry_fn *entry, void *context,
             char why[WHY_SIZE]);

#endif
