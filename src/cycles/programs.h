/* programs: the BPF programs of the idle clock (idle_clock.bpf.c), and the map
 * in which they keep a word for each core. Loads them into the kernel, pins
 * them, and reads the map. The programs are compiled when percore is built, so
 * loading them needs only bpf(2) and no library.
 *
 * Functions return 0 or -errno. Functions with the parameter `why` write the
 * reason for a failure to it. */
#ifndef PERCORE_CYCLES_PROGRAMS_H
#define PERCORE_CYCLES_PROGRAMS_H

#include "base/why.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

/* The directory in which an idle clock is pinned. A separate bpffs is mounted
 * there. Only root may write to the directories above it. */
#define IDLE_CLOCK_PINS "/run/percore-clock"

#define PROGRAMS_LINKS_MAX 32

struct programs {
  int map;                       /* -1: none */
  int start;                     /* the program on_start, or -1 */
  int links[PROGRAMS_LINKS_MAX]; /* attached tracepoints; -1: not attached */
  bool pinned;                   /* false if this process loaded the programs */
  struct stat pin; /* the pin of the link to the tracepoint cpu_idle */
};

/* Initialises programs that are not loaded. Closing them is allowed. */
void programs_init(struct programs *programs);

/* Detaches and unloads the programs, unless they are pinned. */
void programs_close(struct programs *programs);

/* Loads and attaches the programs, which run until they are closed. Attaching
 * interrupts every core about 150 times. `state0_polls`: idle state 0 polls
 * instead of halting. -EPERM: this process lacks the capabilities; -ENOSYS:
 * percore was built without the programs. */
int programs_load(struct programs *programs, bool state0_polls,
                  char why[WHY_SIZE]);

/* Mounts a bpffs at IDLE_CLOCK_PINS and pins a loaded idle clock there, so that
 * it keeps running. Needs root. Call this only if programs_open fails with
 * -ENOENT. */
int programs_pin(const struct programs *programs, char why[WHY_SIZE]);
int programs_unpin(char why[WHY_SIZE]);

/* Opens a pinned idle clock for reading, after checking that only root can have
 * pinned it. Needs CAP_BPF before Linux 5.19, and no capability since. Fails
 * with -ENOENT if no clock is pinned, and with -ENOLINK if a required pin is
 * missing. */
int programs_open(struct programs *programs, char why[WHY_SIZE]);

/* What the clock of a machine calls, so that tests can simulate it. */
struct clock_calls {
  /* programs_open and programs_load. If one fails, nothing needs to be closed.
   */
  int (*open)(struct programs *programs, char why[WHY_SIZE]);
  int (*load)(struct programs *programs, bool state0_polls, char why[WHY_SIZE]);
  /* Reads the words of all possible cores, in ascending order. `words` must
   * have room for CORES_MAX + 1 words. -EINVAL: `cores` is not the number of
   * possible cores; -ENOLINK: the pinned clock no longer runs, or another clock
   * has been pinned since. */
  int (*read)(const struct programs *programs, int64_t *words, int cores);
  /* Interrupts an online core to start its word of the idle clock, because the
   * core might not halt for a long time. Fails with -EOPNOTSUPP for a pinned
   * clock, whose words were started before it was pinned. */
  int (*start)(const struct programs *programs, int core);
  void (*close)(struct programs *programs);
  /* Returns how many BPF programs of others run when a core becomes idle, or
   * 0 if this process may not know (it needs CAP_SYS_ADMIN). */
  int (*tracers)(void);
};
extern const struct clock_calls programs_calls;

#endif
