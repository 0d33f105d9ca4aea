/* Tests how clocks are loaded, pinned and read, in a kernel that the tests
 * play: a real one lets only root do so. */
#include "unit.h"

#include "base/bpf.h"
#include "cycles/programs.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#define MAP_PIN "idle_clock"
enum { MAP_FD = 100000, FILES = 40, CORES = 4 };

/* What a skeleton loads, in the order of the source. */
enum {
  IDLE_MAP_FD = 200000,
  ON_IDLE_FD,
  ON_IDLE_WITHOUT_POLL_FD,
  ON_INTERRUPT_FD,
  ON_START_FD,
  LINK_FD,
};

/* The kernel's files, of which those in the folder are pins. */
static struct {
  struct file {
    char path[64]; /* "": none */
    uid_t uid;
    mode_t mode;
    ino_t inode;
  } file[FILES];
  ino_t last_inode;
  bool mounted;
  char said[2048]; /* what was done, in its order */
  int64_t words[CORES + 2];
  int words_len;
  const char *refused; /* the path, or the call, that fails with `error` */
  int error;
  union bpf_attr attr; /* of the last call of bpf(2) */
  bool unprivileged;
  int programs[FILES]; /* that were attached, in their order */
  int programs_len;
} kernel;

/* The timer that ends halts, in sysfs. NULL: unknown */
static struct {
  const char *name;
  int fd; /* of the last open of its file */
} timer;

static struct programs programs;
static char why[WHY_SIZE];

static struct file *find(const char *path) {
  for (int i = 0; i < FILES; i++)
    if (strcmp(kernel.file[i].path, path) == 0)
      return &kernel.file[i];
  return NULL;
}

static struct file *make(const char *path) {
  struct file *file = find("");
  assert_non_null(file);
  *file = (struct file){.mode = 0600, .inode = ++kernel.last_inode};
  snprintf(file->path, sizeof file->path, "%s", path);
  return file;
}

static const char *in_folder(const char *name) {
  static char path[64];
  snprintf(path, sizeof path, IDLE_CLOCK_PINS "/%s", name);
  return path;
}

static void say(const char *what, const char *path) {
  size_t length = strlen(kernel.said);
  const char *slash = strrchr(path, '/');
  snprintf(kernel.said + length, sizeof kernel.said - length, "%s %s\n", what,
           slash != NULL ? slash + 1 : path);
}

/* Notes a call. Returns -1 with errno if it fails. */
static int call(const char *what, const char *path) {
  say(what, path);
  bool refuses = kernel.refused != NULL && (strcmp(kernel.refused, path) == 0 ||
                                            strcmp(kernel.refused, what) == 0);
  errno = refuses ? kernel.error : 0;
  return refuses ? -1 : 0;
}

FILE *__real_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode) {
  int fds[2];
  if (strstr(path, "/clockevents/") == NULL)
    return __real_fopen(path, mode);
  errno = ENOENT;
  if (timer.name == NULL || pipe(fds) != 0)
    return NULL;
  dprintf(fds[1], "%s", timer.name);
  close(fds[1]);
  return fdopen(timer.fd = fds[0], mode);
}

int __wrap_statfs(const char *path, struct statfs *kind);
int __wrap_statfs(const char *path, struct statfs *kind) {
  assert_string_equal(path, IDLE_CLOCK_PINS);
  *kind = (struct statfs){0};
  kind->f_type = kernel.mounted ? BPF_FS_MAGIC : TMPFS_MAGIC;
  errno = ENOENT;
  return find(path) != NULL ? 0 : -1;
}

int __wrap_lstat(const char *path, struct stat *status);
int __wrap_lstat(const char *path, struct stat *status) {
  const struct file *file = find(path);
  *status = (struct stat){0};
  errno = ENOENT;
  if (file == NULL)
    return -1;
  status->st_uid = file->uid;
  status->st_mode = file->mode;
  status->st_ino = file->inode;
  return 0;
}

int __wrap_mkdir(const char *path, mode_t mode);
int __wrap_mkdir(const char *path, mode_t mode) {
  if (call("mkdir", path) != 0)
    return -1;
  errno = EEXIST;
  if (find(path) != NULL)
    return -1;
  make(path)->mode = mode;
  return 0;
}

int __wrap_mount(const char *source, const char *target, const char *kind,
                 unsigned long flags, const void *data);
