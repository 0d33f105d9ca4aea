#include "map.h"

#include "base/bpf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The size of a batch in bytes, unless a single hash bucket needs more. */
#define BATCH_BYTES (1 << 20)
#define BATCH_BYTES_MAX (1 << 28)
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

struct batch {
  const struct map *map;
  map_entry_fn *entry;
  void *context;
  uint32_t capacity; /* in entries */
  char *keys, *values;
};

static size_t values_size(const struct map *map) {
  return map->stride * map->copies;
}

static void free_buffers(struct batch *batch) {
  free(batch->keys);
  free(batch->values);
  batch->keys = batch->values = NULL;
}

static int allocate(struct batch *batch, uint32_t capacity) {
  free_buffers(batch);
  batch->capacity = capacity;
  batch->keys = calloc(capacity, batch->map->info.key_size);
  batch->values = calloc(capacity, values_size(batch->map));
  if (batch->keys != NULL && batch->values != NULL)
    return 0;
  return -ENOMEM;
}

/* Calls the callback for the first `entries` entries in the buffers. Returns
 * false if the callback ended the pass. */
static bool deliver(struct batch *batch, uint32_t entries) {
  for (uint32_t i = 0; i < entries; i++)
    if (!batch->entry(batch->context,
                      batch->keys + (size_t)i * batch->map->info.key_size,
                      batch->values + i * values_size(batch->map)))
      return false;
  return true;
}

/* Reads all entries in batches and returns the same results as map_read. The
 * kernel's cursor is an index, a bucket number or a key, so each of the two
 * cursor buffers must have room for a key. */
static int read_batches(struct batch *batch) {
  const struct bpf_map_info *info = &batch->map->info;
  char cursor[2][512];
  if (info->key_size > sizeof(cursor[0]))
    return -E2BIG;
  for (uint32_t pass = 0;;) {
    union bpf_attr attr = {
        .batch = {.in_batch = pass == 0 ? 0 : (uintptr_t)cursor[pass % 2],
                  .out_batch = (uintptr_t)cursor[(pass + 1) % 2],
                  .keys = (uintptr_t)batch->keys,
                  .values = (uintptr_t)batch->values,
                  .count = batch->capacity,
                  .map_fd = (uint32_t)batch->map->fd}};
    int status = bpf_call(BPF_MAP_LOOKUP_BATCH, &attr);
    /* One hash bucket has more entries than the batch has room for. */
    if (status == -ENOSPC) {
      if (batch->capacity * values_size(batch->map) > BATCH_BYTES_MAX)
        return -ENOSPC;
      if ((status = allocate(batch, 2 * batch->capacity)) != 0)
        return status;
      continue;
    }
    if (status < 0 && status != -ENOENT)
      return status;
    if (attr.batch.count > batch->capacity)
      return -EIO;
    if (!deliver(batch, attr.batch.count))
      return 1;
    if (status == -ENOENT)
      return 0;
    pass++;
  }
}

int map_read(const struct map *map, map_entry_fn *entry, void *context,
             char why[WHY_SIZE]) {
  struct batch batch = {.map = map, .entry = entry, .context = context};
  size_t entry_size = map->info.key_size + values_size(map);
  size_t capacity = MAX(BATCH_BYTES / entry_size, (size_t)1);
  int status = allocate(&batch, (uint32_t)MIN(capacity, map->info.max_entries));
  if (status == 0)
    status = read_batches(&batch);
  free_buffers(&batch);
  if (status < 0)
    snprintf(why, WHY_SIZE, "cannot read its entries: %s", strerror(-status));
  return status;
}
