/* idle_clock_kernel: loads the programs of the idle clock (idle_clock.bpf.c)
 * into the kernel, pins them, and reads their words. The programs are compiled
 * when percore is built, so loading them needs only bpf(2) and no library.
 *
 * Functions return 0 or -errno. Functions with the parameter `why` write the
 * reason for a failure to it.
 */
#ifndef PERCORE_CYCLES_IDLE_CLOCK_KERNEL_H
#define PERCORE_CYCLES_IDLE_CLOCK_KERNEL_H

#include "programs.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

/* The directory in which a clock is pinned. A separate bpffs is mounted there.
 * Only root may write to the directories above it. */
#define IDLE_CLOCK_PINS "/run/percore-clock"

/* Properties of the machine that must be known before a clock is loaded. */
struct idle_clock_traits {
  bool state0_polls;   /* idle state 0 polls instead of halting */
  bool timer_is_known; /* the interrupt of the timer has a tracepoint */
};

struct idle_clock_kernel {
  struct programs programs;
  int start; /* the program on_start; -1 for a pinned clock */
  /* Directory of the pins; NULL if this process loaded the clock. */
  const char *folder;
  struct stat pin; /* the pin of the link to the tracepoint cpu_idle */
};

/* Initialises a clock that is not loaded. Closing it is allowed. */
void idle_clock_kernel_init(struct idle_clock_kernel *clock);
void idle_clock_kernel_close(struct idle_clock_kernel *clock);

/* Loads and attaches a clock, which runs until it is closed. Attaching
 * interrupts every core about 150 times. -EPERM: this process lacks the
 * capabilities; -ENOSYS: percore was built without the programs. */
int idle_clock_kernel_load(struct idle_clock_kernel *clock,
                           struct idle_clock_traits traits,
                           char why[PROGRAMS_WHY_SIZE]);

/* Mounts a bpffs at `folder` and pins a loaded clock there, so that it keeps
 * running. Needs root. Fails with -EEXIST if a clock is already pinned there.
 */
int idle_clock_kernel_pin(struct idle_clock_kernel *clock, const char *folder,
                          char why[PROGRAMS_WHY_SIZE]);
int idle_clock_kernel_unpin(const char *folder, char why[PROGRAMS_WHY_SIZE]);

/* Opens a pinned clock for reading, after checking that only root can have
 * pinned it. Needs CAP_BPF before Linux 5.19, and no capability since. `folder`
 * must outlive the clock. Fails with -ENOENT if no clock is pinned there, and
 * with -ENOLINK if a required pin is missing. */
int idle_clock_kernel_open(struct idle_clock_kernel *clock, const char *folder,
                           char why[PROGRAMS_WHY_SIZE]);

/* Appends to `list`, as interrupts_append does, the names of the kinds of
 * interrupts for which this kernel has no tracepoint. */
void idle_clock_kernel_missing(const struct idle_clock_kernel *clock,
                               char *list, size_t list_size);

/* Reads the words of all possible cores as programs_read does. -ENOLINK: the
 * pinned clock no longer runs, or another clock has been pinned since. */
int idle_clock_kernel_read(const struct idle_clock_kernel *clock,
                           int64_t *words, int cores);

/* Interrupts an online core to start its word, because the core might not halt
 * for a long time. Fails with -EOPNOTSUPP for a pinned clock, whose words were
 * started before it was pinned. */
int idle_clock_kernel_start(const struct idle_clock_kernel *clock, int core);

#endif
