#include "programs.h"

#include "base/bpf.h"
#include "base/file.h"

#include <errno.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/vfs.h>
#include <unistd.h>

#ifdef PERCORE_BPF
#include "cycles/clocks.lskel.h"
#endif

/* The hooks are attached from the last to the first, so that no halt begins
 * before the program that ends it is attached. The first hook begins and ends
 * halts, the others only end them. If the interrupt of the timer has no
 * tracepoint, as on Hyper-V, the first hrtimer that it runs ends the halt.
 *
 * Interrupts of devices have irq_handler_entry; on processors other than x86,
 * all interrupts do. The others are listed by name: a pattern would also match
 * tracepoints that run for every packet. */
static const char *const hooks[] = {
    "cpu_idle",
    "irq_handler_entry",
    "softirq_entry",
    "hrtimer_expire_entry",
#if defined(__x86_64__)
    "local_timer_entry",
    "reschedule_entry",
    "call_function_entry",
    "call_function_single_entry",
    "irq_work_entry",
    "x86_platform_ipi_entry",
    "spurious_apic_entry",
    "error_apic_entry",
    "thermal_apic_entry",
    "threshold_apic_entry",
    "deferred_error_apic_entry",
#elif defined(__aarch64__)
    "ipi_entry",
#endif
};
#define HOOK_HALT 0
#define HOOK_TIMER 3 /* the hooks before it are required */
#define HOOKS ((int)(sizeof(hooks) / sizeof(hooks[0])))
_Static_assert(HOOKS <= PROGRAMS_LINKS_MAX,
               "links[] has no room for all hooks");

/* The map of the idle clock, and its pin. A map with other values must have
 * another name, because readers do not ask for their size. */
#define MAP_NAME "idle_clock"

void programs_init(struct programs *programs) {
  *programs = (struct programs){.map = -1, .start = -1};
  memset(programs->links, -1, sizeof(programs->links));
}

void programs_close(struct programs *programs) {
  if (programs->map >= 0)
    close(programs->map);
  if (programs->start >= 0)
    close(programs->start);
  for (int i = 0; i < PROGRAMS_LINKS_MAX; i++)
    if (programs->links[i] >= 0)
      close(programs->links[i]);
  programs_init(programs);
}

/* ---------------------------------------------------------------------------
 * Loading
 */

#ifdef PERCORE_BPF
/* Takes a descriptor out of the skeleton, which then does not close it. */
static int take(int *fd) {
  int taken = *fd;
  *fd = 0;
  return taken;
}

/* True if the interrupt of the timer is known to have a tracepoint: that of the
 * local APIC has its own, and that of arm64's system timer is a device's. The
 * hook of hrtimers, which adds a tenth to the cost of a halt, is then not
 * needed. */
static bool timer_has_tracepoint(void) {
  char name[16];
  return file_read(name, sizeof(name),
                   "/sys/devices/system/clockevents/clockevent0/"
                   "current_device") > 0 &&
         (strncmp(name, "lapic", 5) == 0 ||
          strncmp(name, "arch_sys_timer", 14) == 0);
}

static int attach_all(struct programs *programs,
                      const struct clocks_bpf *loaded, bool state0_polls,
                      char why[WHY_SIZE]) {
  int on_idle = state0_polls ? loaded->progs.on_idle.prog_fd
                             : loaded->progs.on_idle_without_poll.prog_fd;
  for (int i = HOOKS - 1; i >= 0; i--) {
    if (i == HOOK_TIMER && timer_has_tracepoint())
      continue;
    int link = programs->links[i] = bpf_attach(
        hooks[i], i == HOOK_HALT ? on_idle : loaded->progs.on_interrupt.prog_fd,
        why);
    if (link < 0 && (link != -ENOENT || i < HOOK_TIMER))
      return link;
  }
  return 0;
}

static int load_and_attach(struct programs *programs, bool state0_polls,
                           char why[WHY_SIZE]) {
  const char *missing = bpf_missing_capability();
  if (missing != NULL)
    return why_fails(
        why, -EPERM,
        "loading its programs needs CAP_BPF and CAP_PERFMON: %s; grant "
        "both, or run percore clock --pin as root",
        missing);
  errno = 0;
  struct clocks_bpf *loaded = clocks_bpf__open_and_load();
  if (loaded == NULL)
    return bpf_refused(
        errno, "they need Linux 5.14 or later with CONFIG_BPF_SYSCALL", why);
  programs->map = take(&loaded->maps.idle_clock.map_fd);
  programs->start = take(&loaded->progs.on_start.prog_fd);
  int status = attach_all(programs, loaded, state0_polls, why);
  clocks_bpf__destroy(loaded);
  return status;
}
#else
static int load_and_attach(struct programs *programs, bool state0_polls,
                           char why[WHY_SIZE]) {
  (void)programs, (void)state0_polls;
  return why_fails(why, -ENOSYS,
                   "percore was built without BPF programs (clang, bpftool and "
                   "libbpf-dev were missing, or --disable-bpf)");
}
#endif

