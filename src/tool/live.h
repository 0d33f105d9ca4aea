/* live: figures shown again and again, on a page of the terminal in place, as
 * lines where stdout is none, or as JSON documents. */
#ifndef PERCORE_LIVE_H
#define PERCORE_LIVE_H

#include "cycles/journal.h"
#include "window.h"

#include <stdbool.h>
#include <stdio.h>

struct live_face {
  const char *command; /* of messages */
  const char *waiting; /* on the page before the first figures */
  /* Both return 0 or -ENOMEM. */
  int (*table)(FILE *out, const void *figures, struct window window);
  int (*json)(FILE *out, const void *figures);
};

struct live;

/* Takes the terminal, if there is one and json is not asked for. Returns NULL
 * if out of memory. */
struct live *live_open(const struct live_face *face, bool json);

/* Gives the terminal back, and prints the messages held back. NULL is nothing.
 */
void live_close(struct live *live);

/* Lines that cycles/ writes here go to stderr, or below the page. */
struct journal live_journal(struct live *live);

/* Shows figures. Returns 0; -EPIPE if nobody reads them any more; or -errno,
 * already said on stderr. */
int live_show(struct live *live, const void *figures);

/* To be called a few times a second where it is true that a page is shown: the
 * figures shown last (NULL: none) follow a change of the window's size. */
bool live_has_page(const struct live *live);
void live_follow(struct live *live, const void *figures);

#endif
