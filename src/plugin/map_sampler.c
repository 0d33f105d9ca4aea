#include "map_sampler.h"

#include "base/clock.h"
#include "cycles/sampling_thread.h"
#include "map/map.h"
#include "region/layout.h"

#include "utils/common/common.h"

#include <glob.h>

/* A round over the maps should end this long before the next interval. */
#define LEAD_NS (NS_PER_S / 20)

struct map_sampler {
  const struct map_configs *configs;
  uint64_t interval_ns;
  uint64_t took_ns; /* duration of the last round over all maps; 0: no round has
                       ended yet */
  struct names kept; /* paths and names of tables, for the publishers */
  struct sampling_thread sampling;
  /* For each <Map>. The first block that names a region has its publisher. */
  struct {
    struct map_publisher *publisher;
    bool missed; /* the warning that no map matches it was logged */
  } maps[];
};

static void warn(void *context, const char *line) {
  (void)context;
  WARNING("percore: %s", line);
}

static bool must_end(void *context) {
  struct map_sampler *sampler = context;
  return atomic_load_explicit(&sampler->sampling.stop, memory_order_relaxed);
}

/* ---------------------------------------------------------------------------
 * Finding maps
 */

static struct map_publisher *publisher_of(struct map_sampler *sampler,
                                          const char *region) {
  struct map_publisher_options options = {
      .region = region,
      .if_missing = "it is read as soon as it is pinned there",
      .say = warn,
      .must_end = must_end,
      .context = sampler};
  size_t i = 0;
  while (strcmp(sampler->configs->list[i].region, region) != 0)
    i++;
  if (sampler->maps[i].publisher == NULL)
    sampler->maps[i].publisher = map_publisher_open(&options);
  return sampler->maps[i].publisher;
}

/* Returns a copy of a text, which is freed when the sampler stops, or NULL if
 * out of memory. */
static const char *keep(struct map_sampler *sampler, const char *text) {
  struct names *kept = &sampler->kept;
  return config_add_name(kept, text) == 0 ? kept->list[kept->len - 1] : NULL;
}

static void add_map(struct map_sampler *sampler,
                    const struct map_config *config, const char *path) {
  char name[MAP_NAME_SIZE];
  if (names_have(&sampler->kept, path))
    return;
  struct map_table table = config->table;
  table.path = keep(sampler, path);
  if (table.name == NULL) {
    if (!map_clean_name(name, sizeof(name), strrchr(path, '/') + 1, false) ||
        !region_table_name_is_valid(name)) {
      WARNING("percore: map %s is not read: no table can be named after it; "
              "set Table in a <Map> block for this path.",
              path);
      return;
    }
    table.name = keep(sampler, name);
  }
  struct map_publisher *publisher = publisher_of(sampler, config->region);
  if (table.path == NULL || table.name == NULL || publisher == NULL)
    return;
  if (map_publisher_add(publisher, &table, sampler->took_ns > 0) == -EEXIST)
    WARNING("percore: map %s is not read: region %s already has a table %s; "
            "set Table to another name in a <Map> block for this path.",
            path, config->region, table.name);
}

/* True if a file that matches a pattern is, or may be, a pinned map that
 * percore can read. Pinned programs and links, and maps of other types, are
 * skipped. A pin that this process may not open may be a map, so it is added,
 * and its publisher reports the error. Files whose names contain a dot, such as
 * maps.debug, are files of the kernel. */
static bool may_be_map(const char *path) {
  char why[WHY_SIZE];
  struct map map;
  if (strchr(strrchr(path, '/'), '.') != NULL)
    return false;
  int status = map_open_pin(&map, path, why);
  bool readable = status == 0 && map_can_be_read(&map.info);
  map_close(&map);
  return readable || status == -EACCES || status == -EPERM;
}

static void find_matches(struct map_sampler *sampler,
                         const struct map_config *config, bool *missed) {
  glob_t found;
  bool any = false;
  int status = glob(config->table.path, GLOB_ERR, NULL, &found);
  for (size_t p = 0; status == 0 && p < found.gl_pathc; p++)
    if (names_have(&sampler->kept, found.gl_pathv[p]) ||
        may_be_map(found.gl_pathv[p])) {
      add_map(sampler, config, found.gl_pathv[p]);
      any = true;
    }
  globfree(&found);
  if (!any && !*missed)
    WARNING("percore: map %s: no map matches it%s; maps are read as soon as "
            "they are pinned there.",
            config->table.path,
            status == GLOB_ABORTED ? " (its directory cannot be read)" : "");
  *missed = !any;
}

/* First adds the maps that blocks name exactly, then those that match a
 * pattern. If a map is named exactly and also matches a pattern, the options of
 * the block that names it therefore apply. */
static void find_maps(struct map_sampler *sampler) {
  const struct map_configs *configs = sampler->configs;
  for (size_t i = 0; i < configs->len; i++)
    if (!configs->list[i].is_pattern)
      add_map(sampler, &configs->list[i], configs->list[i].table.path);
  for (size_t i = 0; i < configs->len; i++)
    if (configs->list[i].is_pattern)
      find_matches(sampler, &configs->list[i], &sampler->maps[i].missed);
}

/* ---------------------------------------------------------------------------
 * The thread
 */

static void *run_maps(void *argument) {
  struct map_sampler *sampler = argument;
  uint64_t lead_ns;
  do {
    uint64_t begin = clock_now_ns(CLOCK_MONOTONIC);
    find_maps(sampler);
    for (size_t i = 0; i < sampler->configs->len; i++)
      if (sampler->maps[i].publisher != NULL)
        map_publisher_update(sampler->maps[i].publisher);
    sampler->took_ns = clock_now_ns(CLOCK_MONOTONIC) - begin;
    lead_ns = MIN(sampler->took_ns + LEAD_NS, sampler->interval_ns / 2);
  } while (sampling_thread_sleep_to_grid(&sampler->sampling,
                                         sampler->interval_ns, lead_ns));
  /* Close the publishers here, because only the thread that attached to the
   * regions can detach from them. */
  for (size_t i = 0; i < sampler->configs->len; i++)
    map_publisher_close(sampler->maps[i].publisher);
  return NULL;
}

int map_sampler_start(struct map_sampler **result,
                      const struct map_configs *configs, uint64_t interval_ns) {
  *result = NULL;
  if (configs->len == 0)
    return 0;
  struct map_sampler *sampler =
      calloc(1, sizeof(*sampler) + configs->len * sizeof(sampler->maps[0]));
  if (sampler == NULL)
    return -ENOMEM;
  sampler->configs = configs;
  sampler->interval_ns = interval_ns;
  int status = sampling_thread_start(&sampler->sampling, run_maps, sampler);
  if (status == 0)
    *result = sampler;
  else
    map_sampler_stop(sampler);
  return status;
}

void map_sampler_stop(struct map_sampler *sampler) {
  if (sampler == NULL)
    return;
  sampling_thread_stop(&sampler->sampling, UINT64_MAX);
  for (size_t i = 0; i < sampler->kept.len; i++)
    free((char *)sampler->kept.list[i]);
  free(sampler->kept.list);
  free(sampler);
}
