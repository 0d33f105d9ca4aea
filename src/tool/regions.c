/* percore regions: what is in the runtime directory, and how it is. */
#include "arguments.h"
#include "json.h"
#include "target.h"
#include "text.h"
#include "tool.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define COMMAND "regions"
#define NAME_SIZE 256

enum {
  WAIT_MS = 500, /* how long we sleep for producers to answer, all together */
  LOOK_MS = 10
};

static const char help[] =
    "Usage: percore regions [OPTION]...\n"
    "Lists the regions in the runtime directory ($PERCORE_RUNTIME_DIR, else\n"
    "/run/percore): who makes them, how large they are, and whether they can\n"
    "be read.\n\n"
    "  -j, --json     one JSON document instead of a table\n"
    "  -h, --help     print this help\n"
    "  -V, --version  print the version\n";

struct found {
  char name[NAME_SIZE]; /* of the file without .sock: foreign bytes */
  struct region_reader *reader;
  const char *fault; /* why there is no reader */
};

struct list {
  struct found *found;
  size_t count;
};

/* ---------------------------------------------------------------------------
 * Finding
 */

static const char *open_reader(struct found *found) {
  struct region_reader_options options = target_options(0);
  char name[NAME_SIZE];
  snprintf(name, sizeof(name), "%s", found->name);
  char *instance = strchr(name, '@');
  if (instance != NULL)
    *instance++ = '\0';
  if (region_reader_open(&found->reader, name, instance, &options) == 0)
    return NULL;
  return errno == EINVAL ? "it is not a valid name of a region"
                         : strerror(errno);
}

static int add(struct list *list, const char *file) {
  size_t length = strlen(file);
  if (length <= 5 || strcmp(file + length - 5, ".sock") != 0)
    return 0;
  struct found *larger =
      realloc(list->found, (list->count + 1) * sizeof(*larger));
  if (larger == NULL)
    return -ENOMEM;
  list->found = larger;
  struct found *found = &larger[list->count++];
  *found = (struct found){0};
  memcpy(found->name, file, length - 5 < NAME_SIZE ? length - 5 : 0);
  found->fault = open_reader(found);
  return 0;
}

static int by_name(const void *left, const void *right) {
  const struct found *a = left, *b = right;
  return strcmp(a->name, b->name);
}

/* 0 or -errno. */
static int find(struct list *list) {
  DIR *dir = opendir(region_runtime_dir());
  if (dir == NULL)
    return -errno;
  int status = 0;
  for (struct dirent *entry; status == 0 && (entry = readdir(dir)) != NULL;)
    status = add(list, entry->d_name);
  closedir(dir);
  if (list->count > 0)
    qsort(list->found, list->count, sizeof(*list->found), by_name);
  return status;
}

/* Asks them all and waits for them together, so that those that do not answer
 * cost the time of one. */
static void connect_all(struct list *list) {
  for (int look = 0;; look++) {
    bool waiting = false;
    for (size_t i = 0; i < list->count; i++) {
      struct region_reader *reader = list->found[i].reader;
      if (reader == NULL ||
          (look > 0 && region_reader_presence(reader) != REGION_SILENT))
        continue;
      region_reader_refresh(reader);
      waiting |= region_reader_presence(reader) == REGION_SILENT;
    }
    /* From now: looks that were late are not made up for at once, as whoever is
     * to answer may have been as late. */
    if (!waiting || look == WAIT_MS / LOOK_MS ||
        !sleep_until_ns(monotonic_ns() + LOOK_MS * UINT64_C(1000000)))
      return;
  }
}

static void free_list(struct list *list) {
  for (size_t i = 0; i < list->count; i++)
    region_reader_close(list->found[i].reader);
  free(list->found);
}

/* ---------------------------------------------------------------------------
 * What is known of one
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

/* Rows that are in use, or were; of the producer's own tables. */
static uint64_t count_rows(struct region_reader *reader) {
  uint64_t rows = 0;
  uint32_t tables = region_reader_directory(reader)->table_count;
  for (uint32_t t = 1; t < tables; t++)
    rows += region_reader_rows(reader, t);
  return rows;
}

#define WHY_SIZE (REGION_FAULT_LINE + 128)

/* What is wrong with it, or worth a look; "" for nothing. */
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

static void put_text(const struct found *found) {
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
  printf("%-24s %-8s %8s %-12s %6s %10s %9s", clean, state_of(found), pid, user,
         tables, rows, size);
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

static int show_json(const struct list *list) {
  struct json *json = json_begin(stdout);
  if (json == NULL)
    return say_failure(COMMAND, "%s", strerror(ENOMEM));
  json_text(json, "runtime_dir", region_runtime_dir());
  json_open_array(json, "regions");
  for (size_t i = 0; i < list->count; i++)
    put_json(json, &list->found[i]);
  json_close_array(json);
  return json_end(json) == 0 ? TOOL_OK
                             : say_failure(COMMAND, "%s", strerror(ENOMEM));
}

static void show_table(const struct list *list) {
  if (list->count == 0) {
    char clean[4096];
    const char *dir = region_runtime_dir();
    text_clean_string(clean, sizeof(clean), dir);
    printf("There is no region in %s.\n", clean);
    return;
  }
  printf("%-24s %-8s %8s %-12s %6s %10s %9s\n", "region", "state", "pid",
         "user", "tables", "rows", "size");
  for (size_t i = 0; i < list->count; i++)
    put_text(&list->found[i]);
}

static int say_no_directory(int error) {
  const char *dir = region_runtime_dir();
  if (error == ENOENT)
    return say_failure(COMMAND,
                       "there is no %s: no producer was installed to use it "
                       "(systemd-tmpfiles makes it), or PERCORE_RUNTIME_DIR "
                       "should name another",
                       dir);
  return say_failure(COMMAND, "cannot read %s: %s", dir, strerror(error));
}

static int run(bool as_json) {
  struct list list = {0};
  int result = TOOL_OK, status = find(&list);
  if (status == 0) {
    connect_all(&list);
    if (as_json)
      result = show_json(&list);
    else
      show_table(&list);
    int written = flush_output(COMMAND);
    if (written != 0 && written != -EPIPE)
      result = TOOL_FAILURE;
  } else {
    result = say_no_directory(-status);
  }
  free_list(&list);
  return result;
}

int regions_main(int argc, char **argv) {
  bool as_json;
  int status = arguments_json(COMMAND, help, argc, argv, &as_json);
  if (status >= 0)
    return status;
  stop_catch();
  return run(as_json);
}
