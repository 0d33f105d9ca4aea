#include "target.h"

#include "base/array.h"
#include "region/layout.h"
#include "text.h"
#include "tool.h"

#include <dirent.h>
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void (*renew_region)(void);

void target_renew_by(void (*renew)(void)) { renew_region = renew; }

void target_renew(void) {
  if (renew_region != NULL)
    renew_region();
}

void user_text(char text[USER_TEXT_SIZE], uid_t uid) {
  const struct passwd *entry = getpwuid(uid);
  if (entry != NULL)
    snprintf(text, USER_TEXT_SIZE, "%s", entry->pw_name);
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

void target_json_user(struct json *json, struct region_reader *reader) {
  char user[USER_TEXT_SIZE];
  json_integer(json, "uid", region_reader_uid(reader));
  user_text(user, region_reader_uid(reader));
  json_text(json, "user", user);
}

void target_json(struct json *json, struct region_reader *reader) {
  const struct region_directory *directory = region_reader_directory(reader);
  if (region_reader_pid(reader) > 0)
    json_integer(json, "pid", region_reader_pid(reader));
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
      {EACCES, "run as root or as a member of the file's group (percore)"},
      {ECONNRESET, "its producer has ended: start it again"},
      {EMFILE, "raise the limit of open files (ulimit -n)"},
  };
  for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
    if (known[i].error == error)
      return known[i].advice;
  return "";
}

static int say_absent(const char *command, const char *region) {
  struct listing listing;
  size_t length = strlen(region);
  char instances[512] = "";
  listing_read(&listing);
  for (size_t i = 0; i < listing.len; i++) {
    const char *name = listing.listed[i].name;
    bool again = i > 0 && strcmp(name, listing.listed[i - 1].name) == 0;
    if (!again && strncmp(name, region, length) == 0 && name[length] == '@')
      text_append(instances, sizeof(instances), ", ", name);
  }
  listing_free(&listing);
  if (instances[0] != '\0')
    return say_failure(command, "region %s has instances; name one of them: %s",
                       region, instances);
  return say_failure(command,
                     "there is no region %s in %s: 'percore regions' lists "
                     "the regions; set PERCORE_RUNTIME_DIR to use another "
                     "directory",
                     region, region_runtime_dir());
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
 * Opening
 */

int target_connect(const char *command, const char *region,
                   struct region_reader **reader) {
  struct region_title label;
  *reader = NULL;
  if (!region_title_split(&label, region, strlen(region)))
    return say_usage(command,
                     "'%s' is not a valid region name: write NAME or "
                     "NAME@INSTANCE; 'percore regions' lists the regions",
                     region);
  if (region_reader_open(reader, label.region, region_title_instance(&label),
                         NULL) != 0)
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

/* ---------------------------------------------------------------------------
 * All regions
 */

static int by_name(const void *left, const void *right) {
  const struct listed *a = left, *b = right;
  int order = strcmp(a->name, b->name);
  return order != 0 ? order : strcmp(a->file, b->file);
}

static bool add_name(struct listing *listing, const char *file, size_t length) {
  if (length == 0 || file[0] == '.') /* not finished yet */
    return true;
  if (!array_grow(&listing->listed, listing->len, listing->len + 1,
                  sizeof(*listing->listed)))
    return false;
  struct listed *listed = &listing->listed[listing->len];
  *listed =
      (struct listed){.name = strndup(file, length), .file = strdup(file)};
  listing->len++;
  return listed->name != NULL && listed->file != NULL;
}

int listing_read(struct listing *listing) {
  *listing = (struct listing){0};
  DIR *dir = opendir(region_runtime_dir());
  if (dir == NULL)
    return -errno;
  bool fits = true;
  for (struct dirent *entry; fits && (entry = readdir(dir)) != NULL;)
    fits = add_name(listing, entry->d_name, region_title_length(entry->d_name));
  closedir(dir);
  if (listing->len > 0)
    qsort(listing->listed, listing->len, sizeof(*listing->listed), by_name);
  return fits ? 0 : -ENOMEM;
}

void listing_free(struct listing *listing) {
  for (size_t i = 0; i < listing->len; i++) {
    region_reader_close(listing->listed[i].reader);
    free(listing->listed[i].name);
    free(listing->listed[i].file);
  }
  free(listing->listed);
}

void listing_print(void) {
  struct listing listing;
  struct region_title label;
  listing_read(&listing);
  for (size_t i = 0; i < listing.len; i++) {
    const char *name = listing.listed[i].name;
    bool again = i > 0 && strcmp(name, listing.listed[i - 1].name) == 0;
    if (!again && region_title_split(&label, name, strlen(name)))
      puts(name);
  }
  listing_free(&listing);
}

static const char *open_reader(struct listed *listed) {
  struct region_title label;
  if (!region_title_split(&label, listed->name, strlen(listed->name)))
    return "not a valid name of a region";
  if (region_reader_open_file(&listed->reader, listed->file, NULL) != 0)
    return strerror(errno);
  (void)region_reader_refresh(listed->reader);
  (void)region_reader_refresh(listed->reader); /* the producer may have ended */
  return NULL;
}

int listing_connect(struct listing *listing) {
  int status = listing_read(listing);
  for (size_t i = 0; i < listing->len; i++)
    listing->listed[i].fault = open_reader(&listing->listed[i]);
  return status;
}

const char *listing_advice(int error) {
  switch (error) {
  case ENOENT:
    if (strcmp(region_runtime_dir(), "/run/percore") != 0)
      return "groupadd -f percore && install -d -m 3770 -g percore "
             "$PERCORE_RUNTIME_DIR; or unset PERCORE_RUNTIME_DIR to use "
             "/run/percore";
    return "run 'systemd-sysusers' and 'systemd-tmpfiles --create', or without "
           "systemd: groupadd -f percore && install -d -m 3770 -g percore "
           "/run/percore; set PERCORE_RUNTIME_DIR to use another directory";
  case EACCES:
    return "run as root or as a member of the group percore";
  default:
    return "set PERCORE_RUNTIME_DIR to use another directory";
  }
}

const char *listed_state(const struct listed *listed) {
  if (listed->reader == NULL)
    return "refused";
  switch (region_reader_presence(listed->reader)) {
  case REGION_ALIVE:
    return region_reader_is_stopped(listed->reader) ? "silent" : "alive";
  case REGION_LEFT:
    return "gone";
  default:
    break;
  }
  int error = region_reader_errno(listed->reader);
  return error == ENOENT || error == ECONNRESET ? "gone" : "refused";
}

int listed_reason(char reason[LISTED_WHY_SIZE], const struct listed *listed) {
  struct region_reader *reader = listed->reader;
  reason[0] = '\0';
  if (reader == NULL) {
    snprintf(reason, LISTED_WHY_SIZE, "%s", listed->fault);
    return EINVAL;
  }
  if (region_reader_directory(reader) != NULL)
    return 0;
  const struct region_fault *fault = region_reader_fault(reader);
  region_fault_text(fault, reason);
  return fault->error;
}

void listed_why(char why[LISTED_WHY_SIZE], const struct listed *listed) {
  int error = listed_reason(why, listed);
  size_t used = strlen(why);
  const char *advice = target_advice(error);
  if (error != 0 && advice[0] != '\0')
    snprintf(why + used, LISTED_WHY_SIZE - used, ": %s", advice);
  if (error != 0)
    return;
  struct region_refusals refusals;
  region_reader_refusals(listed->reader, &refusals);
  if (!region_slots_refused(why, LISTED_WHY_SIZE, &refusals))
    (void)region_rows_refused(why, LISTED_WHY_SIZE, &refusals);
}
