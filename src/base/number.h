/* number: parses decimal numbers in text files of the kernel. */
#ifndef PERCORE_BASE_NUMBER_H
#define PERCORE_BASE_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

/* Skips spaces and tabs, reads an unsigned decimal number into *value, and
 * moves *text past the number. Returns false and changes nothing if no number
 * follows or if the number does not fit in 64 bits. */
bool number_next(const char **text, uint64_t *value);

#endif
