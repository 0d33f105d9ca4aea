/* live: shows figures repeatedly. On a terminal, redraws a page in place and
 * reacts to keys; in a pipe, writes one table after another. Can also write
 * JSON documents. */
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
  const char *waiting; /* message shown before the first figures */
  /* Waits for the next figures. Returns TOOL_OK with the figures, which are
   * valid until the next call (NULL if told to stop), or the result of
   * live_fail. */
  int (*next)(struct live *live, void *context, const void **figures);
  /* Both return 0 or -ENOMEM. What does not fit into the window is cut off. */
  int (*table)(FILE *out, const void *figures, struct window window);
  int (*json)(FILE *out, const void *figures);
  /* Returns the number of columns to sort by. NULL: the keys cannot sort. */
  size_t (*columns)(const void *figures);
};

/* Takes over the terminal if stdout is a terminal and json is false. Returns
 * NULL if out of memory. */
struct live *live_open(const struct live_face *face, bool json);

/* Restores the terminal and prints the messages that were held back. Accepts
 * NULL. */
void live_close(struct live *live);

/* Returns a journal whose lines go to stderr, or onto the page. */
struct journal live_journal(struct live *live);

/* Returns what the user chose by keys: cores and order. */
const struct window *live_view(const struct live *live);

/* Shows figures `count` times (0: forever), until told to stop, or until nobody
 * reads the output. Returns TOOL_OK or TOOL_FAILURE. */
int live_run(struct live *live, uint64_t count, void *context);

/* Closes the page and prints an error on stderr. Returns TOOL_FAILURE. */
int live_fail(struct live *live, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* live_pace begins an interval; live_wait waits for its end and begins the
 * next. After the process was stopped for longer (Ctrl-Z), missed intervals are
 * not made up for. live_wait returns false if told to stop. */
void live_pace(struct live *live, double interval_s);
bool live_wait(struct live *live);

/* Reacts to keys and to changes of the window's size; while paused, returns
 * only after the pause. Commands that wait by other means than live_wait must
 * call this several times a second. Returns true if there was a pause. */
bool live_follow(struct live *live);

#endif
