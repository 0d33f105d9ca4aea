#include "target.h"

#include "base/array.h"
#include "board/board.h"
#include "poller/poller.h"
#include "region/layout.h"
#include "text.h"
#include "tool.h"

#include <dirent.h>
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

int target_say_absent(const char *command, const char *region) {
  return say_failure(command,
                     "there is no region %s in %s: 'percore regions' lists "
                     "the regions; set PERCORE_RUNTIME_DIR to use another "
                     "directory",
                     region, region_runtime_dir());
}

/* Says why the first of its files cannot be read. */
static int say_why(const char *command, const char *region) {
  struct listing listing;
  char why[LISTED_WHY_SIZE];
  (void)listing_connect(&listing, region);
  int status;
  if (listing.len == 0) {
    status = target_say_absent(command, region);
  } else {
    listed_why(why, &listing.listed[0]);
    status =
        say_failure(command, "cannot read %s: %s", listing.listed[0].name, why);
  }
  listing_free(&listing);
  return status;
}

int target_open(const char *command, const char *region,
                struct region_reader **reader) {
  struct region_title title;
  if (!region_title_split(&title, region, strlen(region)))
    return say_usage(command,
                     "'%s' is not a valid region name: write NAME or "
                     "NAME@INSTANCE; 'percore regions' lists the regions",
                     region);
  if (region_reader_open(reader, title.region, region_title_instance(&title),
                         NULL) != 0)
    return say_failure(command, "cannot read %s: %s", region, strerror(errno));
  region_reader_refresh(*reader);
  if (region_reader_directory(*reader) != NULL)
    return TOOL_OK;
  region_reader_close(*reader);
  return say_why(command, region);
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
  strcpy(listed->file, file);
  memcpy(listed->name, file, length);
  listed->is_valid = region_title_split(&listed->title, file, length);
  listing->len++;
  return true;
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
  for (size_t i = 0; i < listing->len; i++)
    region_reader_close(listing->listed[i].reader);
  free(listing->listed);
}

static const char *open_reader(struct listed *listed) {
  if (!listed->is_valid)
    return "not a valid name of a region";
  if (region_reader_open_file(&listed->reader, listed->file, NULL) != 0)
    return strerror(errno);
  (void)region_reader_refresh(listed->reader);
  (void)region_reader_refresh(listed->reader); /* the producer may have ended */
  return NULL;
}

/* Removes all regions but those that `name` stands for. */
static void keep_named(struct listing *listing, const char *name) {
  size_t length = strlen(name), kept = 0;
  for (size_t i = 0; i < listing->len; i++) {
    struct listed *listed = &listing->listed[i];
    if (strncmp(listed->name, name, length) == 0 &&
        (listed->name[length] == '\0' || listed->name[length] == '@'))
      listing->listed[kept++] = *listed;
    else
      region_reader_close(listed->reader);
  }
  listing->len = kept;
}

int listing_connect(struct listing *listing, const char *name) {
  int status = listing_read(listing);
  if (name != NULL)
    keep_named(listing, name);
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

int listing_fails(const char *command, int error) {
  return say_failure(command, "cannot read %s: %s: %s", region_runtime_dir(),
                     strerror(error), listing_advice(error));
}

bool listed_is_own(const struct listed *listed) {
  return listed->is_valid &&
         (strcmp(listed->title.region, BOARD_NAME) == 0 ||
          strcmp(listed->title.region, POLLERS_REGION) == 0);
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
    return region_reader_fault(listed->reader)->error == ENOENT ? "gone"
                                                                : "refused";
  }
}

/* Writes why a region cannot be read. */
static int why_refused(char why[LISTED_WHY_SIZE],
                       const struct region_fault *fault) {
  char line[REGION_FAULT_LINE];
  const char *advice =
      fault->error == EACCES
          ? ": run as root or as a member of the file's group (percore)"
      : fault->error == EMFILE ? ": raise the limit of open files (ulimit -n)"
                               : "";
  bool has_rule = fault->rule != REGION_NO_RULE;
  region_fault_text(fault, line);
  snprintf(why, LISTED_WHY_SIZE, "%s%s%s%s%s", line, has_rule ? " (rule " : "",
           region_rule_name(fault->rule),
           has_rule ? " of percore-region(7))" : "", advice);
  return fault->error;
}

/* Writes what is wrong with the producer of a region that can be read. */
static void why_of_producer(char why[LISTED_WHY_SIZE],
                            const struct listed *listed) {
  struct region_refusals refusals;
  region_reader_refusals(listed->reader, &refusals);
  if (region_reader_presence(listed->reader) == REGION_LEFT)
    snprintf(why, LISTED_WHY_SIZE,
             "its producer has ended; these are its last counts");
  else if (region_reader_is_stopped(listed->reader))
    snprintf(why, LISTED_WHY_SIZE,
             "its producer is stopped, by a signal (kill -CONT ends that) or "
             "by a debugger");
  else if (!region_slots_refused(why, LISTED_WHY_SIZE, &refusals))
    (void)region_rows_refused(why, LISTED_WHY_SIZE, &refusals);
}

int listed_why(char why[LISTED_WHY_SIZE], const struct listed *listed) {
  why[0] = '\0';
  if (listed->reader == NULL) {
    snprintf(why, LISTED_WHY_SIZE, "%s", listed->fault);
    return EINVAL;
  }
  const struct region_fault *fault = region_reader_fault(listed->reader);
  if (region_reader_directory(listed->reader) == NULL && fault->error != 0)
    return why_refused(why, fault);
  why_of_producer(why, listed);
  return 0;
}
