/* percore regions: lists the regions of the runtime directory and their states,
 * and describes one: its tables and fields, or the rule that it breaks. */
#include "regions.h"
#include "arguments.h"
#include "json.h"
#include "map.h"
#include "region/file.h"
#include "target.h"
#include "text.h"
#include "tool.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>

#define COMMAND "regions"

struct regions_options {
  bool maps, clean, json;
};

static const struct argument arguments[] = {
    ARGUMENT(struct regions_options, maps, 'm', "maps", ARGUMENT_FLAG, NULL,
             "list the BPF maps of this machine instead"),
    ARGUMENT(struct regions_options, clean, 'c', "clean", ARGUMENT_FLAG, NULL,
             "remove the files of producers that are gone, also if collectd "
             "has not read their last counts"),
    ARGUMENT_JSON(struct regions_options),
};

static bool can_be_read(const struct listed *listed) {
  return listed->reader != NULL &&
         region_reader_directory(listed->reader) != NULL;
}

/* Returns how many rows of the producer's own tables are or have been in use.
 */
static uint64_t count_rows(struct region_reader *reader) {
  uint64_t rows = 0;
  uint32_t tables = region_reader_directory(reader)->table_count;
  for (uint32_t t = 1; t < tables; t++) {
    uint32_t in_use = region_reader_rows(reader, t);
    /* Row 0 is one only if there is no other. */
    rows += in_use > 1 ? in_use - 1 : in_use;
  }
  return rows;
}

static enum paint state_paint(const char *state) {
  return strcmp(state, "alive") == 0     ? PAINT_GOOD
         : strcmp(state, "refused") == 0 ? PAINT_BAD
                                         : PAINT_WARN;
}

/* Writes a line about a region, and what is wrong with the region: on the same
 * line or, on a terminal, below it. */
static void put_text(FILE *out, const struct listed *listed,
                     const struct screen *screen) {
  char why[LISTED_WHY_SIZE], name[LISTED_WHY_SIZE * TEXT_GROWTH];
  char pid[PID_TEXT_SIZE] = "-", user[USER_TEXT_SIZE] = "-", tables[16] = "-";
  char rows[24] = "-", size[SIZE_TEXT_SIZE] = "-";
  struct region_reader *reader = listed->reader;
  const char *state = listed_state(listed);
  if (can_be_read(listed)) {
    const struct region_directory *directory = region_reader_directory(reader);
    pid_text(pid, region_reader_pid(reader));
    user_text(user, region_reader_uid(reader));
    snprintf(tables, sizeof(tables), "%u", directory->table_count - 1);
    snprintf(rows, sizeof(rows), "%llu",
             (unsigned long long)count_rows(reader));
    size_text(size, directory->header.region_size);
  }
  text_pad(out, text_clean_string(name, sizeof(name), listed->name), -22);
  fputc(' ', out);
  paint_pad(out, screen->colour, state_paint(state), state, -7);
  fprintf(out, " %7s %-10s %6s %9s %9s", pid, user, tables, rows, size);
  listed_why(why, listed);
  if (why[0] != '\0')
    fprintf(out, "%s  ", screen->width > 0 ? "\n" : "");
  text_wrap(out, why, 2, screen->width);
}

/* ---------------------------------------------------------------------------
 * What a region consists of
 */

static const char *const storages[] = {"per core", "owned", "shared"};
static const char *const kinds[] = {"counter", "updown", "gauge", "state",
                                    "histogram"};
static const char *const aggregations[] = {"sum", "min", "max", "none"};

/* Writes a cell of clean text, and the blanks after it. */
static void put_cell(FILE *out, const char *text, int width) {
  char clean[512];
  text_clean_string(clean, sizeof(clean), text != NULL ? text : "");
  text_pad(out, clean, -width);
  fputs("  ", out);
}

static void put_field(FILE *out, const struct percore_field *field, int width) {
  char kind[32], about[512] = "";
  bool is_gauge = field->kind == PERCORE_GAUGE;
  snprintf(kind, sizeof(kind), "%s%s%s", kinds[field->kind],
           is_gauge ? ", " : "",
           is_gauge ? aggregations[field->aggregation] : "");
  for (uint32_t i = 0; i < field->state_count; i++)
    text_append(about, sizeof(about), ", ", field->states[i]);
  if (field->help != NULL)
    text_append(about, sizeof(about), ": ", field->help);
  fputs("  ", out);
  put_cell(out, field->name, 16);
  put_cell(out, kind, 11);
  put_cell(out, field->unit, 10);
  text_wrap(out, about, 45, width);
}

