/* process.h: tells a process from others, and whether it still runs. */
#ifndef PERCORE_REGION_PROCESS_H
#define PERCORE_REGION_PROCESS_H

#include "layout.h"

#include <sys/types.h>

/* Writes which process this is: its pid, the namespace of the pid, when the
 * process started, and which boot of which kernel this is. */
void region_process_sign(struct region_header *header);

/* Forgets which process this is, in a forked child. */
void region_process_forget(void);

/* True if the header was written by a process of this kernel and boot. */
bool region_process_is_of_this_boot(const struct region_header *header);

/* True if the header's pid is that of a process of this pid namespace. */
bool region_process_is_here(const struct region_header *header);

/* True if the header's process is of this pid namespace and has ended, although
 * its parent may not know yet. */
bool region_process_is_over(const struct region_header *header);

/* Returns when a process (0: this one) started, in ticks after boot; 0:
 * unknown; UINT64_MAX: it has ended, although its parent does not know yet. */
uint64_t region_process_start(pid_t pid);

/* True if a signal or a debugger has stopped a process. */
bool region_process_is_stopped(pid_t pid);

#endif
