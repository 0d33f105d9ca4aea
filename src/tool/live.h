/* live: figures shown again and again, on a page of the terminal in place, as
 * lines where stdout is none, or as JSON documents. */
#ifndef PERCORE_LIVE_H
#define PERCORE_LIVE_H

#include "cycles/journal.h"
#include "window.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct live;

struct live_face {
  const char *command; /* of messages */
  const char *waiting; /* on the page before the first figures */
  /* Waits for the next figures. Returns TOOL_OK and the figures, which live
   * until the next call (NULL: told to stop), or what live_fail returned. */
  int (*next)(struct live *live, void *context, const void **figures);
  /* Both return 0 or -ENOMEM. */
  int (*table)(FILE *out, const void *figures, struct window window);
  int (*json)(FILE *out, const void *figures);
};

/* Takes the terminal, if there is one and json is not asked for. Returns NULL
 * if out of memory. */
struct live *live_open(const struct live_face *face, bool json);

/* Gives the terminal back, and prints the messages held back. NULL is nothing.
 */
void live_close(struct live *live);

/* Lines that cycles/ writes here go to stderr, or below the page. */
struct journal live_journal(struct live *live);

/* Shows figures `count` times (0: for ever) or until told to stop, or nobody
 * reads them any more. Returns TOOL_OK or TOOL_FAILURE. */
int live_run(struct live *live, uint64_t count, void *context);

/* Says why it does not go on, on stderr when no page is in the way any more.
 * Returns TOOL_FAILURE. */
int live_fail(struct live *live, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Waiting with a page that follows a change of the window's size: until an
 * interval has passed since live_pace, and then since the last time; who was
 * held up (by Ctrl-Z, say) does not hurry afterwards. False if told to stop. */
void live_pace(struct live *live, double interval_s);
bool live_wait(struct live *live);

/* The same for who waits by other means: to be called a few times a second. */
void live_follow(struct live *live);

#endif
