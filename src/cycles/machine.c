#include "machine.h"

#include "base/clock.h"
#include "base/descriptors.h"
#include "base/number.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <math.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

/* FUSE_SUPER_MAGIC of linux/magic.h, absent from older headers. */
#define FUSE_MAGIC 0x65735546
#define READ_MAX ((size_t)64 << 10)

struct linux_machine {
  struct machine machine;
  char sysroot[PATH_MAX]; /* prepended to each path, which begins with a slash
                           */
  /* Descriptors that stay open, because opening takes longer than reading; 0:
   * closed. [0] /proc/stat, [1] uevent_seqnum, [2 + N] how long core N has
   * polled. */
  int kept[2 + CORES_MAX];
  atomic_flag keeps; /* a thread uses `kept` */
};

static uint64_t linux_clock_ns(void *context, clockid_t clock) {
  (void)context;
  return clock_now_ns(clock);
}

/* ---------------------------------------------------------------------------
 * Files
 */

/* Paths are in the heap, because a thread of the application may have a small
 * stack. */
static void free_path(char **path) { free(*path); }
#define PATH __attribute__((cleanup(free_path))) char *

/* Returns NULL if out of memory. */
static char *under_sysroot(const struct linux_machine *self, const char *path) {
  char *full;
  return asprintf(&full, "%s%s", self->sysroot, path) >= 0 ? full : NULL;
}

/* Reads in parts, because sysfs gives a page at a time, and valgrind examines
 * the whole room that a read offers. */
static ssize_t read_all(int fd, char *buffer, size_t size) {
  for (size_t length = 0; length < size;) {
    size_t room = size - length < READ_MAX ? size - length : READ_MAX;
    ssize_t got = read(fd, buffer + length, room);
    if (got > 0)
      length += (size_t)got;
    if (got == 0) {
      buffer[length] = '\0';
      return (ssize_t)length;
    }
    if (got < 0 && errno != EINTR)
      return -errno;
  }
  if (size > 0)
    buffer[size - 1] = '\0';
  return -EFBIG;
}

/* Returns where the descriptor of a file stays, or NULL if it is closed. */
static int *place_of(struct linux_machine *self, const char *path) {
  static const char before[] = CPU_FOLDER "/cpu";
  uint64_t core;
  if (strcmp(path, "/proc/stat") == 0)
    return &self->kept[0];
  if (strcmp(path, MACHINE_UEVENTS) == 0)
    return &self->kept[1];
  if (strncmp(path, before, strlen(before)) != 0)
    return NULL;
  path += strlen(before);
  return number_next(&path, &core) && core < CORES_MAX &&
                 strcmp(path, "/cpuidle/state0/time") == 0
             ? &self->kept[2 + core]
             : NULL;
}

/* Keeps the file open, or closes it. Only the kernel's own files stay open: any
 * other file may be replaced, or block. Those of sysfs, which are many, stay
 * open as long as enough descriptors are left; a new one has the lowest number
 * that is free. */
static void keep(int *place, int fd) {
  struct statfs kind;
  if (place == NULL || *place != 0 || fd <= 0 || fstatfs(fd, &kind) != 0 ||
      (kind.f_type != PROC_SUPER_MAGIC && kind.f_type != SYSFS_MAGIC)) {
    close(fd);
    return;
  }
  fd = descriptors_move(fd);
  if (kind.f_type == PROC_SUPER_MAGIC || descriptors_have_room(fd))
    *place = fd;
  else
    close(fd);
}

/* Opens a file to read it, and keeps it open if it has a place. */
static ssize_t open_and_read(struct linux_machine *self, const char *path,
                             char *buffer, size_t size, int *place) {
  PATH full = NULL;
  if (self->sysroot[0] != '\0' &&
      (path = full = under_sysroot(self, path)) == NULL)
    return -ENOMEM;
  /* O_NONBLOCK: opening a FIFO must not wait for a writer. */
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0)
    return -errno;
  struct stat kind;
  ssize_t length = fstat(fd, &kind) != 0   ? -errno
                   : S_ISREG(kind.st_mode) ? read_all(fd, buffer, size)
                                           : -EINVAL;
  keep(place, fd);
  return length;
}

