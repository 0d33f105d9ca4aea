#include "window.h"

#include <stdbool.h>
#include <time.h>

void window_cut(FILE *out, const char *text, struct window window) {
  int line = 0, column = 0;
  for (; *text != '\0'; text++) {
    if (window.height > 0 && line >= window.height)
      return;
    bool begins_character = ((unsigned char)*text & 0xc0) != 0x80;
    if (*text == '\n') {
      line++;
      column = 0;
    } else {
      column += begins_character;
    }
    if (window.width <= 0 || column <= window.width)
      fputc(*text, out);
  }
}

void time_text(char text[TIME_TEXT_SIZE], uint64_t realtime_ns) {
  time_t seconds = (time_t)(realtime_ns / UINT64_C(1000000000));
  struct tm local;
  if (localtime_r(&seconds, &local) == NULL ||
      strftime(text, TIME_TEXT_SIZE, "%Y-%m-%d %H:%M:%S", &local) == 0)
    snprintf(text, TIME_TEXT_SIZE, "-");
}
