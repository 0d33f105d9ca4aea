/* name.h: claims a region's name in a runtime directory, by a lock file and the
 * socket at which readers find the region. For serve.c. */
#ifndef PERCORE_REGION_NAME_H
#define PERCORE_REGION_NAME_H

#include <stdbool.h>
#include <sys/types.h>
#include <sys/un.h>

#include "percore.h"

#define REGION_PATH_SIZE sizeof(((struct sockaddr_un *)0)->sun_path)

struct region_name {
  char lock_path[REGION_PATH_SIZE], socket_path[REGION_PATH_SIZE];
  int lock, listener; /* -1 if not open */
  dev_t device;       /* device of the socket's file */
  ino_t inode;
};

/* Claims the name and listens. lock and listener must be -1. Returns 0, or -1
 * with errno (EADDRINUSE: another process holds the name); call
 * region_name_release in either case. */
int region_name_take(struct region_name *name, const char *region,
                     const struct percore_options *options);

/* True if the socket at the path belongs to the listener. */
bool region_name_is_found(const struct region_name *name);

/* Recreates a removed socket, with a new listener. On failure, returns -1 and
 * changes nothing. */
int region_name_restore(struct region_name *name);

/* Releases the name and removes both files. */
void region_name_release(struct region_name *name);

/* Closes the descriptors but leaves the files. */
void region_name_close(struct region_name *name);

#endif
