/* percore map: lists the BPF maps of other programs, or shows a map as `percore
 * top` and `percore dump` show a region. */
#include "base/number.h"
#include "json.h"
#include "map/publish.h"
#include "region/layout.h"
#include "target.h"
#include "text.h"
#include "tool.h"

#include <errno.h>
#include <ftw.h>
#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COMMAND "map"
#define ADVICE "give list, top MAP or dump MAP"
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

static int list(bool as_json) {
  struct json *json = NULL;
  nftw(BPFFS, note_pin, FOLDERS_OPEN, FTW_PHYS | FTW_MOUNT);
  if (as_json) {
    json = json_begin(stdout, COMMAND);
    json_open_array(json, "maps");
  } else {
    printf("%6s %-16s %-15s %5s %6s %9s  %s\n", "id", "type", "name", "key",
           "value", "entries", "pin");
  }
  if (map_next_id(0) == 0 && errno == EPERM)
    fputs("percore map: only pinned maps are listed; listing all maps needs "
          "CAP_SYS_ADMIN\n",
          stderr);
  put_maps(json);
  if (json != NULL) {
    json_close_array(json);
    json_end(json);
  }
  return end_output(COMMAND);
}

/* ---------------------------------------------------------------------------
 * A map as a region of this process
 */

static struct map_publisher *publisher;

/* Updates the region. Called each time before `percore top` reads the region.
 * Messages about the map begin with "percore map:", not "percore map top:". */
static void renew(void) {
  say_within(NULL);
  map_publisher_update(publisher);
  say_within(COMMAND);
}

static void say_line(void *context, const char *line) {
  (void)context;
  say_failure(COMMAND, "%s", line);
}

/* Parses PIN or id:N into *table. Returns TOOL_OK, or another exit
 * status after an error message. */
static int choose_map(struct map_table *table, const char *word) {
  static char name[MAP_NAME_SIZE];
  if (strncmp(word, "id:", 3) == 0) {
    const char *rest = word + 3;
    uint64_t id = 0;
    if (!number_next(&rest, &id) || *rest != '\0' || id == 0 || id > UINT32_MAX)
      return say_usage(COMMAND, "'%s' is not a map id: write id:NUMBER", word);
    table->id = (uint32_t)id;
  } else {
    table->path = word;
  }
  const char *slash = strrchr(word, '/'), *colon = strchr(word, ':');
  const char *last = slash != NULL   ? slash + 1
                     : colon != NULL ? colon + 1
                                     : word;
  table->name = map_clean_name(name, sizeof(name), last, false) &&
                        region_table_name_is_valid(name)
                    ? name
                    : "map";
  return TOOL_OK;
}

static int publish(struct map_table *table, const char *word,
                   const char *runtime_dir) {
  const struct map_publisher_options options = {
      .region = "map",
      .runtime_dir = runtime_dir,
      .if_missing =
          "give the path of a pin, or id:NUMBER; 'percore map list' lists them",
      .say = say_line};
  int status = choose_map(table, word);
  if (status != TOOL_OK)
    return status;
  publisher = map_publisher_open(&options);
  if (publisher == NULL || map_publisher_add(publisher, table, true) != 0)
    return say_failure(COMMAND, "out of memory");
  return map_publisher_update(publisher) == 1 ? TOOL_OK : TOOL_FAILURE;
}

/* Runs `percore top` or `percore dump` with --table, so that only the map's
 * table is shown, and not the publisher's own table. */
static int run_on_table(const struct command *command, const char *table,
                        int argc, char **argv) {
  const char *first[] = {command->name, "map", "--table", table};
  enum { FIRST = sizeof(first) / sizeof(first[0]) };
  const char **words = calloc(FIRST + (size_t)argc + 1, sizeof(*words));
  if (words == NULL)
    return say_failure(COMMAND, "out of memory");
  memcpy(words, first, sizeof(first));
  memcpy(words + FIRST, argv, (size_t)argc * sizeof(*words));
  target_renew_by(renew);
  say_within(COMMAND);
  int status = command->run(FIRST + argc, (char **)words);
  say_within(NULL);
  free(words);
  return status;
}

/* Publishes a map as a region and shows it. The region has its own runtime
 * directory, so that its name cannot clash with the name of a producer's
 * region. */
static int show(const struct command *command, const char *word, int argc,
                char **argv) {
  char runtime_dir[] = "/tmp/percore-map-XXXXXX";
  struct map_table table = {.path = NULL};
  if (mkdtemp(runtime_dir) == NULL)
    return say_failure(COMMAND, "cannot create a directory in /tmp: %s",
                       strerror(errno));
  setenv("PERCORE_RUNTIME_DIR", runtime_dir, 1);
  int status = publish(&table, word, runtime_dir);
  if (status == TOOL_OK)
    status = run_on_table(command, table.name, argc, argv);
  map_publisher_close(publisher);
  rmdir(runtime_dir);
  return status;
}

static int map_main(int argc, char **argv) {
  bool json = false;
  const char *verb = argc > 1 ? argv[1] : "";
  const struct command *shown = strcmp(verb, "top") == 0    ? &top_command
                                : strcmp(verb, "dump") == 0 ? &dump_command
                                                            : NULL;
  if (shown != NULL && argc > 2 && argv[2][0] != '-')
    return show(shown, argv[2], argc - 3, argv + 3);
  if (shown != NULL && argc > 3 && argv[argc - 1][0] != '-')
    return show(shown, argv[argc - 1], argc - 3, argv + 2);
  if (shown != NULL && argc > 2) { /* such as --help */
    say_within(COMMAND);
    return shown->run(argc - 1, argv + 1);
  }
  int status = arguments_read(&map_command, argc, argv, &json);
  if (status >= 0)
    return status;
  if (optind + 1 == argc && strcmp(argv[optind], "list") == 0)
    return list(json);
  return say_usage(COMMAND, ADVICE);
}

static const char *const verbs[] = {"list", "top", "dump", NULL};

const struct command map_command = {
    .name = COMMAND,
    .summary = "show what XDP programs count in BPF maps",
    .usage = "list | top MAP | dump MAP [OPTION]...",
    .about =
        "Lists the BPF maps of this machine that percore can read, or shows "
        "a map as 'percore top' and 'percore dump' show a region: its "
        "entries are rows, the members of its values are fields. MAP is "
        "the path of a pin or id:NUMBER; options of top or dump "
        "may follow or precede it. Reads the type information of a map, which "
        "needs "
        "CAP_SYS_ADMIN.",
    .arguments = ARGUMENTS(argument_json),
    .words_min = 1,
    .words_max = 2,
    .words_missing = ADVICE,
    .verbs = verbs,
    .run = map_main,
};
