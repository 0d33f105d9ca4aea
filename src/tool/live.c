#include "live.h"

#include "messages.h"
#include "screen.h"
#include "tool.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* How soon a page follows its window. */
#define FOLLOW_NS UINT64_C(100000000)

struct live {
  const struct live_face *face;
  bool json;
  struct screen *screen; /* NULL: lines */
  struct messages *messages;
  const void *figures; /* shown last; NULL: none yet */
  uint64_t interval_ns;
  uint64_t interval_began_ns; /* CLOCK_MONOTONIC */
};

static int show_page(struct live *live) {
  FILE *page = screen_page(live->screen);
  if (page == NULL)
    return -ENOMEM;
  /* One column and one line less than there are: a full last column makes
   * terminals wrap, and the cursor rests below the table. */
  struct window window = {.width = screen_width(live->screen) - 1,
                          .height = screen_height(live->screen) - 1};
  window.height -= messages_show_last(live->messages, page, window.width);
  int status = 0;
  if (live->figures != NULL)
    status = live->face->table(page, live->figures, window);
  else
    fprintf(page, "%s\n", live->face->waiting);
  screen_show(live->screen);
  return status;
}

struct live *live_open(const struct live_face *face, bool json) {
  struct live *live = calloc(1, sizeof(*live));
  if (live == NULL)
    return NULL;
  live->face = face;
  live->json = json;
  if (!json)
    live->screen = screen_open();
  live->messages = messages_open(face->command, live->screen != NULL);
  if (live->messages == NULL) {
    live_close(live);
    return NULL;
  }
  if (live->screen != NULL)
    show_page(live);
  return live;
}

void live_close(struct live *live) {
  if (live == NULL)
    return;
  screen_close(live->screen);
  messages_close(live->messages);
  free(live);
}

struct journal live_journal(struct live *live) {
  return messages_journal(live->messages);
}

int live_fail(struct live *live, const char *format, ...) {
  char why[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(why, sizeof(why), format, arguments);
  va_end(arguments);
  struct journal journal = live_journal(live);
  journal_say(&journal, JOURNAL_ERROR, "%s", why);
  return TOOL_FAILURE;
}

/* ---------------------------------------------------------------------------
 * Showing
 */

/* Returns 0; -EPIPE if nobody reads on; or -errno, already said. */
static int show(struct live *live) {
  int status;
  if (live->json) {
    status = live->face->json(stdout, live->figures);
  } else if (live->screen != NULL) {
    status = show_page(live);
  } else {
    status = live->face->table(stdout, live->figures, (struct window){0});
    fputc('\n', stdout);
  }
  if (status != 0)
    live_fail(live, "%s", strerror(-status));
  return status == 0 ? flush_output(live->face->command) : status;
}

int live_run(struct live *live, uint64_t count, void *context) {
  for (uint64_t n = 0; count == 0 || n < count; n++) {
    const void *figures = NULL;
    int status = live->face->next(live, context, &figures);
    if (status != TOOL_OK || figures == NULL)
      return status;
    live->figures = figures;
    status = show(live);
    if (status != 0)
      return status == -EPIPE ? TOOL_OK : TOOL_FAILURE;
  }
  return TOOL_OK;
}

/* ---------------------------------------------------------------------------
 * Waiting
 */

void live_follow(struct live *live) {
  if (live->screen != NULL && screen_changed(live->screen))
    show_page(live);
}

void live_pace(struct live *live, double interval_s) {
  live->interval_ns = (uint64_t)(interval_s * 1e9);
  live->interval_began_ns = monotonic_ns();
}

bool live_wait(struct live *live) {
  uint64_t now_ns = monotonic_ns();
  if (now_ns > live->interval_began_ns + live->interval_ns)
    live->interval_began_ns = now_ns;
  uint64_t end_ns = live->interval_began_ns += live->interval_ns;
  uint64_t slice_ns = live->screen != NULL ? FOLLOW_NS : UINT64_MAX;
  while (!stop_requested()) {
    live_follow(live);
    now_ns = monotonic_ns();
    if (now_ns >= end_ns)
      return true;
    sleep_until_ns(end_ns - now_ns > slice_ns ? now_ns + slice_ns : end_ns);
  }
  return false;
}
