/* machine: what the engine needs from the computer it runs on. The real machine
 * is machine_linux(). A test puts its own clock, counters and files in its
 * place, so that wraps, suspends and vanishing cores can be played without
 * waiting. A new kind of measurement adds its calls here; a call that a machine
 * does not have is NULL.
 */
#ifndef PERCORE_MACHINE_H
#define PERCORE_MACHINE_H

#include "core_set.h"
#include "idle_clock_kernel.h"
#include "softirq_words.h"

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

struct machine {
  void *context;

  /* The rate of arm64's system counter, at which the event cnt_cycles also
   * counts; 0 on any other kind of machine. */
  double system_counter_hz;

  /* Nanoseconds of CLOCK_MONOTONIC, _BOOTTIME or _REALTIME. */
  uint64_t (*clock_ns)(void *context, clockid_t clock);

  /* Reads a whole file under the sysroot into buffer, NUL-terminated. Only
   * regular files are read, so that the call cannot block. Returns the length
   * or -errno. If the file does not fit in size - 1, returns -EFBIG, and the
   * buffer holds its beginning. */
  ssize_t (*read_file)(void *context, const char *path, char *buffer,
                       size_t size);

  /* Is the file on a FUSE file system, such as LXCFS in containers? */
  bool (*is_fuse)(void *context, const char *path);

  /* Calls each() for every entry of a directory under the sysroot except "."
   * and "..". Returns 0 or -errno. */
  int (*list_directory)(void *context, const char *path,
                        void (*each)(const char *name, void *argument),
                        void *argument);

  /* perf_event_open(2) for all tasks on one core. Returns a descriptor or
   * -errno. */
  int (*perf_open)(void *context, struct perf_event_attr *attr, int core,
                   int group);
  ssize_t (*perf_read)(void *context, int fd, void *buffer, size_t size);
  void (*perf_close)(void *context, int fd);

  /* How many more counters perf_open() may open so that enough descriptors
   * remain for the rest of this process. `wanted` is how many are still needed;
   * with `raise_limit` the limit of open files is raised for them. NULL: any
   * number. */
  long (*perf_room)(void *context, long wanted, bool raise_limit);

  /* Adds to *changed every core whose coming or going the kernel announced
   * since the last call. Returns 0, or -ENOBUFS if announcements were lost, so
   * that any core may have changed. NULL: the kernel announces nothing. */
  int (*changed_cores)(void *context, struct core_set *changed);

  /* The idle clock of the kernel: idle_clock_kernel.h says what these do. Open
   * opens the one that is pinned. A machine has one at a time. idle_clock_open
   * may be NULL: it has none. */
  int (*idle_clock_open)(void *context, char *why, size_t why_size);
  int (*idle_clock_load)(void *context, struct idle_clock_traits traits,
                         char *why, size_t why_size);
  void (*idle_clock_missing)(void *context, char *list, size_t list_size);
  int (*idle_clock_read)(void *context, int64_t *words);
  int (*idle_clock_start)(void *context, int core);
  void (*idle_clock_close)(void *context);

  /* The softirq clock: softirq_clock_kernel.h says what these do. A machine has
   * one at a time. softirq_clock_load may be NULL: it has none. */
  int (*softirq_clock_load)(void *context, char *why, size_t why_size);
  int (*softirq_clock_read)(void *context, struct softirq_words *words,
                            int cores);
  void (*softirq_clock_close)(void *context);
};

/* This computer, with sysroot before every path ("/" or NULL: unchanged). Free
 * it with machine_linux_close. NULL if out of memory. Only one thread at a time
 * may use a machine, except for clock_ns and what a proof reads (proof.h). */
struct machine *machine_linux(const char *sysroot);
void machine_linux_close(struct machine *machine);

/* Reads a file of up to 64 MiB into *buffer, which grows as needed (NULL and
 * size 0 at first) and which the caller frees. Returns the length or -errno. */
ssize_t machine_read_long(const struct machine *machine, const char *path,
                          char **buffer, size_t *buffer_size);

/* In a container, LXCFS may provide /proc/stat and the list of cores. */
bool machine_has_lxcfs(const struct machine *machine);

/* Reads a decimal number from a file; white space around it is allowed. Returns
 * 0, -errno of the read, or -EINVAL if the file contains anything else. */
int machine_read_u64(const struct machine *machine, const char *path,
                     uint64_t *value);

/* How far CLOCK_MONOTONIC of this process is ahead of the kernel's own: a time
 * namespace shifts it. */
int64_t machine_time_offset_ns(const struct machine *machine);

/* Reads a core list from a file. Returns 0 or -errno. */
int machine_read_core_set(const struct machine *machine, const char *path,
                          struct core_set *set);

#endif
