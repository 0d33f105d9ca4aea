/* A comparison as a table and as JSON. */
#include "compare.h"
#include "json.h"
#include "text.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TITLE_WIDTH 38
#define CORE_WIDTH 8
/* For what is not a window: as many cores beside each other as still read
 * well. */
#define LINE_WIDTH 100

/* The table lists a note under a number, in the order of the methods. */
static int note_number(const struct comparison *comparison, size_t method) {
  int number = 0;
  for (size_t i = 0; i <= method; i++)
    number += comparison->method[i].why[0] != '\0';
  return number;
}

static void write_method(FILE *out, const struct comparison *comparison,
                         size_t method, size_t first, size_t last) {
  const struct comparison_method *row = &comparison->method[method];
  char title[TITLE_WIDTH + 32];
  if (row->why[0] != '\0')
    snprintf(title, sizeof(title), "%s [%d]", row->title,
             note_number(comparison, method));
  else
    snprintf(title, sizeof(title), "%s", row->title);
  fprintf(out, "%-*.*s", TITLE_WIDTH, TITLE_WIDTH, title);
  for (size_t i = first; i < last; i++) {
    if (isnan(row->load[i]))
      fprintf(out, "%*s", CORE_WIDTH, "-");
    else
      fprintf(out, "%*.1f", CORE_WIDTH, 100 * row->load[i]);
  }
  fputc('\n', out);
}

static void write_block(FILE *out, const struct comparison *comparison,
                        size_t first, size_t last) {
  fprintf(out, "%-*s", TITLE_WIDTH, "load % by method");
  for (size_t i = first; i < last; i++) {
    char heading[24];
    snprintf(heading, sizeof(heading), "cpu%d", comparison->core[i]);
    fprintf(out, "%*s", CORE_WIDTH, heading);
  }
  fputc('\n', out);
  for (size_t method = 0; method < comparison->methods_len; method++)
    write_method(out, comparison, method, first, last);
}

static void write_notes(FILE *out, const struct comparison *comparison,
                        int width) {
  for (size_t i = 0; i < comparison->methods_len; i++) {
    if (comparison->method[i].why[0] == '\0')
      continue;
    fprintf(out, "[%d] ", note_number(comparison, i));
    text_wrap(out, comparison->method[i].why, 4, width);
  }
}

static void write_title(FILE *out, const struct comparison *comparison) {
  char time[TIME_TEXT_SIZE];
  time_text(time, comparison->time_ns);
  fprintf(out, "%s  over %.3f s, all methods read within %.1f ms\n", time,
          comparison->interval_s, 1000 * comparison->bracket_s);
}

/* How many cores the window has room for; the table says if they are not all.
 */
static size_t cores_in_window(const struct comparison *comparison,
                              struct window window, size_t across) {
  if (window.height <= 0)
    return comparison->cores_len;
  size_t block = comparison->methods_len + 1;
  size_t blocks = (size_t)window.height > block + 2
                      ? ((size_t)window.height - 2) / block
                      : 1;
  return blocks * across < comparison->cores_len ? blocks * across
                                                 : comparison->cores_len;
}

int comparison_table_write(FILE *out, const struct comparison *comparison,
                           struct window window) {
  int width = window.width > 0 ? window.width : LINE_WIDTH;
  size_t across = width > TITLE_WIDTH + CORE_WIDTH
                      ? (size_t)(width - TITLE_WIDTH) / CORE_WIDTH
                      : 1;
  size_t shown = cores_in_window(comparison, window, across);
  char *whole = NULL;
  size_t size;
  FILE *part = open_memstream(&whole, &size);
  if (part == NULL)
    return -ENOMEM;
  write_title(part, comparison);
  for (size_t first = 0; first < shown; first += across)
    write_block(part, comparison, first,
                first + across < shown ? first + across : shown);
  if (shown < comparison->cores_len)
    fprintf(part, "%zu of %zu cores; --cores LIST shows others\n", shown,
            comparison->cores_len);
  write_notes(part, comparison, width);
  int status = fclose(part) == 0 ? 0 : -ENOMEM;
  if (status == 0)
    window_cut(out, whole, window);
  free(whole);
  return status;
}

int comparison_json_write(FILE *out, const struct comparison *comparison) {
  struct json *json = json_begin(out);
  if (json == NULL)
    return -ENOMEM;
  json_thousandths(json, "time", (double)comparison->time_ns / 1e9);
  json_number(json, "interval_s", comparison->interval_s);
  json_number(json, "bracket_s", comparison->bracket_s);
  json_open_array(json, "methods");
  for (size_t i = 0; i < comparison->methods_len; i++) {
    const struct comparison_method *method = &comparison->method[i];
    json_open_object(json, NULL);
    json_text(json, "name", method->name);
    json_text(json, "title", method->title);
    if (method->why[0] != '\0')
      json_text(json, "unavailable", method->why);
    json_close_object(json);
  }
  json_close_array(json);
  json_open_array(json, "cores");
  for (size_t core = 0; core < comparison->cores_len; core++) {
    json_open_object(json, NULL);
    json_integer(json, "core", comparison->core[core]);
    json_open_object(json, "load");
    for (size_t i = 0; i < comparison->methods_len; i++)
      json_number(json, comparison->method[i].name,
                  comparison->method[i].load[core]);
    json_close_object(json);
    json_close_object(json);
  }
  json_close_array(json);
  return json_end(json);
}
