/* screen: a page that is redrawn in place, and the keys typed by the user.
 *
 * The page uses the terminal's alternate screen, like less(1). screen_close
 * restores the terminal and prints the last page there. */
#ifndef PERCORE_SCREEN_H
#define PERCORE_SCREEN_H

#include <stdbool.h>
#include <stdio.h>

struct screen;

/* Takes over the terminal on stdout. Returns NULL if stdout is not a terminal,
 * if the terminal cannot move its cursor (TERM=dumb), or if out of memory. */
struct screen *screen_open(void);

/* Restores the terminal and leaves the last page there as plain text. Accepts
 * NULL. */
void screen_close(struct screen *screen);

/* Return the size of the screen in characters. screen_changed updates the size.
 */
int screen_width(struct screen *screen);
int screen_height(struct screen *screen);

/* screen_page returns a stream for the next page (NULL if out of memory), and
 * screen_show shows that page. A page has at most as many lines as the screen;
 * each line ends with \n. */
FILE *screen_page(struct screen *screen);
void screen_show(struct screen *screen);

/* Handles changes of the screen's size, and Ctrl-Z, since the last call.
 * Returns true if the page must be redrawn. */
bool screen_changed(struct screen *screen);

/* Reads the keys typed since the last call, as bytes; never waits. Returns
 * their number, which is 0 if stdin is not a terminal or the process runs in
 * the background. */
size_t screen_keys(struct screen *screen, char *keys, size_t size);

#endif
