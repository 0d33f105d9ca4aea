/* live: shows figures repeatedly: on a terminal as a page in place that obeys
 * keys, in a pipe as one table after the other, or as JSON documents. */
#ifndef PERCORE_LIVE_H
#define PERCORE_LIVE_H

#include "cycles/journal.h"
#include "window.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct live;

struct live_face {
  const char *command; /* for messages */
  const char *waiting; /* shown before the first figures */
  /* Waits for the next figures. Returns TOOL_OK and the figures, which live
   * until the next call (NULL: told to stop), or what live_fail returned. */
  int (*next)(struct live *live, void *context, const void **figures);
  /* Both return 0 or -ENOMEM. What does not fit into the window is cut off. */
  int (*table)(FILE *out, const void *figures, struct window window);
  int (*json)(FILE *out, const void *figures);
  /* The number of columns that the keys can sort by; NULL: no sorting. */
  size_t (*columns)(const void *figures);
};

/* Takes the terminal if stdout is a terminal and JSON is not asked for. Returns
 * NULL if out of memory. */
struct live *live_open(const struct live_face *face, bool json);

/* Restores the terminal, and prints the messages held back. NULL is allowed. */
void live_close(struct live *live);

/* Lines that cycles/ writes here go to stderr, or onto the page. */
struct journal live_journal(struct live *live);

/* What the keys chose: cores and order. */
const struct window *live_view(const struct live *live);

/* Shows figures `count` times (0: for ever), or until told to stop or until the
 * output has no reader. Returns TOOL_OK or TOOL_FAILURE. */
int live_run(struct live *live, uint64_t count, void *context);

/* Prints an error on stderr, after the page has been closed. Returns
 * TOOL_FAILURE. */
int live_fail(struct live *live, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* live_pace begins an interval; live_wait waits for its end and begins the
 * next. A process that was stopped for longer (Ctrl-Z) does not catch up.
 * live_wait is false if told to stop. */
void live_pace(struct live *live, double interval_s);
bool live_wait(struct live *live);

/* Obeys keys and changes of the window's size; while paused, returns only after
 * the pause. To be called several times a second by a command that waits by
 * other means than live_wait. Returns true if there was a pause. */
bool live_follow(struct live *live);

#endif
