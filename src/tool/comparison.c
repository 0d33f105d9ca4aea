/* Writes a comparison as a table and as JSON. */
#include "compare.h"
#include "json.h"
#include "text.h"

#include <errno.h>

/* Widths in characters. Each line shows the title of a method (or its name, in
 * a screen narrower than WIDE), and then the loads. */
#define TITLE_WIDTH 39
#define NAME_WIDTH 14
#define WIDE 60
#define CORE_WIDTH 8
#define LINE_WIDTH 100 /* if the output is not a terminal */

static bool has_note(const struct comparison *comparison, size_t method) {
  return comparison->method[method].why[0] != '\0';
}

/* Returns the number of a method's note. Notes are numbered in the order of the
 * methods. */
static int note_number(const struct comparison *comparison, size_t method) {
  int number = 0;
  for (size_t i = 0; i <= method; i++)
    number += has_note(comparison, i);
  return number;
}

/* Writes a block: a line for each method, with the loads of the cores from
 * `first` to last - 1. */
static void write_block(FILE *out, const struct comparison *comparison,
                        size_t first, size_t last, bool wide, bool colour) {
  int title_width = wide ? TITLE_WIDTH : NAME_WIDTH;
  paint_pad(out, colour, PAINT_TITLE, wide ? "load % by method" : "load %",
            -title_width);
  for (size_t i = first; i < last; i++) {
    char heading[24];
    snprintf(heading, sizeof(heading), "cpu%d", comparison->core[i]);
    paint_pad(out, colour, PAINT_TITLE, heading, CORE_WIDTH);
  }
  for (size_t m = 0; m < comparison->methods_len; m++) {
    const struct comparison_method *method = &comparison->method[m];
    char title[128];
    int used = snprintf(title, sizeof(title), "%s",
                        wide ? method->title : method->name);
    if (has_note(comparison, m))
      snprintf(title + used, sizeof(title) - (size_t)used, " [%d]",
               note_number(comparison, m));
    fprintf(out, "\n%-*.*s", title_width, title_width, title);
    for (size_t i = first; i < last; i++) {
      char load[32];
      number_text(load, sizeof(load), "%.1f", 100 * method->load[i]);
      fprintf(out, "%*s", CORE_WIDTH, load);
    }
  }
  fputc('\n', out);
}

int comparison_table_write(FILE *out, const void *figures,
                           struct screen screen) {
  const struct comparison *comparison = figures;
  char time[TIME_TEXT_SIZE];
  int width = screen.width > 0 ? screen.width : LINE_WIDTH;
  bool wide = width >= WIDE;
  int room = width - (wide ? TITLE_WIDTH : NAME_WIDTH);
  size_t across = room > CORE_WIDTH ? (size_t)(room / CORE_WIDTH) : 1;
  time_text(time, comparison->time_ns);
  fprintf(out, "%s  over %.3f s, all methods read within %.1f ms\n", time,
          comparison->interval_s, 1000 * comparison->bracket_s);
  for (size_t first = 0; first < comparison->cores_len; first += across) {
    size_t last = first + across;
    write_block(out, comparison, first,
                last < comparison->cores_len ? last : comparison->cores_len,
                wide, screen.colour);
  }
  for (size_t i = 0; i < comparison->methods_len; i++) {
    if (!has_note(comparison, i))
      continue;
    fprintf(out, "[%d] ", note_number(comparison, i));
    text_wrap(out, comparison->method[i].why, 4, width);
  }
  return 0;
}

int comparison_json_write(FILE *out, const void *figures) {
  const struct comparison *comparison = figures;
  struct json *json = json_begin(out, "load --compare");
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
