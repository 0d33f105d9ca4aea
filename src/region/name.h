/* name.h: takes a region's name in a runtime directory: the lock file, and the
 * socket at which readers find the region. Private to serve.c. */
#ifndef PERCORE_REGION_NAME_H
#define PERCORE_REGION_NAME_H

#include <stdbool.h>
#include <sys/types.h>
#include <sys/un.h>

#include "percore.h"

#define REGION_PATH_SIZE sizeof(((struct sockaddr_un *)0)->sun_path)

struct region_name {
  char lock_path[REGION_PATH_SIZE], socket_path[REGION_PATH_SIZE];
  int lock, listener; /* -1: none */
  dev_t device;       /* of the socket's file */
  ino_t inode;
};

/* Takes the name and listens. 0, or -1 with errno (EADDRINUSE: another process
 * has the name) and no file left behind. */
int region_name_take(struct region_name *name, const char *region,
                     const struct percore_options *options);

/* True if the socket at the path is the listener's. */
bool region_name_is_found(const struct region_name *name);

/* Recreates a socket that was removed, with a new listener. 0, or -1 and
 * nothing changes. */
int region_name_restore(struct region_name *name);

/* Gives the name back: removes both files. */
void region_name_release(struct region_name *name);

/* Closes the descriptors and leaves the files. */
void region_name_close(struct region_name *name);

#endif
