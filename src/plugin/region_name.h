/* region_name: row names, which are untrusted bytes, as part of an identifier.
 */
#ifndef PERCORE_PLUGIN_REGION_NAME_H
#define PERCORE_PLUGIN_REGION_NAME_H

#include <stddef.h>

/* Copies a name. `/`, `;`, `=`, `"`, blanks, deceptive characters (utf8.h) and
 * bytes that are not UTF-8 are replaced by `_`; an empty name becomes `_`. A
 * name that does not fit into size bytes is cut after a whole character. */
void region_name_clean(char *clean, size_t size, const char *name);

#endif