int __wrap_mount(const char *source, const char *target, const char *kind,
                 unsigned long flags, const void *data) {
  (void)source;
  assert_string_equal(kind, "bpf");
  assert_string_equal(data, "mode=0755");
  assert_int_equal(flags, MS_NOSUID | MS_NODEV | MS_NOEXEC);
  int status = call("mount", target);
  kernel.mounted |= status == 0;
  return status;
}

int __wrap_umount2(const char *target, int flags);
int __wrap_umount2(const char *target, int flags) {
  (void)flags;
  int status = call("umount", target);
  kernel.mounted &= status != 0;
  return status;
}

int __wrap_chmod(const char *path, mode_t mode);
int __wrap_chmod(const char *path, mode_t mode) {
  if (call("chmod", path) != 0)
    return -1;
  find(path)->mode = mode;
  return 0;
}

int __wrap_unlink(const char *path);
int __wrap_unlink(const char *path) {
  struct file *file = find(path);
  if (call("unlink", path) != 0)
    return -1;
  errno = ENOENT;
  if (file == NULL)
    return -1;
  *file = (struct file){0};
  return 0;
}

static const char *text_at(uint64_t address) {
  return (const char *)(uintptr_t)address;
}

/* Plays the loader of a skeleton, which ends with what it has loaded. */
static void run_loader(const union bpf_attr *attr) {
  struct {
    struct {
      int fd;
      uint32_t entries;
      uint64_t initial;
    } maps[ON_IDLE_FD - IDLE_MAP_FD];
    int programs[LINK_FD - ON_IDLE_FD];
  } loaded = {0};
  for (int i = 0; i < ON_IDLE_FD - IDLE_MAP_FD; i++)
    loaded.maps[i].fd = IDLE_MAP_FD + i;
  for (int i = 0; i < LINK_FD - ON_IDLE_FD; i++)
    loaded.programs[i] = ON_IDLE_FD + i;
  memcpy((char *)(uintptr_t)attr->test.ctx_in + attr->test.ctx_size_in -
             sizeof loaded,
         &loaded, sizeof loaded);
}

static int attach(const union bpf_attr *attr) {
  if (call("attach", text_at(attr->raw_tracepoint.name)) != 0)
    return -1;
  kernel.programs[kernel.programs_len] = (int)attr->raw_tracepoint.prog_fd;
  return LINK_FD + kernel.programs_len++;
}

long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...) {
  va_list arguments;
  va_start(arguments, number);
  if (number == SYS_capget) {
    (void)va_arg(arguments, void *);
    struct __user_cap_data_struct *data =
        va_arg(arguments, struct __user_cap_data_struct *);
    va_end(arguments);
    data->effective = kernel.unprivileged ? 0 : 1U << CAP_SYS_ADMIN;
    return 0;
  }
  enum bpf_cmd command = va_arg(arguments, enum bpf_cmd);
  const union bpf_attr *attr = va_arg(arguments, const union bpf_attr *);
  va_end(arguments);
  assert_int_equal(number, SYS_bpf);
  kernel.attr = *attr;
  switch ((int)command) {
  case BPF_OBJ_GET:
    return call("get", text_at(attr->pathname)) == 0 ? MAP_FD : -1;
  case BPF_OBJ_PIN:
    if (call("pin", text_at(attr->pathname)) != 0)
      return -1;
    make(text_at(attr->pathname));
    return 0;
  case BPF_MAP_LOOKUP_ELEM:
    assert_int_equal(*(const uint32_t *)(uintptr_t)attr->key, 0);
    memcpy((void *)(uintptr_t)attr->value, kernel.words,
           (size_t)kernel.words_len * sizeof kernel.words[0]);
    return call("lookup", "");
  case BPF_MAP_CREATE: /* of the loader, and below its program */
  case BPF_PROG_LOAD:
    return open("/dev/null", O_RDONLY);
  case BPF_MAP_UPDATE_ELEM:
  case BPF_MAP_FREEZE: /* and what follows: only newer versions of libbpf */
  case BPF_OBJ_GET_INFO_BY_FD:
    return 0;
  case BPF_RAW_TRACEPOINT_OPEN:
    return attach(attr);
  case BPF_PROG_TEST_RUN:
    if (call("run", "") != 0)
      return -1;
    if (attr->test.ctx_in != 0)
      run_loader(attr);
    return 0;
  default:
    fail_msg("bpf(%d)", (int)command);
    return -1;
  }
}

