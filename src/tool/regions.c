/* percore regions: the regions of the runtime directory and their states. */
#include "json.h"
#include "names.h"
#include "region/label.h"
#include "target.h"
#include "text.h"
#include "tool.h"
#include "window.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#define COMMAND "regions"

enum {
  WAIT_MS = 500, /* for the answers of all producers together */
  LOOK_MS = 10
};

struct regions_options {
  bool json;
};

static const struct argument arguments[] = {
    ARGUMENT_JSON(struct regions_options),
};

struct found {
  const char *name; /* foreign bytes */
  struct region_reader *reader;
  const char *fault; /* why there is no reader */
};

struct list {
  struct names names;
  struct found *found; /* [names.len] */
};

/* ---------------------------------------------------------------------------
 * Finding
 */

static const char *open_reader(struct found *found) {
  struct region_reader_options options = target_options(0);
  struct region_label label;
  if (!region_label_split(&label, found->name))
    return "not a valid name of a region";
  return region_reader_open(&found->reader, label.name, label.instance,
                            &options) == 0
             ? NULL
             : strerror(errno);
}

/* 0 or -errno. */
static int find(struct list *list) {
  int status = names_read(&list->names);
  if (status != 0)
    return status;
  list->found = calloc(list->names.len + 1, sizeof(*list->found));
  if (list->found == NULL)
    return -ENOMEM;
  for (size_t i = 0; i < list->names.len; i++) {
    list->found[i].name = list->names.name[i];
    list->found[i].fault = open_reader(&list->found[i]);
  }
  return 0;
}

/* Connects to all regions and waits for all together, so that producers that do
 * not answer cost the time of one. */
static void connect_all(struct list *list) {
  for (int look = 0;; look++) {
    bool waiting = false;
    for (size_t i = 0; i < list->names.len; i++) {
      struct region_reader *reader = list->found[i].reader;
      if (reader == NULL ||
          (look > 0 && region_reader_presence(reader) != REGION_SILENT))
        continue;
      region_reader_refresh(reader);
      waiting |= region_reader_presence(reader) == REGION_SILENT;
    }
    /* The next look counts from now: if this process was held up, the producers
     * may have been, too. */
    if (!waiting || look == WAIT_MS / LOOK_MS ||
        !sleep_until_ns(monotonic_ns() + LOOK_MS * UINT64_C(1000000)))
      return;
  }
}

static void free_list(struct list *list) {
  for (size_t i = 0; list->found != NULL && i < list->names.len; i++)
    region_reader_close(list->found[i].reader);
  free(list->found);
  names_free(&list->names);
}

/* ---------------------------------------------------------------------------
 * One region
 */

static const char *state_of(const struct found *found) {
  if (found->reader == NULL)
    return "refused";
  switch (region_reader_presence(found->reader)) {
  case REGION_ALIVE:
    return "alive";
  case REGION_SILENT:
    return "silent";
  case REGION_LEFT:
    return "gone";
  default:
    break;
  }
  int error = region_reader_errno(found->reader);
  return error == ECONNREFUSED || error == ENOENT || error == ECONNRESET
             ? "gone"
         : error == EAGAIN ? "silent"
                           : "refused";
}

/* Rows of the producer's own tables that are or were in use. */
static uint64_t count_rows(struct region_reader *reader) {
  uint64_t rows = 0;
  uint32_t tables = region_reader_directory(reader)->table_count;
  for (uint32_t t = 1; t < tables; t++)
    rows += region_reader_rows(reader, t);
  return rows;
}

#define WHY_SIZE (REGION_FAULT_LINE + 128)

/* What is wrong with a region, or worth knowing; "" if nothing is. */
static void write_why(char why[WHY_SIZE], const struct found *found) {
  struct region_reader *reader = found->reader;
  why[0] = '\0';
  if (reader == NULL) {
    snprintf(why, WHY_SIZE, "%s", found->fault);
    return;
  }
  if (region_reader_directory(reader) == NULL) {
    const struct region_fault *fault = region_reader_fault(reader);
    const char *advice = target_advice(fault->error);
    char reason[REGION_FAULT_LINE];
    region_fault_text(fault, reason);
    snprintf(why, WHY_SIZE, "%s%s%s", reason, advice[0] != '\0' ? ": " : "",
             advice);
    return;
  }
  uint64_t refused = region_reader_attach_refused(reader);
  if (refused > 0)
    snprintf(why, WHY_SIZE,
             "%llu attaching threads found no slot: their counts are lost",
             (unsigned long long)refused);
}

static enum paint state_paint(const char *state) {
  return strcmp(state, "alive") == 0     ? PAINT_GOOD
         : strcmp(state, "refused") == 0 ? PAINT_BAD
                                         : PAINT_WARN;
}

