/* live: shows figures repeatedly. On a terminal, redraws a page in place and
 * reacts to keys; in a pipe, writes one table after another, or JSON documents.
 */
#ifndef PERCORE_LIVE_H
#define PERCORE_LIVE_H

#include "cycles/journal.h"
#include "window.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct live;

/* What a command shows, and how. */
struct live_face {
  const char *command; /* for messages */
  const char *waiting; /* shown before the first figures */
  /* Waits for the next figures and returns TOOL_OK. The figures are valid until
   * the next call; *figures remains NULL if told to stop. After an error,
   * returns the result of live_fail. */
  int (*next)(struct live *live, void *context, const void **figures);
  /* Write the figures, and return 0 or -ENOMEM. Lines of the table that do not
   * fit into the window are cut off. */
  int (*table)(FILE *out, const void *figures, struct window window);
  int (*json)(FILE *out, const void *figures);
  /* Returns how many columns the table can be sorted by. NULL if the table
   * cannot be sorted. */
  size_t (*columns)(const void *figures);
};

/* Takes over the terminal if stdout is a terminal and json is false. Returns
 * NULL if out of memory. */
struct live *live_open(const struct live_face *face, bool json);

/* Restores the terminal and prints the messages that were held back. Accepts
 * NULL. */
void live_close(struct live *live);

/* Returns a journal (cycles/journal.h) that writes to stderr or, on a terminal,
 * onto the page. */
struct journal live_journal(struct live *live);

/* Returns the cores and the order that the user has chosen with keys. */
const struct window *live_view(const struct live *live);

/* Shows figures `count` times (0: forever), until told to stop, or until the
 * output is closed. Returns TOOL_OK or TOOL_FAILURE. */
int live_run(struct live *live, uint64_t count, void *context);

/* Closes the page and prints an error on stderr. Returns TOOL_FAILURE. */
int live_fail(struct live *live, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* live_pace begins an interval; live_wait waits for its end and begins the
 * next. Intervals that pass while the process is stopped (Ctrl-Z) are not made
 * up for. live_wait returns false if told to stop. */
void live_pace(struct live *live, double interval_s);
bool live_wait(struct live *live);

/* Reacts to keys and to changes of the window's size. If the user pauses,
 * returns only after the pause. Commands that do not wait with live_wait must
 * call this several times a second. Returns true if there was a pause. */
bool live_follow(struct live *live);

#endif
