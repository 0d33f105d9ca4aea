/* region_name: names of rows, which are foreign bytes, as part of an
 * identifier. */
#ifndef PERCORE_PLUGIN_REGION_NAME_H
#define PERCORE_PLUGIN_REGION_NAME_H

#include <stddef.h>

/* Copies a name; `/`, white space, control characters, `;`, `=`, `"` and each
 * byte that is not UTF-8 become `_`, and so does an empty name. What does not
 * fit into size bytes is cut after a whole character. */
void region_name_clean(char *clean, size_t size, const char *name);

#endif