static void put_layout(FILE *out, struct region_reader *reader, int width) {
  const struct region_directory *directory = region_reader_directory(reader);
  char time[TIME_TEXT_SIZE], about[640];
  time_text(time, directory->header.start_realtime_ns);
  fprintf(out, "\nsince %s\n", time);
  for (uint32_t t = 0; t < directory->table_count; t++) {
    const struct percore_table *table = &directory->described[t];
    char rows[64] = "one row";
    if (table->max_rows > 0)
      snprintf(rows, sizeof(rows), "%u live of at most %u rows",
               region_reader_live_rows(reader, t), table->max_rows);
    snprintf(about, sizeof(about), "%s (%s, %s)%s%.400s", table->name,
             storages[table->storage], rows, table->help != NULL ? ": " : "",
             table->help != NULL ? table->help : "");
    text_wrap(out, about, 0, width);
    for (uint32_t f = 0; f < table->field_count; f++)
      put_field(out, &table->fields[f], width);
  }
}

/* ---------------------------------------------------------------------------
 * JSON
 */

static void put_fault(struct json *json, const struct region_fault *fault) {
  if (fault->rule == REGION_NO_RULE)
    return;
  json_text(json, "rule", region_rule_name(fault->rule));
  if (fault->table[0] != '\0')
    json_text(json, "table", fault->table);
  if (fault->field[0] != '\0')
    json_text(json, "field", fault->field);
}

static void put_json(struct json *json, const struct listed *listed) {
  char why[LISTED_WHY_SIZE], user[USER_TEXT_SIZE];
  struct region_reader *reader = listed->reader;
  struct region_refusals refusals;
  json_open_object(json, NULL);
  json_text(json, "name", listed->name);
  json_text(json, "state", listed_state(listed));
  if (can_be_read(listed)) {
    const struct region_directory *directory = region_reader_directory(reader);
    user_text(user, region_reader_uid(reader));
    json_integer(json, "uid", region_reader_uid(reader));
    json_text(json, "user", user);
    if (region_reader_pid(reader) > 0)
      json_integer(json, "pid", region_reader_pid(reader));
    json_thousandths(json, "started",
                     (double)directory->header.start_realtime_ns / 1e9);
    json_integer(json, "tables", directory->table_count - 1);
    json_integer(json, "rows", (int64_t)count_rows(reader));
    json_integer(json, "size", (int64_t)directory->header.region_size);
    region_reader_refusals(reader, &refusals);
    json_integer(json, "attach_refused", (int64_t)refusals.attaches);
  }
  if (reader != NULL)
    put_fault(json, region_reader_fault(reader));
  listed_why(why, listed);
  if (why[0] != '\0')
    json_text(json, "why", why);
  json_close_object(json);
}

/* ---------------------------------------------------------------------------
 * The command
 */

/* Prints the regions as JSON. `error` is the errno if the runtime directory
 * could not be read, otherwise 0. */
static void show_json(const struct listing *listing, int error) {
  struct json *json = json_begin(stdout, COMMAND);
  json_text(json, "runtime_dir", region_runtime_dir());
  if (error != 0) {
    json_text(json, "why", strerror(error));
    json_text(json, "advice", listing_advice(error));
  }
  json_open_array(json, "regions");
  for (size_t i = 0; error == 0 && i < listing->len; i++)
    put_json(json, &listing->listed[i]);
  json_close_array(json);
  json_end(json);
}

struct table {
  struct listing listing;
  bool others_only; /* leave out percore's own regions */
  bool whole;       /* describe the first that can be read */
};

/* Writes nothing if no region is shown. Below the loads, where not all may fit,
 * regions that are gone come last. */
