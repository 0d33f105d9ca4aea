#include "idle_clock_kernel.h"

#include "base/bpf.h"
#include "interrupts.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#ifdef PERCORE_BPF
#include "cycles/idle_clock.lskel.h"
#endif

#define MAP_NAME "idle_clock"

/* The tracepoint at which halts begin, then the tracepoints of interrupts,
 * which end halts. If the interrupt of the timer has no tracepoint, as on
 * Hyper-V, the first hrtimer that it runs ends the halt.
 */
static const char *const hooks[] = {
    "cpu_idle",
    "irq_handler_entry",
    "softirq_entry",
    "hrtimer_expire_entry",
#define ENTRY(name) #name "_entry",
    PROGRAMS_EACH_INTERRUPT(ENTRY)
#if defined(__aarch64__) || defined(__arm__)
        "ipi_entry",
#endif
};
#define HOOKS ((int)(sizeof(hooks) / sizeof(hooks[0])))
#define HOOK_HALT 0
#define HOOK_SOFTIRQ 2 /* this hook and those before it are required */
#define HOOK_TIMER 3
_Static_assert(sizeof(hooks) / sizeof(hooks[0]) <= PROGRAMS_LINKS_MAX,
               "links[] has no room for all hooks");

void idle_clock_kernel_init(struct idle_clock_kernel *clock) {
  *clock = (struct idle_clock_kernel){.start = -1};
  programs_init(&clock->programs);
}

void idle_clock_kernel_close(struct idle_clock_kernel *clock) {
  programs_close(&clock->programs);
  if (clock->start >= 0)
    close(clock->start);
  clock->start = -1;
}

/* ---------------------------------------------------------------------------
 * Loading
 */

#ifdef PERCORE_BPF
/* Attaches to cpu_idle last, so that no halt begins before the programs that
 * end halts are attached. */
static int attach_all(struct idle_clock_kernel *clock,
                      const struct idle_clock_bpf *loaded,
                      struct idle_clock_traits traits,
                      char why[PROGRAMS_WHY_SIZE]) {
  int on_idle = traits.state0_polls
                    ? loaded->progs.on_idle.prog_fd
                    : loaded->progs.on_idle_without_poll.prog_fd;
  for (int i = HOOKS - 1; i >= 0; i--) {
    if (i == HOOK_TIMER && traits.timer_is_known)
      continue;
    int program = i == HOOK_HALT ? on_idle : loaded->progs.on_interrupt.prog_fd;
    int status = programs_attach(&clock->programs, i, hooks[i], program, why);
    if (status != 0 && (status != -ENOENT || i <= HOOK_SOFTIRQ))
      return status;
  }
  return 0;
}

int idle_clock_kernel_load(struct idle_clock_kernel *clock,
                           struct idle_clock_traits traits,
                           char why[PROGRAMS_WHY_SIZE]) {
  idle_clock_kernel_init(clock);
  int status =
      programs_check_rights(", or run percore clock --pin as root", why);
  if (status != 0)
    return status;
  errno = 0;
  struct idle_clock_bpf *loaded = idle_clock_bpf__open_and_load();
  if (loaded == NULL)
    return programs_refused(errno, why);
  status =
      programs_keep(&clock->programs.map, loaded->maps.idle_clock.map_fd, why);
  if (status == 0)
    status = programs_keep(&clock->start, loaded->progs.on_start.prog_fd, why);
  if (status == 0)
    status = attach_all(clock, loaded, traits, why);
  idle_clock_bpf__destroy(loaded);
  if (status != 0)
    idle_clock_kernel_close(clock);
  return status;
}
#else
int idle_clock_kernel_load(struct idle_clock_kernel *clock,
                           struct idle_clock_traits traits,
                           char why[PROGRAMS_WHY_SIZE]) {
  (void)traits;
  idle_clock_kernel_init(clock);
  return programs_not_built(why);
}
#endif

/* ---------------------------------------------------------------------------
 * Pins
 */

static void pin_path(char path[PATH_MAX], const char *folder,
                     const char *name) {
  snprintf(path, PATH_MAX, "%s/%s", folder, name);
}

static int cannot(const char *what, const char *path, int error,
                  char why[PROGRAMS_WHY_SIZE]) {
  return programs_fail(
      why, -error, "cannot %s %s: %s%s", what, path, strerror(error),
      error == EPERM || error == EACCES ? "; run as root" : "");
}

static int check_owner(const char *path, struct stat *file,
                       char why[PROGRAMS_WHY_SIZE]) {
  if (lstat(path, file) != 0)
    return programs_fail(why, -errno, "no clock is pinned: %s: %s", path,
                         strerror(errno));
  if (file->st_uid == 0 && (file->st_mode & (S_IWGRP | S_IWOTH)) == 0)
    return 0;
  return programs_fail(why, -EPERM,
                       "%s is not used: users other than root may write to it",
                       path);
}

