/* descriptors: how many descriptors this process can spare for percore.
 *
 * The usual limit is 1024, which percore shares with everything else in its
 * process. Numbers below 1024 are worth more than others: select(2) knows no
 * higher ones.
 */
#ifndef PERCORE_DESCRIPTORS_H
#define PERCORE_DESCRIPTORS_H

#include <stdbool.h>

/* Descriptors that percore leaves free for the rest of its process. */
#define DESCRIPTORS_RESERVE 256

/* The first number that select(2) cannot use. */
#define DESCRIPTORS_HIGH 1024

/* How many more descriptors this process may open before fewer than
 * DESCRIPTORS_RESERVE stay free for others; 0 if that cannot be found out. Any
 * thread. */
long descriptors_available(void);

/* Raises the soft limit of open files if `need` more descriptors would leave
 * fewer than DESCRIPTORS_RESERVE free: to DESCRIPTORS_HIGH + need +
 * DESCRIPTORS_RESERVE or the hard limit, whichever is lower, and never further,
 * because programs close every possible descriptor after a fork. Any thread. */
void descriptors_raise_limit(long need);

/* Will `need` more descriptors leave fewer than DESCRIPTORS_RESERVE of the
 * numbers below DESCRIPTORS_HIGH? Then percore's own are to be moved. */
bool descriptors_crowded(long need);

/* Moves a descriptor to a number from DESCRIPTORS_HIGH on. Returns its new
 * number, or the old one if the limit has no room there. */
int descriptors_move(int fd);

#endif
