#include "live.h"

#include "text.h"
#include "tool.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

/* Sequences of ECMA-48, which all current terminal emulators support. */
#define CLEAR "\033[2J"
#define HOME "\033[H"
#define ERASE_LINE "\033[K"
#define ERASE_BELOW "\033[J"

struct live {
  const struct live_face *face;
  bool json;
  enum journal_level level_most; /* other messages are dropped */
  bool page;           /* stdout is a terminal: the table is redrawn in place */
  const void *figures; /* the figures shown last, or NULL */
  bool has_shown;      /* a blank line precedes the next table */
  struct screen view;  /* the order is chosen with keys */
  bool paused;         /* the page is not redrawn by itself */
  bool helps;          /* the first line names the keys */
  bool reads_keys;     /* the terminal sends each key, without echo */
  struct termios cooked; /* the terminal modes to restore */
  pthread_mutex_t lock;  /* protects the members below */
  char newest[512];      /* the newest message, clean text; "": none */
};

/* ---------------------------------------------------------------------------
 * Messages
 */

/* While there is a page, the newest message is shown above the table, and
 * printed when the page ends. */
static void write_message(void *context, enum journal_level level,
                          const char *line) {
  struct live *live = context;
  if (level > live->level_most)
    return;
  if (!live->page) {
    say_failure(live->face->command, "%s", line);
    return;
  }
  pthread_mutex_lock(&live->lock);
  text_clean_string(live->newest, sizeof(live->newest), line);
  pthread_mutex_unlock(&live->lock);
}

struct journal live_journal(struct live *live, enum journal_level most) {
  live->level_most = most;
  return (struct journal){.write = write_message, .context = live};
}

int live_fail(struct live *live, const char *format, ...) {
  char why[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(why, sizeof(why), format, arguments);
  va_end(arguments);
  write_message(live, JOURNAL_ERROR, why);
  return TOOL_FAILURE;
}

/* ---------------------------------------------------------------------------
 * The page
 */

/* Measures the terminal. Returns true if its size has changed. */
static bool measure(struct live *live) {
  struct screen now = terminal_screen(), before = live->view;
  live->view.width = now.width;
  live->view.height = now.height;
  return now.width != before.width || now.height != before.height;
}

static const char *first_line(const struct live *live) {
  if (live->helps)
    return "q quits, space pauses, < and > sort by another column, r reverses, "
           "h hides this";
  return live->paused ? "paused; the space bar continues" : live->newest;
}

static int show_page(struct live *live) {
  struct screen screen = live->view;
  screen.line_end = ERASE_LINE "\n";
  fputs(HOME, stdout);
  pthread_mutex_lock(&live->lock);
  if (first_line(live)[0] != '\0') {
    printf("%.*s" ERASE_LINE "\n", screen.width, first_line(live));
    screen.height--;
  }
  pthread_mutex_unlock(&live->lock);
  int status = 0;
  if (live->figures != NULL)
    status = screen_write(stdout, screen, live->face->table, live->figures);
  else
    printf("%s" ERASE_LINE "\n", live->face->waiting);
  fputs(ERASE_BELOW, stdout);
  fflush(stdout);
  return status;
}

struct live *live_open(const struct live_face *face, bool json) {
  static struct live page; /* a process has one stdout */
  struct live *live = &page;
  *live = (struct live){
      .face = face, .json = json, .lock = PTHREAD_MUTEX_INITIALIZER};
  if (!json)
    live->view = terminal_screen();
  live->page = live->view.width > 0;
  if (live->page) {
    fputs(CLEAR, stdout);
    show_page(live);
  }
  return live;
}

void live_close(struct live *live) {
  if (live->reads_keys)
    tcsetattr(STDIN_FILENO, TCSANOW, &live->cooked);
  if (live->newest[0] != '\0')
    say_failure(live->face->command, "%s", live->newest);
}

const struct screen *live_view(const struct live *live) { return &live->view; }

/* ---------------------------------------------------------------------------
 * Keys
 */

/* Makes the terminal send each key immediately, without echo. Repeated, because
 * the modes are restored after Ctrl-Z. The kernel stops a process in the
 * background that changes the modes. */
static bool begin_keys(struct live *live) {
  struct termios raw;
  if (!isatty(STDIN_FILENO) || tcgetpgrp(STDIN_FILENO) != getpgrp() ||
      tcgetattr(STDIN_FILENO, &raw) != 0)
    return false;
  if (!(raw.c_lflag & ICANON))
    return true;
  if (!live->reads_keys)
    live->cooked = raw;
  raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
  raw.c_lflag |= NOFLSH; /* Ctrl-C does not cut a page */
  raw.c_cc[VMIN] = raw.c_cc[VTIME] = 0;
  raw.c_cc[VSUSP] = raw.c_cc[VQUIT] = _POSIX_VDISABLE; /* see leave */
  live->reads_keys = tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
  return live->reads_keys;
}

/* Gives the terminal back as it was, and does what the key would have done:
 * stops or ends all processes of this job. */
static void leave(struct live *live, int number) {
  tcsetattr(STDIN_FILENO, TCSANOW, &live->cooked);
  kill(0, number);
}

static void obey(struct live *live, char key) {
  cc_t typed = (cc_t)key;
  if (key == 'q')
    stop_request();
  else if (typed == _POSIX_VDISABLE)
    return;
  else if (typed == live->cooked.c_cc[VSUSP])
    leave(live, SIGTSTP);
  else if (typed == live->cooked.c_cc[VQUIT])
    leave(live, SIGQUIT);
  else if (key == 'h' || key == '?')
    live->helps = !live->helps;
  else if (key == ' ' || key == 'p')
    live->paused = !live->paused;
  else if (key == 'r')
    live->view.reverse = !live->view.reverse;
  else if ((key == '<' || key == '>') && live->figures != NULL)
    live->view.sort =
        live->face->order(live->figures, live->view.sort, key == '>');
}

/* Obeys typed keys, and redraws the page if something has changed. */
static void follow(struct live *live) {
  char key;
  bool changed = live->page && measure(live);
  if (!live->page)
    return;
  while (begin_keys(live) && read(STDIN_FILENO, &key, 1) == 1) {
    obey(live, key);
    changed = true;
  }
  if (changed)
    show_page(live);
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
  } else if (live->page) {
    status = live->paused ? 0 : show_page(live);
  } else {
    fputs(live->has_shown ? "\n" : "", stdout);
    status = screen_write(stdout, live->view, live->face->table, live->figures);
  }
  live->has_shown = true;
  if (status == 0 || ferror(stdout))
    return flush_output(live->face->command);
  live_fail(live, "%s", strerror(-status));
  return status;
}

int live_run(struct live *live, uint64_t count, void *context) {
  int status = TOOL_OK;
  uint64_t shown = 0;
  for (bool ends = false; status == TOOL_OK && !ends;) {
    const void *figures = NULL;
    status = live->face->next(live, context, &figures);
    ends = stop_requested();
    if (status == TOOL_OK && figures != NULL) {
      live->figures = figures;
      int written = show(live);
      status = written == 0 || written == -EPIPE ? TOOL_OK : TOOL_FAILURE;
      ends |= written != 0 || ++shown == count;
    }
    follow(live);
  }
  live->figures = NULL;
  return status;
}