int programs_load(struct programs *programs, bool state0_polls,
                  char why[WHY_SIZE]) {
  programs_init(programs);
  int status = load_and_attach(programs, state0_polls, why);
  if (status != 0)
    programs_close(programs);
  return status;
}

/* ---------------------------------------------------------------------------
 * Pins
 */

enum { PIN_PATH_MAX = 128 };

static void pin_path(char path[PIN_PATH_MAX], const char *name) {
  snprintf(path, PIN_PATH_MAX, IDLE_CLOCK_PINS "/%s", name);
}

static int cannot(const char *what, const char *path, int error,
                  char why[WHY_SIZE]) {
  return why_fails(why, -error, "cannot %s %s: %s%s", what, path,
                   strerror(error),
                   error == EPERM || error == EACCES ? "; run as root" : "");
}

static int check_owner(const char *path, struct stat *file,
                       char why[WHY_SIZE]) {
  if (lstat(path, file) != 0)
    return why_fails(why, -errno, "no clock is pinned: %s: %s", path,
                     strerror(errno));
  if (file->st_uid == 0 && (file->st_mode & (S_IWGRP | S_IWOTH)) == 0)
    return 0;
  return why_fails(why, -EPERM,
                   "%s is not used: users other than root may write to it",
                   path);
}

/* Checks that only root can have pinned the files in the folder. Any user can
 * create a directory and a map, but only root can mount a bpffs that belongs to
 * root. */
static int check_folder(char why[WHY_SIZE]) {
  struct statfs kind;
  struct stat file;
  if (statfs(IDLE_CLOCK_PINS, &kind) != 0)
    return why_fails(why, -errno, "no clock is pinned: " IDLE_CLOCK_PINS ": %s",
                     strerror(errno));
  if (kind.f_type != BPF_FS_MAGIC)
    return why_fails(why, -ENOENT,
                     "no clock is pinned in " IDLE_CLOCK_PINS
                     ": no bpffs is mounted there");
  return check_owner(IDLE_CLOCK_PINS, &file, why);
}

int programs_open(struct programs *programs, char why[WHY_SIZE]) {
  char path[PIN_PATH_MAX];
  struct stat pin;
  programs_init(programs);
  int status = check_folder(why);
  for (int i = HOOK_TIMER - 1; i >= HOOK_HALT && status == 0; i--) {
    pin_path(path, hooks[i]);
    status = check_owner(path, &programs->pin, why);
    if (status == -ENOENT)
      status = why_fails(why, -ENOLINK,
                         "the clock in " IDLE_CLOCK_PINS " lacks the pin %s, "
                         "because it was pinned or unpinned only in part; run "
                         "percore clock --pin again",
                         hooks[i]);
  }
  pin_path(path, MAP_NAME);
  if (status == 0)
    status = check_owner(path, &pin, why);
  if (status != 0)
    return status;
  union bpf_attr attr = {.pathname = (uintptr_t)path,
                         .file_flags = BPF_F_RDONLY};
  int fd = bpf_call(BPF_OBJ_GET, &attr);
  if (fd < 0)
    return why_fails(why, fd, "cannot open %s: %s%s", path, strerror(-fd),
                     fd == -EPERM ? "; before Linux 5.19, CAP_BPF is needed"
                                  : "");
  programs->map = fd;
  programs->pinned = true;
  return 0;
}

static int pin_one(int fd, const char *name, char why[WHY_SIZE]) {
  char path[PIN_PATH_MAX];
  pin_path(path, name);
  union bpf_attr attr = {.pathname = (uintptr_t)path, .bpf_fd = (uint32_t)fd};
  int status = bpf_call(BPF_OBJ_PIN, &attr);
  return status < 0 ? cannot("pin", path, -status, why) : 0;
}

/* Mounts a bpffs. Its directory must belong to root, because another owner
 * could replace it. */
static int mount_pins(char why[WHY_SIZE]) {
  struct stat file;
  if (mkdir(IDLE_CLOCK_PINS, 0755) != 0 && errno != EEXIST)
    return cannot("create", IDLE_CLOCK_PINS, errno, why);
  int status = check_owner(IDLE_CLOCK_PINS, &file, why);
  if (status != 0)
    return status;
  if (mount("percore", IDLE_CLOCK_PINS, "bpf", MS_NOSUID | MS_NODEV | MS_NOEXEC,
            "mode=0755") != 0)
    return cannot("mount a bpffs on", IDLE_CLOCK_PINS, errno, why);
  return 0;
}

/* Pins cpu_idle last, so that a clock with this pin has all its pins, even if
 * this process is killed. */