#ifndef RESOLVE_CACHED
#define RESOLVE_CACHED 0x20
#endif

/* Opens a folder without taking the lock of its parent, which a process that
 * lists the parent could hold for ever. A tmpfs keeps the entries of existing
 * files in the cache, so a folder that is not found there does not exist. Linux
 * before 5.12 cannot look in the cache alone. */
static int open_folder(const char *folder) {
  const struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
                               .resolve = RESOLVE_CACHED};
  int fd = (int)syscall(SYS_openat2, AT_FDCWD, folder, &how, sizeof(how));
  if (fd < 0 && errno == EAGAIN)
    errno = ENOENT;
  else if (fd < 0 && (errno == ENOSYS || errno == EINVAL))
    fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
  return fd;
}

/* Checks that only root can have pinned the files in the folder. Any user can
 * create a directory and a map, but only root can mount a bpffs that belongs to
 * root. */
static int check_folder(const char *folder, char why[PROGRAMS_WHY_SIZE]) {
  struct statfs kind;
  struct stat file;
  int fd = open_folder(folder);
  int status = fd < 0 || fstatfs(fd, &kind) != 0 ? -errno : 0;
  if (fd >= 0)
    close(fd);
  if (status != 0)
    return programs_fail(why, status, "no clock is pinned: %s: %s", folder,
                         strerror(-status));
  if (kind.f_type != BPF_FS_MAGIC)
    return programs_fail(why, -ENOENT,
                         "no clock is pinned in %s: no bpffs is mounted there",
                         folder);
  return check_owner(folder, &file, why);
}

static int check_map(int map, char why[PROGRAMS_WHY_SIZE]) {
  struct bpf_map_info info = {0};
  union bpf_attr attr = {0};
  attr.info.bpf_fd = (uint32_t)map;
  attr.info.info_len = sizeof(info);
  attr.info.info = (uintptr_t)&info;
  int status = bpf_call(BPF_OBJ_GET_INFO_BY_FD, &attr);
  if (status < 0)
    return programs_fail(why, status, "cannot read the pinned map: %s",
                         strerror(-status));
  if (info.type != BPF_MAP_TYPE_PERCPU_ARRAY || info.key_size != 4 ||
      info.value_size != sizeof(int64_t) || info.max_entries != 1 ||
      strcmp(info.name, MAP_NAME) != 0)
    return programs_fail(why, -EINVAL,
                         "the pinned map does not belong to an idle clock");
  return 0;
}

int idle_clock_kernel_open(struct idle_clock_kernel *clock, const char *folder,
                           char why[PROGRAMS_WHY_SIZE]) {
  char path[PATH_MAX];
  struct stat pin;
  idle_clock_kernel_init(clock);
  int status = check_folder(folder, why);
  for (int i = HOOK_SOFTIRQ; i >= HOOK_HALT && status == 0; i--) {
    pin_path(path, folder, hooks[i]);
    status = check_owner(path, &clock->pin, why);
    if (status == -ENOENT)
      status = programs_fail(why, -ENOLINK,
                             "the clock in %s lacks the pin %s, because it was "
                             "pinned or unpinned only in part; run percore "
                             "clock --pin again",
                             folder, hooks[i]);
  }
  pin_path(path, folder, MAP_NAME);
  if (status == 0)
    status = check_owner(path, &pin, why);
  if (status != 0)
    return status;
  union bpf_attr attr = {0};
  attr.pathname = (uintptr_t)path;
  attr.file_flags = BPF_F_RDONLY;
  int fd = bpf_call(BPF_OBJ_GET, &attr);
  if (fd < 0)
    return programs_fail(why, fd, "cannot open %s: %s%s", path, strerror(-fd),
                         fd == -EPERM ? "; before Linux 5.19, CAP_BPF is needed"
                                      : "");
  status = check_map(fd, why);
  if (status != 0) {
    close(fd);
    return status;
  }
  clock->programs.map = fd;
  clock->folder = folder;
  return 0;
}

static int pin_one(int fd, const char *folder, const char *name,
                   char why[PROGRAMS_WHY_SIZE]) {
  char path[PATH_MAX];
  pin_path(path, folder, name);
  union bpf_attr attr = {0};
  attr.pathname = (uintptr_t)path;
  attr.bpf_fd = (uint32_t)fd;
  int status = bpf_call(BPF_OBJ_PIN, &attr);
  return status < 0 ? cannot("pin", path, -status, why) : 0;
}

/* Mounts a bpffs at `folder`. The directory must belong to root, because
 * another owner could replace it. */
