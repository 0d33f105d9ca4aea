/* messages: warnings of cycles/, on stderr; while a screen is open, on the
 * page, and on stderr afterwards. */
#ifndef PERCORE_MESSAGES_H
#define PERCORE_MESSAGES_H

#include "cycles/journal.h"

#include <stdbool.h>
#include <stdio.h>

struct messages;

/* NULL if out of memory. `held`: a screen is open, hold messages back. */
struct messages *messages_open(const char *command, bool held);

/* Prints what was held back, and frees. NULL is allowed. */
void messages_close(struct messages *messages);

/* A journal that writes here, from any thread. */
struct journal messages_journal(struct messages *messages);

/* Prints the newest message, if there is any, in one line cut to `width`
 * characters. Returns the number of lines, 0 or 1. */
int messages_show_last(struct messages *messages, FILE *out, int width);

#endif
