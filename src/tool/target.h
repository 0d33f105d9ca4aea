/* target: the region that a command line names, and its producer. */
#ifndef PERCORE_TARGET_H
#define PERCORE_TARGET_H

#include "region/reader.h"

/* For commands that need a region. */
#define TARGET_MISSING                                                         \
  "the region is missing: 'percore regions' lists the regions"

/* Connects to REGION, which is NAME or NAME@INSTANCE; waits a second at most.
 * Returns TOOL_OK, or says what is wrong and returns TOOL_USAGE (not the name
 * of a region) or TOOL_FAILURE. */
int target_open(const char *command, const char *region,
                struct region_reader **reader);

/* The same, but succeeds without a region, too; the caller may report the
 * reason with target_say_why. */
int target_connect(const char *command, const char *region,
                   struct region_reader **reader);

/* Says why there is no region. Returns TOOL_FAILURE. */
int target_say_why(const char *command, const char *region,
                   const struct region_reader *reader);

/* Sets a function to call before each reading of a region, for regions that
 * this process publishes itself. */
void target_renew_by(void (*renew)(void));
void target_renew(void);

/* Options of a reader that accepts regions of any user and of any size: the
 * output shows the owner, and a size is address space, not memory. */
struct region_reader_options target_options(int hello_wait_ms);

/* "NAME" or "NAME@INSTANCE", as the producer calls itself. */
#define TARGET_NAME_SIZE 192
void target_name(char text[TARGET_NAME_SIZE],
                 const struct region_directory *directory);

/* The table of this name, or -1. */
int target_table(const struct region_directory *directory, const char *name);

/* Says that the table does not exist, and lists the tables. Returns
 * TOOL_FAILURE.
 */
int target_no_table(const char *command,
                    const struct region_directory *directory, const char *name);

/* "root", or the number of a user without a name. */
#define USER_TEXT_SIZE 64
void user_text(char text[USER_TEXT_SIZE], uid_t uid);

/* "-" for a process that is not visible from here (0). */
#define PID_TEXT_SIZE 16
void pid_text(char text[PID_TEXT_SIZE], pid_t pid);

/* "1.4 GiB". */
#define SIZE_TEXT_SIZE 32
void size_text(char text[SIZE_TEXT_SIZE], uint64_t bytes);

/* What helps against an errno of connecting; "" if nothing is known. */
const char *target_advice(int error);

#endif