/* Reads a file that stays open. */
static ssize_t read_kept(struct linux_machine *self, const char *path,
                         char *buffer, size_t size, int *place) {
  ssize_t got = *place > 0 ? pread(*place, buffer, size, 0) : -1;
  if (got > 0 && (size_t)got < size) {
    buffer[got] = '\0';
    return got;
  }
  if (*place > 0 && got < 0 && errno == ENODEV) { /* the core is offline */
    close(*place);
    *place = 0;
  }
  return open_and_read(self, path, buffer, size, place);
}

/* A proof reads some of the files that a sample reads in another thread: who
 * comes second opens its own. */
static ssize_t linux_read_file(void *context, const char *path, char *buffer,
                               size_t size) {
  struct linux_machine *self = context;
  int *place = place_of(self, path);
  if (place == NULL || atomic_flag_test_and_set(&self->keeps))
    return open_and_read(self, path, buffer, size, NULL);
  ssize_t length = read_kept(self, path, buffer, size, place);
  atomic_flag_clear(&self->keeps);
  return length;
}

static bool linux_is_fuse(void *context, const char *path) {
  PATH full = under_sysroot(context, path);
  struct statfs kind;
  return full != NULL && statfs(full, &kind) == 0 && kind.f_type == FUSE_MAGIC;
}

static uint64_t linux_identity(void *context, const char *path) {
  PATH full = under_sysroot(context, path);
  struct stat status;
  return full != NULL && stat(full, &status) == 0 ? status.st_ino : 0;
}

static int linux_list_directory(void *context, const char *path,
                                void (*each)(const char *name, void *argument),
                                void *argument) {
  PATH full = under_sysroot(context, path);
  if (full == NULL)
    return -ENOMEM;
  DIR *directory = opendir(full);
  if (directory == NULL)
    return -errno;
  for (struct dirent *entry; (entry = readdir(directory)) != NULL;)
    if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
      each(entry->d_name, argument);
  closedir(directory);
  return 0;
}

/* ---------------------------------------------------------------------------
 * Counters
 */

static int linux_perf_open(void *context, struct perf_event_attr *attr,
                           int core, int group) {
  (void)context;
  int fd = (int)syscall(SYS_perf_event_open, attr, -1, core, group,
                        PERF_FLAG_FD_CLOEXEC);
  if (fd < 0)
    return -errno;
  fd = descriptors_move(fd);
  if (descriptors_have_room(fd))
    return fd;
  close(fd);
  return -EMFILE;
}

static ssize_t linux_perf_read(void *context, int fd, void *buffer,
                               size_t size) {
  (void)context;
  ssize_t length = read(fd, buffer, size);
  return length < 0 ? -errno : length;
}

static void linux_perf_close(void *context, int fd) {
  (void)context;
  close(fd);
}

/* ---------------------------------------------------------------------------
 * The machine
 */

static double read_system_counter_hz(void) {
  uint64_t frequency_hz = 0;
#ifdef __aarch64__
  __asm__ volatile("mrs %0, cntfrq_el0" : "=r"(frequency_hz));
#endif
  return (double)frequency_hz;
}

static double measure_instruction_ns(void) {
  enum { ROUNDS = 10000, INSTRUCTIONS_OF_A_ROUND = 2, TRIES = 3 };
  double least_ns = INFINITY;
  for (int try = 0; try < TRIES; try++) {
    uint64_t begin_ns = clock_now_ns(CLOCK_MONOTONIC);
    for (int i = 0; i < ROUNDS; i++)
      __asm__ volatile("" : "+r"(i));
    least_ns =
        fmin(least_ns, (double)(clock_now_ns(CLOCK_MONOTONIC) - begin_ns));
  }
  return least_ns / (ROUNDS * INSTRUCTIONS_OF_A_ROUND);
}

struct machine *machine_linux(const char *sysroot) {
  struct linux_machine *self = calloc(1, sizeof(*self));
  if (self == NULL)
    return NULL;
  snprintf(self->sysroot, sizeof(self->sysroot), "%s",
           sysroot != NULL && strcmp(sysroot, "/") != 0 ? sysroot : "");
  self->machine = (struct machine){
      .context = self,
      .system_counter_hz = read_system_counter_hz(),
      .instruction_ns = measure_instruction_ns(),
      .clock_ns = linux_clock_ns,
      .read_file = linux_read_file,
      .is_fuse = linux_is_fuse,
      .list_directory = linux_list_directory,
      .perf_open = linux_perf_open,
      .perf_read = linux_perf_read,
      .perf_close = linux_perf_close,
      .identity = linux_identity,
      .clocks = &programs_calls,
  };
  return &self->machine;
}

