#include "map.h"

#include "base/number.h"
#include "json.h"
#include "map/publish.h"
#include "region/layout.h"
#include "target.h"
#include "text.h"
#include "tool.h"

#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BPFFS "/sys/fs/bpf"
#define PINS_MAX 4096
#define FOLDERS_OPEN 16

/* ---------------------------------------------------------------------------
 * Listing
 */

static struct {
  char *paths[PINS_MAX];
  uint32_t ids[PINS_MAX];
  size_t len;
} pins; /* global, because nftw passes no context to its callback */

static int note_pin(const char *path, const struct stat *status, int type,
                    struct FTW *place) {
  (void)status;
  (void)place;
  char why[WHY_SIZE];
  struct map map;
  if (type != FTW_F || pins.len == PINS_MAX ||
      map_open_pin(&map, path, why) != 0)
    return 0;
  pins.ids[pins.len] = map.info.id;
  pins.paths[pins.len] = strdup(path);
  pins.len += pins.paths[pins.len] != NULL;
  map_close(&map);
  return 0;
}

static const char *pin_of(uint32_t id) {
  for (size_t i = 0; i < pins.len; i++)
    if (pins.ids[i] == id)
      return pins.paths[i];
  return NULL;
}

/* True for a map of percore's own BPF programs or of a light skeleton's loader.
 * These maps contain no counters of other programs, so the table leaves them
 * out. */
static bool is_own(const struct bpf_map_info *info) {
  static const char *const names[] = {"idle_clock", "softirq_time",
                                      "wake_probes", "wake_timers",
                                      "__loader.map"};
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
    if (info->max_entries == 1 && strcmp(info->name, names[i]) == 0)
      return true;
  return false;
}

static void put_map_text(const struct bpf_map_info *info) {
  char name[sizeof(info->name) * TEXT_GROWTH];
  const char *pin = pin_of(info->id), *type = map_type_name(info->type);
  char path[PATH_MAX * TEXT_GROWTH];
  text_clean_string(name, sizeof(name), info->name);
  text_clean_string(path, sizeof(path), pin != NULL ? pin : "-");
  printf("%6u %-16s %-15s %5u %6u %9u  %s\n", info->id,
         type != NULL ? type : "-", name, info->key_size, info->value_size,
         info->max_entries, path);
}

static void put_map_json(struct json *json, const struct bpf_map_info *info) {
  json_open_object(json, NULL);
  json_unsigned(json, "id", info->id);
  json_text(json, "name", info->name);
  if (map_type_name(info->type) != NULL)
    json_text(json, "type", map_type_name(info->type));
  json_unsigned(json, "key_size", info->key_size);
  json_unsigned(json, "value_size", info->value_size);
  json_unsigned(json, "max_entries", info->max_entries);
  json_bool(json, "readable", map_can_be_read(info));
  json_bool(json, "has_types", info->btf_id != 0);
  if (pin_of(info->id) != NULL)
    json_text(json, "pin", pin_of(info->id));
  json_close_object(json);
}

static void put_map(struct json *json, const struct map *map) {
  if (json != NULL)
    put_map_json(json, &map->info);
  else if (map_can_be_read(&map->info) && !is_own(&map->info))
    put_map_text(&map->info);
}

/* Writes all maps or, without CAP_SYS_ADMIN, only the pinned maps. */
static void put_maps(struct json *json) {
  char why[WHY_SIZE];
  struct map map;
  uint32_t id = map_next_id(0);
  bool all = id != 0 || errno != EPERM;
  for (; id != 0; id = map_next_id(id))
    if (map_open_id(&map, id, why) == 0) {
      put_map(json, &map);
      map_close(&map);
    }
  for (size_t i = 0; i < pins.len && !all; i++)
    if (map_open_pin(&map, pins.paths[i], why) == 0) {
      put_map(json, &map);
      map_close(&map);
    }
}

