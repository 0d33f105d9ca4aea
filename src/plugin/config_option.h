/* config_option: options in tables. Each entry has the name of an option, the
 * function that reads it, and the values that are allowed, for the error. */
#ifndef PERCORE_PLUGIN_CONFIG_OPTION_H
#define PERCORE_PLUGIN_CONFIG_OPTION_H

#include "collectd.h"

#include "plugin.h"

struct config_option {
  const char *key;
  /* Stores the values of `item` in the struct that the table describes. Returns
   * 0, or -1 after config_option_refuse. */
  int (*read)(void *into, const struct config_option *option,
              const oconfig_item_t *item);
  const char *allowed; /* completes the sentence "must be ..." */
  size_t offset;       /* of the member, for the readers below */
  double min, max;     /* of a number */
  const struct config_option
      *block; /* options of the block, for config_block */
};

/* Reads a block by a table, which ends with an option without key. Unknown
 * options are ignored with a warning. */
int config_options_read(void *into, const struct config_option *options,
                        const oconfig_item_t *block);

/* ---------------------------------------------------------------------------
 * Readers
 */

int config_number(void *into, const struct config_option *option,
                  const oconfig_item_t *item); /* a double */
int config_integer(void *into, const struct config_option *option,
                   const oconfig_item_t *item); /* an int */
/* A bool: true, yes, on and so forth, quoted or not, as everywhere in collectd.
 */
int config_boolean(void *into, const struct config_option *option,
                   const oconfig_item_t *item);
#define CONFIG_BOOLEAN(name, type, member)                                     \
  {                                                                            \
    .key = name, .read = config_boolean, .allowed = "true or false",           \
    .offset = offsetof(type, member)                                           \
  }
int config_block(void *into, const struct config_option *option,
                 const oconfig_item_t *item);

/* ---------------------------------------------------------------------------
 * Helpers of readers
 */

/* Logs "percore: SampleInterval 0: <reason>; must be <allowed>." The reason may
 * be NULL. Returns -1. */
int config_option_refuse(const struct config_option *option,
                         const oconfig_item_t *item, const char *reason);

/* Exactly this many values, and no block. */
bool config_has_values(const oconfig_item_t *item, int values);

/* The value of an option with exactly one string, or NULL. */
const char *config_one_string(const oconfig_item_t *item);

/* A whole number between the option's min and max. */
bool config_is_whole(const oconfig_value_t *value,
                     const struct config_option *option);

/* One or more values, all of them strings, and no block. */
bool config_has_strings(const oconfig_item_t *item);

/* Appends a zeroed element of `size` bytes to the array that *list_pointer
 * points to. Returns the element, or NULL after an error if out of memory. */
void *config_append(void *list_pointer, size_t *len, size_t size);

#endif
