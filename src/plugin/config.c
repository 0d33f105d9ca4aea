#include "config.h"

#include "utils/common/common.h"

#include <math.h>

/* What an option may be told to do: `read` takes its values from `item` and
 * puts them at `offset` in the config. A block has options of its own. */
struct option {
  const char *key;
  int (*read)(struct config *config, const struct option *option,
              const oconfig_item_t *item);
  size_t offset;
  const char *allowed; /* completes the sentence "must be ..." */
  double least, most;  /* of a number */
  const struct option *block;
};

#define AT(member) offsetof(struct config, member)
#define MEMBER(type, config, option)                                           \
  ((type *)(void *)((char *)(config) + (option)->offset))

#define MAX_VALUES_DEFAULT 100000
#define PERIOD_MIN_S 10
#define PERIOD_MAX_S 3600

/* ---------------------------------------------------------------------------
 * Errors
 */

/* Writes the values of an option as they stand in the file. */
static void format_values_of(const oconfig_item_t *item, char *text,
                             size_t size) {
  size_t used = 0;
  text[0] = '\0';
  for (int i = 0; i < item->values_num && used < size; i++) {
    const oconfig_value_t *value = &item->values[i];
    char *end = text + used;
    size_t room = size - used;
    int length;
    if (value->type == OCONFIG_TYPE_STRING)
      length = snprintf(end, room, " \"%s\"", value->value.string);
    else if (value->type == OCONFIG_TYPE_NUMBER)
      length = snprintf(end, room, " %.15g", value->value.number);
    else
      length =
          snprintf(end, room, " %s", value->value.boolean ? "true" : "false");
    used += (size_t)length;
  }
}

int config_refuse(const char *key, const oconfig_item_t *item,
                  const char *reason, const char *allowed) {
  char values[256];
  format_values_of(item, values, sizeof(values));
  ERROR("percore: %s%s%s: %s%smust be %s.", key,
        item->values_num > 0 ? "" : " (without a value)", values,
        reason != NULL ? reason : "", reason != NULL ? "; " : "", allowed);
  return -1;
}

static int refuse(const struct option *option, const oconfig_item_t *item,
                  const char *reason) {
  return config_refuse(option->key, item, reason, option->allowed);
}

/* ---------------------------------------------------------------------------
 * Values
 */

/* The one string of an option, or NULL. */
static const char *one_string(const oconfig_item_t *item) {
  if (item->children_num != 0 || item->values_num != 1 ||
      item->values[0].type != OCONFIG_TYPE_STRING)
    return NULL;
  return item->values[0].value.string;
}

static bool is_number(const oconfig_value_t *value,
                      const struct option *option) {
  return value->type == OCONFIG_TYPE_NUMBER && isfinite(value->value.number) &&
         value->value.number >= option->least &&
         value->value.number <= option->most;
}

static int read_number(struct config *config, const struct option *option,
                       const oconfig_item_t *item) {
  if (item->children_num != 0 || item->values_num != 1 ||
      !is_number(&item->values[0], option))
    return refuse(option, item, NULL);
  *MEMBER(double, config, option) = item->values[0].value.number;
  return 0;
}

static int read_integer(struct config *config, const struct option *option,
                        const oconfig_item_t *item) {
  if (item->children_num != 0 || item->values_num != 1 ||
      !is_number(&item->values[0], option) ||
      item->values[0].value.number != floor(item->values[0].value.number))
    return refuse(option, item, NULL);
  *MEMBER(int, config, option) = (int)item->values[0].value.number;
  return 0;
}

/* As collectd's own options: true, yes and on, quoted or not. */
static int read_boolean(struct config *config, const struct option *option,
                        const oconfig_item_t *item) {
  bool *member = MEMBER(bool, config, option);
  if (item->children_num != 0 || item->values_num != 1)
    return refuse(option, item, NULL);
  const oconfig_value_t *value = &item->values[0];
  if (value->type == OCONFIG_TYPE_BOOLEAN)
    *member = value->value.boolean;
  else if (value->type == OCONFIG_TYPE_STRING && IS_TRUE(value->value.string))
    *member = true;
  else if (value->type == OCONFIG_TYPE_STRING && IS_FALSE(value->value.string))
    *member = false;
  else
    return refuse(option, item, NULL);
  return 0;
}

static int replace_string(char **member, const char *text) {
  char *copy = strdup(text);
  if (copy == NULL) {
    ERROR("percore: out of memory.");
    return -1;
  }
  free(*member);
  *member = copy;
  return 0;
}