static const char *const required[] = {"cpu_idle", "irq_handler_entry",
                                       "softirq_entry"};

static void setup(void) {
  memset(&kernel, 0, sizeof kernel);
  kernel.mounted = true;
  kernel.words_len = CORES;
  for (int core = 0; core < CORES; core++)
    kernel.words[core] = 10 + core;
  make(IDLE_CLOCK_PINS)->mode = 0755;
  for (int i = 0; i < 3; i++)
    make(in_folder(required[i]));
  make(in_folder(MAP_PIN))->mode = 0444;
}

static int read_words(void) {
  int64_t words[CORES + 2];
  int status = programs_calls.read(&programs, words, CORES);
  for (int core = 0; core < CORES && status == 0; core++)
    assert_int_equal(words[core], 10 + core);
  return status;
}

/* ---------------------------------------------------------------------------
 * Loading
 */

/* Loads a clock on a kernel that lacks a tracepoint, unless that is NULL, or
 * refuses it with another error. */
static int load_without(const char *tracepoint, int error, bool state0_polls) {
  setup();
  kernel.refused = tracepoint;
  kernel.error = error;
  int status = programs_load(&programs, state0_polls, why);
  if (status == -ENOSYS) {
    print_message("skipped: %s\n", why);
    skip();
  }
  return status;
}

static bool was_attached(const char *tracepoint) {
  char line[64];
  snprintf(line, sizeof line, "attach %s\n", tracepoint);
  return strstr(kernel.said, line) != NULL;
}

static bool ends_with(const char *text, const char *end) {
  return strlen(text) >= strlen(end) &&
         strcmp(text + strlen(text) - strlen(end), end) == 0;
}

TEST(halts_begin_after_all_that_ends_them_is_attached) {
  for (int polls = 0; polls < 2; polls++) {
    assert_int_equal(load_without(NULL, 0, polls), 0);
    assert_true(ends_with(kernel.said, "attach softirq_entry\n"
                                       "attach irq_handler_entry\n"
                                       "attach cpu_idle\n"));
    int last = kernel.programs_len - 1;
    assert_int_equal(kernel.programs[last],
                     polls ? ON_IDLE_FD : ON_IDLE_WITHOUT_POLL_FD);
    for (int i = 0; i < last; i++)
      assert_int_equal(kernel.programs[i], ON_INTERRUPT_FD);
    assert_int_equal(programs.map, IDLE_MAP_FD);
    assert_int_equal(programs.start, ON_START_FD);
    assert_int_equal(programs.links[0], LINK_FD + last);
  }
}

TEST(hrtimers_end_halts_where_the_timer_is_not_known_to_have_a_tracepoint) {
  static const struct {
    const char *timer;
    bool known;
  } cases[] = {{"lapic\n", true},
               {"lapic-deadline\n", true},
               {"arch_sys_timer\n", true},
               {"Hyper-V clockevent\n", false},
               {"", false},
               {NULL, false}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    timer.name = cases[i].timer;
    assert_int_equal(load_without(NULL, 0, true), 0);
    assert_int_equal(was_attached("hrtimer_expire_entry"), !cases[i].known);
    if (timer.name != NULL)
      assert_int_equal(fcntl(timer.fd, F_GETFD), -1);
  }
}

TEST(a_clock_without_a_tracepoint_that_it_needs_is_not_loaded) {
  static const char *const needed[] = {"cpu_idle", "irq_handler_entry",
                                       "softirq_entry"};
  for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++) {
    assert_int_equal(load_without(needed[i], ENOENT, true), -ENOENT);
    assert_non_null(strstr(why, needed[i]));
    assert_int_equal(programs.map, -1);
  }
}

#ifdef __x86_64__
TEST(a_kind_of_interrupt_without_tracepoints_keeps_no_clock_from_running) {
  assert_int_equal(load_without("reschedule_entry", ENOENT, true), 0);
  assert_true(was_attached("local_timer_entry"));
  assert_int_equal(load_without("reschedule_entry", EPERM, true), -EPERM);
}

#endif

TEST(programs_that_may_not_be_loaded_are_explained) {
  kernel.unprivileged = true;
  assert_true(programs_load(&programs, true, why) < 0);
  assert_string_equal(kernel.said, "");
  if (strstr(why, "built without") == NULL)
    assert_non_null(strstr(why, "CAP_BPF and CAP_PERFMON"));
  assert_int_equal(load_without("run", EPERM, true), -EPERM);
  assert_non_null(strstr(why, "seccomp"));
}

