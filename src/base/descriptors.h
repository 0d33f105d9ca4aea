/* descriptors.h: keeps file descriptors free for the rest of the process, in
 * particular numbers below 1024, because select(2) cannot use higher ones. */
#ifndef PERCORE_BASE_DESCRIPTORS_H
#define PERCORE_BASE_DESCRIPTORS_H

#include <stdbool.h>

/* How many descriptors must stay free; a quarter of RLIMIT_NOFILE if that is
 * less. */
#define DESCRIPTORS_RESERVE 256

/* The first number that select(2) cannot use. */
#define DESCRIPTORS_HIGH 1024

/* How many descriptors this process may still open while leaving
 * DESCRIPTORS_RESERVE free. Counts the entries of /proc/self/fd. */
long descriptors_available(void);

/* Raises the soft limit if fewer than `need` descriptors are available: to
 * DESCRIPTORS_HIGH + need + DESCRIPTORS_RESERVE, or to the hard limit if that
 * is lower. Does not raise it higher, because many programs close every
 * possible descriptor after a fork. */
void descriptors_raise_limit(long need);

/* True if opening `need` more descriptors would leave fewer than
 * DESCRIPTORS_RESERVE free numbers below DESCRIPTORS_HIGH. The new descriptors
 * must then be moved. */
bool descriptors_crowded(long need);

/* Moves a descriptor to a number of at least DESCRIPTORS_HIGH. Returns the new
 * number, or the old number if the limit on open files is too low for that. */
int descriptors_move(int fd);

#endif
