/* window: what a table must fit into, and the parts that every table has. */
#ifndef PERCORE_WINDOW_H
#define PERCORE_WINDOW_H

#include <stdint.h>
#include <stdio.h>

/* In characters. */
struct window {
  int width;  /* 0: any */
  int height; /* 0: any; else never more lines than this */
};

/* Copies the lines of text that fit, each as far as it fits. */
void window_cut(FILE *out, const char *text, struct window window);

/* "2026-11-20 22:30:02", local time, of nanoseconds of CLOCK_REALTIME. */
#define TIME_TEXT_SIZE 32
void time_text(char text[TIME_TEXT_SIZE], uint64_t realtime_ns);

#endif
