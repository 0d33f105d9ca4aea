/* messages: prints the warnings of cycles/ on stderr. While a screen is open,
 * messages are held back: the page shows the newest message, and the last
 * messages are printed when the screen closes. */
#ifndef PERCORE_MESSAGES_H
#define PERCORE_MESSAGES_H

#include "cycles/journal.h"

#include <stdbool.h>
#include <stdio.h>

struct messages;

/* `held` is true if a screen is open, so that messages must be held back.
 * Returns NULL if out of memory. */
struct messages *messages_open(const char *command, bool held);

/* Prints the messages that were held back, and frees *messages. Accepts NULL.
 */
void messages_close(struct messages *messages);

/* Returns a journal whose errors and warnings become messages. Any thread may
 * write to the journal. */
struct journal messages_journal(struct messages *messages);

/* Prints the newest message, if any, in one line cut to `width` characters.
 * Returns the number of lines printed, 0 or 1. */
int messages_show_last(struct messages *messages, FILE *out, int width);

#endif
