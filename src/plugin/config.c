#include "config.h"

#include "utils/common/common.h"


#define AT(member) offsetof(struct config, member)
#define MAX_VALUES_DEFAULT 100000
#define MAX_MEMORY_DEFAULT 1073741824

/* ---------------------------------------------------------------------------
 * Options of the plugin
 */

/* Adds the cores that item->values[at] lists. A single core may be given as a
 * number. */
static int add_cores(struct core_set *cores, const struct config_option *option,
                     const oconfig_item_t *item, int at) {
  const oconfig_value_t *value = &item->values[at];
  char number[32];
  const char *list = number;
  if (value->type == OCONFIG_TYPE_STRING)
    list = value->value.string;
  else if (value->type == OCONFIG_TYPE_NUMBER)
    snprintf(number, sizeof(number), "%.15g", value->value.number);
  else
    return config_option_refuse(option, item, NULL);

  struct core_set added;
  int status = core_set_parse(&added, list);
  if (status == -ERANGE)
    return config_option_refuse(option, item, "core numbers end at 8191");
  if (status != 0)
    return config_option_refuse(option, item, "not a list of cores");
  if (core_set_count(&added) == 0)
    return config_option_refuse(option, item, "the list is empty");
  core_set_union(cores, &added);
  return 0;
}

static int read_cores(void *into, const struct config_option *option,
                      const oconfig_item_t *item) {
  struct core_set *cores = (void *)((char *)into + option->offset);
  if (!config_has_values(item, 1))
    return config_option_refuse(option, item, NULL);
  return add_cores(cores, option, item, 0);
}

/* True if a group may have this name, which becomes a plugin instance. */
static bool is_group_name(const char *name) {
  size_t length = strlen(name);
  if (length == 0 || length >= FIGURES_NAME_MAX ||
      !isalpha((unsigned char)name[0]))
    return false;
  for (const char *p = name; *p != '\0'; p++)
    if (!isalnum((unsigned char)*p) && *p != '_' && *p != '-')
      return false;
  return true;
}

/* True for the names of percore's own aggregates. */
static bool is_reserved_name(const char *name) {
  static const char *const whole[] = {"all", "isolated", "housekeeping",
                                      "self"};
  for (size_t i = 0; i < STATIC_ARRAY_SIZE(whole); i++)
    if (strcasecmp(name, whole[i]) == 0)
      return true;
  return strncasecmp(name, "node", 4) == 0 && name[4] != '\0' &&
         name[4 + strspn(name + 4, "0123456789")] == '\0';
}

/* Returns the group with this name, which is added if it does not exist, or
 * NULL if out of memory. */
static struct figures_group *find_group(struct config *config,
                                        const char *name) {
  for (size_t i = 0; i < config->groups_len; i++)
    if (strcmp(config->groups[i].name, name) == 0)
      return &config->groups[i];
  struct figures_group *group =
      config_append(&config->groups, &config->groups_len, sizeof(*group));
  if (group != NULL)
    sstrncpy(group->name, name, sizeof(group->name));
  return group;
}

static int read_group(void *into, const struct config_option *option,
                      const oconfig_item_t *item) {
  struct config *config = into;
  if (!config_has_values(item, 2) ||
      item->values[0].type != OCONFIG_TYPE_STRING)
    return config_option_refuse(option, item, NULL);
  const char *name = item->values[0].value.string;
  if (!is_group_name(name))
    return config_option_refuse(option, item, "not a valid name for a group");
  if (is_reserved_name(name))
    return config_option_refuse(option, item, "percore uses that name itself");
  struct figures_group *group = find_group(config, name);
  return group != NULL ? add_cores(&group->cores, option, item, 1) : -1;
}

static int read_wake_latency(void *into, const struct config_option *option,
                             const oconfig_item_t *item) {
  struct config *config = into;
  if (!config_has_values(item, 1))
    return config_option_refuse(option, item, NULL);
  config->wake_latency = true;
  if (item->values[0].type != OCONFIG_TYPE_BOOLEAN)
    return add_cores(&config->wake_cores, option, item, 0);
  config->wake_latency = item->values[0].value.boolean;
  return 0;
}

static int read_pollers(void *into, const struct config_option *option,
                        const oconfig_item_t *item) {
  struct config *config = into;
  config->pollers.wanted = true;
  config->pollers.usual |= item->children_num == 0;
  return config_block(config, option, item);
}

static int read_map(void *into, const struct config_option *option,
                    const oconfig_item_t *item) {
  struct config *config = into;
  return map_config_read(&config->maps, &config->regions, option, item);
}

static bool is_root(const char *path) {
  return path[0] == '/' && strlen(path) < PATH_MAX / 2;
}

static int read_sys_root(void *into, const struct config_option *option,
                         const oconfig_item_t *item) {
  struct config *config = into;
  if (config_string(into, option, item) != 0)
    return -1;
  size_t length = strlen(config->sys_root);
  while (length > 0 && config->sys_root[length - 1] == '/')
    config->sys_root[--length] = '\0';
  if (length == 0)
    sfree(config->sys_root);
  return 0;
}

/* ---------------------------------------------------------------------------
 * Options of <Load>
 */

static int read_source(void *into, const struct config_option *option,
                       const oconfig_item_t *item) {
  struct config *config = into;
  const char *text = config_one_string(item);
  if (text == NULL || source_parse(&config->sampler.engine.source, text) != 0)
    return config_option_refuse(option, item, NULL);
  return 0;
}

/* ---------------------------------------------------------------------------
 * All options
 */

