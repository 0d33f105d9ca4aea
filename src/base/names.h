/* names: a list of names. */
#ifndef PERCORE_BASE_NAMES_H
#define PERCORE_BASE_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct names {
  const char **list;
  size_t len;
};

static inline bool names_have(const struct names *names, const char *name) {
  for (size_t i = 0; i < names->len; i++)
    if (strcmp(names->list[i], name) == 0)
      return true;
  return false;
}

#endif
