/* config_option: tables of options. Each entry specifies the name of an option,
 * the function that reads it, and the allowed values for the error message. */
#ifndef PERCORE_PLUGIN_CONFIG_OPTION_H
#define PERCORE_PLUGIN_CONFIG_OPTION_H

#include "collectd.h"

#include "plugin.h"

#include "base/names.h"

struct config_option {
  const char *key;
  /* Stores the values of `item` in the struct that the table describes. Returns
   * 0, or -1 after calling config_option_refuse. */
  int (*read)(void *into, const struct config_option *option,
              const oconfig_item_t *item);
  const char *allowed; /* completes the sentence "must be ..." */
  size_t offset;       /* offset of the member that a reader sets */
  double min, max;     /* limits of a number */
  bool (*is_valid)(const char *text); /* true if the string is allowed */
  const struct config_option *block;  /* of a block: the options inside it */
  const char *const *words;           /* of config_word; the last is NULL */
  /* Adds one of the strings that config_strings reads. Returns 0 or -1. */
  int (*add)(void *into, const struct config_option *option,
             const oconfig_item_t *item, const char *text);
};

/* Reads a block according to a table, which ends with an option without a key.
 * Names are not case-sensitive. Unknown options are ignored with a warning; if
 * the option belongs in a nested block, the warning names this block. */
int config_options_read(void *into, const struct config_option *options,
                        const oconfig_item_t *block);

/* ---------------------------------------------------------------------------
 * Readers
 */

/* Reads a number between `min` and `max` into a double. */
int config_number(void *into, const struct config_option *option,
                  const oconfig_item_t *item);
/* Reads a whole number between `min` and `max` into an int or unsigned int. */
int config_integer(void *into, const struct config_option *option,
                   const oconfig_item_t *item);
#define CONFIG_NUMBER(name, reader, type, member, what, from, to)              \
  {                                                                            \
    .key = name, .read = reader, .min = from, .max = to,                       \
    .allowed = what " from " #from " to " #to ", without quotes",              \
    .offset = offsetof(type, member)                                           \
  }
/* Reads one of the words, in any case, into an int or an enum: its index. */
int config_word(void *into, const struct config_option *option,
                const oconfig_item_t *item);
/* Reads a string that is_valid accepts. Stores a copy of it in a char * and
 * frees the string that the char * pointed to. */
int config_string(void *into, const struct config_option *option,
                  const oconfig_item_t *item);
#define CONFIG_STRING(name, type, member, check, values)                       \
  {                                                                            \
    .key = name, .read = config_string, .allowed = values, .is_valid = check,  \
    .offset = offsetof(type, member)                                           \
  }
/* Calls option->add for each of the strings, of which there is at least one. */
int config_strings(void *into, const struct config_option *option,
                   const oconfig_item_t *item);
/* Appends a string that is_valid accepts to a struct names. */
int config_add_valid_name(void *into, const struct config_option *option,
                          const oconfig_item_t *item, const char *name);
#define CONFIG_NAMES(name, type, member, check, values)                        \
  {                                                                            \
    .key = name, .read = config_strings, .add = config_add_valid_name,         \
    .allowed = values, .is_valid = check, .offset = offsetof(type, member)     \
  }
/* Reads a bool: true, yes, on and so forth, quoted or not, as everywhere in
 * collectd. */
int config_boolean(void *into, const struct config_option *option,
                   const oconfig_item_t *item);
#define CONFIG_BOOLEAN(name, type, member)                                     \
  {                                                                            \
    .key = name, .read = config_boolean, .allowed = "true or false",           \
    .offset = offsetof(type, member)                                           \
  }
/* Reads a nested block with the options option->block into the same struct. */
int config_block(void *into, const struct config_option *option,
                 const oconfig_item_t *item);

/* ---------------------------------------------------------------------------
 * Helpers of readers
 */

/* Logs why the value of an option is not allowed, such as "percore:
 * SampleInterval 0: <reason>; must be <allowed>." The reason is left out if it
 * is NULL. Returns -1. */
int config_option_refuse(const struct config_option *option,
                         const oconfig_item_t *item, const char *reason);

/* True if the option has exactly `values` values and is not a block. */
bool config_has_values(const oconfig_item_t *item, int values);

/* Returns the value of an option that has exactly one string, or NULL. */
const char *config_one_string(const oconfig_item_t *item);

/* True if the value is a whole number between the option's min and max. */
bool config_is_whole(const oconfig_value_t *value,
                     const struct config_option *option);

/* Returns the argument of a block, such as <Region "gtpu">, or NULL if it does
 * not have exactly one string. */
const char *config_block_name(const oconfig_item_t *block);

/* Returns a copy of the text. If out of memory, logs an error and returns
 * NULL. */
char *config_copy(const char *text);

/* Appends a copy of a name. Returns 0, or -1 if out of memory. */
int config_add_name(struct names *names, const char *name);

/* Appends a zeroed element of `size` bytes to the array that *list_pointer
 * points to. Returns the element. If out of memory, logs an error and returns
 * NULL. */
void *config_append(void *list_pointer, size_t *len, size_t size);

#endif
