/* config_option: options as tables, so that each is described once: its name,
 * who reads it, and the end of the sentence that refuses a bad value. */
#ifndef PERCORE_PLUGIN_CONFIG_OPTION_H
#define PERCORE_PLUGIN_CONFIG_OPTION_H

#include "collectd.h"

#include "plugin.h"

struct config_option {
  const char *key;
  /* Takes the values of `item` into the struct that the table is of. Returns 0,
   * or -1 after an error (config_option_refuse). */
  int (*read)(void *into, const struct config_option *option,
              const oconfig_item_t *item);
  const char *allowed;               /* completes the sentence "must be ..." */
  size_t offset;                     /* in that struct, of the readers below */
  double min, max;                   /* of a number */
  const struct config_option *block; /* the options within, of config_block */
};

/* Reads a block by a table that ends with an option without key. Unknown
 * options are warned of and left alone. Returns 0, or -1 after an error. */
int config_options_read(void *into, const struct config_option *options,
                        const oconfig_item_t *block);

/* ---------------------------------------------------------------------------
 * Readers
 */

int config_number(void *into, const struct config_option *option,
                  const oconfig_item_t *item); /* a double */
int config_integer(void *into, const struct config_option *option,
                   const oconfig_item_t *item); /* an int */
/* As collectd's own options: true, yes and on, quoted or not; a bool. */
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
 * For readers
 */

/* Logs "percore: SampleInterval 0: <reason>; must be <allowed>." Reason may be
 * NULL. Returns -1. */
int config_option_refuse(const struct config_option *option,
                         const oconfig_item_t *item, const char *reason);

/* Exactly so many values, and no block. */
bool config_has_values(const oconfig_item_t *item, int values);

/* The one string of an option, or NULL. */
const char *config_one_string(const oconfig_item_t *item);

/* A whole number between the option's min and max. */
bool config_is_whole(const oconfig_value_t *value,
                     const struct config_option *option);

#endif
