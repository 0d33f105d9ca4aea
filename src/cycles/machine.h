/* machine: what the engine asks of the computer it runs on. The real one is
 * machine_linux(); a test puts its own clock, counters and files in its place,
 * so that wraps, suspends and vanishing cores can be played without waiting.
 */
#ifndef PERCORE_MACHINE_H
#define PERCORE_MACHINE_H

#include "core_set.h"

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

struct machine {
  void *context;

  /* The rate of arm64's system counter, which its event cnt_cycles has, too;
   * 0: another kind of machine. */
  double system_counter_hz;

  /* Nanoseconds of CLOCK_MONOTONIC, _BOOTTIME or _REALTIME. */
  uint64_t (*clock_ns)(void *context, clockid_t clock);

  /* Reads a whole file under the sysroot into buffer, NUL-terminated. Only
   * regular files are read, so that nothing a tree contains can block.
   * Returns the length, or -errno; -EFBIG if it does not fit in size - 1, and
   * buffer then holds its beginning. */
  ssize_t (*read_file)(void *context, const char *path, char *buffer,
                       size_t size);

  /* Whether a program serves the file (FUSE), as LXCFS does in containers. */
  bool (*is_fuse)(void *context, const char *path);

  /* Names in a directory under the sysroot: calls each() for every entry but
   * "." and "..". Returns 0 or -errno. */
  int (*list_directory)(void *context, const char *path,
                        void (*each)(const char *name, void *argument),
                        void *argument);

  /* perf_event_open(2) for all tasks on one core. Returns a descriptor or
   * -errno. */
  int (*perf_open)(void *context, struct perf_event_attr *attr, int core,
                   int group);
  ssize_t (*perf_read)(void *context, int fd, void *buffer, size_t size);
  void (*perf_close)(void *context, int fd);

  /* How many more counters perf_open() may open while this process keeps enough
   * descriptors for others; `wanted` is how many are still needed. Raises the
   * limit of open files for them if `raise_limit` says so. May be NULL: any
   * number.
   */
  long (*perf_room)(void *context, long wanted, bool raise_limit);

  /* Adds to *changed every core that the kernel said came or went since the
   * last call. Returns 0, or -ENOBUFS if messages were lost (any core may have
   * changed). May be NULL. */
  int (*changed_cores)(void *context, struct core_set *changed);

  /* The idle clock of the kernel: idle_clock_kernel.h says what these do. Open
   * opens the one that is pinned. A machine has one at a time. idle_clock_open
   * may be NULL: it has none. */
  int (*idle_clock_open)(void *context, char *why, size_t why_size);
  int (*idle_clock_load)(void *context, bool state0_polls, char *why,
                         size_t why_size);
  int (*idle_clock_read)(void *context, int64_t *words);
  int (*idle_clock_start)(void *context, int core);
  void (*idle_clock_close)(void *context);
};

/* This computer, with every path taken under sysroot ("/" or NULL: as it is).
 * Free with machine_linux_close. NULL with errno set if out of memory.
 * A machine is used by one thread at a time, but for clock_ns. */
struct machine *machine_linux(const char *sysroot);
void machine_linux_close(struct machine *machine);

/* Reads a file of up to 64 MiB into *buffer, which grows as needed and is the
 * caller's to free; NULL with size 0 at first. Returns 0 or -errno. */
int machine_read_long(const struct machine *machine, const char *path,
                      char **buffer, size_t *buffer_size);

/* A number in a file: decimal, with white space around it allowed.
 * Returns 0, -errno of the read, or -EINVAL if the file holds anything else. */
int machine_read_u64(const struct machine *machine, const char *path,
                     uint64_t *value);

/* A core list in a file; a missing file is -ENOENT. */
int machine_read_core_set(const struct machine *machine, const char *path,
                          struct core_set *set);

#endif