int map_list(const char *command, bool as_json) {
  struct json *json = NULL;
  nftw(BPFFS, note_pin, FOLDERS_OPEN, FTW_PHYS | FTW_MOUNT);
  if (as_json) {
    json = json_begin(stdout, "regions --maps");
    json_open_array(json, "maps");
  } else {
    printf("%6s %-16s %-15s %5s %6s %9s  %s\n", "id", "type", "name", "key",
           "value", "entries", "pin");
  }
  if (map_next_id(0) == 0 && errno == EPERM)
    say_failure(command, "only pinned maps are listed; listing all maps needs "
                         "CAP_SYS_ADMIN");
  put_maps(json);
  if (json != NULL) {
    json_close_array(json);
    json_end(json);
  }
  return end_output(command);
}

/* ---------------------------------------------------------------------------
 * A map as a region of this process
 */

static struct {
  struct map_publisher *publisher; /* NULL: no map is published */
  struct map_table table;
  char name[MAP_NAME_SIZE];
  char runtime_dir[sizeof("/tmp/percore-map-XXXXXX")];
  const char *command;
} published;

bool map_is_named(const char *word) {
  return strchr(word, '/') != NULL || strncmp(word, "id:", 3) == 0;
}

void map_renew(void) {
  if (published.publisher != NULL)
    map_publisher_update(published.publisher);
}

void map_end(void) {
  struct listing listing;
  char path[PATH_MAX];
  map_publisher_close(published.publisher);
  published.publisher = NULL;
  if (published.runtime_dir[0] == '\0')
    return;
  (void)listing_read(&listing); /* the region that has ended */
  for (size_t i = 0; i < listing.len; i++) {
    snprintf(path, sizeof(path), "%s/%s", published.runtime_dir,
             listing.listed[i].file);
    unlink(path);
  }
  listing_free(&listing);
  rmdir(published.runtime_dir);
}

static void say_line(void *context, const char *line) {
  (void)context;
  say_failure(published.command, "%s", line);
}

/* Parses a path or id:NUMBER. Returns TOOL_OK, or another exit status after an
 * error message. */
static int choose_map(struct map_table *table, const char *word) {
  const char *last = strrchr(word, '/'), *rest = word + 3;
  uint64_t id = 0;
  if (last != NULL)
    table->path = word;
  else if (!number_next(&rest, &id) || *rest != '\0' || id == 0 ||
           id > UINT32_MAX)
    return say_usage(published.command, "'%s' is not a map id: write id:NUMBER",
                     word);
  table->id = (uint32_t)id;
  table->name = map_clean_name(published.name, sizeof(published.name),
                               last != NULL ? last + 1 : word + 3, false) &&
                        region_table_name_is_valid(published.name)
                    ? published.name
                    : "map";
  return TOOL_OK;
}

int map_publish(const char *command, const char *word, const char **table) {
  const struct map_publisher_options options = {
      .region = MAP_REGION,
      .runtime_dir = published.runtime_dir,
      .if_missing = "'percore regions --maps' lists the maps",
      .say = say_line};
  published.command = command;
  int status = choose_map(&published.table, word);
  if (status != TOOL_OK)
    return status;
  strcpy(published.runtime_dir, "/tmp/percore-map-XXXXXX");
  if (mkdtemp(published.runtime_dir) == NULL)
    return say_failure(command, "cannot create a directory in /tmp: %s",
                       strerror(errno));
  setenv("PERCORE_RUNTIME_DIR", published.runtime_dir, 1);
  published.publisher = map_publisher_open(&options);
  if (published.publisher == NULL ||
      map_publisher_add(published.publisher, &published.table, true) != 0)
    return say_failure(command, "%s", strerror(ENOMEM));
  if (*table == NULL)
    *table = published.table.name;
  return map_publisher_update(published.publisher) == 1 ? TOOL_OK
                                                        : TOOL_FAILURE;
}
