/* idle_clock_kernel: the idle clock's part in the kernel. Loads the programs of
 * idle_clock.bpf.c, pins them, and reads their words, all by bpf(2): the
 * programs are compiled in when percore is built, and no library is needed to
 * run them.
 *
 * Functions return 0 or -errno. Functions with `why` explain a failure there.
 */
#ifndef PERCORE_CYCLES_IDLE_CLOCK_KERNEL_H
#define PERCORE_CYCLES_IDLE_CLOCK_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

/* The directory of the pinned clock, a bpffs of its own. */
#define IDLE_CLOCK_PINS "/run/percore/bpf"

#define IDLE_CLOCK_HOOKS_MAX 16

/* What a clock must know of the machine before it is loaded. */
struct idle_clock_traits {
  bool state0_polls;   /* idle state 0 polls instead of halting */
  bool timer_is_known; /* the interrupt of the timer has a tracepoint */
};

struct idle_clock_kernel {
  int map;
  int start; /* program on_start; -1 for a pinned clock */
  int links[IDLE_CLOCK_HOOKS_MAX];
  const char *folder; /* directory of the pins; NULL: loaded by this process */
  struct stat pin;    /* the pin of the link that begins halts */
};

/* A clock that is not open. Closing it is allowed. */
void idle_clock_kernel_init(struct idle_clock_kernel *clock);
void idle_clock_kernel_close(struct idle_clock_kernel *clock);

/* Loads and attaches a clock, which runs until it is closed. Attaching
 * interrupts every core some 150 times. -EPERM: this process lacks the
 * capabilities; -ENOSYS: percore was built without the programs. */
int idle_clock_kernel_load(struct idle_clock_kernel *clock,
                           struct idle_clock_traits traits, char *why,
                           size_t why_size);

/* Pins a loaded clock in `folder`, so that it keeps running, and mounts a bpffs
 * there. Needs root. -EEXIST: a clock is already pinned there. */
int idle_clock_kernel_pin(struct idle_clock_kernel *clock, const char *folder,
                          char *why, size_t why_size);
int idle_clock_kernel_unpin(const char *folder, char *why, size_t why_size);

/* Opens a pinned clock for reading, if only root can have pinned it. Needs no
 * capability (CAP_BPF before Linux 5.19). `folder` must outlive the clock.
 * -ENOENT: no clock is pinned there. */
int idle_clock_kernel_open(struct idle_clock_kernel *clock, const char *folder,
                           char *why, size_t why_size);

/* Lists the kinds of interrupts, separated by blanks, for which this kernel has
 * no tracepoint. */
void idle_clock_kernel_missing(const struct idle_clock_kernel *clock,
                               char *list, size_t list_size);

/* Reads the words of all possible cores, in rising core numbers. Returns their
 * number; -ENOLINK if the pinned clock no longer runs or is another one.
 * `words` must have room for CORES_MAX. */
int idle_clock_kernel_read(const struct idle_clock_kernel *clock,
                           int64_t *words);

/* Starts the word of an online core, which might not halt for a long time, by
 * an interrupt on that core. -EOPNOTSUPP for a pinned clock, which started its
 * cores when it was pinned. */
int idle_clock_kernel_start(const struct idle_clock_kernel *clock, int core);

#endif
