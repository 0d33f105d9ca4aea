/* screen: a page that is drawn again and again in place, and the keys typed
 * meanwhile.
 *
 * The page has the terminal to itself (the alternate screen, like less(1)).
 * Closing it restores the terminal and prints the last page. */
#ifndef PERCORE_SCREEN_H
#define PERCORE_SCREEN_H

#include <stdbool.h>
#include <stdio.h>

struct screen;

/* Takes the terminal on stdout. Returns NULL if stdout is not a terminal, or a
 * terminal that cannot move its cursor (TERM=dumb), or if out of memory. */
struct screen *screen_open(void);

/* Restores the terminal; the last page stays as plain text. NULL is allowed. */
void screen_close(struct screen *screen);

/* In characters; measured again after a change of size. */
int screen_width(struct screen *screen);
int screen_height(struct screen *screen);

/* screen_page returns where to write the next page (NULL if out of memory), and
 * screen_show shows it. A page has at most as many lines as the screen; each
 * ends with \n. */
FILE *screen_page(struct screen *screen);
void screen_show(struct screen *screen);

/* Handles what happened since the last call (a change of size, Ctrl-Z). True if
 * the page must be drawn again. */
bool screen_changed(struct screen *screen);

/* The keys typed since the last call, as bytes; never waits. Returns their
 * number, which is 0 if stdin is not a terminal or the process runs in the
 * background. */
size_t screen_keys(struct screen *screen, char *keys, size_t size);

#endif
