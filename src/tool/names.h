/* names: the regions that have a socket in the runtime directory. */
#ifndef PERCORE_NAMES_H
#define PERCORE_NAMES_H

#include <dirent.h>
#include <stddef.h>

struct names {
  struct dirent **entry; /* sorted; d_name is the name without ".sock" */
  size_t len;
};

/* Reads the names of the files in the runtime directory that end with ".sock".
 * Returns 0 or -errno; call names_free in either case. */
int names_read(struct names *names);
void names_free(struct names *names);

/* Returns a name: untrusted bytes, perhaps not a valid name. */
const char *names_at(const struct names *names, size_t i);

/* Prints the valid names, one per line. */
void names_print(void);

#endif
