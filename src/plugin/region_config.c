#include "region_config.h"

#include "board/board.h"
#include "region/layout.h"

#include "utils/common/common.h"

#include <pwd.h>

static const struct region_config defaults = {
    .report_host = true,
    .max_new_rows = 1000,
};

/* ---------------------------------------------------------------------------
 * Options of <Table>
 */

static bool is_field(const char *name) {
  return region_name_is_valid(name, true);
}

/* As in collectd's ignore lists, /text between slashes/ is an extended regular
 * expression; any other text is a name. */
static int add_row(void *into, const struct config_option *option,
                   const oconfig_item_t *item, const char *text) {
  struct region_table_config *table = into;
  size_t length = strlen(text);
  if (length == 0)
    return config_option_refuse(option, item, "an empty name matches nothing");
  if ((text[0] == '/') != (length > 1 && text[length - 1] == '/'))
    return config_option_refuse(
        option, item,
        "an expression has a slash at both ends, and a name with a slash at "
        "one end must be given as one, such as \"/^/var$/\"");
  struct region_row_match *match =
      config_append(&table->rows, &table->rows_len, sizeof(*match));
  if (match == NULL)
    return -1;
  if (length < 2 || text[0] != '/')
    return (match->name = config_copy(text)) != NULL ? 0 : -1;
  char *expression = strndup(text + 1, length - 2);
  if (expression == NULL)
    return -1;
  int status = regcomp(&match->regex, expression, REG_EXTENDED | REG_NOSUB);
  free(expression);
  if (status == 0)
    return 0;
  char reason[128];
  regerror(status, &match->regex, reason, sizeof(reason));
  return config_option_refuse(option, item, reason);
}

static int read_top(void *into, const struct config_option *option,
                    const oconfig_item_t *item) {
  struct region_table_config *table = into;
  if (!config_has_values(item, 2) ||
      !config_is_whole(&item->values[0], option) ||
      item->values[1].type != OCONFIG_TYPE_STRING)
    return config_option_refuse(option, item, NULL);
  const char *field = item->values[1].value.string;
  if (!region_name_is_valid(field, true))
    return config_option_refuse(option, item, NULL);
  char *copy = config_copy(field);
  if (copy == NULL)
    return -1;
  free(table->top_field);
  table->top_field = copy;
  table->top = (uint32_t)item->values[0].value.number;
  return 0;
}

static int read_buckets(void *into, const struct config_option *option,
                        const oconfig_item_t *item) {
  struct region_table_config *table = into;
  const oconfig_value_t *values = item->values;
  int len = item->values_num;
  bool ascend = len > 1 && len <= 1 + REGION_MOST_BOUNDS;
  for (int i = 1; ascend && i < len; i++)
    ascend = config_is_whole(&values[i], option) &&
             (i == 1 || values[i].value.number > values[i - 1].value.number);
  if (!config_has_values(item, len) || !ascend ||
      values[0].type != OCONFIG_TYPE_STRING ||
      !region_name_is_valid(values[0].value.string, true))
    return config_option_refuse(option, item, NULL);
  struct region_bounds *bounds =
      config_append(&table->buckets, &table->buckets_len, sizeof(*bounds));
  if (bounds == NULL ||
      (bounds->field = config_copy(values[0].value.string)) == NULL)
    return -1;
  while (bounds->len < (uint32_t)len - 1) {
    bounds->at[bounds->len] = (uint64_t)values[bounds->len + 1].value.number;
    bounds->len++;
  }
  return 0;
}

static const struct config_option table_options[] = {
    CONFIG_NAMES(
        "Field", struct region_table_config, fields, is_field,
        "names of fields (lower-case letters, digits and _), each in quotes"),
    {.key = "Row",
     .read = config_strings,
     .add = add_row,
     .allowed =
         "names of rows or extended regular expressions between slashes, "
         "each in quotes"},
    {.key = "Top",
     .read = read_top,
     .allowed = "a whole number from 1 to 1000000 without quotes and the name "
                "of a field in quotes, such as 100 \"rx_bytes\"",
     .min = 1,
     .max = 1e6},
    {.key = "Buckets",
     .read = read_buckets,
     .allowed = "the name of a histogram in quotes and 1 to 20 ascending whole "
                "numbers without quotes, such as \"latency\" 1000 10000",
     .min = 0,
     .max = 0x1p53},
    {.key = NULL},
};

/* ---------------------------------------------------------------------------
 * Options of <Region>
 */

static int read_per_core(void *into, const struct config_option *option,
                         const oconfig_item_t *item) {
  struct region_config *region = into;
  bool all;
  if (config_boolean(&all, option, item) != 0)
    return -1;
  region->report_per_core = all ? REGION_PER_CORE_ALL : REGION_PER_CORE_NONE;
  return 0;
}

/* Adds a user, given by name or uid. The name is looked up only once, here. A
 * user that does not exist on this host is not an error, because the same file
 * may configure many hosts; such a user is ignored. */
static int add_user(void *into, const struct config_option *option,
                    const oconfig_item_t *item, const char *name) {
  struct region_config *region = into;
  char *end;
  unsigned long number = strtoul(name, &end, 10);
  bool is_number =
      isdigit((unsigned char)name[0]) && *end == '\0' && number < UINT32_MAX;
  struct passwd *entry = is_number ? NULL : getpwnam(name);
  if (name[0] == '\0')
    return config_option_refuse(option, item, NULL);
  region->users_given = true;
  if (!is_number && entry == NULL) {
    WARNING("percore: AllowUser \"%s\" is ignored: there is no such user; "
            "create the user and restart collectd.",
            name);
    return 0;
  }
  uid_t *user =
      config_append(&region->users, &region->users_len, sizeof(*user));
  if (user == NULL)
    return -1;
  *user = is_number ? (uid_t)number : entry->pw_uid;
  return 0;
}