/* ---------------------------------------------------------------------------
 * Options of the plugin
 */

/* Adds the list in item->values[at] to *cores. A single core may stand there
 * as a number. */
static int add_cores(struct core_set *cores, const struct option *option,
                     const oconfig_item_t *item, int at) {
  const oconfig_value_t *value = &item->values[at];
  char number[32];
  const char *list = number;
  if (value->type == OCONFIG_TYPE_STRING)
    list = value->value.string;
  else if (value->type == OCONFIG_TYPE_NUMBER)
    snprintf(number, sizeof(number), "%.15g", value->value.number);
  else
    return refuse(option, item, NULL);

  struct core_set added;
  int status = core_set_parse(&added, list);
  if (status == -ERANGE)
    return refuse(option, item, "there is no core of 8192 or more");
  if (status != 0)
    return refuse(option, item, "that is no list of cores");
  if (core_set_count(&added) == 0)
    return refuse(option, item, "that list is empty");
  core_set_union(cores, &added);
  return 0;
}

static int read_cores(struct config *config, const struct option *option,
                      const oconfig_item_t *item) {
  if (item->children_num != 0 || item->values_num != 1)
    return refuse(option, item, NULL);
  if (add_cores(&config->cores, option, item, 0) != 0)
    return -1;
  config->cores_given = true;
  return 0;
}

/* The name becomes a whole part of an identifier. */
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

/* Names that percore gives to aggregates of its own. */
static bool is_reserved_name(const char *name) {
  static const char *const whole[] = {"all", "isolated", "housekeeping",
                                      "self"};
  static const char *const numbered[] = {"node", "package"};
  for (size_t i = 0; i < STATIC_ARRAY_SIZE(whole); i++)
    if (strcmp(name, whole[i]) == 0)
      return true;
  for (size_t i = 0; i < STATIC_ARRAY_SIZE(numbered); i++) {
    size_t length = strlen(numbered[i]);
    if (strncmp(name, numbered[i], length) == 0 && name[length] != '\0' &&
        strspn(name + length, "0123456789") == strlen(name + length))
      return true;
  }
  return false;
}

/* The group of that name, made if there is none; NULL if out of memory. */
static struct figures_group *find_group(struct config *config,
                                        const char *name) {
  for (size_t i = 0; i < config->groups_len; i++)
    if (strcmp(config->groups[i].name, name) == 0)
      return &config->groups[i];
  struct figures_group *groups =
      realloc(config->groups, (config->groups_len + 1) * sizeof(*groups));
  if (groups == NULL) {
    ERROR("percore: out of memory.");
    return NULL;
  }
  config->groups = groups;
  struct figures_group *group = &groups[config->groups_len++];
  memset(group, 0, sizeof(*group));
  sstrncpy(group->name, name, sizeof(group->name));
  return group;
}

static int read_group(struct config *config, const struct option *option,
                      const oconfig_item_t *item) {
  if (item->children_num != 0 || item->values_num != 2 ||
      item->values[0].type != OCONFIG_TYPE_STRING)
    return refuse(option, item, NULL);
  const char *name = item->values[0].value.string;
  if (!is_group_name(name))
    return refuse(option, item, "that is no name for a group");
  if (is_reserved_name(name))
    return refuse(option, item, "percore has a group of that name itself");
  struct core_set cores;
  core_set_clear(&cores);
  if (add_cores(&cores, option, item, 1) != 0)
    return -1;
  struct figures_group *group = find_group(config, name);
  if (group == NULL)
    return -1;
  core_set_union(&group->cores, &cores);
  return 0;
}

static int read_region(struct config *config,
                       __attribute__((unused)) const struct option *option,
                       const oconfig_item_t *item) {
  return region_config_read(&config->regions, item);
}

static int read_sys_root(struct config *config, const struct option *option,
                         const oconfig_item_t *item) {
  const char *path = one_string(item);
  if (path == NULL || path[0] != '/' || strlen(path) >= PATH_MAX / 2)
    return refuse(option, item, NULL);
  if (replace_string(&config->sys_root, path) != 0)
    return -1;
  size_t length = strlen(config->sys_root);
  while (length > 0 && config->sys_root[length - 1] == '/')
    config->sys_root[--length] = '\0';
  if (length == 0)
    sfree(config->sys_root);
  return 0;
}

/* ---------------------------------------------------------------------------
 * Options of <Load> and <LoadAverage>
 */

static int read_source(struct config *config, const struct option *option,
                       const oconfig_item_t *item) {
  const char *text = one_string(item);
  if (text == NULL || source_parse(&config->load.source, text) != 0)
    return refuse(option, item, NULL);
  return 0;
}

