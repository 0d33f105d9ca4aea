/* screen: a page that is drawn again and again in place.
 *
 * The page has the terminal to itself (the alternate screen, as less(1)), and
 * when it is closed the terminal is as it was, with the last page printed. */
#ifndef PERCORE_SCREEN_H
#define PERCORE_SCREEN_H

#include <stdbool.h>
#include <stdio.h>

struct screen;

/* Takes the terminal behind stdout. Returns NULL if stdout is no terminal (or
 * one that cannot move its cursor: TERM=dumb), or out of memory. */
struct screen *screen_open(void);

/* Gives it back; the last page stays behind as plain text. NULL is nothing. */
void screen_close(struct screen *screen);

/* In characters; looked up anew after a change of size. */
int screen_width(struct screen *screen);
int screen_height(struct screen *screen);

/* Where to write the next page, and its showing. A page is of lines that end
 * with \n, at most as many as the screen has. NULL if out of memory. */
FILE *screen_page(struct screen *screen);
void screen_show(struct screen *screen);

/* Deals with what happened meanwhile (a change of size, Ctrl-Z). True if the
 * page must be made anew. */
bool screen_changed(struct screen *screen);

#endif
