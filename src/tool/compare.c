/* percore load --compare: writes the loads of a snapshot by every method, to
 * show what each method misses on this machine. */
#include "json.h"
#include "load.h"
#include "text.h"

#include <math.h>

/* ---------------------------------------------------------------------------
 * The methods. Each returns a load as a fraction, perhaps below 0 or above 1,
 * or NAN if it is unknown.
 */

static double columns_of_wall(const struct core_figures *core) {
  return core->columns;
}

static double columns_of_sum(const struct core_figures *core) {
  return core->columns / core->columns_sum;
}

/* The sum of all columns is busy + idle + iowait + steal. */
static double not_idle(const struct core_figures *core) {
  return core->columns + core->steal + 1 - core->columns_sum;
}

static double outside_cstates(const struct core_figures *core) {
  double load = core->cstates.states_len > 0 ? 1 : NAN;
  for (int i = 0; i < core->cstates.states_len; i++)
    load -= core->residency[i];
  return load;
}

static double percore(const struct core_figures *core) { return core->load; }

#define NO_STAT "/proc/stat cannot be used: see 'percore doctor'"
static const struct method {
  const char *name, *title; /* in JSON, in the table */
  double (*load)(const struct core_figures *core);
  const char *absent; /* why no core has a load */
} methods[] = {
    {"stat_busy", "/proc/stat busy columns / wall", columns_of_wall, NO_STAT},
    {"stat_share", "/proc/stat busy / sum (as top does)", columns_of_sum,
     NO_STAT},
    {"stat_not_idle", "1 - (idle+iowait) / wall", not_idle, NO_STAT},
    {"cpuidle", "1 - cpuidle time", outside_cstates,
     "this machine has no cpuidle driver"},
    {"percore", "percore", percore,
     "no source works here: 'percore doctor' says why"},
};
#define METHODS (sizeof(methods) / sizeof(methods[0]))

static bool is_known(const struct snapshot *snapshot,
                     const struct method *method) {
  for (size_t i = 0; i < snapshot->cores_len; i++)
    if (!isnan(method->load(&snapshot->cores[i])))
      return true;
  return false;
}

/* Writes the title of a method, with the source that percore uses. */
#define TITLE_SIZE 64
static void put_title(char title[TITLE_SIZE], const struct snapshot *snapshot,
                      const struct method *method) {
  const char *name = NULL;
  for (size_t i = 0; i < snapshot->cores_len; i++) {
    const char *other = source_name(snapshot->cores[i].source);
    if (snapshot->cores[i].online)
      name = name == NULL || name == other ? other : "by core";
  }
  if (method->load == percore && name != NULL)
    snprintf(title, TITLE_SIZE, "percore, source %s", name);
  else
    snprintf(title, TITLE_SIZE, "%s", method->title);
}

/* ---------------------------------------------------------------------------
 * Writing
 */

static void write_core(FILE *out, const struct core_figures *core) {
  char text[32];
  fprintf(out, "\n%7d", core->core);
  for (size_t i = 0; i < METHODS; i++) {
    number_text(text, sizeof(text), "%.1f", 100 * methods[i].load(core));
    fprintf(out, "%7s", text);
  }
}

int compare_table_write(FILE *out, const void *figures, struct screen screen) {
  const struct snapshot *snapshot =
      ((const struct load_page *)figures)->snapshot;
  char time[TIME_TEXT_SIZE], title[TITLE_SIZE];
  time_text(time, snapshot->time_ns);
  fprintf(out, "%s  over %.3f s\n", time, (double)snapshot->covered_ns / 1e9);
  for (size_t i = 0; i < METHODS; i++) {
    bool known = is_known(snapshot, &methods[i]);
    put_title(title, snapshot, &methods[i]);
    fprintf(out, "%c  %s%s%s\n", (char)('A' + i), title, known ? "" : ": ",
            known ? "" : methods[i].absent);
  }
  paint_pad(out, screen.colour, PAINT_TITLE, "load %", -7);
  for (size_t i = 0; i < METHODS; i++)
    paint_pad(out, screen.colour, PAINT_TITLE, (char[]){(char)('A' + i), '\0'},
              7);
  for (size_t i = 0; i < snapshot->cores_len; i++)
    if (snapshot->cores[i].online)
      write_core(out, &snapshot->cores[i]);
  fputc('\n', out);
  return 0;
}

static void put_core(struct json *json, const struct core_figures *core) {
  json_open_object(json, NULL);
  json_integer(json, "core", core->core);
  json_open_object(json, "load");
  for (size_t i = 0; i < METHODS; i++)
    json_percent(json, methods[i].name, methods[i].load(core));
  json_close_object(json);
  json_close_object(json);
}

int compare_json_write(FILE *out, const void *figures) {
  const struct snapshot *snapshot =
      ((const struct load_page *)figures)->snapshot;
  struct json *json = json_begin(out, "load --compare");
  char title[TITLE_SIZE];
  json_thousandths(json, "time", (double)snapshot->time_ns / 1e9);
  json_number(json, "interval_s", (double)snapshot->covered_ns / 1e9);
  json_open_array(json, "methods");
  for (size_t i = 0; i < METHODS; i++) {
    put_title(title, snapshot, &methods[i]);
    json_open_object(json, NULL);
    json_text(json, "name", methods[i].name);
    json_text(json, "title", title);
    if (!is_known(snapshot, &methods[i]))
      json_text(json, "unavailable", methods[i].absent);
    json_close_object(json);
  }
  json_close_array(json);
  json_open_array(json, "cores");
  for (size_t i = 0; i < snapshot->cores_len; i++)
    if (snapshot->cores[i].online)
      put_core(json, &snapshot->cores[i]);
  json_close_array(json);
  json_end(json);
  return 0;
}