/* ---------------------------------------------------------------------------
 * Opening
 */

TEST(a_pinned_clock_is_opened_for_reading_only) {
  assert_int_equal(programs_open(&programs, why), 0);
  assert_true(programs.pinned);
  assert_int_equal(programs.map, MAP_FD);
  assert_int_equal(programs.start, -1);
  assert_int_equal(kernel.attr.file_flags, BPF_F_RDONLY);
  assert_string_equal(kernel.said, "get " MAP_PIN "\n");
  assert_int_equal(read_words(), 0);
}

TEST(without_a_bpffs_no_clock_is_pinned) {
  kernel.mounted = false;
  assert_int_equal(programs_open(&programs, why), -ENOENT);
  assert_non_null(strstr(why, "no bpffs"));
  *find(IDLE_CLOCK_PINS) = (struct file){0};
  assert_int_equal(programs_open(&programs, why), -ENOENT);
  assert_non_null(strstr(why, "No such file"));
  assert_string_equal(kernel.said, "");
}

TEST(a_clock_that_others_may_have_pinned_is_not_used) {
  static const struct {
    uid_t uid;
    mode_t mode;
  } others[] = {{1000, 0600}, {0, 0620}, {0, 0602}};
  const char *const paths[] = {"", "cpu_idle", "irq_handler_entry",
                               "softirq_entry", MAP_PIN};
  for (int i = 0; i < 5; i++)
    for (int j = 0; j < 3; j++) {
      setup();
      const char *path = i == 0 ? IDLE_CLOCK_PINS : in_folder(paths[i]);
      find(path)->uid = others[j].uid;
      find(path)->mode = others[j].mode;
      assert_int_equal(programs_open(&programs, why), -EPERM);
      assert_non_null(strstr(why, path));
      assert_int_equal(programs.map, -1);
    }
}

TEST(a_clock_that_was_pinned_only_in_part_is_not_used) {
  for (int i = 0; i < 3; i++) {
    setup();
    *find(in_folder(required[i])) = (struct file){0};
    assert_int_equal(programs_open(&programs, why), -ENOLINK);
    assert_non_null(strstr(why, required[i]));
  }
  setup();
  *find(in_folder(MAP_PIN)) = (struct file){0};
  assert_int_equal(programs_open(&programs, why), -ENOENT);
}

TEST(a_map_that_cannot_be_opened_is_explained) {
  kernel.refused = in_folder(MAP_PIN);
  kernel.error = EPERM;
  assert_int_equal(programs_open(&programs, why), -EPERM);
  assert_non_null(strstr(why, "CAP_BPF"));
  kernel.error = ENOMEM;
  assert_int_equal(programs_open(&programs, why), -ENOMEM);
  assert_null(strstr(why, "CAP_BPF"));
  assert_false(programs.pinned);
}

/* ---------------------------------------------------------------------------
 * Pinning
 */

/* Loads a clock without the hook of hrtimers. */
static void load(void) {
  memset(&kernel, 0, sizeof kernel);
  programs_init(&programs);
  programs.map = MAP_FD;
  for (int i = 0; i < 3; i++)
    programs.links[i] = MAP_FD + 1 + i;
}

/* Whoever reads the pin cpu_idle finds the others. */
TEST(the_pin_of_halts_comes_last_and_goes_first) {
  load();
  assert_int_equal(programs_pin(&programs, why), 0);
  assert_string_equal(kernel.said, "mkdir percore-clock\n"
                                   "mount percore-clock\n"
                                   "pin " MAP_PIN "\n"
                                   "chmod " MAP_PIN "\n"
                                   "pin softirq_entry\n"
                                   "pin irq_handler_entry\n"
                                   "pin cpu_idle\n");
  assert_int_equal(find(IDLE_CLOCK_PINS)->mode, 0755);
  assert_int_equal(find(in_folder(MAP_PIN))->mode, 0444);
  assert_int_equal(kernel.attr.bpf_fd, MAP_FD + 1);
  assert_int_equal(programs_open(&programs, why), 0);
  kernel.said[0] = '\0';
  assert_int_equal(programs_unpin(why), 0);
  assert_int_equal(strncmp(kernel.said, "unlink cpu_idle\n", 16), 0);
  assert_non_null(strstr(kernel.said, "unlink softirq_entry\n"));
  assert_false(kernel.mounted);
}

