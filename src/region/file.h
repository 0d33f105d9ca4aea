/* file.h: a region is a regular file in the runtime directory, named
 * NAME[@INSTANCE].ID, where ID is 16 hexadecimal digits. It is complete before
 * it has this name. Its producer has locked byte 0 for writing (F_OFD_SETLK),
 * and its mapping keeps the lock until nobody can count any more, so the kernel
 * knows whether somebody still can. */
#ifndef PERCORE_REGION_FILE_H
#define PERCORE_REGION_FILE_H

#include "fault.h"
#include "layout.h"

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

/* ---------------------------------------------------------------------------
 * For producers
 */

struct region_new_file {
  int dir, fd;
  char name[NAME_MAX + 1]; /* the later name, preceded by a dot */
};

/* Makes an empty file with a temporary name, and closes it: who inherits this
 * descriptor keeps no lock. Returns 0, or -1 with errno. */
int region_file_make(struct region_new_file *file, const char *dir,
                     const char *name, const char *instance, bool all_users);

/* Opens the file to map and lock it. No thread may fork until it is closed: the
 * child would keep the lock. Unlike the calls before and after it, it does not
 * wait for the lock of the directory. Returns 0, or -1 with errno. */
int region_file_begin(struct region_new_file *file);

/* Locks the mapped file and closes its descriptor. Returns true if another
 * opening of the file sees the lock, which an overlay does not let it. */
bool region_file_lock(struct region_new_file *file);

/* Gives the file its name, or removes it if `publish` is false. Returns 0, or
 * -1 with errno. */
int region_file_finish(struct region_new_file *file, bool publish);

/* ---------------------------------------------------------------------------
 * For readers
 */

struct region_file {
  int fd; /* -1: not open */
  ino_t inode;
  uid_t owner;
  uint64_t size;
};

/* Opens the file of a region for reading, in a directory (a descriptor). Never
 * blocks. Returns 0, or -1 and sets *fault. */
int region_file_open(struct region_file *file, int dir, const char *name,
                     struct region_fault *fault);
void region_file_close(struct region_file *file);

/* True if nobody can count in the file any more, as far as can be known. The
 * header is a copy of the file's; `ended` may have changed since, and is the
 * present word. */
bool region_file_is_over(int fd, const struct region_header *header,
                         uint64_t ended);

/* ---------------------------------------------------------------------------
 * Removing: clean.c
 */

/* Removes files of this user and region that nobody counts in any more: those
 * found to be so a minute ago, because a reader needs the time to take their
 * last counts, and the oldest if there are more than 64. */
void region_files_clean(const char *dir, const char *region);

/* Removes a file that nobody counts in any more, whoever owns it. Returns 1 if
 * it did, 0 if somebody counts in it, or -1 with errno. */
int region_file_remove(int dir, const char *name);

#endif
