/* machine: what the engine needs from the computer it runs on. machine_linux()
 * is the real machine. A test supplies its own clock, counters and files, and
 * can thus simulate counter wraps, suspends and vanishing cores without
 * waiting. Each new kind of measurement adds a function here. */
#ifndef PERCORE_MACHINE_H
#define PERCORE_MACHINE_H

#include "base/core_set.h"
#include "programs.h"

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

struct machine {
  void *context;

  /* The rate of arm64's system counter, which is also the rate of the event
   * cnt_cycles; 0 on other architectures. */
  double system_counter_hz;
  double instruction_ns; /* how long an instruction takes, with warm caches */

  /* Returns the nanoseconds of CLOCK_MONOTONIC, _BOOTTIME or _REALTIME. */
  uint64_t (*clock_ns)(void *context, clockid_t clock);

  /* Reads a whole file under the sysroot into buffer, NUL-terminated. Only
   * regular files are read, so that the call cannot block. Returns the length
   * or -errno. If the file does not fit in size - 1 bytes, returns -EFBIG, and
   * the buffer holds its beginning. */
  ssize_t (*read_file)(void *context, const char *path, char *buffer,
                       size_t size);

  /* True if the file is on a FUSE file system. In a container, /proc/stat may
   * be on LXCFS. */
  bool (*is_fuse)(void *context, const char *path);

  /* Calls each() for every entry of a directory under the sysroot except "."
   * and "..". Returns 0 or -errno. */
  int (*list_directory)(void *context, const char *path,
                        void (*each)(const char *name, void *argument),
                        void *argument);

  /* Calls perf_event_open(2) for all tasks on one core. Returns a descriptor or
   * -errno: -EMFILE if too few would be left for the rest of the process. */
  int (*perf_open)(void *context, struct perf_event_attr *attr, int core,
                   int group);
  ssize_t (*perf_read)(void *context, int fd, void *buffer, size_t size);
  void (*perf_close)(void *context, int fd);

  /* Returns a number that stays the same until a file or a directory under the
   * sysroot is made anew; 0 if it does not exist. */
  uint64_t (*identity)(void *context, const char *path);

  /* The clocks in the kernel. */
  const struct clock_calls *clocks;
};

#define CPU_FOLDER "/sys/devices/system/cpu"

/* The number of uevents since boot. The kernel sends one whenever a device,
 * such as a core, is added or removed. */
#define MACHINE_UEVENTS "/sys/kernel/uevent_seqnum"

static inline uint64_t machine_now_ns(const struct machine *machine,
                                      clockid_t clock) {
  return machine->clock_ns(machine->context, clock);
}

/* Returns this computer, with sysroot prepended to every path ("/" or NULL:
 * none), or NULL if out of memory. Free it with machine_linux_close. Only one
 * thread at a time may use a machine, except for clock_ns and the functions
 * that a proof calls (proof.h). */
struct machine *machine_linux(const char *sysroot);
void machine_linux_close(struct machine *machine);

/* True if the files under this sysroot (NULL: none) are those of the kernel
 * that this process runs on: they have its boot_id. A container may see those
 * of another. */
bool machine_is_ours(const char *sysroot);

/* What is wrong if they are not. */
#define MACHINE_NOT_OURS "SysRoot is not of this kernel: it lacks its boot_id"

/* Reads a file of up to 64 MiB into *buffer, which grows as needed (NULL and
 * size 0 at first) and which the caller frees. Returns the length or -errno. */
ssize_t machine_read_long(const struct machine *machine, const char *path,
                          char **buffer, size_t *buffer_size);

/* The functions below read small files, whose paths are formatted as by
 * printf(3). */

/* Reads a file as read_file does. */
ssize_t machine_read(const struct machine *machine, char *buffer, size_t size,
                     const char *path, ...)
    __attribute__((format(printf, 4, 5)));

/* Reads a decimal number; white space around the number is allowed. Returns 0,
 * the -errno from reading the file, or -EINVAL if the file contains anything
 * else. */
int machine_read_u64(const struct machine *machine, uint64_t *value,
                     const char *path, ...)
    __attribute__((format(printf, 3, 4)));

/* Reads a core list. Returns 0 or -errno. */
int machine_read_core_set(const struct machine *machine, struct core_set *set,
                          const char *path, ...)
    __attribute__((format(printf, 3, 4)));

/* True if the kernel's command line contains this word. */
bool machine_booted_with(const struct machine *machine, const char *word);

#endif