int programs_pin(const struct programs *programs, char why[WHY_SIZE]) {
  char path[PIN_PATH_MAX];
  pin_path(path, MAP_NAME);
  int status = mount_pins(why);
  if (status != 0)
    return status;
  status = pin_one(programs->map, MAP_NAME, why);
  if (status == 0 && chmod(path, 0444) != 0)
    status = cannot("change the mode of", path, errno, why);
  for (int i = HOOKS - 1; i >= 0 && status == 0; i--)
    if (programs->links[i] >= 0)
      status = pin_one(programs->links[i], hooks[i], why);
  if (status != 0)
    umount2(IDLE_CLOCK_PINS, MNT_DETACH);
  return status;
}

/* Removes the pin for the tracepoint cpu_idle first, because readers check that
 * pin: without it they reject the clock, so no reader trusts a clock that no
 * longer sees interrupts. */
int programs_unpin(char why[WHY_SIZE]) {
  char path[PIN_PATH_MAX];
  int status = check_folder(why);
  if (status != 0)
    return status;
  for (int i = 0; i < HOOKS; i++) {
    pin_path(path, hooks[i]);
    if (unlink(path) != 0 && errno != ENOENT)
      return cannot("remove", path, errno, why);
  }
  if (umount2(IDLE_CLOCK_PINS, MNT_DETACH) != 0)
    return cannot("unmount", IDLE_CLOCK_PINS, errno, why);
  return 0;
}

/* ---------------------------------------------------------------------------
 * Reading
 */

/* True if the programs still run. The programs of a pinned clock run as long as
 * its pin exists. The pin must be the same file as when the clock was opened,
 * because another clock may have been pinned in its place. */
static bool is_attached(const struct programs *programs) {
  char path[PIN_PATH_MAX];
  struct stat pin;
  if (!programs->pinned)
    return true;
  pin_path(path, hooks[HOOK_HALT]);
  return lstat(path, &pin) == 0 && pin.st_ino == programs->pin.st_ino;
}

static int programs_read(const struct programs *programs, int64_t *words,
                         int cores) {
  uint32_t key = 0;
  if (!is_attached(programs))
    return -ENOLINK;
  /* The kernel copies the words of all possible cores without reporting how
   * many it copied. A word that no clock has marks the end of the copied words.
   */
  words[cores - 1] = words[cores] = INT64_MIN;
  union bpf_attr attr = {.map_fd = (uint32_t)programs->map,
                         .key = (uintptr_t)&key,
                         .value = (uintptr_t)words};
  int status = bpf_call(BPF_MAP_LOOKUP_ELEM, &attr);
  if (status < 0)
    return status;
  return words[cores - 1] != INT64_MIN && words[cores] == INT64_MIN ? 0
                                                                    : -EINVAL;
}

static int programs_start(const struct programs *programs, int core) {
  if (programs->start < 0)
    return -EOPNOTSUPP;
  union bpf_attr attr = {.test = {.prog_fd = (uint32_t)programs->start,
                                  .flags = BPF_F_TEST_RUN_ON_CPU,
                                  .cpu = (uint32_t)core}};
  return bpf_call(BPF_PROG_TEST_RUN, &attr);
}

static bool read_link(int fd, struct bpf_link_info *info) {
  union bpf_attr attr = {.info = {.bpf_fd = (uint32_t)fd,
                                  .info_len = sizeof(*info),
                                  .info = (uintptr_t)info}};
  return bpf_call(BPF_OBJ_GET_INFO_BY_FD, &attr) == 0;
}

/* Reads at which raw tracepoint the program of a link runs; "" if at none. The
 * members of the name mean something else in links of other types. */
static void read_tracepoint(uint32_t id, char *name, uint32_t size) {
  struct bpf_link_info info = {0};
  union bpf_attr attr = {.link_id = id};
  int fd = bpf_call(BPF_LINK_GET_FD_BY_ID, &attr);
  name[0] = '\0';
  if (fd < 0)
    return;
  if (read_link(fd, &info) && info.type == BPF_LINK_TYPE_RAW_TRACEPOINT) {
    info = (struct bpf_link_info){
        .raw_tracepoint = {.tp_name = (uintptr_t)name, .tp_name_len = size}};
    read_link(fd, &info);
  }
  close(fd);
}

/* The first program at cpu_idle may be that of an idle clock, which is quick.
 */
static int count_tracers(void) {
  int at_idle = 0, at_switch = 0;
  char name[32] = "";
  union bpf_attr attr = {.start_id = 0};
  for (; bpf_call(BPF_LINK_GET_NEXT_ID, &attr) == 0;
       attr = (union bpf_attr){.start_id = attr.next_id}) {
    read_tracepoint(attr.next_id, name, sizeof(name));
    at_idle += strcmp(name, "cpu_idle") == 0;
    at_switch += strcmp(name, "sched_switch") == 0;
  }
  return at_switch + (at_idle > 1 ? at_idle - 1 : 0);
}

const struct clock_calls programs_calls = {.open = programs_open,
                                           .load = programs_load,
                                           .read = programs_read,
                                           .start = programs_start,
                                           .close = programs_close,
                                           .tracers = count_tracers};
