/* messages: what cycles/ has to say, on stderr, or below the page while a
 * screen is open (and on stderr afterwards). */
#ifndef PERCORE_MESSAGES_H
#define PERCORE_MESSAGES_H

#include "cycles/journal.h"

#include <stdbool.h>
#include <stdio.h>

struct messages;

/* NULL if out of memory. `held`: a screen is open, hold them back. */
struct messages *messages_open(const char *command, bool held);

/* Prints what was held back, and frees. NULL is nothing. */
void messages_close(struct messages *messages);

/* A journal that writes here; from any thread. */
struct journal messages_journal(struct messages *messages);

/* The newest one, cut to `width` characters and a newline, if there is any.
 * Returns the lines written, 0 or 1. */
int messages_show_last(struct messages *messages, FILE *out, int width);

#endif
