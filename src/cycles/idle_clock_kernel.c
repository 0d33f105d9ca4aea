#include "idle_clock_kernel.h"

#include "base/bpf.h"
#include "core_set.h"
#include "programs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/bpf.h>
#include <linux/magic.h>
#include <stdarg.h>
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
#define HOOK_SOFTIRQ 2 /* this hook and those before it are indispensable */
#define HOOK_TIMER 3
_Static_assert(sizeof(hooks) / sizeof(hooks[0]) <= IDLE_CLOCK_HOOKS_MAX,
               "links[] has no room for all hooks");

static int explain(char *why, size_t why_size, int status, const char *format,
                   ...) __attribute__((format(printf, 4, 5)));

static int explain(char *why, size_t why_size, int status, const char *format,
                   ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(why, why_size, format, arguments);
  va_end(arguments);
  return status;
}

static void close_fd(int *fd) {
  if (*fd >= 0)
    close(*fd);
  *fd = -1;
}

void idle_clock_kernel_init(struct idle_clock_kernel *clock) {
  *clock = (struct idle_clock_kernel){.map = -1, .start = -1};
  memset(clock->links, -1, sizeof(clock->links));
}

void idle_clock_kernel_close(struct idle_clock_kernel *clock) {
  close_fd(&clock->map);
  close_fd(&clock->start);
  for (int i = 0; i < IDLE_CLOCK_HOOKS_MAX; i++)
    close_fd(&clock->links[i]);
}

/* ---------------------------------------------------------------------------
 * Loading
 */

#ifdef PERCORE_BPF
/* Attaches the hook that begins halts last, when every end of a halt is already
 * seen. */
static int attach_all(struct idle_clock_kernel *clock, int on_idle,
                      int on_interrupt, bool timer_is_known, char *why,
                      size_t why_size) {
  for (int i = HOOKS - 1; i >= 0; i--) {
    if (i == HOOK_TIMER && timer_is_known)
      continue;
    int status = programs_attach(&clock->links[i], hooks[i],
                                 i == HOOK_HALT ? on_idle : on_interrupt);
    if (status != 0 && (status != -ENOENT || i <= HOOK_SOFTIRQ))
      return explain(why, why_size, status,
                     "cannot attach to the tracepoint %s: %s", hooks[i],
                     strerror(-status));
  }
  return 0;
}

int idle_clock_kernel_load(struct idle_clock_kernel *clock,
                           struct idle_clock_traits traits, char *why,
                           size_t why_size) {
  idle_clock_kernel_init(clock);
  if (bpf_missing_capability() != NULL)
    return explain(
        why, why_size, -EPERM,
        "loading it needs CAP_BPF and CAP_PERFMON: grant both, or run "
        "percore clock --pin as root");
  errno = 0;
  struct idle_clock_bpf *loaded = idle_clock_bpf__open_and_load();
  if (loaded == NULL) {
    int status = errno != 0 ? -errno : -ENOMEM;
    return explain(why, why_size, status,
                   "the kernel refused to load it: %s (it needs Linux 5.14 or "
                   "later with CONFIG_BPF_SYSCALL)",
                   strerror(-status));
  }
  clock->map = fcntl(loaded->maps.idle_clock.map_fd, F_DUPFD_CLOEXEC, 3);
  clock->start = fcntl(loaded->progs.on_start.prog_fd, F_DUPFD_CLOEXEC, 3);
  int status = 0;
  if (clock->map < 0 || clock->start < 0)
    status = explain(why, why_size, -EMFILE, "no descriptor is left for it: %s",
                     strerror(errno));
  if (status == 0)
    status = attach_all(clock,
                        traits.state0_polls
                            ? loaded->progs.on_idle.prog_fd
                            : loaded->progs.on_idle_without_poll.prog_fd,
                        loaded->progs.on_interrupt.prog_fd,
                        traits.timer_is_known, why, why_size);
  idle_clock_bpf__destroy(loaded);
  if (status != 0)
    idle_clock_kernel_close(clock);
  return status;
}
#else
int idle_clock_kernel_load(struct idle_clock_kernel *clock,
                           struct idle_clock_traits traits, char *why,
                           size_t why_size) {
  (void)traits;
  idle_clock_kernel_init(clock);
  return explain(why, why_size, -ENOSYS,
                 "percore was built without it (clang, bpftool and libbpf-dev "
                 "were missing, or --disable-bpf)");
}
#endif

