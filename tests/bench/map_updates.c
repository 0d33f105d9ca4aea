/* Measures how long the plugin takes to add the growth of a BPF map to a region
 * on a machine with 256 cores. The map has 1000 entries of 16 counters, each in
 * 256 copies. The time in which the kernel copies the map is not included. */
#include "percore_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../unit/calls.h"
#include "bench.h"
#include "map/growth.h"
#include "percore_tune.h"

enum { ENTRIES = 1000, COPIES = 256, FIELDS = 16, PASSES = 21 };

static struct map_field fields[FIELDS];
static const struct map_fields map_fields = {.list = fields, .len = FIELDS};
static uint64_t values[COPIES][FIELDS];
static uint64_t last[ENTRIES][COPIES * FIELDS], growth[COPIES * FIELDS];
static percore_slot_t slots[COPIES];
static percore_table_t tables[COPIES];

static struct percore_region *make_region(const char *dir) {
  static struct percore_field columns[FIELDS];
  static char names[FIELDS][8];
  for (uint32_t f = 0; f < FIELDS; f++) {
    snprintf(names[f], sizeof(names[f]), "f%u", f);
    columns[f] = (struct percore_field){.name = names[f], .unit = "1"};
  }
  struct percore_table description = {.name = "map",
                                      .storage = PERCORE_PER_CORE,
                                      .fields = columns,
                                      .field_count = FIELDS,
                                      .max_rows = ENTRIES,
                                      .row_name_size = 24};
  struct percore_options options = {.runtime_dir = dir, .cores = COPIES};
  struct percore_region *region;
  if (create_region(&region, "benchmap", &description, 1, &options) != 0) {
    perror("percore_create");
    exit(1);
  }
  for (int core = 0; core < COPIES; core++)
    attach_thread(region, "map", core, &slots[core]);
  for (int core = 0; core < COPIES; core++)
    tables[core] = percore_table(slots[core], 0);
  for (int i = 0; i < ENTRIES; i++) {
    char name[24];
    uint32_t row;
    snprintf(name, sizeof(name), "row%d", i);
    make_row(region, 0, name, &row);
  }
  return region;
}

static void update(const struct map *map) {
  for (uint32_t entry = 0; entry < ENTRIES; entry++) {
    map_growth(map, &map_fields, values, last[entry], growth);
    for (uint32_t copy = 0; copy < COPIES; copy++) {
      percore_row_t row = percore_row(tables[copy], entry + 1);
      for (uint32_t f = 0; f < FIELDS; f++)
        percore_add(row, f, growth[copy * FIELDS + f]);
    }
  }
}

int main(void) {
  char dir[] = "/tmp/percore-bench-XXXXXX";
  struct percore_region *region = make_region(mkdtemp(dir));
  for (uint32_t f = 0; f < FIELDS; f++)
    fields[f] = (struct map_field){.offset = f * 8, .size = 8};
  struct map map = {.copies = COPIES, .stride = sizeof(values[0])};
  double ms[PASSES];
  for (int pass = 0; pass < PASSES; pass++) {
    for (int i = 0; i < COPIES * FIELDS; i++)
      values[i / FIELDS][i % FIELDS] += (uint64_t)i;
    uint64_t start = now_ns();
    update(&map);
    ms[pass] = (double)(now_ns() - start) / 1e6;
  }
  printf("1000 entries x 16 counters x 256 cores: %.1f ms, %.1f ns per cell\n",
         median(ms, PASSES),
         median(ms, PASSES) * 1e6 / ENTRIES / COPIES / FIELDS);
  for (int core = 0; core < COPIES; core++)
    percore_detach(slots[core]);
  percore_destroy(region);
  rmdir(dir);
  return 0;
}