void machine_linux_close(struct machine *machine) {
  if (machine == NULL)
    return;
  struct linux_machine *self = machine->context;
  for (int i = 0; i < 2 + CORES_MAX; i++)
    if (self->kept[i] > 0)
      close(self->kept[i]);
  free(self);
}

/* Reads the number that each boot of a kernel draws. Returns false if it is
 * unknown. */
static bool read_boot_id(const char *sysroot, char *id, size_t size) {
  struct machine *machine = machine_linux(sysroot);
  bool is_known =
      machine != NULL &&
      machine_read(machine, id, size, "/proc/sys/kernel/random/boot_id") > 0;
  machine_linux_close(machine);
  return is_known;
}

bool machine_is_ours(const char *sysroot) {
  char ours[64], id[64];
  return sysroot == NULL ||
         (read_boot_id(NULL, ours, sizeof(ours)) &&
          read_boot_id(sysroot, id, sizeof(id)) && strcmp(ours, id) == 0);
}

/* ---------------------------------------------------------------------------
 * Whole files
 */

#define LONG_FIRST ((size_t)64 << 10)
/* The largest file that is read is the type information of the kernel, usually
 * less than 8 MiB. */
#define LONG_MAX_SIZE ((size_t)64 << 20)

ssize_t machine_read_long(const struct machine *machine, const char *path,
                          char **buffer, size_t *buffer_size) {
  for (;;) {
    ssize_t length = -EFBIG;
    if (*buffer_size > 0)
      length =
          machine->read_file(machine->context, path, *buffer, *buffer_size);
    if (length != -EFBIG)
      return length;
    size_t size = *buffer_size > 0 ? 2 * *buffer_size : LONG_FIRST;
    if (size > LONG_MAX_SIZE)
      return -EFBIG;
    char *larger = realloc(*buffer, size);
    if (larger == NULL)
      return -ENOMEM;
    *buffer = larger;
    *buffer_size = size;
  }
}

static ssize_t read_formatted(const struct machine *machine, char *buffer,
                              size_t size, const char *path,
                              va_list arguments) {
  PATH full = NULL;
  if (strchr(path, '%') == NULL)
    return machine->read_file(machine->context, path, buffer, size);
  return vasprintf(&full, path, arguments) >= 0
             ? machine->read_file(machine->context, full, buffer, size)
             : -ENOMEM;
}

ssize_t machine_read(const struct machine *machine, char *buffer, size_t size,
                     const char *path, ...) {
  va_list arguments;
  va_start(arguments, path);
  ssize_t length = read_formatted(machine, buffer, size, path, arguments);
  va_end(arguments);
  return length;
}

#define WHITE_SPACE " \t\n\v\f\r"

int machine_read_u64(const struct machine *machine, uint64_t *value,
                     const char *path, ...) {
  char text[64];
  va_list arguments;
  va_start(arguments, path);
  ssize_t length = read_formatted(machine, text, sizeof(text), path, arguments);
  va_end(arguments);
  if (length < 0)
    return length == -EFBIG ? -EINVAL : (int)length;
  const char *p = text + strspn(text, WHITE_SPACE);
  uint64_t number;
  if (!number_next(&p, &number) || p[strspn(p, WHITE_SPACE)] != '\0')
    return -EINVAL;
  *value = number;
  return 0;
}

int machine_read_core_set(const struct machine *machine, struct core_set *set,
                          const char *path, ...) {
  /* Enough for the longest list, which contains every second core. */
  enum { SIZE = CORES_MAX * 5 / 2 + 64 };
  char *text = malloc(SIZE);
  va_list arguments;
  if (text == NULL)
    return -ENOMEM;
  va_start(arguments, path);
  ssize_t length = read_formatted(machine, text, SIZE, path, arguments);
  va_end(arguments);
  int status = length < 0 ? (int)length : core_set_parse(set, text);
  free(text);
  return status;
}

bool machine_booted_with(const struct machine *machine, const char *word) {
  char *line = NULL;
  size_t size = 0;
  bool found = false;
  ssize_t length = machine_read_long(machine, "/proc/cmdline", &line, &size);
  char *rest = length >= 0 ? line : NULL;
  for (char *each; !found && (each = strsep(&rest, " \n")) != NULL;)
    found = strcmp(each, word) == 0;
  free(line);
  return found;
}
