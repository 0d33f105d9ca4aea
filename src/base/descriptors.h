/* descriptors.h: leaves file descriptors for the rest of this process, in
 * particular those below 1024, because select(2) cannot use higher numbers. */
#ifndef PERCORE_BASE_DESCRIPTORS_H
#define PERCORE_BASE_DESCRIPTORS_H

#include <stdbool.h>

/* How many descriptors to leave; a quarter of RLIMIT_NOFILE if that is less. */
#define DESCRIPTORS_RESERVE 256

/* The first number that select(2) cannot use. */
#define DESCRIPTORS_HIGH 1024

/* How many more descriptors this process may open before fewer than
 * DESCRIPTORS_RESERVE stay free for others. Counts /proc/self/fd. */
long descriptors_available(void);

/* Raises the soft limit if fewer than `need` are available: to DESCRIPTORS_HIGH
 * + need + DESCRIPTORS_RESERVE, or to the hard limit if that is lower. Never
 * further, because programs close every possible descriptor after a fork. */
void descriptors_raise_limit(long need);

/* True if `need` more descriptors would leave fewer than DESCRIPTORS_RESERVE of
 * the numbers below DESCRIPTORS_HIGH, so that they must be moved. */
bool descriptors_crowded(long need);

/* Moves a descriptor to a number from DESCRIPTORS_HIGH on. Returns its new
 * number, or the old one if the limit has no room there. */
int descriptors_move(int fd);

#endif
