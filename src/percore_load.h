/* percore_load.h: loads of cores, for schedulers that need to know which core
 * has free time. C99, C++98 and later. Link with -lpercore (pkg-config
 * percore). percore(3) is the manual.
 *
 * No call is a cancellation point (pthreads(7)), and none takes more than 8 KiB
 * of stack. */
#ifndef PERCORE_PUBLIC_LOAD_H
#define PERCORE_PUBLIC_LOAD_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The load of a core is unhalted time / wall time between two updates, from 0
 * to 1, no matter whether tasks, interrupts or softirqs ran. It is the load of
 * one hardware thread: if the sibling of a core is fully loaded, the core can
 * do about half as much work as its own load suggests; see
 * struct percore_load_details.
 *
 * Hardware counters leave out time that a hypervisor stole. The source "bpf",
 * and on older kernels the source "idle", count time stolen from a running core
 * as load, because the core could not do other work during that time. They do
 * not count time stolen while the core wakes up.
 *
 *   call                            concurrently on the same handle
 *   percore_load_update             any thread; updates serialise on a mutex
 *   percore_load_get                any thread, lock-free, never blocks; two
 *                                   loads may cover different windows
 *   percore_load_close              no other call at the same time
 */

/* A member that is 0 selects its default. Set size to sizeof(struct
 * percore_load_options). */
struct percore_load_options {
  size_t size;
  const char *source; /* "auto" (default), "mperf", "ref-cycles", "event",
                         "bpf", "idle" */
  const char *cores;  /* such as "0-15,32"; default: all */
  /* How to read isolated cores: "idle" (default), "bpf" (a pinned clock),
   * "hardware" or "skip". "idle" and "bpf" do not disturb the cores. */
  const char *isolated_cores;
  const char *also_isolated; /* more cores that must not be disturbed */
  int frequency; /* 1: mean frequencies in the details; takes a third
                    descriptor per core */
  /* In seconds, up to 3600; the default depends on the source. */
  double shortest_window;
  /* 1: take the loads that another program measures and publishes (the board),
   * and measure nothing. Without shortest_window, and the options that say how
   * to measure. */
  int from_board;
  /* In seconds, up to 3600; default 15: refuses a board of a longer interval,
   * whose loads would be too old for this program. */
  double board_interval_max;
  /* Boards of root and of this program's user are believed, and those of this
   * user. */
  unsigned board_uid;
  int bounds; /* 1: low and high in the details */
};

struct percore_load;

/* Chooses a source for each core of this machine and opens its counters, or
 * opens the board. Takes some milliseconds: sources are tested in threads of
 * their own (their proof is "pending" meanwhile), and until then cores
 * use the source "idle". The affinity of the caller never changes. options may
 * be NULL: this program measures. Returns 0, or -1 with errno: EINVAL (an
 * invalid option), ENOMEM, ENOENT (no cores found; with from_board, no fresh
 * board that this user may read and believes), ENOTSUP (no source of loads
 * works here). Counters use two descriptors per core. At least 256 descriptors
 * stay free for the program, and the limit on open files is never changed;
 * cores for which no descriptor is left use the source "idle". */
int percore_load_open(struct percore_load **load,
                      const struct percore_load_options *options);

/* Samples all cores. The loads then cover the time since the previous update,
 * or since percore_load_open. A window lasts at least 10 ms, and 200 ms while a
 * core uses the source "idle" (its error is 2.3 points rms at 200 ms and 0.45
 * at 1 s). If a thread calls this before the window is that long, the call
 * returns 0 and leaves the loads unchanged.
 *
 * Price: two system calls for all cores, and one for each core with a hardware
 * counter, or with the source "idle" where the idle loop may poll; with
 * `bounds`, five more for each idle state of each core on a machine that wakes
 * often.
 *
 * From the board, reads the newest loads without a system call; until the next
 * are due, it only reads the clock. While there is no fresh board, all loads
 * are unknown, and it looks for one at most every second; for a writer that is
 * stopped, it may wait once for up to a second.
 *
 * Returns 1 if the loads are new, 0 if not, or -1 with errno: ENOTSUP (no
 * source works now; all loads are unknown until one does), ENOENT (there is no
 * fresh board), ENOMEM. */
int percore_load_update(struct percore_load *load);

/* More about the load of a core. Set size to sizeof(struct
 * percore_load_details). */
struct percore_load_details {
  size_t size;
  /* The true load is between these bounds; -1 without the option `bounds` or if
   * no load is known. They include the resolution of the source, the time of
   * its reading, and time that may have been stolen by a hypervisor. */
  double low, high;
  /* In seconds: the length of the window of the load, and the time since the
   * window ended; -1 if no load is known. */
  double window, age;
  /* The load of the busiest other hardware thread on the same physical core; -1
   * if the core has no other thread or the load of no other thread is known. */
  double sibling;
  /* Hz, the mean while the core was not halted; -1 if unknown. Needs the option
   * `frequency` and the source "mperf". */
  double frequency;
  /* The source of the load: "mperf", "ref-cycles", "event", "bpf", "idle", or
   * "none". Do not free the string. */
  const char *source;
  /* How far the source can be trusted: "proven", "unproven" (it could not be
   * tested), "pending" (its test has not ended), or "tick-sampled" (the tick of
   * this kernel is not dynamic, so "idle" misses work between two ticks).
   * Updates repeat tests that could not be run, in a separate thread. Do not
   * free the string. */
  const char *proof;
  int from_board; /* 1: from the board; 0: measured by this program */
};

/* Returns the load of a core, 0 to 1, at the last update; -1 if no load is
 * known because the core is offline, does not exist, is in its first window, or
 * was paused with its virtual machine. Unless details is NULL, fills in what
 * the struct has. */
double percore_load_get(const struct percore_load *load, int core,
                        struct percore_load_details *details);

enum percore_load_by {
  /* 1 - load + polls that found nothing (percore_poll), where the board knows
   * them: the room for work of the thread that polls. */
  PERCORE_BY_ROOM = 0,
  PERCORE_BY_AVERAGE = 1, /* load average; needs the board */
  PERCORE_BY_LOAD = 2     /* the room for a thread of its own */
};

/* A member that is 0 selects its default. Set size to sizeof(struct
 * percore_load_choice). */
struct percore_load_choice {
  size_t size;
  enum percore_load_by by;
  double period;         /* of the average, in seconds; default 60 */
  const int *candidates; /* the cores to choose from; default: all */
  int candidate_count;
  const int *node;     /* only cores of this NUMA node; default: of any */
  int avoid_isolated;  /* 1: no isolated cores */
  int ignore_siblings; /* 1: other hardware threads take no room */
  /* The share of a core that the job takes, above 0 to 1; default 1: a whole
   * core. Until the next loads, a chosen core has less room by it. */
  double need;
};

/* Stores the n cores with the most room in `cores`, the best first, as of the
 * last update, and returns how many it found; fewer than n if fewer have a
 * known load. choice may be NULL. Callers that ask at the same time get
 * different answers: see percore(3), CHOOSING A CORE. Any thread may call this.
 * Returns -1 with errno: EINVAL, ENOMEM, or ENOTSUP (no such average). */
int percore_load_best(struct percore_load *load,
                      const struct percore_load_choice *choice, int *cores,
                      int n);

void percore_load_close(struct percore_load *load);

#ifdef __cplusplus
}
#endif

#endif
