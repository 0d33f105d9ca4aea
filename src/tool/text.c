#include "text.h"

#include "base/clock.h"
#include "base/utf8.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

size_t text_clean(char *out, size_t size, const char *bytes, size_t length) {
  static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */
  return utf8_clean(out, size, bytes, length, replacement, "");
}

char *text_clean_string(char *out, size_t size, const char *text) {
  text_clean(out, size, text, strlen(text));
  return out;
}

void text_append(char *list, size_t size, const char *separator,
                 const char *name) {
  size_t used = strlen(list);
  snprintf(list + used, size - used, "%s%s", used > 0 ? separator : "", name);
}

int text_width(const char *text) {
  int count = 0;
  for (; *text != '\0'; text++)
    count += ((uint8_t)*text & 0xc0) != 0x80;
  return count;
}

/* Returns a pointer to the text after its first `count` characters. */
static char *after(char *text, int count) {
  while (*text != '\0' && (count > 0 || ((uint8_t)*text & 0xc0) == 0x80))
    count -= ((uint8_t)*text++ & 0xc0) != 0x80;
  return text;
}

void text_shorten(char *text, int width) {
  static const char gap[] = "...";
  int kept = width - (int)strlen(gap), length = text_width(text);
  if (length <= width)
    return;
  char *end = after(text, (kept + 1) / 2);
  const char *rest = after(text, length - kept / 2);
  memcpy(end, gap, strlen(gap));
  memmove(end + strlen(gap), rest, strlen(rest) + 1);
}

void text_pad(FILE *out, const char *text, int width) {
  paint_pad(out, false, PAINT_NONE, text, width);
}

void text_wrap(FILE *out, const char *text, int indent, int width) {
  char word[4096 * TEXT_GROWTH]; /* a path fits */
  int column = indent;
  for (bool first = true; *text != '\0'; first = false) {
    size_t length = strcspn(text, " ");
    text_clean(word, sizeof(word), text, length);
    int wide = text_width(word);
    if (!first && width > 0 && column + 1 + wide > width) {
      fprintf(out, "\n%*s", indent, "");
      column = indent;
    } else if (!first) {
      fputc(' ', out);
      column++;
    }
    fputs(word, out);
    column += wide;
    text += length + (text[length] == ' ');
  }
  fputc('\n', out);
}

/* ---------------------------------------------------------------------------
 * Screens
 */

/* A stream that passes on only what fits into the screen, as it is written, so
 * that a table of any length needs no memory. */
struct cutter {
  FILE *out;
  struct screen screen;
  int line, column, blanks; /* blanks: those that may end the line */
  bool in_escape;
};

/* Passes on a character, without the blanks that empty cells leave at the end
 * of a line. An escape sequence takes no room and must not be cut. */
static void cut(struct cutter *cutter, char c) {
  const struct screen *screen = &cutter->screen;
  cutter->in_escape |= c == '\033';
  if (screen->height > 0 && cutter->line >= screen->height)
    return;
  if (c == '\n') {
    fputs(screen->line_end != NULL ? screen->line_end : "\n", cutter->out);
    cutter->line++;
    cutter->column = cutter->blanks = 0;
    return;
  }
  if (!cutter->in_escape) {
    cutter->column += ((uint8_t)c & 0xc0) != 0x80;
    if (screen->width > 0 && cutter->column > screen->width)
      return;
  }
  if (c == ' ') {
    cutter->blanks++;
    return;
  }
  for (; cutter->blanks > 0; cutter->blanks--)
    putc(' ', cutter->out);
  putc(c, cutter->out);
  cutter->in_escape &= c != 'm';
}

static ssize_t write_cut(void *context, const char *text, size_t size) {
  struct cutter *cutter = context;
  for (size_t i = 0; i < size; i++)
    cut(cutter, text[i]);
  return ferror(cutter->out) ? 0 : (ssize_t)size;
}

int screen_write(FILE *out, struct screen screen,
                 int (*write)(FILE *out, const void *figures,
                              struct screen screen),
                 const void *figures) {
  struct cutter cutter = {.out = out, .screen = screen};
  FILE *part =
      fopencookie(&cutter, "w", (cookie_io_functions_t){.write = write_cut});
  if (part == NULL)
    return -ENOMEM;
  int status = write(part, figures, screen);
  fclose(part); /* the caller looks for errors of `out` */
  return status;
}

/* ---------------------------------------------------------------------------
 * Colour
 */

struct screen terminal_screen(void) {
  const char *term = getenv("TERM"), *no_color = getenv("NO_COLOR");
  struct winsize size = {0};
  if (!isatty(STDOUT_FILENO) || term == NULL || *term == '\0' ||
      strcmp(term, "dumb") == 0)
    return (struct screen){0};
  ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
  /* The last column stays free, because terminals wrap a line that fills it,
   * and so does the last line, for the cursor. */
  return (struct screen){.width = (size.ws_col > 0 ? size.ws_col : 80) - 1,
                         .height = (size.ws_row > 0 ? size.ws_row : 24) - 1,
                         .colour = no_color == NULL || *no_color == '\0'};
}

/* Colours of ECMA-48. */
static const char *const paints[] = {[PAINT_NONE] = "",
                                     [PAINT_TITLE] = "\033[1m",
                                     [PAINT_SORTED] = "\033[1;7m",
                                     [PAINT_GOOD] = "\033[32m",
                                     [PAINT_WARN] = "\033[33m",
                                     [PAINT_BAD] = "\033[1;31m"};

void paint_pad(FILE *out, bool colour, enum paint paint, const char *text,
               int width) {
  int missing = (width < 0 ? -width : width) - text_width(text);
  const char *begin = colour ? paints[paint] : "";
  fprintf(out, "%*s%s%s%s", width > 0 && missing > 0 ? missing : 0, "", begin,
          text, *begin != '\0' ? "\033[m" : "");
  fprintf(out, "%*s", width < 0 && missing > 0 ? missing : 0, "");
}

/* ---------------------------------------------------------------------------
 * Numbers and times
 */

void number_text(char *text, size_t size, const char *format, double value) {
  if (isnan(value)) {
    snprintf(text, size, "-");
    return;
  }
  snprintf(text, size, format, value);
  if (text[0] == '-' && strpbrk(text, "123456789") == NULL)
    snprintf(text, size, format, 0.0);
}

void time_text(char text[TIME_TEXT_SIZE], uint64_t realtime_ns) {
  time_t seconds = (time_t)(realtime_ns / NS_PER_S);
  struct tm local;
  if (localtime_r(&seconds, &local) == NULL ||
      strftime(text, TIME_TEXT_SIZE, "%Y-%m-%d %H:%M:%S", &local) == 0)
    snprintf(text, TIME_TEXT_SIZE, "-");
}
