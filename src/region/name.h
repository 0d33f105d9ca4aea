/* name.h: names of regions, instances, tables and fields, texts, and the paths
 * of a region's files. */
#ifndef PERCORE_REGION_NAME_H
#define PERCORE_REGION_NAME_H

#include <stdbool.h>
#include <stddef.h>

/* The maximum length of the plugin name in collectd:
 * percore_host_<region>_<table>_<field>. */
#define REGION_MAX_PLUGIN_NAME 120u
#define REGION_MAX_INSTANCE 63u

/* Returns true for names of at most 120 bytes that begin with a letter a-z and
 * continue with letters a-z, digits and, if `underscores` is set, "_". */
bool region_name_is_valid(const char *name, bool underscores);
/* True if an application's table may have this name. */
bool region_table_name_is_valid(const char *name);

/* Returns true for 1 to 63 letters, digits, '-', '_' and '.', without a leading
 * dot.
 */
bool region_instance_is_valid(const char *instance);

/* Returns true for UTF-8 without control characters, and for NULL. */
bool region_text_is_valid(const char *text);

/* The name of a region and instance as users write it, "gtpu" or
 * "gtpu@east". */
struct region_title {
  char region[REGION_MAX_PLUGIN_NAME + 1];
  char instance[REGION_MAX_INSTANCE + 1]; /* "": none */
};
static inline const char *
region_title_instance(const struct region_title *title) {
  return title->instance[0] != '\0' ? title->instance : NULL;
}
/* Splits a title of `length` bytes into region and instance. Returns false if
 * the title is not valid. */
bool region_title_split(struct region_title *title, const char *text,
                        size_t length);
/* Returns the length of the title in the name of a region's file; 0 if the name
 * does not end in .ID. */
size_t region_title_length(const char *file);

#define REGION_RUNTIME_DIR "/run/percore"

/* Returns $PERCORE_RUNTIME_DIR, or /run/percore if that is not set. */
const char *region_runtime_dir(void);

#endif
