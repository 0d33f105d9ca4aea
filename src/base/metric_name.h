/* metric_name: names that come from the kernel, as parts of names of metrics.
 */
#ifndef PERCORE_BASE_METRIC_NAME_H
#define PERCORE_BASE_METRIC_NAME_H

#include <ctype.h>
#include <string.h>

/* Replaces every character with '_' except letters, digits, '-', '_' and '.',
 * because the name of a metric may not contain any other characters. Idle
 * drivers use names such as "haltpoll idle". Cuts the name at a newline. */
static inline void metric_name_clean(char *name) {
  name[strcspn(name, "\n")] = '\0';
  for (; *name != '\0'; name++)
    if (!isalnum((unsigned char)*name) && strchr("-_.", *name) == NULL)
      *name = '_';
}

#endif
