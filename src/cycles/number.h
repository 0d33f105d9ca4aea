/* number: decimal numbers in the text files of the kernel. */
#ifndef PERCORE_NUMBER_H
#define PERCORE_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

/* Reads an unsigned decimal number behind blanks on the same line; *text goes
 * on behind it. False, and nothing is changed, if there is none or it does not
 * fit in 64 bits. */
bool number_next(const char **text, uint64_t *value);

#endif
