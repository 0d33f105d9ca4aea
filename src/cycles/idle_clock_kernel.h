/* idle_clock_kernel: the idle clock's part in the kernel. Loads the programs of
 * idle_clock.bpf.c, pins them, and reads their words, all by bpf(2) alone: the
 * programs are compiled into this file when percore is built, and no library
 * is needed to run them.
 *
 * Functions return 0 or -errno. Those with `why` explain a failure there.
 */
#ifndef PERCORE_CYCLES_IDLE_CLOCK_KERNEL_H
#define PERCORE_CYCLES_IDLE_CLOCK_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

/* Where root pins the clock: a bpffs of its own. */
#define IDLE_CLOCK_PINS "/run/percore/bpf"

#define IDLE_CLOCK_HOOKS_MAX 16

struct idle_clock_kernel {
  int map;
  int start; /* program on_start; -1: not ours to run */
  int links[IDLE_CLOCK_HOOKS_MAX];
  const char *folder; /* of the pins; NULL: loaded by this process */
  struct stat pin;    /* of the link without which the clock stands still */
};

/* A closed clock, which may be closed again. */
void idle_clock_kernel_init(struct idle_clock_kernel *clock);
void idle_clock_kernel_close(struct idle_clock_kernel *clock);

/* Loads and attaches a clock, which lives until it is closed. Attaching
 * interrupts every core some 150 times. `state0_polls`: whether idle state 0
 * polls instead of halting. -EPERM: this process may not; -ENOSYS: percore was
 * built without the programs. */
int idle_clock_kernel_load(struct idle_clock_kernel *clock, bool state0_polls,
                           char *why, size_t why_size);

/* Lets a loaded clock live on in `folder`, where a bpffs is mounted for it.
 * Needs root. -EEXIST: a clock is pinned there. */
int idle_clock_kernel_pin(struct idle_clock_kernel *clock, const char *folder,
                          char *why, size_t why_size);
int idle_clock_kernel_unpin(const char *folder, char *why, size_t why_size);

/* Opens a pinned clock for reading, which needs no rights (CAP_BPF before
 * Linux 5.19), if only root can have made it. `folder` is kept. -ENOENT: no
 * clock is pinned there. */
int idle_clock_kernel_open(struct idle_clock_kernel *clock, const char *folder,
                           char *why, size_t why_size);

/* Reads the words of all possible cores, in rising core numbers. Returns their
 * number; -ENOLINK if the pinned clock no longer runs or is another one.
 * `words` must have room for CORES_MAX. */
int idle_clock_kernel_read(const struct idle_clock_kernel *clock,
                           int64_t *words);

/* Starts the word of an online core that may not halt for long: an interrupt on
 * that core. -EOPNOTSUPP for a pinned clock, whose cores root has started. */
int idle_clock_kernel_start(const struct idle_clock_kernel *clock, int core);

/* The tracepoints that this kernel lacks, separated by spaces: interrupts that
 * the clock sees late. */
void idle_clock_kernel_missing(const struct idle_clock_kernel *clock,
                               char *text, size_t size);

#endif
