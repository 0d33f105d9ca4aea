/* number: decimal numbers in the text files of the kernel. */
#ifndef PERCORE_BASE_NUMBER_H
#define PERCORE_BASE_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

/* Reads an unsigned decimal number after any spaces and tabs, and moves *text
 * past it. Returns false and changes nothing if there is no number or it does
 * not fit in 64 bits. */
bool number_next(const char **text, uint64_t *value);

#endif
