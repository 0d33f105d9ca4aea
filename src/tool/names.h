/* names: lists the names of the regions that have a socket in the runtime
 * directory. */
#ifndef PERCORE_NAMES_H
#define PERCORE_NAMES_H

#include <dirent.h>
#include <stddef.h>

struct names {
  struct dirent **entry; /* sorted; d_name is the name without ".sock" */
  size_t len;
};

/* Reads the file names in the runtime directory, and keeps those that end with
 * ".sock". Returns 0 or -errno. Call names_free in either case. */
int names_read(struct names *names);
void names_free(struct names *names);

/* Returns name i. It consists of untrusted bytes, and is not necessarily a
 * valid name of a region. */
const char *names_at(const struct names *names, size_t i);

/* Prints the valid names of regions, one per line. */
void names_print(void);

#endif
