/* Writes a comparison as a table and as JSON. */
#include "compare.h"
#include "json.h"
#include "text.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Widths in characters. Each line shows the title of a method (or its name, in
 * a window narrower than WIDE), and then the loads. */
#define TITLE_WIDTH 39
#define NAME_WIDTH 14
#define WIDE 60
#define CORE_WIDTH 8
#define TITLE_LINES 2  /* the title of the page and the heading of a block */
#define LINE_WIDTH 100 /* if the output is not a terminal */

/* The part of a comparison that is shown, and how it is arranged. */
struct layout {
  bool names; /* show names instead of titles */
  bool notes_left_out;
  int width, title_width;
  size_t core[CORES_MAX], cores_len; /* indexes into comparison.core */
  size_t cores_left_out;
  size_t across; /* number of cores in a block */
  size_t method[METHODS_MAX], methods_len;
  size_t methods_left_out;
};

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

static void write_method(FILE *out, const struct comparison *comparison,
                         const struct layout *layout, size_t method,
                         size_t first, size_t last) {
  const struct comparison_method *row = &comparison->method[method];
  char title[128];
  int used = snprintf(title, sizeof(title), "%s",
                      layout->names ? row->name : row->title);
  if (!layout->notes_left_out && has_note(comparison, method))
    snprintf(title + used, sizeof(title) - (size_t)used, " [%d]",
             note_number(comparison, method));
  fprintf(out, "%-*.*s", layout->title_width, layout->title_width, title);
  for (size_t i = first; i < last; i++) {
    char load[32];
    number_text(load, sizeof(load), "%.1f", 100 * row->load[layout->core[i]]);
    fprintf(out, "%*s", CORE_WIDTH, load);
  }
  fputc('\n', out);
}

static void write_block(FILE *out, const struct comparison *comparison,
                        const struct layout *layout, size_t first,
                        bool colour) {
  size_t last = first + layout->across;
  if (last > layout->cores_len)
    last = layout->cores_len;
  paint_pad(out, colour, PAINT_TITLE,
            layout->names ? "load %" : "load % by method",
            -layout->title_width);
  for (size_t i = first; i < last; i++) {
    char heading[24];
    snprintf(heading, sizeof(heading), "cpu%d",
             comparison->core[layout->core[i]]);
    paint_pad(out, colour, PAINT_TITLE, heading, CORE_WIDTH);
  }
  fputc('\n', out);
  for (size_t i = 0; i < layout->methods_len; i++)
    write_method(out, comparison, layout, layout->method[i], first, last);
}

static void write_notes(FILE *out, const struct comparison *comparison,
                        int width) {
  for (size_t i = 0; i < comparison->methods_len; i++) {
    if (!has_note(comparison, i))
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

static int note_lines(const struct comparison *comparison, int width) {
  char *text = NULL;
  size_t size;
  int lines = 0;
  FILE *part = open_memstream(&text, &size);
  if (part == NULL)
    return 0;
  write_notes(part, comparison, width);
  if (fclose(part) == 0)
    lines = text_lines(text);
  free(text);
  return lines;
}

/* Chooses the methods to show. If not all methods fit into `room` lines, leaves
 * out the methods without a load. If the others do not fit either, leaves out
 * the first of them, but always shows the last method, percore. */
static void fit_methods(struct layout *layout,
                        const struct comparison *comparison, size_t room) {
  size_t available = 0;
  for (size_t i = 0; i < comparison->methods_len; i++)
    available += !has_note(comparison, i);
  bool all = comparison->methods_len <= room;
  size_t skipped = !all && available > room ? available - room : 0;
  for (size_t i = 0; i < comparison->methods_len; i++) {
    bool is_last = i + 1 == comparison->methods_len;
    bool shown = all || is_last || !has_note(comparison, i);
    if (shown && skipped > 0 && !is_last) {
      skipped--;
      shown = false;
    }
    if (shown)
      layout->method[layout->methods_len++] = i;
    else
      layout->methods_left_out++;
  }
}

/* Returns how many cores fit into `lines` lines, but at least the number of
 * cores in one block. */
static size_t cores_in(const struct layout *layout, int lines) {
  int blocks = lines / ((int)layout->methods_len + 1);
  return (size_t)(blocks > 0 ? blocks : 1) * layout->across;
}

/* Leaves out the cores that do not fit into the window. `notes` is the number
 * of lines that the notes occupy. */
static void fit_cores(struct layout *layout, int height, int notes) {
  bool says = layout->notes_left_out || layout->methods_left_out > 0;
  int lines = height - 1 - notes - (says ? 1 : 0);
  if (cores_in(layout, lines) >= layout->cores_len)
    return;
  size_t shown = cores_in(layout, says ? lines : lines - 1);
  layout->cores_left_out = layout->cores_len - shown;
  layout->cores_len = shown;
}

static void make_layout(struct layout *layout,
                        const struct comparison *comparison,
                        const struct window *window) {
  *layout =
      (struct layout){.width = window->width > 0 ? window->width : LINE_WIDTH};
  layout->names = layout->width < WIDE;
  layout->title_width = layout->names ? NAME_WIDTH : TITLE_WIDTH;
  layout->across =
      layout->width > layout->title_width + CORE_WIDTH
          ? (size_t)(layout->width - layout->title_width) / CORE_WIDTH
          : 1;
  for (size_t i = 0; i < comparison->cores_len; i++)
    if (window_shows_core(window, comparison->core[i]))
      layout->core[layout->cores_len++] = i;
  int room = window->height > 0 ? window->height - TITLE_LINES : INT_MAX;
  int notes = note_lines(comparison, layout->width);
  layout->notes_left_out =
      notes > 0 && (int)comparison->methods_len + notes > room;
  if (layout->notes_left_out) {
    notes = 0;
    room--; /* one line says what was left out */
  }
  fit_methods(layout, comparison, room > 1 ? (size_t)room : 1);
  if (window->height > 0)
    fit_cores(layout, window->height, notes);
}

static void write_left_out(FILE *out, const struct layout *layout) {
  const char *separator = "left out: ";
  if (layout->cores_left_out > 0) {
    fprintf(out, "%s%zu cores", separator, layout->cores_left_out);
    separator = ", ";
  }
  if (layout->methods_left_out > 0) {
    fprintf(out, "%s%zu methods", separator, layout->methods_left_out);
    separator = ", ";
  }
  if (layout->notes_left_out) {
    fprintf(out, "%snotes", separator);
    separator = ", ";
  }
  if (separator[0] == ',' && !layout->names)
    fputs(layout->cores_left_out > 0 ? " (--cores LIST shows other cores)"
                                     : " (a larger window shows them)",
          out);
  if (separator[0] == ',')
    fputc('\n', out);
}

int comparison_table_write(FILE *out, const void *figures,
                           struct window window) {
  const struct comparison *comparison = figures;
  struct layout layout;
  make_layout(&layout, comparison, &window);
  write_title(out, comparison);
  for (size_t first = 0; first < layout.cores_len; first += layout.across)
    write_block(out, comparison, &layout, first, window.colour);
  write_left_out(out, &layout);
  if (!layout.notes_left_out)
    write_notes(out, comparison, layout.width);
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
