#include "target.h"

#include "names.h"
#include "text.h"
#include "tool.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HELLO_WAIT_MS = 1000 };

static void (*renew_region)(void);

void target_renew_by(void (*renew)(void)) { renew_region = renew; }

void target_renew(void) {
  if (renew_region != NULL)
    renew_region();
}

struct region_reader_options target_options(int hello_wait_ms) {
  return (struct region_reader_options){.hello_wait_ms = hello_wait_ms,
                                        .max_region_size = UINT64_MAX};
}

void user_text(char text[USER_TEXT_SIZE], uid_t uid) {
  char room[4096];
  struct passwd entry, *found = NULL;
  if (getpwuid_r(uid, &entry, room, sizeof(room), &found) == 0 && found != NULL)
    snprintf(text, USER_TEXT_SIZE, "%s", entry.pw_name);
  else
    snprintf(text, USER_TEXT_SIZE, "%u", (unsigned)uid);
}

void pid_text(char text[PID_TEXT_SIZE], pid_t pid) {
  if (pid > 0)
    snprintf(text, PID_TEXT_SIZE, "%d", (int)pid);
  else
    snprintf(text, PID_TEXT_SIZE, "-");
}

void size_text(char text[SIZE_TEXT_SIZE], uint64_t bytes) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double size = (double)bytes;
  size_t unit = 0;
  for (; size >= 1024 && unit + 1 < sizeof(units) / sizeof(units[0]); unit++)
    size /= 1024;
  snprintf(text, SIZE_TEXT_SIZE, size < 10 && unit > 0 ? "%.1f %s" : "%.0f %s",
           size, units[unit]);
}

void target_name(char text[TARGET_NAME_SIZE],
                 const struct region_directory *directory) {
  snprintf(text, TARGET_NAME_SIZE, "%s%s%s", directory->name,
           directory->instance != NULL ? "@" : "",
           directory->instance != NULL ? directory->instance : "");
}

void target_json(struct json *json, struct region_reader *reader) {
  const struct region_directory *directory = region_reader_directory(reader);
  char user[USER_TEXT_SIZE];
  if (region_reader_pid(reader) > 0)
    json_integer(json, "pid", region_reader_pid(reader));
  json_integer(json, "uid", region_reader_uid(reader));
  user_text(user, region_reader_uid(reader));
  json_text(json, "user", user);
  json_thousandths(json, "started",
                   (double)directory->header.start_realtime_ns / 1e9);
}

int target_table(const struct region_directory *directory, const char *name) {
  for (uint32_t t = 0; t < directory->table_count; t++)
    if (strcmp(directory->described[t].name, name) == 0)
      return (int)t;
  return -1;
}

int target_no_table(const char *command,
                    const struct region_directory *directory,
                    const char *name) {
  char names[512] = "";
  for (uint32_t t = 0; t < directory->table_count; t++)
    text_append(names, sizeof(names), ", ", directory->described[t].name);
  return say_failure(command, "region %s has no table '%s'; it has %s",
                     directory->name, name, names);
}

/* ---------------------------------------------------------------------------
 * Why there is no region
 */

const char *target_advice(int error) {
  static const struct {
    int error;
    const char *advice;
  } known[] = {
      {EACCES, "run as root or as a member of the socket's group (percore)"},
      {ECONNREFUSED, "its producer has ended without removing the socket; "
                     "start it again"},
      {ETIMEDOUT,
       "its producer listens but does not answer: it is stopped, or it "
       "does not call percore_serve"},
      {ECONNRESET, "its producer has ended; start it again"},
      {EAGAIN,
       "too many readers wait for its producer: it is stopped, or it does "
       "not call percore_serve"},
      {EMFILE, "raise the limit of open files (ulimit -n)"},
  };
  for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
    if (known[i].error == error)
      return known[i].advice;
  return "";
}

/* Writes the names of a region's instances as "a, b". Returns false if the
 * region has no instances. */
static bool find_instances(const char *region, char *text, size_t size) {
  struct names names;
  size_t length = strlen(region);
  text[0] = '\0';
  names_read(&names);
  for (size_t i = 0; i < names.len; i++) {
    const char *name = names_at(&names, i);
    if (strncmp(name, region, length) == 0 && name[length] == '@')
      text_append(text, size, ", ", name);
  }
  names_free(&names);
  return text[0] != '\0';
}

static int say_absent(const char *command, const char *region) {
  char instances[512];
  const char *dir = region_runtime_dir();
  if (strchr(region, '@') == NULL &&
      find_instances(region, instances, sizeof(instances)))
    return say_failure(command, "region %s has instances; name one of them: %s",
                       region, instances);
  return say_failure(command,
                     "there is no region %s in %s: 'percore regions' lists "
                     "the regions; set PERCORE_RUNTIME_DIR to use another "
                     "directory",
                     region, dir);
}

int target_say_why(const char *command, const char *region,
                   struct region_reader *reader) {
  int error = region_reader_errno(reader);
  const char *advice = target_advice(error);
  if (error == ENOENT)
    return say_absent(command, region);
  return say_failure(command, "%s%s%s", region_reader_error(reader),
                     advice[0] != '\0' ? ": " : "", advice);
}

/* ---------------------------------------------------------------------------
 * Connecting
 */

int target_connect(const char *command, const char *region,
                   struct region_reader **reader) {
  struct region_label label;
  struct region_reader_options options = target_options(HELLO_WAIT_MS);
  *reader = NULL;
  if (!region_label_split(&label, region, strlen(region)))
    return say_usage(command,
                     "'%s' is not a valid region name: write NAME or "
                     "NAME@INSTANCE; 'percore regions' lists the regions",
                     region);
  if (region_reader_open(reader, label.region, region_label_instance(&label),
                         &options) != 0)
    return say_failure(command, "cannot read %s: %s", region, strerror(errno));
  region_reader_refresh(*reader);
  return TOOL_OK;
}

int target_open(const char *command, const char *region,
                struct region_reader **reader) {
  int status = target_connect(command, region, reader);
  if (status != TOOL_OK || region_reader_directory(*reader) != NULL)
    return status;
  target_say_why(command, region, *reader);
  region_reader_close(*reader);
  *reader = NULL;
  return TOOL_FAILURE;
}