TEST(a_clock_that_cannot_be_pinned_leaves_no_pin) {
  static const char *const steps[] = {"mkdir", "mount", "chmod", "pin"};
  for (int i = 0; i < 4; i++)
    for (int error = EPERM; error <= ENOENT; error++) {
      load();
      kernel.refused = steps[i];
      kernel.error = error;
      assert_int_equal(programs_pin(&programs, why), -error);
      assert_false(kernel.mounted);
      assert_null(find(in_folder("cpu_idle")));
      assert_int_equal(strstr(why, "root") != NULL, error == EPERM);
    }
  load();
  kernel.refused = in_folder("irq_handler_entry");
  kernel.error = ENOMEM;
  assert_int_equal(programs_pin(&programs, why), -ENOMEM);
  assert_false(kernel.mounted);
  assert_null(find(in_folder("cpu_idle")));
}

TEST(nothing_is_mounted_on_the_directory_of_a_user) {
  load();
  make(IDLE_CLOCK_PINS)->uid = 1000;
  assert_int_equal(programs_pin(&programs, why), -EPERM);
  find(IDLE_CLOCK_PINS)->uid = 0;
  assert_int_equal(programs_pin(&programs, why), 0);
}

TEST(what_is_not_pinned_is_not_unpinned) {
  kernel.mounted = false;
  assert_int_equal(programs_unpin(why), -ENOENT);
  assert_string_equal(kernel.said, "");
}

TEST(a_pin_that_cannot_be_removed_is_named) {
  kernel.refused = in_folder("softirq_entry");
  kernel.error = EBUSY;
  assert_int_equal(programs_unpin(why), -EBUSY);
  assert_non_null(strstr(why, "softirq_entry"));
  assert_true(kernel.mounted);
  setup();
  kernel.refused = "umount";
  kernel.error = EACCES;
  assert_int_equal(programs_unpin(why), -EACCES);
  assert_non_null(strstr(why, "run as root"));
}

/* ---------------------------------------------------------------------------
 * Reading
 */

TEST(a_clock_whose_pin_is_gone_or_another_no_longer_runs) {
  assert_int_equal(programs_open(&programs, why), 0);
  *find(in_folder("cpu_idle")) = (struct file){0};
  assert_int_equal(read_words(), -ENOLINK);
  make(in_folder("cpu_idle"));
  assert_int_equal(read_words(), -ENOLINK);
  programs.pinned = false; /* its programs are those of this process */
  assert_int_equal(read_words(), 0);
}

TEST(words_of_more_or_fewer_cores_are_not_used) {
  assert_int_equal(programs_open(&programs, why), 0);
  for (int len = 0; len <= CORES + 1; len++) {
    kernel.words_len = len;
    assert_int_equal(read_words(), len == CORES ? 0 : -EINVAL);
  }
  kernel.refused = "lookup";
  kernel.error = EPERM;
  assert_int_equal(read_words(), -EPERM);
}

TEST(a_core_is_started_unless_the_clock_is_pinned) {
  programs_init(&programs);
  assert_int_equal(programs_calls.start(&programs, 3), -EOPNOTSUPP);
  programs.start = 0;
  assert_int_equal(programs_calls.start(&programs, 3), 0);
  assert_int_equal(kernel.attr.test.cpu, 3);
  assert_int_equal(kernel.attr.test.flags, BPF_F_TEST_RUN_ON_CPU);
  kernel.refused = "run";
  kernel.error = ENXIO;
  assert_int_equal(programs_calls.start(&programs, 3), -ENXIO);
}

TEST(a_closed_clock_has_no_descriptor) {
  int fds[3];
  programs_init(&programs);
  for (int i = 0; i < 3; i++)
    fds[i] = open("/dev/null", O_RDONLY);
  assert_true(fds[2] >= 0);
  programs.map = fds[0];
  programs.start = fds[1];
  programs.links[PROGRAMS_LINKS_MAX - 1] = fds[2];
  programs_calls.close(&programs);
  for (int i = 0; i < 3; i++)
    assert_int_equal(fcntl(fds[i], F_GETFD), -1);
  assert_int_equal(programs.map, -1);
  assert_int_equal(programs.start, -1);
  for (int i = 0; i < PROGRAMS_LINKS_MAX; i++)
    assert_int_equal(programs.links[i], -1);
}

const struct unit_fixtures unit_fixtures = {.before_each = setup};
