/* target: the region that a command line names, and the region's producer. */
#ifndef PERCORE_TARGET_H
#define PERCORE_TARGET_H

#include "json.h"
#include "region/reader.h"

/* The error message if the argument REGION is missing. */
#define TARGET_MISSING                                                         \
  "the region is missing: 'percore regions' lists the regions"

/* Connects to `region`, which is NAME or NAME@INSTANCE, and waits at most a
 * second for its producer to answer. Returns TOOL_OK. On failure, prints an
 * error message and returns TOOL_USAGE if `region` is not a valid name,
 * otherwise TOOL_FAILURE. */
int target_open(const char *command, const char *region,
                struct region_reader **reader);

/* Like target_open, but also succeeds if the region cannot be read. The caller
 * can then report the reason with target_say_why. */
int target_connect(const char *command, const char *region,
                   struct region_reader **reader);

/* Prints why the region cannot be read. Returns TOOL_FAILURE. */
int target_say_why(const char *command, const char *region,
                   struct region_reader *reader);

/* target_renew_by sets the function that updates the region, if this process
 * publishes the region itself. target_renew calls this function, if one is set.
 * Call target_renew before each read of a region. */
void target_renew_by(void (*renew)(void));
void target_renew(void);

/* Returns options for a reader that accepts regions of every user, because the
 * output shows the owner, and of any size, because a large region uses up only
 * address space, not memory. */
struct region_reader_options target_options(int hello_wait_ms);

/* Writes "NAME" or "NAME@INSTANCE" from the region's directory. */
#define TARGET_NAME_SIZE 192
void target_name(char text[TARGET_NAME_SIZE],
                 const struct region_directory *directory);

/* Writes the pid, the user and the start time of a region's producer as JSON.
 */
void target_json(struct json *json, struct region_reader *reader);

/* Returns the index of the table with this name, or -1. */
int target_table(const struct region_directory *directory, const char *name);

/* Prints that the region has no table with this name, and lists its tables.
 * Returns TOOL_FAILURE. */
int target_no_table(const char *command,
                    const struct region_directory *directory, const char *name);

/* Writes the name of a user, such as "root", or the uid if the user has no
 * name. */
#define USER_TEXT_SIZE 64
void user_text(char text[USER_TEXT_SIZE], uid_t uid);

/* Writes a pid, or "-" if the pid is 0, which means that the process is not
 * visible from here (from this PID namespace). */
#define PID_TEXT_SIZE 16
void pid_text(char text[PID_TEXT_SIZE], pid_t pid);

/* Writes a size such as "1.4 GiB". */
#define SIZE_TEXT_SIZE 32
void size_text(char text[SIZE_TEXT_SIZE], uint64_t bytes);

/* Returns advice for a connection that failed with this errno, or "" if
 * percore has no advice for it. */
const char *target_advice(int error);

#endif
