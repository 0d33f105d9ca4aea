/* descriptors.h: keeps file descriptors free for the rest of the process, in
 * particular descriptors below 1024, because select(2) cannot use higher
 * descriptors. */
#ifndef PERCORE_BASE_DESCRIPTORS_H
#define PERCORE_BASE_DESCRIPTORS_H

#include <stdbool.h>

/* How many descriptors must stay free. If a quarter of RLIMIT_NOFILE is less
 * than this, only that quarter must stay free. */
#define DESCRIPTORS_RESERVE 256

/* The lowest descriptor that select(2) cannot use. */
#define DESCRIPTORS_HIGH 1024

/* Returns how many descriptors this process may still open while leaving
 * DESCRIPTORS_RESERVE free. Counts the entries of /proc/self/fd. */
long descriptors_available(void);

/* Raises the soft limit on open files if it leaves too few descriptors for
 * three counters of each core. The new limit is DESCRIPTORS_HIGH + these
 * counters + DESCRIPTORS_RESERVE, or the hard limit if that is lower. The limit
 * is not raised further, because many programs close every possible descriptor
 * after a fork. */
void descriptors_raise_limit(void);

/* True if a descriptor that was just opened leaves DESCRIPTORS_RESERVE free:
 * all lower ones may be in use, but not those below DESCRIPTORS_HIGH if it was
 * moved from there. */
bool descriptors_have_room(int fd);

/* Moves a descriptor to the lowest free number from DESCRIPTORS_HIGH on.
 * Returns the new descriptor. If the limit on open files is too low to move it,
 * returns the old descriptor, which stays open. */
int descriptors_move(int fd);

#endif