static int read_denominator(struct config *config, const struct option *option,
                            const oconfig_item_t *item) {
  const char *text = one_string(item);
  if (text == NULL || denominator_parse(&config->load.denominator, text) != 0)
    return refuse(option, item, NULL);
  return 0;
}

static int read_isolated_cores(struct config *config,
                               const struct option *option,
                               const oconfig_item_t *item) {
  const char *text = one_string(item);
  if (text == NULL ||
      isolated_cores_parse(&config->load.isolated_cores, text) != 0)
    return refuse(option, item, NULL);
  return 0;
}

/* Only the form is looked at: whether this host has such a PMU is found out in
 * operation, because one file serves many hosts. */
static bool is_event(const char *text) {
  const char *digits = NULL;
  if (text[0] == 'r')
    digits = text + 1;
  else if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X'))
    digits = text + 2;
  if (digits != NULL && digits[0] != '\0' && strlen(digits) <= 16 &&
      strspn(digits, "0123456789abcdefABCDEF") == strlen(digits))
    return true;
  const char *slash = strchr(text, '/');
  size_t length = strlen(text);
  return slash != NULL && slash > text && length < 256 &&
         text[length - 1] == '/' && slash + 2 <= text + length - 1 &&
         strchr(slash + 1, '/') == text + length - 1 && text[0] != '.';
}

static int read_event(struct config *config, const struct option *option,
                      const oconfig_item_t *item) {
  const char *text = one_string(item);
  if (text == NULL || !is_event(text))
    return refuse(option, item, NULL);
  return replace_string(&config->load.event, text);
}

static int add_period(struct config *config, double period_s) {
  for (size_t i = 0; i < config->load_average.periods_len; i++)
    if (config->load_average.period_s[i] == period_s)
      return 0;
  if (config->load_average.periods_len == FIGURES_PERIODS_MAX)
    return -1;
  config->load_average.period_s[config->load_average.periods_len++] = period_s;
  return 0;
}

static int read_period(struct config *config, const struct option *option,
                       const oconfig_item_t *item) {
  if (item->children_num != 0 || item->values_num < 1)
    return refuse(option, item, NULL);
  for (int i = 0; i < item->values_num; i++) {
    const oconfig_value_t *value = &item->values[i];
    if (!is_number(value, option) ||
        value->value.number != floor(value->value.number))
      return refuse(option, item, NULL);
    if (add_period(config, value->value.number) != 0)
      return refuse(option, item, "that is more than 13 further periods");
  }
  return 0;
}

/* ---------------------------------------------------------------------------
 * All options
 */

static int read_block(struct config *config, const struct option *option,
                      const oconfig_item_t *item);

#define BOOLEAN(key, member)                                                   \
  { key, read_boolean, AT(member), "true or false", 0, 0, NULL }

static const struct option load_options[] = {
    {"Source", read_source, 0,
     "one of \"auto\", \"mperf\", \"ref-cycles\", \"event\", \"idle\"", 0, 0,
     NULL},
    {"Denominator", read_denominator, 0,
     "one of \"auto\", \"tsc\", \"time-enabled\"", 0, 0, NULL},
    {"IsolatedCores", read_isolated_cores, 0,
     "one of \"idle\", \"hardware\", \"skip\"", 0, 0, NULL},
    {"SampleInterval", read_number, AT(load.sample_interval_s),
     "one number of seconds from 0.05 to 60, without quotes", 0.05, 60, NULL},
    {"Event", read_event, 0,
     "an event of sysfs, \"pmu/name/\" or \"pmu/term=value,term/\", or a raw "
     "one, \"r1a8\" or \"0x1a8\"",
     0, 0, NULL},
    {"BaseFrequency", read_number, AT(load.base_frequency_hz),
     "one number of Hz from 1000000 to 100000000000, without quotes", 1e6, 1e11,
     NULL},
    BOOLEAN("ReportPerCore", load.report_per_core),
    BOOLEAN("ReportHost", load.report_host),
    BOOLEAN("ReportMinimum", load.report_minimum),
    BOOLEAN("ReportHidden", load.report_hidden),
    BOOLEAN("ReportFrequency", load.report_frequency),
    BOOLEAN("ReportIPC", load.report_ipc),
    BOOLEAN("ReportCStates", load.report_cstates),
    {NULL, NULL, 0, NULL, 0, 0, NULL},
};

