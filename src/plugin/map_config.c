#include "map_config.h"

#include "region/layout.h"

#include "utils/common/common.h"

#include <libgen.h>

#define PATTERN_CHARACTERS "*?["
#define ROW_NAME_MAX (MAP_ROW_NAME_SIZE - 1)

/* ---------------------------------------------------------------------------
 * Options
 */

static bool is_field(const char *text) {
  return region_name_is_valid(text, true) && strlen(text) < MAP_NAME_SIZE;
}

static bool is_row(const char *text) {
  return text[0] != '\0' && strlen(text) <= ROW_NAME_MAX &&
         region_text_is_valid(text);
}

static int read_field_at(void *into, const struct config_option *option,
                         const oconfig_item_t *item) {
  struct map_config *map = into;
  if (!config_has_values(item, 3) ||
      item->values[0].type != OCONFIG_TYPE_STRING ||
      !is_field(item->values[0].value.string) ||
      !config_is_whole(&item->values[1], option) ||
      !config_is_whole(&item->values[2], option))
    return config_option_refuse(option, item, NULL);
  uint32_t size = (uint32_t)item->values[2].value.number;
  if (size != 1 && size != 2 && size != 4 && size != 8)
    return config_option_refuse(option, item, NULL);
  struct map_fields *fields = &map->table.fields_at;
  const char *name = item->values[0].value.string;
  for (size_t f = 0; f < fields->len; f++)
    if (strcmp(fields->list[f].name, name) == 0)
      return config_option_refuse(option, item, "this name is given twice");
  struct map_field *field =
      config_append(&fields->list, &fields->len, sizeof(*field));
  if (field == NULL)
    return -1;
  *field = (struct map_field){.offset = (uint32_t)item->values[1].value.number,
                              .size = (uint8_t)size,
                              .is_tagged = true};
  snprintf(field->name, sizeof(field->name), "%s", name);
  return 0;
}

#define NAME_EXCEPT(taken)                                                     \
  "a name of lower-case letters and digits, in quotes, but not " taken
#define NAMES_OF_FIELDS                                                        \
  "names of fields (lower-case letters, digits and _), each in quotes"

static const struct config_option map_options[] = {
    CONFIG_STRING("Region", struct map_config, region,
                  region_config_is_readable,
                  NAME_EXCEPT("\"host\" or \"board\"")),
    CONFIG_STRING("Table", struct map_config, table.name,
                  region_table_name_is_valid,
                  NAME_EXCEPT("\"host\" or \"core\"")),
    CONFIG_NAMES("RowName", struct map_config, table.row_names, is_row,
                 "names of at most 119 bytes without control characters, each "
                 "in quotes"),
    {.key = "Key",
     .read = config_word,
     .words = (const char *const[]){[MAP_KEY_BY_TYPE] = "type",
                                    [MAP_KEY_HEX] = "hex",
                                    [MAP_KEY_IPV4] = "ipv4",
                                    NULL},
     .offset = offsetof(struct map_config, table.key),
     .allowed = "\"type\", \"hex\" or \"ipv4\""},
    CONFIG_NAMES("Field", struct map_config, table.fields, is_field,
                 NAMES_OF_FIELDS),
    CONFIG_NAMES("Gauge", struct map_config, table.gauges, is_field,
                 NAMES_OF_FIELDS),
    {.key = "FieldAt",
     .read = read_field_at,
     .allowed = "the name of a field in quotes, its offset in the value, and "
                "its size: 1, 2, 4 or 8, such as \"rx_packets\" 0 8",
     .min = 0,
     .max = 1 << 20},
    CONFIG_NUMBER("MaxRows", config_integer, struct map_config, table.max_rows,
                  "a whole number", 1, 10000000),
    {.key = NULL},
};

/* ---------------------------------------------------------------------------
 * The block
 */

/* Names the region after the directory of the pin, with "map" at its end, so
 * that the program may publish a region with its own name. Returns 0, or -1
 * after logging an error. */
static int name_region(struct map_config *map) {
  char folder[PATH_MAX], name[MAP_NAME_SIZE + sizeof("map")];
  sstrncpy(folder, map->table.path, sizeof(folder));
  bool named =
      map_clean_name(name, MAP_NAME_SIZE, basename(dirname(folder)), false);
  strcat(name, "map");
  if (!named || !region_config_is_readable(name)) {
    ERROR("percore: Map \"%s\": the name of its directory is not a valid name "
          "for a region; set Region.",
          map->table.path);
    return -1;
  }
  map->region = config_copy(name);
  return map->region != NULL ? 0 : -1;
}

/* Returns the path of the block, or NULL if it is not allowed. */
static const char *path_of(const oconfig_item_t *block) {
  const char *path = config_block_name(block);
  const char *last = path != NULL ? strrchr(path, '/') : NULL;
  bool allowed = last != NULL && path[0] == '/' && strlen(path) < PATH_MAX &&
                 last[1] != '\0' &&
                 strcspn(path, PATTERN_CHARACTERS) >= (size_t)(last - path);
  return allowed ? path : NULL;
}

int map_config_read(struct map_configs *configs, struct region_configs *regions,
                    const struct config_option *option,
                    const oconfig_item_t *block) {
  const char *path = path_of(block);
  if (path == NULL)
    return config_option_refuse(option, block, NULL);
  for (size_t i = 0; i < configs->len; i++)
    if (strcmp(configs->list[i].table.path, path) == 0)
      return config_option_refuse(option, block, "this path is given twice");
  struct map_config *map =
      config_append(&configs->list, &configs->len, sizeof(*map));
  if (map == NULL || (map->table.path = config_copy(path)) == NULL ||
      config_options_read(map, map_options, block) != 0)
    return -1;
  map->is_pattern = strpbrk(map->table.path, PATTERN_CHARACTERS) != NULL;
  map->table.has_all_names = !map->is_pattern;
  if (map->is_pattern && map->table.name != NULL) {
    ERROR("percore: Map \"%s\": a pattern can match several maps, so their "
          "tables are named after their pins; remove Table.",
          map->table.path);
    return -1;
  }
  if (map->region == NULL && name_region(map) != 0)
    return -1;
  return region_config_publish(regions, map->region);
}
