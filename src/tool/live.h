/* live: shows figures repeatedly. On a terminal, redraws a page in place and
 * reacts to keys; otherwise writes one table or one JSON document after
 * another. */
#ifndef PERCORE_LIVE_H
#define PERCORE_LIVE_H

#include "cycles/journal.h"
#include "text.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct live;

#define LIVE_WAIT_NS UINT64_C(100000000)

/* What a subcommand shows, and how. */
struct live_face {
  const char *command; /* for messages */
  const char *waiting; /* shown before the first figures */
  /* Waits for the next figures, but not much longer than LIVE_WAIT_NS, so that
   * keys are obeyed, and sets *figures to them, or leaves it NULL if there are
   * none yet. Figures are valid until the next call. Returns TOOL_OK, or the
   * result of live_fail after an error. */
  int (*next)(struct live *live, void *context, const void **figures);
  /* Write the figures as a table or as JSON. Return 0 or -ENOMEM. The table may
   * be larger than the screen, because the caller cuts off what does not fit.
   */
  int (*table)(FILE *out, const void *figures, struct screen screen);
  int (*json)(FILE *out, const void *figures);
  /* Returns the order (screen.sort) that follows an order or, unless
   * `forwards`, precedes it. */
  size_t (*order)(const void *figures, size_t order, bool forwards);
};

/* Takes over the terminal if stdout is a terminal and json is false. */
struct live *live_open(const struct live_face *face, bool json);

/* Restores the terminal and prints the newest message. */
void live_close(struct live *live);

/* Returns a journal (cycles/journal.h) whose messages, up to the level `most`,
 * appear on the page or, if there is no page, on stderr. */
struct journal live_journal(struct live *live, enum journal_level most);

/* Returns the cores and the order that the user has chosen with keys. */
const struct screen *live_view(const struct live *live);

/* Shows figures `count` times, or without limit if `count` is 0, and handles
 * typed keys and changes of the screen's size. Ends earlier after a request to
 * stop, or if the output is closed. Returns TOOL_OK or TOOL_FAILURE. */
int live_run(struct live *live, uint64_t count, void *context);

/* Reports an error, which is printed on stderr when the page is closed. Returns
 * TOOL_FAILURE. */
int live_fail(struct live *live, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
