#include "screen.h"

#include "window.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

/* Sequences of ECMA-48, and xterm's private modes 1049 (alternate screen) and
 * 25 (cursor), which all current terminal emulators support. */
#define ENTER "\033[?1049h\033[?25l"
#define LEAVE "\033[?25h\033[?1049l"
#define HOME "\033[H"
#define ERASE_LINE "\033[K"
#define ERASE_BELOW "\033[J"

struct screen {
  int width, height;
  char *page;
  size_t page_size;
  FILE *writer;
  bool reads_keys; /* the terminal sends each key immediately, without echo */
  struct termios cooked; /* the terminal modes to restore */
};

static volatile sig_atomic_t resized, stop_wanted;

static void on_resize(int signal) {
  (void)signal;
  resized = 1;
}

static void on_terminal_stop(int signal) {
  (void)signal;
  stop_wanted = 1;
}

static void put(const char *text) {
  fputs(text, stdout);
  fflush(stdout);
}

static void measure(struct screen *screen) {
  struct winsize size = {0};
  resized = 0;
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0)
    size.ws_col = size.ws_row = 0;
  screen->width = size.ws_col > 0 ? size.ws_col : 80;
  screen->height = size.ws_row > 0 ? size.ws_row : 24;
}

/* ---------------------------------------------------------------------------
 * Keys
 */

/* True if this process is in the foreground, so that it may change the
 * terminal's modes. The kernel stops a background process that changes them. */
static bool in_foreground(void) {
  return isatty(STDIN_FILENO) && tcgetpgrp(STDIN_FILENO) == getpgrp();
}

/* Makes the terminal send each key immediately, without echo. Ctrl-C and Ctrl-Z
 * still send signals. */
static void begin_keys(struct screen *screen) {
  if (screen->reads_keys || !in_foreground() ||
      tcgetattr(STDIN_FILENO, &screen->cooked) != 0)
    return;
  struct termios raw = screen->cooked;
  raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
  raw.c_cc[VMIN] = raw.c_cc[VTIME] = 0;
  screen->reads_keys = tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
}

static void end_keys(struct screen *screen) {
  if (screen->reads_keys && in_foreground())
    tcsetattr(STDIN_FILENO, TCSANOW, &screen->cooked);
  screen->reads_keys = false;
}

size_t screen_keys(struct screen *screen, char *keys, size_t size) {
  begin_keys(screen);
  struct pollfd typed = {.fd = STDIN_FILENO, .events = POLLIN};
  if (!screen->reads_keys || !in_foreground() || poll(&typed, 1, 0) != 1 ||
      !(typed.revents & POLLIN))
    return 0;
  ssize_t length = read(STDIN_FILENO, keys, size);
  return length > 0 ? (size_t)length : 0;
}

/* ---------------------------------------------------------------------------
 * The page
 */

struct screen *screen_open(void) {
  if (!is_terminal())
    return NULL;
  struct screen *screen = calloc(1, sizeof(*screen));
  if (screen == NULL)
    return NULL;
  measure(screen);
  struct sigaction resize = {.sa_handler = on_resize};
  struct sigaction stop = {.sa_handler = on_terminal_stop};
  sigaction(SIGWINCH, &resize, NULL);
  sigaction(SIGTSTP, &stop, NULL);
  put(ENTER);
  begin_keys(screen);
  return screen;
}

void screen_close(struct screen *screen) {
  if (screen == NULL)
    return;
  if (screen->writer != NULL)
    fclose(screen->writer);
  end_keys(screen);
  put(LEAVE);
  if (screen->page != NULL)
    put(screen->page);
  free(screen->page);
  free(screen);
}

int screen_width(struct screen *screen) { return screen->width; }
int screen_height(struct screen *screen) { return screen->height; }

FILE *screen_page(struct screen *screen) {
  free(screen->page);
  screen->page = NULL;
  screen->writer = open_memstream(&screen->page, &screen->page_size);
  return screen->writer;
}

void screen_show(struct screen *screen) {
  fclose(screen->writer);
  screen->writer = NULL;
  if (screen->page == NULL)
    return;
  fputs(HOME, stdout);
  const char *line = screen->page;
  for (int row = 0; *line != '\0' && row < screen->height; row++) {
    size_t length = strcspn(line, "\n");
    fwrite(line, 1, length, stdout);
    /* A newline after the last line would scroll the screen. */
    fputs(row + 1 < screen->height ? ERASE_LINE "\r\n" : ERASE_LINE, stdout);
    line += length + (line[length] == '\n');
  }
  put(ERASE_BELOW);
}

/* Handles Ctrl-Z: restores the terminal for the shell and stops this process.
 * Returns after `fg`, when the terminal shows the page again. */
static void stop_and_continue(struct screen *screen) {
  stop_wanted = 0;
  end_keys(screen);
  put(LEAVE);
  raise(SIGSTOP);
  put(ENTER);
}

bool screen_changed(struct screen *screen) {
  if (!resized && !stop_wanted)
    return false;
  if (stop_wanted)
    stop_and_continue(screen);
  measure(screen);
  return true;
}