/* ---------------------------------------------------------------------------
 * Pins
 */

static void pin_path(char path[PATH_MAX], const char *folder,
                     const char *name) {
  snprintf(path, PATH_MAX, "%s/%s", folder, name);
}

static bool only_root_writes(const struct stat *file) {
  return file->st_uid == 0 && (file->st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/* Any user can create a directory and a map, but only root can mount a bpffs
 * that belongs to root. */
static int check_folder(const char *folder, char *why, size_t why_size) {
  struct statfs kind;
  struct stat file;
  if (lstat(folder, &file) != 0 || statfs(folder, &kind) != 0)
    return explain(why, why_size, -errno, "no clock is pinned in %s: %s",
                   folder, strerror(errno));
  if (kind.f_type != BPF_FS_MAGIC)
    return explain(why, why_size, -ENOENT,
                   "no clock is pinned in %s: no bpffs is mounted there",
                   folder);
  if (!S_ISDIR(file.st_mode) || !only_root_writes(&file))
    return explain(why, why_size, -EPERM,
                   "%s is not used: users other than root may write there",
                   folder);
  return 0;
}

static int check_map(int map, char *why, size_t why_size) {
  struct bpf_map_info info = {0};
  union bpf_attr attr = {0};
  attr.info.bpf_fd = (uint32_t)map;
  attr.info.info_len = sizeof(info);
  attr.info.info = (uintptr_t)&info;
  int status = bpf_call(BPF_OBJ_GET_INFO_BY_FD, &attr);
  if (status < 0)
    return explain(why, why_size, status, "cannot read the pinned map: %s",
                   strerror(-status));
  if (info.type != BPF_MAP_TYPE_PERCPU_ARRAY || info.key_size != 4 ||
      info.value_size != sizeof(int64_t) || info.max_entries != 1 ||
      strcmp(info.name, MAP_NAME) != 0)
    return explain(why, why_size, -EINVAL,
                   "the pinned map does not belong to an idle clock");
  return 0;
}

int idle_clock_kernel_open(struct idle_clock_kernel *clock, const char *folder,
                           char *why, size_t why_size) {
  char path[PATH_MAX], halt[PATH_MAX];
  struct stat map;
  idle_clock_kernel_init(clock);
  int status = check_folder(folder, why, why_size);
  if (status != 0)
    return status;
  pin_path(path, folder, MAP_NAME);
  pin_path(halt, folder, hooks[HOOK_HALT]);
  if (lstat(path, &map) != 0 || lstat(halt, &clock->pin) != 0)
    return explain(why, why_size, -errno, "no clock is pinned in %s: %s",
                   folder, strerror(errno));
  if (!only_root_writes(&map) || !only_root_writes(&clock->pin))
    return explain(
        why, why_size, -EPERM,
        "the clock in %s is not used: users other than root may write to it",
        folder);
  union bpf_attr attr = {0};
  attr.pathname = (uintptr_t)path;
  attr.file_flags = BPF_F_RDONLY;
  int fd = bpf_call(BPF_OBJ_GET, &attr);
  if (fd < 0)
    return explain(
        why, why_size, fd, "%s cannot be opened: %s%s", path, strerror(-fd),
        fd == -EPERM ? " (before Linux 5.19, CAP_BPF is needed)" : "");
  status = check_map(fd, why, why_size);
  if (status != 0) {
    close(fd);
    return status;
  }
  clock->map = fd;
  clock->folder = folder;
  return 0;
}

static int pin_one(int fd, const char *folder, const char *name, char *why,
                   size_t why_size) {
  char path[PATH_MAX];
  pin_path(path, folder, name);
  union bpf_attr attr = {0};
  attr.pathname = (uintptr_t)path;
  attr.bpf_fd = (uint32_t)fd;
  int status = bpf_call(BPF_OBJ_PIN, &attr);
  if (status < 0)
    return explain(why, why_size, status, "%s cannot be pinned: %s", path,
                   strerror(-status));
  return 0;
}

static const char *advice(int error) {
  return error == EPERM || error == EACCES ? "; run as root" : "";
}

/* The directory must belong to root, because another owner could replace it. */
static int mount_pins(const char *folder, char *why, size_t why_size) {
  struct stat file;
  if (mkdir(folder, 0755) != 0 && errno != EEXIST)
    return explain(why, why_size, -errno, "cannot create %s: %s%s", folder,
                   strerror(errno),
                   errno == ENOENT
                       ? "; run systemd-sysusers and systemd-tmpfiles "
                         "--create percore.conf first"
                       : advice(errno));
  if (lstat(folder, &file) != 0 || !S_ISDIR(file.st_mode) ||
      !only_root_writes(&file))
    return explain(
        why, why_size, -EPERM,
        "%s must be a directory that only root may write to: remove it",
        folder);
  if (mount("percore", folder, "bpf", MS_NOSUID | MS_NODEV | MS_NOEXEC,
            "mode=0755") != 0)
    return explain(why, why_size, -errno, "cannot mount a bpffs on %s: %s%s",
                   folder, strerror(errno), advice(errno));
  return 0;
}

int idle_clock_kernel_pin(struct idle_clock_kernel *clock, const char *folder,
                          char *why, size_t why_size) {
  struct statfs kind;
  char path[PATH_MAX];
  if (statfs(folder, &kind) == 0 && kind.f_type == BPF_FS_MAGIC)
    return explain(why, why_size, -EEXIST, "a clock is already pinned in %s",
                   folder);
  int status = mount_pins(folder, why, why_size);
  if (status != 0)
    return status;
  status = pin_one(clock->map, folder, MAP_NAME, why, why_size);
  for (int i = 0; i < HOOKS && status == 0; i++)
    if (clock->links[i] >= 0)
      status = pin_one(clock->links[i], folder, hooks[i], why, why_size);
  pin_path(path, folder, MAP_NAME);
  if (status == 0 && chmod(path, 0444) != 0)
    status = explain(why, why_size, -errno, "%s cannot be made readable: %s",
                     path, strerror(errno));
  if (status != 0)
    umount2(folder, MNT_DETACH);
  return status;
}

/* First removes the pin of the program that begins halts, so that no reader
 * trusts a clock that no longer sees interrupts. */
int idle_clock_kernel_unpin(const char *folder, char *why, size_t why_size) {
  char path[PATH_MAX];
  int status = check_folder(folder, why, why_size);
  if (status != 0)
    return status;
  for (int i = 0; i < HOOKS; i++) {
    pin_path(path, folder, hooks[i]);
    if (unlink(path) != 0 && errno != ENOENT)
      return explain(why, why_size, -errno, "%s cannot be removed: %s%s", path,
                     strerror(errno), advice(errno));
  }
  pin_path(path, folder, MAP_NAME);
  unlink(path);
  if (umount2(folder, MNT_DETACH) != 0)
    return explain(why, why_size, -errno, "%s cannot be unmounted: %s", folder,
                   strerror(errno));
  return 0;
}

void idle_clock_kernel_missing(const struct idle_clock_kernel *clock,
                               char *list, size_t list_size) {
  char path[PATH_MAX];
  size_t length = 0;
  list[0] = '\0';
  for (int i = HOOK_TIMER + 1; i < HOOKS && length < list_size; i++) {
    bool attached = clock->links[i] >= 0;
    if (clock->folder != NULL) {
      pin_path(path, clock->folder, hooks[i]);
      attached = access(path, F_OK) == 0;
    }
    if (!attached)
      length += (size_t)snprintf(
          list + length, list_size - length, "%s%.*s", length > 0 ? " " : "",
          (int)(strlen(hooks[i]) - strlen("_entry")), hooks[i]);
  }
}

/* ---------------------------------------------------------------------------
 * Reading
 */

/* True if the clock's own link is still pinned, so that its programs still run.
 * Another clock may have been pinned in its place. */
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
                           int64_t *words) {
  uint32_t key = 0;
  union bpf_attr attr = {0};
  if (!is_attached(clock))
    return -ENOLINK;
  /* The kernel copies the words of all possible cores without reporting how
   * many it copied. An impossible value marks the end of the copied words. */
  for (int i = 0; i < CORES_MAX; i++)
    words[i] = INT64_MIN;
  attr.map_fd = (uint32_t)clock->map;
  attr.key = (uintptr_t)&key;
  attr.value = (uintptr_t)words;
  int status = bpf_call(BPF_MAP_LOOKUP_ELEM, &attr);
  if (status < 0)
    return status;
  int len = 0;
  while (len < CORES_MAX && words[len] != INT64_MIN)
    len++;
  return len;
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