static const struct option load_average_options[] = {
    {"Period", read_period, 0,
     "whole seconds from 10 to 3600, at most 13 of them, without quotes",
     PERIOD_MIN_S, PERIOD_MAX_S, NULL},
    BOOLEAN("RunQueue", load_average.run_queue),
    BOOLEAN("CountBlocked", load_average.count_blocked),
    {NULL, NULL, 0, NULL, 0, 0, NULL},
};

static const struct option plugin_options[] = {
    {"Cores", read_cores, 0,
     "one list of core numbers from 0 to 8191, such as \"0-15,32\"", 0, 0,
     NULL},
    {"Group", read_group, 0,
     "a name (a letter, then letters, digits, - and _, at most 63) and a list "
     "of core numbers from 0 to 8191, such as \"dataplane\" \"2-15\"",
     0, 0, NULL},
    {"SysRoot", read_sys_root, 0, "one absolute path", 0, 0, NULL},
    BOOLEAN("HostPerf", host_perf),
    {"MaxValues", read_integer, AT(max_values),
     "a whole number from 1 to 10000000, without quotes", 1, 1e7, NULL},
    BOOLEAN("SendNotifications", send_notifications),
    {"Load", read_block, 0, "a block, <Load> to </Load>", 0, 0, load_options},
    {"LoadAverage", read_block, 0, "a block, <LoadAverage> to </LoadAverage>",
     0, 0, load_average_options},
    {"Region", read_region, 0, "", 0, 0, NULL},
    {NULL, NULL, 0, NULL, 0, 0, NULL},
};

static const struct option *find_option(const struct option *options,
                                        const char *key) {
  for (; options->key != NULL; options++)
    if (strcasecmp(options->key, key) == 0)
      return options;
  return NULL;
}

static int read_options(struct config *config, const struct option *options,
                        const oconfig_item_t *block) {
  for (int i = 0; i < block->children_num; i++) {
    const oconfig_item_t *item = &block->children[i];
    const struct option *option = find_option(options, item->key);
    if (option == NULL) {
      WARNING("percore: there is no option \"%s\" in <%s>; it is ignored.",
              item->key, block->key);
      continue;
    }
    if (option->read(config, option, item) != 0)
      return -1;
  }
  return 0;
}

static int read_block(struct config *config, const struct option *option,
                      const oconfig_item_t *item) {
  if (item->values_num != 0)
    return refuse(option, item, NULL);
  return read_options(config, option->block, item);
}

/* ---------------------------------------------------------------------------
 * The whole
 */

void config_init(struct config *config) {
  *config = (struct config){
      .max_values = MAX_VALUES_DEFAULT,
      .send_notifications = true,
      .load = {.source = SOURCE_AUTO,
               .denominator = DENOMINATOR_AUTO,
               .isolated_cores = ISOLATED_CORES_IDLE,
               .report_per_core = true,
               .report_host = true},
      .load_average = {.period_s = {60, 300, 900},
                       .periods_len = CONFIG_PERIODS_STANDARD,
                       .run_queue = true,
                       .count_blocked = true},
  };
}

void config_free(struct config *config) {
  sfree(config->groups);
  sfree(config->sys_root);
  sfree(config->load.event);
  region_configs_free(&config->regions);
  config_init(config);
}

int config_read(struct config *config, const oconfig_item_t *block) {
  if (read_options(config, plugin_options, block) != 0)
    return -1;
  if (config->load.source == SOURCE_EVENT && config->load.event == NULL) {
    ERROR("percore: Source \"event\": needs the option Event, before it or in "
          "the same <Plugin percore> block, to say which.");
    return -1;
  }
  return 0;
}

void config_sampler_options(const struct config *config,
                            struct sampler_options *options) {
  *options = (struct sampler_options){
      .engine = {.cores = config->cores_given ? &config->cores : NULL,
                 .hardware = config->sys_root == NULL || config->host_perf,
                 .source = config->load.source,
                 .event = config->load.event,
                 .base_frequency_hz = config->load.base_frequency_hz,
                 .denominator = config->load.denominator,
                 .isolated_cores = config->load.isolated_cores,
                 .ipc = config->load.report_ipc},
      .figures = {.periods_len = config->load_average.periods_len,
                  .run_queue = config->load_average.run_queue,
                  .count_blocked = config->load_average.count_blocked,
                  .cstates = config->load.report_cstates,
                  .groups = config->groups,
                  .groups_len = config->groups_len},
      .sample_interval_ns =
          (uint64_t)llround(config->load.sample_interval_s * 1e9),
  };
  memcpy(options->figures.period_s, config->load_average.period_s,
         sizeof(options->figures.period_s));
}