static int read_table(void *into, const struct config_option *option,
                      const oconfig_item_t *item) {
  struct region_config *region = into;
  const char *name = config_block_name(item);
  if (name == NULL || !region_name_is_valid(name, false))
    return config_option_refuse(option, item, NULL);
  struct region_table_config *table =
      (struct region_table_config *)region_config_table(region, name);
  if (table == NULL) {
    table = config_append(&region->tables, &region->tables_len, sizeof(*table));
    if (table == NULL || (table->name = config_copy(name)) == NULL)
      return -1;
  }
  return config_options_read(table, table_options, item);
}

static const struct config_option region_options[] = {
    {.key = "ReportPerCore", .read = read_per_core, .allowed = "true or false"},
    CONFIG_BOOLEAN("ReportHost", struct region_config, report_host),
    CONFIG_BOOLEAN("ReportPerInstance", struct region_config,
                   report_per_instance),
    CONFIG_NUMBER("MaxNewRows", config_integer, struct region_config,
                  max_new_rows, "a whole number", 1, 10000000),
    {.key = "AllowUser",
     .read = config_strings,
     .add = add_user,
     .allowed = "names or numbers of users, each in quotes"},
    {.key = "Table",
     .read = read_table,
     .allowed =
         "a block with the name of a table, <Table \"session\"> to </Table>"},
    {.key = NULL},
};

/* Returns the options of the block with this name (NULL: "*"), which are
 * created if necessary, or NULL if out of memory. */
static struct region_config *find_or_make(struct region_configs *configs,
                                          const char *name) {
  for (size_t i = 0; i < configs->len; i++) {
    const char *other = configs->list[i].name;
    if (name == other ||
        (name != NULL && other != NULL && strcmp(name, other) == 0))
      return &configs->list[i];
  }
  struct region_config *region =
      config_append(&configs->list, &configs->len, sizeof(*region));
  if (region == NULL)
    return NULL;
  *region = defaults;
  if (name != NULL && (region->name = config_copy(name)) == NULL) {
    configs->len--;
    return NULL;
  }
  return region;
}

bool region_config_is_readable(const char *name) {
  return region_name_is_valid(name, false) && strcmp(name, "host") != 0 &&
         strcmp(name, BOARD_NAME) != 0;
}

int region_config_read(void *into, const struct config_option *option,
                       const oconfig_item_t *block) {
  struct region_configs *configs = (void *)((char *)into + option->offset);
  const char *name = config_block_name(block);
  bool every = name != NULL && strcmp(name, "*") == 0;
  if (name == NULL || (!every && !region_config_is_readable(name)))
    return config_option_refuse(
        option, block,
        name != NULL && strcmp(name, BOARD_NAME) == 0
            ? "the board is never read as a region: <Load> reports its figures"
            : NULL);
  struct region_config *config = find_or_make(configs, every ? NULL : name);
  return config != NULL ? config_options_read(config, region_options, block)
                        : -1;
}

/* ---------------------------------------------------------------------------
 * Questions
 */

int region_config_publish(struct region_configs *configs, const char *region) {
  return names_have(&configs->published, region)
             ? 0
             : config_add_name(&configs->published, region);
}

const struct region_config *
region_config_of(const struct region_configs *configs, const char *region) {
  bool by_default =
      configs->len == 0 || names_have(&configs->published, region);
  const struct region_config *every = by_default ? &defaults : NULL;
  for (size_t i = 0; i < configs->len; i++) {
    if (configs->list[i].name == NULL)
      every = &configs->list[i];
    else if (strcmp(configs->list[i].name, region) == 0)
      return &configs->list[i];
  }
  return every;
}

const struct region_table_config *
region_config_table(const struct region_config *config, const char *table) {
  for (size_t i = 0; i < config->tables_len; i++)
    if (strcmp(config->tables[i].name, table) == 0)
      return &config->tables[i];
  return NULL;
}

bool region_config_wants_field(const struct region_table_config *config,
                               const char *field) {
  return config == NULL || config->fields.len == 0 ||
         names_have(&config->fields, field);
}

const struct region_bounds *
region_config_bounds(const struct region_table_config *config,
                     const char *field) {
  const struct region_bounds *found = NULL;
  for (size_t i = 0; config != NULL && i < config->buckets_len; i++)
    if (strcmp(config->buckets[i].field, field) == 0)
      found = &config->buckets[i];
  return found;
}

bool region_config_wants_row(const struct region_table_config *config,
                             const char *row) {
  if (config == NULL || config->rows_len == 0)
    return true;
  for (size_t i = 0; i < config->rows_len; i++) {
    const struct region_row_match *match = &config->rows[i];
    if (match->name == NULL ? regexec(&match->regex, row, 0, NULL, 0) == 0
                            : strcmp(match->name, row) == 0)
      return true;
  }
  return false;
}

bool region_config_may_read(const struct region_config *config, uid_t uid) {
  bool may = !config->users_given;
  for (size_t i = 0; i < config->users_len; i++)
    may |= config->users[i] == uid;
  return may;
}
