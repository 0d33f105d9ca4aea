/* process: what /proc says of a process. */
#ifndef PERCORE_BASE_PROCESS_H
#define PERCORE_BASE_PROCESS_H

#include <stdbool.h>
#include <stddef.h>

/* The rights of a process, from its /proc/PID/status. */
struct rights {
  long parent;
  unsigned uid, real_uid;          /* effective, real; -1: unknown */
  unsigned long long capabilities; /* effective */
  bool in_group;                   /* member of a given group */
};

/* Reads at most size - 1 bytes of the file proc/pid/name, and appends a NUL.
 * Returns the number of bytes read, which is 0 if the file cannot be opened. */
size_t process_read(char *text, size_t size, const char *proc, const char *pid,
                    const char *name);

/* Reads the rights of a process, and whether it is a member of a group; -1: of
 * none. `pid` is a directory in `proc`, such as "self". */
void rights_read(struct rights *rights, const char *proc, const char *pid,
                 long group);

#endif
