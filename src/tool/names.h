/* names: how regions are written on a command line, and which of them have a
 * socket in the runtime directory. */
#ifndef PERCORE_NAMES_H
#define PERCORE_NAMES_H

#include <stdbool.h>
#include <stddef.h>

#define LABEL_SIZE 256

struct label {
  char region[LABEL_SIZE];
  char *instance; /* in region[]; NULL for a region without instances */
};

/* Splits NAME or NAME@INSTANCE. Returns false if it is not valid. */
bool label_split(struct label *label, const char *text);

struct names {
  char **name; /* sorted; foreign bytes, not necessarily valid */
  size_t len;
};

/* The names of the files in the runtime directory that end with ".sock",
 * without that ending. 0 or -errno; call names_free in either case. */
int names_read(struct names *names);
void names_free(struct names *names);

/* Prints the valid names, one per line. */
void names_print(void);

#endif
