#include "live.h"

#include "cycles/core_set.h"
#include "messages.h"
#include "screen.h"
#include "tool.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* How often the page checks for keys and for a new window size. */
#define FOLLOW_NS UINT64_C(100000000)

struct live {
  const struct live_face *face;
  bool json;
  struct screen *screen; /* NULL if stdout is not a terminal */
  struct messages *messages;
  const void *figures; /* the figures shown last, or NULL */
  uint64_t interval_ns;
  uint64_t interval_began_ns; /* CLOCK_MONOTONIC */

  /* State that the user changes with keys. */
  struct window view;
  struct core_set cores; /* view.cores points here if cores were chosen */
  bool helping, paused, prompting;
  char typed[64];        /* text typed at the prompt */
  const char *complaint; /* what is wrong with the typed text, or NULL */
};

/* ---------------------------------------------------------------------------
 * The page
 */

static void write_help(const struct live *live, FILE *page) {
  fputs("q          quit\n"
        "space, p   pause; the same key continues\n"
        "c          show only some cores, such as 0-3,8 (empty: all)\n",
        page);
  if (live->face->columns != NULL)
    fputs("< >        sort by another column (or the arrow keys)\n"
          "r          reverse the order\n",
          page);
  fputs("?, h       this help; any key ends it\n", page);
}

/* Writes the lines above the table: the newest message, and the prompt or the
 * word "paused". Returns the number of lines. */
static int write_status(struct live *live, FILE *page, int width) {
  int lines = messages_show_last(live->messages, page, width);
  char line[160] = "";
  if (live->prompting)
    snprintf(line, sizeof(line), "cores: %s_%s%s", live->typed,
             live->complaint != NULL ? "  " : "",
             live->complaint != NULL ? live->complaint : "");
  else if (live->paused)
    snprintf(line, sizeof(line), "paused; space continues");
  if (line[0] == '\0')
    return lines;
  fprintf(page, "%.*s\n", width, line);
  return lines + 1;
}

