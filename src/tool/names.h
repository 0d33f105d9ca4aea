/* names: the regions that have a socket in the runtime directory. */
#ifndef PERCORE_NAMES_H
#define PERCORE_NAMES_H

#include <stddef.h>

struct names {
  char **name; /* sorted; untrusted bytes, perhaps invalid names */
  size_t len;
};

/* Reads the names of the files in the runtime directory that end with ".sock",
 * without that ending. Returns 0 or -errno; call names_free in either case. */
int names_read(struct names *names);
void names_free(struct names *names);

/* Prints the valid names, one per line. */
void names_print(void);

#endif