static int mount_pins(const char *folder, char why[PROGRAMS_WHY_SIZE]) {
  struct stat file;
  if (mkdir(folder, 0755) != 0 && errno != EEXIST)
    return cannot("create", folder, errno, why);
  int status = check_owner(folder, &file, why);
  if (status != 0)
    return status;
  if (mount("percore", folder, "bpf", MS_NOSUID | MS_NODEV | MS_NOEXEC,
            "mode=0755") != 0)
    return cannot("mount a bpffs on", folder, errno, why);
  return 0;
}

/* Pins cpu_idle last, so that a clock with this pin has all its pins, even if
 * this process is killed. Removes what a killed process has left. */
int idle_clock_kernel_pin(struct idle_clock_kernel *clock, const char *folder,
                          char why[PROGRAMS_WHY_SIZE]) {
  struct idle_clock_kernel other;
  char path[PATH_MAX];
  pin_path(path, folder, MAP_NAME);
  int status = idle_clock_kernel_open(&other, folder, why);
  idle_clock_kernel_close(&other);
  if (status == 0)
    return programs_fail(why, -EEXIST,
                         "a clock is already pinned in %s; run percore clock "
                         "--unpin first",
                         folder);
  if (status == -ENOLINK && umount2(folder, MNT_DETACH) != 0)
    return cannot("unmount", folder, errno, why);
  status = mount_pins(folder, why);
  if (status != 0)
    return status;
  status = pin_one(clock->programs.map, folder, MAP_NAME, why);
  if (status == 0 && chmod(path, 0444) != 0)
    status = cannot("change the mode of", path, errno, why);
  for (int i = HOOKS - 1; i >= 0 && status == 0; i--)
    if (clock->programs.links[i] >= 0)
      status = pin_one(clock->programs.links[i], folder, hooks[i], why);
  if (status != 0)
    umount2(folder, MNT_DETACH);
  return status;
}

/* Removes the pin for the tracepoint cpu_idle first, because readers check that
 * pin: without it they reject the clock, so no reader trusts a clock that no
 * longer sees interrupts. */
int idle_clock_kernel_unpin(const char *folder, char why[PROGRAMS_WHY_SIZE]) {
  char path[PATH_MAX];
  int status = check_folder(folder, why);
  if (status != 0)
    return status;
  for (int i = 0; i < HOOKS; i++) {
    pin_path(path, folder, hooks[i]);
    if (unlink(path) != 0 && errno != ENOENT)
      return cannot("remove", path, errno, why);
  }
  pin_path(path, folder, MAP_NAME);
  unlink(path);
  if (umount2(folder, MNT_DETACH) != 0)
    return cannot("unmount", folder, errno, why);
  return 0;
}

void idle_clock_kernel_missing(const struct idle_clock_kernel *clock,
                               char *list, size_t list_size) {
  char path[PATH_MAX];
  for (int i = HOOK_TIMER + 1; i < HOOKS; i++) {
    bool attached = clock->programs.links[i] >= 0;
    if (clock->folder != NULL) {
      pin_path(path, clock->folder, hooks[i]);
      attached = access(path, F_OK) == 0;
    }
    if (!attached)
      interrupts_append(list, list_size, hooks[i],
                        strlen(hooks[i]) - strlen("_entry"));
  }
}

/* ---------------------------------------------------------------------------
 * Reading
 */

/* True if the programs still run. The programs of a pinned clock run as long as
 * its pin exists. The pin must be the same file as when the clock was opened,
 * because another clock may have been pinned in its place. */
static bool is_attached(const struct idle_clock_kernel *clock) {
  char path[PATH_MAX];
  struct stat pin;
  if (clock->folder == NULL)
    return true;
  pin_path(path, clock->folder, hooks[HOOK_HALT]);
  return lstat(path, &pin) == 0 && pin.st_dev == clock->pin.st_dev &&
         pin.st_ino == clock->pin.st_ino &&
         pin.st_ctim.tv_sec == clock->pin.st_ctim.tv_sec &&
         pin.st_ctim.tv_nsec == clock->pin.st_ctim.tv_nsec;
}

int idle_clock_kernel_read(const struct idle_clock_kernel *clock,
                           int64_t *words, int cores) {
  if (!is_attached(clock))
    return -ENOLINK;
  return programs_read(&clock->programs, words, sizeof(*words), cores);
}

int idle_clock_kernel_start(const struct idle_clock_kernel *clock, int core) {
  if (clock->start < 0)
    return -EOPNOTSUPP;
  union bpf_attr attr = {0};
  attr.test.prog_fd = (uint32_t)clock->start;
  attr.test.flags = BPF_F_TEST_RUN_ON_CPU;
  attr.test.cpu = (uint32_t)core;
  return bpf_call(BPF_PROG_TEST_RUN, &attr);
}
