/* percore regions: lists the regions of the runtime directory and their states.
 */
#include "json.h"
#include "region/file.h"
#include "region/worker.h"
#include "target.h"
#include "text.h"
#include "tool.h"
#include "top.h"

#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#define COMMAND "regions"

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

/* What one reading of a region tells about its threads that call percore_poll.
 */
struct threads {
  int polling, stuck;
  uint64_t still_ns; /* how long the stuck threads have not polled, at least */
};

static struct threads read_threads(const struct listed *listed) {
  struct region_workers workers = {0};
  struct threads threads = {.still_ns = UINT64_MAX};
  if (strcmp(listed_state(listed), "alive") == 0)
    region_workers_read(&workers, listed->reader, monotonic_ns(), percore_tsc(),
                        0);
  for (uint32_t s = 0; s < workers.len; s++) {
    const struct region_worker *worker = &workers.list[s];
    threads.polling += worker->polls && worker->slot.state == REGION_LIVE;
    if (worker->still_ns < TOP_STUCK_NS)
      continue;
    threads.stuck++;
    if (worker->still_ns < threads.still_ns)
      threads.still_ns = worker->still_ns;
  }
  region_workers_forget(&workers);
  return threads;
}

static const char *state_of(const struct listed *listed,
                            const struct threads *threads) {
  return threads->stuck > 0 && threads->stuck == threads->polling
             ? "stale"
             : listed_state(listed);
}

static void why_of(char why[LISTED_WHY_SIZE], const struct listed *listed,
                   const struct threads *threads) {
  if (threads->stuck > 0)
    snprintf(
        why, LISTED_WHY_SIZE,
        "%d of %d threads %s not polled for %.0f s: 'percore top %.*s' "
        "shows which",
        threads->stuck, threads->polling, threads->stuck == 1 ? "has" : "have",
        (double)threads->still_ns / 1e9, LISTED_WHY_SIZE / 2, listed->name);
  else
    listed_why(why, listed);
}

static enum paint state_paint(const char *state) {
  return strcmp(state, "alive") == 0 ? PAINT_GOOD
         : strcmp(state, "refused") == 0 || strcmp(state, "stale") == 0
             ? PAINT_BAD
             : PAINT_WARN;
}

/* Writes a line about a region, and what is wrong with the region: on the same
 * line or, on a terminal, below it. */
static void put_text(const struct listed *listed, const struct screen *screen) {
  char why[LISTED_WHY_SIZE], clean[LISTED_WHY_SIZE * TEXT_GROWTH];
  char pid[PID_TEXT_SIZE] = "-", user[USER_TEXT_SIZE] = "-", tables[16] = "-";
  char rows[24] = "-", size[SIZE_TEXT_SIZE] = "-";
  struct region_reader *reader = listed->reader;
  const struct threads threads = read_threads(listed);
  const char *state = state_of(listed, &threads);
  if (reader != NULL && region_reader_directory(reader) != NULL) {
    const struct region_directory *directory = region_reader_directory(reader);
    pid_text(pid, region_reader_pid(reader));
    user_text(user, region_reader_uid(reader));
    snprintf(tables, sizeof(tables), "%u", directory->table_count - 1);
    snprintf(rows, sizeof(rows), "%llu",
             (unsigned long long)count_rows(reader));
    size_text(size, directory->header.region_size);
  }
  text_clean_string(clean, sizeof(clean), listed->name);
  text_pad(stdout, clean, -22);
  fputc(' ', stdout);
  paint_pad(stdout, screen->colour, state_paint(state), state, -7);
  printf(" %7s %-10s %6s %9s %9s", pid, user, tables, rows, size);
  why_of(why, listed, &threads);
  text_clean_string(clean, sizeof(clean), why);
  if (clean[0] == '\0') {
    fputc('\n', stdout);
    return;
  }
  printf("%s  ", screen->width > 0 ? "\n" : "");
  text_wrap(stdout, clean, 2, screen->width);
}

static void put_json(struct json *json, const struct listed *listed) {
  char why[LISTED_WHY_SIZE];
  struct region_reader *reader = listed->reader;
  const struct threads threads = read_threads(listed);
  json_open_object(json, NULL);
  json_text(json, "name", listed->name);
  json_text(json, "state", state_of(listed, &threads));
  if (reader != NULL && region_reader_directory(reader) != NULL) {
    const struct region_directory *directory = region_reader_directory(reader);
    target_json_user(json, reader);
    target_json(json, reader);
    json_integer(json, "tables", directory->table_count - 1);
    json_integer(json, "rows", (int64_t)count_rows(reader));
    json_integer(json, "size", (int64_t)directory->header.region_size);
    json_integer(json, "attach_refused",
                 (int64_t)region_reader_attach_refused(reader));
  }
  why_of(why, listed, &threads);
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

static void show_table(const struct listing *listing) {
  if (listing->len == 0) {
    char clean[4096];
    text_clean_string(clean, sizeof(clean), region_runtime_dir());
    printf("There is no region in %s.\n", clean);
    return;
  }
  struct screen screen = terminal_screen();
  paint_pad(stdout, screen.colour, PAINT_TITLE, "region", -22);
  printf(" %-7s %7s %-10s %6s %9s %9s\n", "state", "pid", "user", "tables",
         "rows", "size");
  for (size_t i = 0; i < listing->len; i++)
    put_text(&listing->listed[i], &screen);
}

static int list_regions(bool as_json) {
  struct listing listing;
  int result = TOOL_OK, status = listing_connect(&listing);
  if (as_json)
    show_json(&listing, -status);
  else if (status == 0)
    show_table(&listing);
  int written = end_output(COMMAND);
  if (status != 0)
    result =
        say_failure(COMMAND, "cannot read %s: %s: %s", region_runtime_dir(),
                    strerror(-status), listing_advice(-status));
  else
    result = written;
  listing_free(&listing);
  return result;
}

/* ---------------------------------------------------------------------------
 * Removing what producers have left
 */

static int clean(void) {
  unsigned removed = 0, kept = 0;
  DIR *files = opendir(region_runtime_dir());
  if (files == NULL)
    return say_failure(COMMAND, "cannot read %s: %s: %s", region_runtime_dir(),
                       strerror(errno), listing_advice(errno));
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

struct options {
  bool json, clean;
};

static const struct argument arguments[] = {
    ARGUMENT_JSON(struct options),
    ARGUMENT(struct options, clean, 'c', "clean", ARGUMENT_FLAG, NULL,
             "remove the files of producers that are gone, also if collectd "
             "has not read their last counts"),
};

static int regions_main(int argc, char **argv) {
  struct options options = {.json = false};
  int status = arguments_read(&regions_command, argc, argv, &options);
  if (status >= 0)
    return status;
  stop_catch();
  return options.clean ? clean() : list_regions(options.json);
}

const struct command regions_command = {
    .name = COMMAND,
    .summary = "list the fast paths that publish counters here",
    .usage = "[OPTION]...",
    .about = "Lists the regions in the runtime directory "
             "($PERCORE_RUNTIME_DIR, default /run/percore): their producers, "
             "their sizes, and whether they can be read.",
    .arguments = ARGUMENTS(arguments),
    .run = regions_main,
};