static int show_page(struct live *live) {
  FILE *page = screen_page(live->screen);
  if (page == NULL)
    return -ENOMEM;
  /* Leave the last column free, because terminals wrap a line that fills it,
   * and leave the last line free for the cursor. */
  struct window window = live->view;
  window.width = screen_width(live->screen) - 1;
  window.height = screen_height(live->screen) - 1;
  window.height -= write_status(live, page, window.width);
  int status = 0;
  if (live->helping)
    write_help(live, page);
  else if (live->figures != NULL)
    status = window_write(page, window, live->face->table, live->figures);
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
  live->view.colour = live->screen != NULL && colour_wanted();
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

const struct window *live_view(const struct live *live) { return &live->view; }

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
 * Keys
 */

enum {
  ENTER = '\n',
  RETURN = '\r',
  ESCAPE = '\033',
  ERASE = '\b',
  DELETE = 127
};

static void accept_cores(struct live *live) {
  struct core_set cores;
  live->complaint = NULL;
  if (live->typed[0] == '\0') {
    live->view.cores = NULL;
  } else if (core_set_parse(&cores, live->typed) != 0 ||
             core_set_count(&cores) == 0) {
    live->complaint = "(not a list such as 0-3,8)";
    return;
  } else {
    live->cores = cores;
    live->view.cores = &live->cores;
  }
  live->prompting = false;
}

static void edit_prompt(struct live *live, char key) {
  size_t length = strlen(live->typed);
  live->complaint = NULL;
  if (key == ENTER || key == RETURN)
    accept_cores(live);
  else if (key == ESCAPE)
    live->prompting = false;
  else if (key == ERASE || key == DELETE)
    live->typed[length > 0 ? length - 1 : 0] = '\0';
  else if (isprint((unsigned char)key) && length + 1 < sizeof(live->typed))
    live->typed[length] = key;
}

/* Sorts by the next or the previous column. The default order comes before the
 * first column and after the last. */
static void move_order(struct live *live, bool right) {
  if (live->face->columns == NULL || live->figures == NULL)
    return;
  size_t orders = live->face->columns(live->figures) + 1;
  live->view.sort = (live->view.sort + (right ? 1 : orders - 1)) % orders;
  live->view.reverse = false;
}

static void obey(struct live *live, char key) {
  if (live->prompting) {
    edit_prompt(live, key);
    return;
  }
  if (live->helping) {
    live->helping = false;
    return;
  }
  switch (key) {
  case 'q':
    stop_request();
    break;
  case '?':
  case 'h':
    live->helping = true;
    break;
  case ' ':
  case 'p':
    live->paused = !live->paused;
    break;
  case '<':
  case '>':
    move_order(live, key == '>');
    break;
  case 'r':
    live->view.reverse = !live->view.reverse;
    break;
  case 'c':
    memset(live->typed, 0, sizeof(live->typed));
    live->prompting = true;
    break;
  default:
    break;
  }
}

/* Handles the right and left arrow keys, which terminals send as ESC [ C and
 * ESC [ D, and skips all other escape sequences. Returns the number of bytes
 * used, or 0 if `keys` does not begin with an escape sequence. */
static size_t take_sequence(struct live *live, const char *keys,
                            size_t length) {
  if (length < 2 || keys[0] != ESCAPE || (keys[1] != '[' && keys[1] != 'O'))
    return 0;
  size_t used = 2;
  while (used < length && !isalpha((unsigned char)keys[used]) &&
         keys[used] != '~')
    used++;
  if (used < length && !live->prompting &&
      (keys[used] == 'C' || keys[used] == 'D'))
    move_order(live, keys[used] == 'C');
  return used < length ? used + 1 : length;
}

/* Handles the keys typed since the last call. Returns true if any key was
 * typed. */
static bool obey_keys(struct live *live) {
  char keys[64];
  size_t length = screen_keys(live->screen, keys, sizeof(keys));
  for (size_t i = 0; i < length;) {
    size_t sequence = take_sequence(live, keys + i, length - i);
    if (sequence == 0)
      obey(live, keys[i]);
    i += sequence > 0 ? sequence : 1;
  }
  return length > 0;
}

bool live_follow(struct live *live) {
  bool was_paused = false;
  if (live->screen == NULL)
    return false;
  while (!stop_requested()) {
    bool resized = screen_changed(live->screen);
    if (obey_keys(live) || resized)
      show_page(live);
    if (!live->paused)
      break;
    was_paused = true;
    sleep_until_ns(monotonic_ns() + FOLLOW_NS);
  }
  return was_paused;
}

/* ---------------------------------------------------------------------------
 * Showing
 */

/* Shows live->figures. Returns 0, -EPIPE if the output was closed, or another
 * -errno after an error message. */
static int show(struct live *live) {
  int status;
  if (live->json) {
    status = live->face->json(stdout, live->figures);
  } else if (live->screen != NULL) {
    status = show_page(live);
  } else {
    status = window_write(stdout, live->view, live->face->table, live->figures);
    fputc('\n', stdout);
  }
  if (status != 0)
    live_fail(live, "%s", strerror(-status));
  return status == 0 ? flush_output(live->face->command) : status;
}

static int run(struct live *live, uint64_t count, void *context) {
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

int live_run(struct live *live, uint64_t count, void *context) {
  int status = run(live, count, context);
  if (live->helping || live->paused || live->prompting) {
    /* The last page stays on the terminal, so it must show the table, not the
     * help or the prompt. */
    live->helping = live->paused = live->prompting = false;
    show_page(live);
  }
  live->figures = NULL;
  return status;
}

/* ---------------------------------------------------------------------------
 * Waiting
 */

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
      return !stop_requested();
    sleep_until_ns(end_ns - now_ns > slice_ns ? now_ns + slice_ns : end_ns);
  }
  return false;
}