static void put_text(const struct found *found, bool colour) {
  char why[WHY_SIZE], clean[WHY_SIZE * TEXT_GROWTH];
  char pid[PID_TEXT_SIZE] = "-", user[USER_TEXT_SIZE] = "-", tables[16] = "-";
  char rows[24] = "-", size[SIZE_TEXT_SIZE] = "-";
  struct region_reader *reader = found->reader;
  if (reader != NULL && region_reader_directory(reader) != NULL) {
    const struct region_directory *directory = region_reader_directory(reader);
    pid_text(pid, region_reader_pid(reader));
    user_text(user, region_reader_uid(reader));
    snprintf(tables, sizeof(tables), "%u", directory->table_count - 1);
    snprintf(rows, sizeof(rows), "%llu",
             (unsigned long long)count_rows(reader));
    size_text(size, directory->header.region_size);
  }
  text_clean_string(clean, sizeof(clean), found->name);
  text_pad(stdout, clean, -24);
  fputc(' ', stdout);
  paint_pad(stdout, colour, state_paint(state_of(found)), state_of(found), -8);
  printf(" %8s %-12s %6s %10s %9s", pid, user, tables, rows, size);
  write_why(why, found);
  text_clean_string(clean, sizeof(clean), why);
  printf("%s%s\n", clean[0] != '\0' ? "  " : "", clean);
}

static void put_json(struct json *json, const struct found *found) {
  char why[WHY_SIZE], user[USER_TEXT_SIZE];
  struct region_reader *reader = found->reader;
  json_open_object(json, NULL);
  json_text(json, "name", found->name);
  json_text(json, "state", state_of(found));
  if (reader != NULL && region_reader_directory(reader) != NULL) {
    const struct region_directory *directory = region_reader_directory(reader);
    if (region_reader_pid(reader) > 0)
      json_integer(json, "pid", region_reader_pid(reader));
    json_integer(json, "uid", region_reader_uid(reader));
    user_text(user, region_reader_uid(reader));
    json_text(json, "user", user);
    json_thousandths(json, "started",
                     (double)directory->header.start_realtime_ns / 1e9);
    json_integer(json, "tables", directory->table_count - 1);
    json_integer(json, "rows", (int64_t)count_rows(reader));
    json_integer(json, "size", (int64_t)directory->header.region_size);
    json_integer(json, "attach_refused",
                 (int64_t)region_reader_attach_refused(reader));
  }
  write_why(why, found);
  if (why[0] != '\0')
    json_text(json, "why", why);
  json_close_object(json);
}

/* ---------------------------------------------------------------------------
 * The command
 */

/* What helps if the directory cannot be read. */
static const char *directory_advice(int error) {
  switch (error) {
  case ENOENT:
    return "'systemd-tmpfiles --create' makes it where percore is installed, "
           "otherwise: groupadd -f percore && install -d -m 3775 -g percore "
           "/run/percore; PERCORE_RUNTIME_DIR names another directory";
  case EACCES:
    return "run as root or as a member of the group percore";
  default:
    return "PERCORE_RUNTIME_DIR names another directory";
  }
}

/* error: of reading the directory, or 0. */
static int show_json(const struct list *list, int error) {
  struct json *json = json_begin(stdout, COMMAND);
  if (json == NULL)
    return say_failure(COMMAND, "%s", strerror(ENOMEM));
  json_text(json, "runtime_dir", region_runtime_dir());
  if (error != 0) {
    json_text(json, "why", strerror(error));
    json_text(json, "advice", directory_advice(error));
  }
  json_open_array(json, "regions");
  for (size_t i = 0; error == 0 && i < list->names.len; i++)
    put_json(json, &list->found[i]);
  json_close_array(json);
  return json_end(json) == 0 ? TOOL_OK
                             : say_failure(COMMAND, "%s", strerror(ENOMEM));
}

static void show_table(const struct list *list) {
  if (list->names.len == 0) {
    char clean[4096];
    text_clean_string(clean, sizeof(clean), region_runtime_dir());
    printf("There is no region in %s.\n", clean);
    return;
  }
  bool colour = colour_wanted();
  paint_pad(stdout, colour, PAINT_TITLE, "region", -24);
  printf(" %-8s %8s %-12s %6s %10s %9s\n", "state", "pid", "user", "tables",
         "rows", "size");
  for (size_t i = 0; i < list->names.len; i++)
    put_text(&list->found[i], colour);
}

static int run(bool as_json) {
  struct list list = {0};
  int result = TOOL_OK, status = find(&list);
  if (status == 0)
    connect_all(&list);
  if (as_json)
    result = show_json(&list, -status);
  else if (status == 0)
    show_table(&list);
  int written = flush_output(COMMAND);
  if (status != 0)
    result =
        say_failure(COMMAND, "cannot read %s: %s: %s", region_runtime_dir(),
                    strerror(-status), directory_advice(-status));
  else if (written != 0 && written != -EPIPE)
    result = TOOL_FAILURE;
  free_list(&list);
  return result;
}

static int regions_main(int argc, char **argv) {
  struct regions_options options = {0};
  int status = arguments_read(&regions_command, argc, argv, &options);
  if (status >= 0)
    return status;
  stop_catch();
  return run(options.json);
}

const struct command regions_command = {
    .name = COMMAND,
    .summary = "list the fast paths that publish counters here",
    .about = "Lists the regions in the runtime directory "
             "($PERCORE_RUNTIME_DIR, default /run/percore): their producers, "
             "their sizes, and whether they can be read.",
    .arguments = ARGUMENTS(arguments),
    .run = regions_main,
};
