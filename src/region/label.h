/* label.h: how a region and one of its instances are written: NAME or
 * NAME@INSTANCE, and as a socket NAME.sock or NAME@INSTANCE.sock. */
#ifndef PERCORE_REGION_LABEL_H
#define PERCORE_REGION_LABEL_H

#include <stdbool.h>
#include <stddef.h>

#define REGION_LABEL_SIZE 256

struct region_label {
  char name[REGION_LABEL_SIZE];
  char *instance; /* within name[]; NULL for a region without instances */
};

/* Splits NAME or NAME@INSTANCE. False if it is not valid. */
bool region_label_split(struct region_label *label, const char *text);

/* The length of a socket's file name without ".sock"; 0 if the file name does
 * not end so, or if nothing comes before. The rest may be any bytes. */
size_t region_label_of_socket(const char *file);

#endif