static int write_table(FILE *out, const void *context, struct screen screen) {
  const struct table *table = context;
  const struct listing *listing = &table->listing;
  bool has_title = false;
  for (size_t i = 0; i < listing->len * (1 + table->others_only); i++) {
    const struct listed *listed = &listing->listed[i % listing->len];
    bool is_gone = strcmp(listed_state(listed), "gone") == 0;
    if (table->others_only &&
        (listed_is_own(listed) || is_gone != (i >= listing->len)))
      continue;
    if (!has_title) {
      paint_pad(out, screen.colour, PAINT_TITLE, "region", -22);
      fprintf(out, " %-7s %7s %-10s %6s %9s %9s\n", "state", "pid", "user",
              "tables", "rows", "size");
    }
    has_title = true;
    put_text(out, listed, &screen);
  }
  for (size_t i = 0; i < listing->len && table->whole; i++)
    if (can_be_read(&listing->listed[i])) {
      put_layout(out, listing->listed[i].reader, screen.width);
      break;
    }
  return 0;
}

char *regions_text(struct screen screen) {
  struct table table = {.others_only = true};
  char *text = NULL;
  size_t size;
  FILE *out = open_memstream(&text, &size);
  if (out == NULL)
    return NULL;
  if (listing_connect(&table.listing, NULL) == 0)
    (void)screen_write(out, screen, write_table, &table);
  listing_free(&table.listing);
  fclose(out);
  return text;
}

static void show_table(const struct table *table) {
  struct screen screen = terminal_screen();
  if (table->listing.len == 0) {
    fputs("There is no region in ", stdout);
    text_wrap(stdout, region_runtime_dir(), 0, 0);
  }
  screen.height = 0;
  (void)screen_write(stdout, screen, write_table, table);
}

static int list_regions(const char *name, bool as_json) {
  struct table table = {.whole = name != NULL};
  const struct listing *listing = &table.listing;
  int result = TOOL_OK, status = listing_connect(&table.listing, name);
  if (as_json)
    show_json(listing, -status);
  else if (status == 0 && (name == NULL || listing->len > 0))
    show_table(&table);
  if (status != 0)
    result = listing_fails(COMMAND, -status);
  else if (name != NULL && listing->len == 0)
    result = target_say_absent(COMMAND, name);
  for (size_t i = 0; name != NULL && i < listing->len; i++)
    if (!can_be_read(&listing->listed[i]))
      result = TOOL_FAILURE;
  listing_free(&table.listing);
  int written = end_output(COMMAND);
  return result != TOOL_OK ? result : written;
}

/* ---------------------------------------------------------------------------
 * Removing what producers have left
 */

static int clean(void) {
  unsigned removed = 0, kept = 0;
  DIR *files = opendir(region_runtime_dir());
  if (files == NULL)
    return listing_fails(COMMAND, errno);
  for (struct dirent *entry; (entry = readdir(files)) != NULL;) {
    const char *name = entry->d_name;
    if (region_title_length(name + (name[0] == '.')) == 0)
      continue;
    int status = region_file_remove(dirfd(files), name);
    removed += status > 0;
    kept += status < 0 && errno != ENOENT;
  }
  closedir(files);
  printf("%u files were removed whose producers are gone.\n", removed);
  if (kept > 0)
    return say_failure(COMMAND,
                       "%u files of others were not removed: run as "
                       "root",
                       kept);
  return end_output(COMMAND);
}

static int regions_main(void *given, const char *name,
                        struct machine *machine) {
  const struct regions_options *options = given;
  (void)machine;
  if (options->clean + options->maps + (name != NULL) > 1)
    return say_usage(COMMAND, "give a name, --maps or --clean");
  stop_catch();
  return options->clean  ? clean()
         : options->maps ? map_list(COMMAND, options->json)
                         : list_regions(name, options->json);
}

const struct command regions_command = {
    .name = COMMAND,
    .summary = "list the fast paths that publish counters, or describe one",
    .usage = "[NAME] [OPTION]...",
    .about = "Lists the regions in the runtime directory "
             "($PERCORE_RUNTIME_DIR, default /run/percore): their producers, "
             "their sizes, and whether they can be read. With a NAME or "
             "NAME@INSTANCE, also describes the tables and fields of this "
             "region or, if readers refuse it, names the rule of "
             "percore-region(7) that it breaks, and exits with 1.",
    .arguments = ARGUMENTS(arguments),
    DEFAULTS(regions_options, .maps = false),
    .words_max = 1,
    .run = regions_main,
};
