/* names: the regions that have a socket in the runtime directory. */
#ifndef PERCORE_NAMES_H
#define PERCORE_NAMES_H

#include <stdbool.h>
#include <stddef.h>

struct names {
  char **name; /* files without .sock, sorted: foreign bytes, any of them */
  size_t len;
};

/* 0 or -errno; names_free either way. */
int names_read(struct names *names);
void names_free(struct names *names);

/* Prints those that are valid, one per line. */
void names_print(void);

#endif
