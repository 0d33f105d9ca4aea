/* names: the names of regions on command lines, and the names of sockets in the
 * runtime directory. */
#ifndef PERCORE_NAMES_H
#define PERCORE_NAMES_H

#include <stdbool.h>
#include <stddef.h>

#define LABEL_SIZE 256

struct label {
  char region[LABEL_SIZE];
  char *instance; /* points into region[]; NULL if there is none */
};

/* Splits NAME or NAME@INSTANCE. Returns false if the name is invalid. */
bool label_split(struct label *label, const char *text);

struct names {
  char **name; /* sorted; foreign bytes, perhaps invalid names */
  size_t len;
};

/* Reads the names of the files in the runtime directory that end with ".sock",
 * without that ending. Returns 0 or -errno; call names_free in either case. */
int names_read(struct names *names);
void names_free(struct names *names);

/* Prints the valid names, one per line. */
void names_print(void);

#endif
