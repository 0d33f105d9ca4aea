/* target: the region that a command line names, all regions of the runtime
 * directory, and why a region cannot be read. */
#ifndef PERCORE_TARGET_H
#define PERCORE_TARGET_H

#include "json.h"
#include "region/reader.h"

/* Opens `region`, which is NAME or NAME@INSTANCE: the newest of its files. The
 * reader accepts regions of every user, because the output shows the owner.
 * Returns TOOL_OK. On failure, prints an error message and returns TOOL_USAGE
 * if `region` is not a valid name, otherwise TOOL_FAILURE. */
int target_open(const char *command, const char *region,
                struct region_reader **reader);

/* Prints that there is no such region. Returns TOOL_FAILURE. */
int target_say_absent(const char *command, const char *region);

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

/* ---------------------------------------------------------------------------
 * All regions
 */

struct listed {
  char *file; /* of the runtime directory */
  char *name; /* its title; untrusted bytes, perhaps no valid name */
  bool is_valid;
  struct region_title title; /* if it is */
  struct region_reader *reader;
  const char *fault; /* why reader is NULL */
};

struct listing {
  struct listed *listed; /* sorted by name */
  size_t len;
};

/* listing_read finds the files in the runtime directory. listing_connect also
 * opens them, or only those of a region and its instances unless `name` is
 * NULL. Both return 0, or -errno if the directory cannot be read. Call
 * listing_free in either case. */
int listing_read(struct listing *listing);
int listing_connect(struct listing *listing, const char *name);
void listing_free(struct listing *listing);

/* Returns advice on what to do after listing_read has failed with `error`, a
 * positive errno. */
const char *listing_advice(int error);

/* Prints that the directory cannot be read, why, and this advice. Returns
 * TOOL_FAILURE. */
int listing_fails(const char *command, int error);

/* True for the board and the region of pollers, which percore itself publishes.
 */
bool listed_is_own(const struct listed *listed);

/* Returns the state of a region: "alive", "silent" (the producer does not
 * answer), "gone" (the producer has ended), or "refused" (the region cannot be
 * read for another reason). */
const char *listed_state(const struct listed *listed);

/* Writes what is wrong with a region and what to do about it, or "" if nothing
 * is. Returns the errno for which the region cannot be read; 0: it can be, or
 * the producer does not answer. */
#define LISTED_WHY_SIZE (REGION_FAULT_LINE + 128)
int listed_why(char why[LISTED_WHY_SIZE], const struct listed *listed);

#endif
