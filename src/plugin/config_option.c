#include "config_option.h"

#include "utils/common/common.h"

#include "base/array.h"

#include <math.h>

#define MEMBER(type, into, option)                                             \
  ((type *)(void *)((char *)(into) + (option)->offset))

/* ---------------------------------------------------------------------------
 * Errors
 */

/* Writes the values of an option to `text` as they are written in the
 * configuration file. */
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

int config_option_refuse(const struct config_option *option,
                         const oconfig_item_t *item, const char *reason) {
  char values[256];
  format_values_of(item, values, sizeof(values));
  ERROR("percore: %s%s%s: %s%smust be %s.", option->key,
        item->values_num > 0 ? "" : " (without a value)", values,
        reason != NULL ? reason : "", reason != NULL ? "; " : "",
        option->allowed);
  return -1;
}

/* ---------------------------------------------------------------------------
 * Values
 */

bool config_has_values(const oconfig_item_t *item, int values) {
  return item->children_num == 0 && item->values_num == values;
}

const char *config_one_string(const oconfig_item_t *item) {
  return item->children_num == 0 ? config_block_name(item) : NULL;
}

static bool is_number(const oconfig_value_t *value,
                      const struct config_option *option) {
  return value->type == OCONFIG_TYPE_NUMBER && isfinite(value->value.number) &&
         value->value.number >= option->min &&
         value->value.number <= option->max;
}

bool config_is_whole(const oconfig_value_t *value,
                     const struct config_option *option) {
  return is_number(value, option) &&
         value->value.number == floor(value->value.number);
}

const char *config_block_name(const oconfig_item_t *block) {
  return block->values_num == 1 && block->values[0].type == OCONFIG_TYPE_STRING
             ? block->values[0].value.string
             : NULL;
}

/* ---------------------------------------------------------------------------
 * Memory
 */

char *config_copy(const char *text) {
  char *copy = strdup(text);
  if (copy == NULL)
    ERROR("percore: out of memory.");
  return copy;
}

void *config_append(void *list_pointer, size_t *len, size_t size) {
  if (!array_grow(list_pointer, *len, *len + 1, size)) {
    ERROR("percore: out of memory.");
    return NULL;
  }
  char *list;
  memcpy(&list, list_pointer, sizeof(list));
  return list + (*len)++ * size;
}

/* ---------------------------------------------------------------------------
 * Readers
 */

int config_number(void *into, const struct config_option *option,
                  const oconfig_item_t *item) {
  if (!config_has_values(item, 1) || !is_number(&item->values[0], option))
    return config_option_refuse(option, item, NULL);
  *MEMBER(double, into, option) = item->values[0].value.number;
  return 0;
}

int config_integer(void *into, const struct config_option *option,
                   const oconfig_item_t *item) {
  if (!config_has_values(item, 1) || !config_is_whole(&item->values[0], option))
    return config_option_refuse(option, item, NULL);
  *MEMBER(int, into, option) = (int)item->values[0].value.number;
  return 0;
}

int config_word(void *into, const struct config_option *option,
                const oconfig_item_t *item) {
  const char *text = config_one_string(item);
  for (int i = 0; text != NULL && option->words[i] != NULL; i++)
    if (strcasecmp(text, option->words[i]) == 0) {
      *MEMBER(int, into, option) = i;
      return 0;
    }
  return config_option_refuse(option, item, NULL);
}

int config_string(void *into, const struct config_option *option,
                  const oconfig_item_t *item) {
  const char *text = config_one_string(item);
  if (text == NULL || !option->is_valid(text))
    return config_option_refuse(option, item, NULL);
  char *copy = config_copy(text);
  if (copy == NULL)
    return -1;
  char **member = MEMBER(char *, into, option);
  free(*member);
  *member = copy;
  return 0;
}

int config_strings(void *into, const struct config_option *option,
                   const oconfig_item_t *item) {
  if (item->children_num != 0 || item->values_num < 1)
    return config_option_refuse(option, item, NULL);
  for (int i = 0; i < item->values_num; i++) {
    const oconfig_value_t *value = &item->values[i];
    if (value->type != OCONFIG_TYPE_STRING)
      return config_option_refuse(option, item, NULL);
    if (option->add(into, option, item, value->value.string) != 0)
      return -1;
  }
  return 0;
}

int config_add_name(struct names *names, const char *name) {
  char *copy = config_copy(name);
  const char **last =
      copy != NULL ? config_append(&names->list, &names->len, sizeof(*last))
                   : NULL;
  if (last == NULL) {
    free(copy);
    return -1;
  }
  *last = copy;
  return 0;
}

int config_add_valid_name(void *into, const struct config_option *option,
                          const oconfig_item_t *item, const char *name) {
  if (!option->is_valid(name))
    return config_option_refuse(option, item, NULL);
  return config_add_name(MEMBER(struct names, into, option), name);
}

int config_boolean(void *into, const struct config_option *option,
                   const oconfig_item_t *item) {
  bool *member = MEMBER(bool, into, option);
  if (!config_has_values(item, 1))
    return config_option_refuse(option, item, NULL);
  const oconfig_value_t *value = &item->values[0];
  if (value->type == OCONFIG_TYPE_BOOLEAN)
    *member = value->value.boolean;
  else if (value->type == OCONFIG_TYPE_STRING && IS_TRUE(value->value.string))
    *member = true;
  else if (value->type == OCONFIG_TYPE_STRING && IS_FALSE(value->value.string))
    *member = false;
  else
    return config_option_refuse(option, item, NULL);
  return 0;
}

int config_block(void *into, const struct config_option *option,
                 const oconfig_item_t *item) {
  if (item->values_num != 0)
    return config_option_refuse(option, item, NULL);
  return config_options_read(into, option->block, item);
}

/* ---------------------------------------------------------------------------
 * Tables
 */

static const struct config_option *
find_option(const struct config_option *options, const char *key) {
  for (; options->key != NULL; options++)
    if (strcasecmp(options->key, key) == 0)
      return options;
  return NULL;
}

/* Returns the name of the block in this table that contains the option, or NULL
 * if no block contains it. */
static const char *find_block(const struct config_option *options,
                              const char *key) {
  for (; options->key != NULL; options++)
    if (options->block != NULL && find_option(options->block, key) != NULL)
      return options->key;
  return NULL;
}

static void warn_of_unknown(const struct config_option *options,
                            const oconfig_item_t *item, const char *block) {
  const char *right = find_block(options, item->key);
  if (right != NULL)
    WARNING("percore: option \"%s\" belongs in the block <%s>; in <%s> it is "
            "ignored.",
            item->key, right, block);
  else
    WARNING("percore: unknown option \"%s\" in <%s>; it is ignored.", item->key,
            block);
}

int config_options_read(void *into, const struct config_option *options,
                        const oconfig_item_t *block) {
  for (int i = 0; i < block->children_num; i++) {
    const oconfig_item_t *item = &block->children[i];
    const struct config_option *option = find_option(options, item->key);
    if (option == NULL) {
      warn_of_unknown(options, item, block->key);
      continue;
    }
    if (option->read(into, option, item) != 0)
      return -1;
  }
  return 0;
}