#define CORES(name, member)                                                    \
  {                                                                            \
    .key = name, .read = read_cores,                                           \
    .allowed = "one list of core numbers from 0 to 8191, such as \"0-15,32\"", \
    .offset = AT(member)                                                       \
  }

#define BOOLEAN(name, member) CONFIG_BOOLEAN(name, struct config, member)
#define INTEGER(name, member, from, to)                                        \
  CONFIG_NUMBER(name, config_integer, struct config, member, "a whole number", \
                from, to)
#define NUMBER(name, member, what, from, to)                                   \
  CONFIG_NUMBER(name, config_number, struct config, member, what, from, to)

static const struct config_option load_options[] = {
    {.key = "Source",
     .read = read_source,
     .allowed =
         "one of \"auto\", \"mperf\", \"ref-cycles\", \"event\", \"bpf\", "
         "\"idle\""},
    {.key = "IsolatedCores",
     .read = config_word,
     .words = isolated_cores_names,
     .offset = AT(sampler.engine.isolated_cores),
     .allowed = "one of \"idle\", \"bpf\", \"hardware\", \"skip\""},
    CORES("AlsoIsolated", sampler.engine.also_isolated),
    NUMBER("SampleInterval", load.sample_interval_s, "a number of seconds",
           0.05, 60),
    {.key = "Board",
     .read = config_word,
     .words = (const char *const[]){[BOARD_OFF] = "off",
                                    [BOARD_GROUP] = "group",
                                    [BOARD_ALL] = "all",
                                    NULL},
     .offset = AT(load.board),
     .allowed = "one of \"group\", \"all\", \"off\""},
    BOOLEAN("ReportPerCore", load.report_per_core),
    BOOLEAN("ReportHost", load.report_host),
    BOOLEAN("ReportSelf", load.report_self),
    BOOLEAN("ReportBounds", sampler.engine.bounds),
    BOOLEAN("ReportHidden", load.report_hidden),
    BOOLEAN("ReportTime", load.report_time),
    BOOLEAN("ReportFrequency", sampler.engine.frequency),
    BOOLEAN("ReportSoftirq", sampler.figures.softirq),
    BOOLEAN("ReportCStates", sampler.figures.cstates),
    {.key = NULL},
};

static const struct config_option poller_options[] = {
    BOOLEAN("UsualPlaces", pollers.usual),
    CONFIG_NAMES("Socket", struct config, pollers.sockets, is_root,
                 "absolute paths, each in quotes; patterns are allowed"),
    {.key = NULL},
};

#define BLOCK(name, reader, options)                                           \
  {                                                                            \
    .key = name, .read = reader, .block = options,                             \
    .allowed = "a block, <" name "> to </" name ">"                            \
  }

static const struct config_option plugin_options[] = {
    CORES("Cores", cores),
    {.key = "Group",
     .read = read_group,
     .allowed =
         "a name (a letter, then letters, digits, - and _, at most 63) and a "
         "list "
         "of core numbers from 0 to 8191, such as \"dataplane\" \"2-15\""},
    {.key = "SysRoot",
     .read = read_sys_root,
     .allowed = "one absolute path",
     .is_valid = is_root,
     .offset = AT(sys_root)},
    INTEGER("MaxValues", max_values, 1, 10000000),
    NUMBER("MaxMemory", max_memory, "a number of bytes", 1048576,
           70368744177664),
    BLOCK("Load", config_block, load_options),
    {.key = "WakeLatency",
     .read = read_wake_latency,
     .allowed = "true, false or one list of core numbers from 0 to 8191, such "
                "as \"0-1\""},
    BLOCK("Pollers", read_pollers, poller_options),
    {.key = "Region",
     .read = region_config_read,
     .offset = AT(regions),
     .allowed = "a block with the name of a region or \"*\", "
                "<Region \"gtpu\"> to </Region>"},
    {.key = "Map",
     .read = read_map,
     .allowed = "a block with the absolute path of a pinned map, "
                "<Map \"/sys/fs/bpf/gateway/ports\"> to </Map>; only the last "
                "part of the path may be a pattern"},
    {.key = NULL},
};

/* ---------------------------------------------------------------------------
 * All blocks
 */

void config_init(struct config *config) {
  *config = (struct config){
      .max_values = MAX_VALUES_DEFAULT,
      .max_memory = MAX_MEMORY_DEFAULT,
      .sampler = {.engine = {.source = SOURCE_AUTO,
                             .isolated_cores = ISOLATED_CORES_IDLE}},
      .load = {.report_per_core = true,
               .report_host = true,
               .board = BOARD_GROUP},
  };
}

int config_read(struct config *config, const oconfig_item_t *block) {
  if (config_options_read(config, plugin_options, block) != 0)
    return -1;
  return config->pollers.wanted
             ? region_config_publish(&config->regions, POLLERS_REGION)
             : 0;
}

void config_sampler_options(const struct config *config,
                            struct sampler_options *options) {
  *options = config->sampler;
  options->engine.cores = config_cores(&config->cores);
  options->engine.hardware = machine_is_ours(config->sys_root);
  options->figures.softirq &= config->load.report_per_core;
  options->figures.groups = config->groups;
  options->figures.groups_len = config->groups_len;
  options->sample_interval_ns =
      (uint64_t)llround(config->load.sample_interval_s * 1e9);
  /* Of a long window, more steal may not have been taken off idle time yet. */
  if (options->sample_interval_ns == 0 && options->engine.bounds)
    options->sample_interval_ns = LOADAVG_INTERVAL_NS / 4;
}
