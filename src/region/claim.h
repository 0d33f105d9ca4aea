/* claim.h: claims a region's name in a runtime directory, by a lock file and
 * the socket at which readers find the region. For serve.c. */
#ifndef PERCORE_REGION_CLAIM_H
#define PERCORE_REGION_CLAIM_H

#include <stdbool.h>
#include <sys/types.h>
#include <sys/un.h>

#include "percore_tune.h"

#define REGION_PATH_SIZE sizeof(((struct sockaddr_un *)0)->sun_path)

struct region_claim {
  char lock_path[REGION_PATH_SIZE], socket_path[REGION_PATH_SIZE];
  /* Of the instance "*": where its number begins in both paths, until it has
   * got one; 0 */
  size_t number_at;
  unsigned number;
  int lock, listener; /* -1 if not open */
  mode_t mode;        /* of the socket's file */
  dev_t device;       /* of the socket's file */
  ino_t inode;
};

/* Sets the paths; no descriptor is open then. Returns 0, or -1 with EINVAL or
 * ENAMETOOLONG. */
int region_claim_init(struct region_claim *claim, const char *region,
                      const struct percore_options *options);

/* Claims the name and listens, or recreates a removed socket, with a new
 * listener. Returns 0, or -1 with errno: EADDRINUSE, if another process holds
 * the name. The name, if this process holds it, is kept, and so is the number
 * that the instance "*" has got. */
int region_claim_take(struct region_claim *claim);

/* True if both claims are for the same name. */
bool region_claim_is_same(const struct region_claim *claim,
                          const struct region_claim *other);

/* True if the socket at the path belongs to the listener. */
bool region_claim_is_found(const struct region_claim *claim);

/* Releases the name and removes both files. */
void region_claim_release(struct region_claim *claim);

/* Closes the descriptors but leaves the files. */
void region_claim_close(struct region_claim *claim);

#endif
