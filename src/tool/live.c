#include "live.h"

#include "messages.h"
#include "screen.h"
#include "tool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct live {
  const struct live_face *face;
  bool json;
  struct screen *screen; /* NULL: lines */
  struct messages *messages;
};

static int show_page(struct live *live, const void *figures) {
  FILE *page = screen_page(live->screen);
  if (page == NULL)
    return -ENOMEM;
  /* One column and one line less than there are: a full last column makes
   * terminals wrap, and the cursor rests below the table. */
  struct window window = {.width = screen_width(live->screen) - 1,
                          .height = screen_height(live->screen) - 1};
  window.height -= messages_show_last(live->messages, page, window.width);
  int status = 0;
  if (figures != NULL)
    status = live->face->table(page, figures, window);
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
    show_page(live, NULL);
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

int live_show(struct live *live, const void *figures) {
  int status;
  if (live->json) {
    status = live->face->json(stdout, figures);
  } else if (live->screen != NULL) {
    status = show_page(live, figures);
  } else {
    status = live->face->table(stdout, figures, (struct window){0});
    fputc('\n', stdout);
  }
  if (status != 0)
    say_failure(live->face->command, "%s", strerror(-status));
  return status == 0 ? flush_output(live->face->command) : status;
}

bool live_has_page(const struct live *live) { return live->screen != NULL; }

void live_follow(struct live *live, const void *figures) {
  if (live->screen != NULL && screen_changed(live->screen))
    show_page(live, figures);
}
