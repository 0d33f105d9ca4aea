/* descriptors: open files are left for what else runs in this process. */
#ifndef PERCORE_BASE_DESCRIPTORS_H
#define PERCORE_BASE_DESCRIPTORS_H

/* At a limit (RLIMIT_NOFILE) below four times that, a quarter of the limit. */
#define DESCRIPTORS_RESERVE 256

/* How many more descriptors this process may open before fewer than
 * DESCRIPTORS_RESERVE stay free for others. Counts /proc/self/fd. */
long descriptors_available(void);

#endif
