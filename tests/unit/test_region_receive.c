/* Tests that the child which receives a region works beside what else a process
 * may do: wait for its own children, run out of descriptors or processes, and
 * run under a seccomp filter. */
#include "percore_config.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "region/view.h"
#include "region_unit.h"

/* Opens a reader of `unit` and refreshes it once. */
static struct region_reader *try_to_read(void) {
  struct region_reader_options options = {.hello_wait_ms = 60000};
  struct region_reader *reader;
  if (region_reader_open(&reader, "unit", NULL, &options) != 0)
    return NULL;
  region_reader_refresh(reader);
  return reader;
}

/* Runs an act in a child process, and asserts that it returns 0. */
static void in_child(int (*act)(void)) {
  int status;
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0)
    _exit(act());
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
}

TEST(the_child_can_be_started) { unit_need_receivers(); }

static atomic_bool ended;
static atomic_int stolen;

/* As collectd's exec plugin does. */
static void *wait_for_any_child(void *argument) {
  while (!ended)
    if (waitpid(-1, NULL, WNOHANG) > 0)
      stolen++;
  return argument;
}

REGION_TEST(a_thread_that_waits_for_any_child_takes_none) {
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, wait_for_any_child, NULL), 0);
  for (int i = 0; i < 50; i++) {
    struct region_reader *reader = try_to_read();
    assert_int_equal(region_reader_presence(reader), REGION_ALIVE);
    region_reader_close(reader);
  }
  ended = true;
  pthread_join(thread, NULL);
  assert_int_equal(stolen, 0);
}

static atomic_int signals;
static void count_signal(int number) {
  (void)number;
  signals++;
}

REGION_TEST(the_end_of_the_child_sends_no_signal) {
  struct sigaction act = {.sa_handler = count_signal}, before;
  assert_int_equal(sigaction(SIGCHLD, &act, &before), 0);
  struct region_reader *reader = unit_connect();
  region_reader_close(reader);
  assert_int_equal(sigaction(SIGCHLD, &before, NULL), 0);
  assert_int_equal(signals, 0);
}

/* Refreshes a reader with a limit on descriptors that is one too low, for each
 * number of descriptors that receiving takes, and then without a limit. */
static int read_with_few_descriptors(void) {
  struct rlimit all, few;
  struct region_reader_options options = {.hello_wait_ms = 60000};
  struct region_reader *reader;
  if (getrlimit(RLIMIT_NOFILE, &all) != 0 ||
      region_reader_open(&reader, "unit", NULL, &options) != 0)
    return 1;
  int first = dup(0);
  close(first);
  few = all;
  for (int free_fds = 0; free_fds < 6; free_fds++) {
    few.rlim_cur = (rlim_t)(first + free_fds);
    setrlimit(RLIMIT_NOFILE, &few);
    region_reader_refresh(reader);
    if (region_reader_directory(reader) == NULL &&
        region_reader_errno(reader) != EMFILE)
      return 2;
  }
  setrlimit(RLIMIT_NOFILE, &all);
  region_reader_refresh(reader);
  int status = region_reader_presence(reader) == REGION_ALIVE ? 0 : 3;
  region_reader_close(reader);
  int last = dup(0);
  return status != 0 ? status : last == first ? 0 : 4;
}

REGION_TEST(too_few_descriptors_are_reported_and_leak_none) {
  in_child(read_with_few_descriptors);
}

static int read_without_processes(void) {
  struct rlimit none, all;
  const char *path = getenv("PERCORE_RUNTIME_DIR");
  char socket[128];
  snprintf(socket, sizeof(socket), "%s/unit.sock", path);
  if (getrlimit(RLIMIT_NPROC, &all) != 0)
    return 1;
  none = all;
  none.rlim_cur = 0;
  if (chmod(path, 0755) != 0 || chmod(socket, 0666) != 0 ||
      setuid(65534) != 0 || setrlimit(RLIMIT_NPROC, &none) != 0)
    return 1;
  struct region_reader *reader = try_to_read();
  if (reader == NULL || region_reader_errno(reader) != EAGAIN ||
      strstr(region_reader_error(reader), "no process can be started") == NULL)
    return 2;
  if (setrlimit(RLIMIT_NPROC, &all) != 0)
    return 3;
  region_reader_refresh(reader);
  return region_reader_presence(reader) == REGION_ALIVE ? 0 : 4;
}

REGION_TEST(a_limit_on_processes_is_reported_and_can_be_lifted) {
  if (geteuid() != 0) {
    print_message("skipped: needs root, to become a user without processes\n");
    skip();
  }
  in_child(read_without_processes);
}

/* Calls that systemd's set @system-service lacks kill the process. */
static void forbid(const int *calls, size_t count) {
  struct sock_filter filter[64] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
  unsigned short n = 1;
  for (size_t i = 0; i < count; i++) {
    filter[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
                                               (unsigned)calls[i], 0, 1);
    filter[n++] =
        (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
  }
  filter[n++] =
      (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  struct sock_fprog program = {.len = n, .filter = filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    _exit(2);
}

static int read_under_a_filter(void) {
  static const int calls[] = {SYS_mincore, SYS_mbind,   SYS_ptrace,
                              SYS_bpf,     SYS_unshare, SYS_setns,
                              SYS_mount,   SYS_chroot,  SYS_process_vm_readv};
  struct region_tile tile;
  forbid(calls, COUNT_OF(calls));
  struct region_reader *reader = try_to_read();
  if (reader == NULL || region_reader_presence(reader) != REGION_ALIVE ||
      region_tile_init(&tile, reader, PORT + 1, 4, REGION_WANT_CORES) != 0)
    return 1;
  region_tile_read(reader, &tile, 1);
  bool read = tile.rows == 1 && tile.totals[PACKETS] == 7;
  region_tile_free(&tile);
  region_reader_close(reader);
  return read ? 0 : 2;
}

REGION_TEST(a_region_is_read_under_the_filter_of_a_system_service) {
  uint32_t row = unit_row(region, PORT, "eth0");
  percore_slot_t slot = unit_attach(region, 1);
  percore_add(percore_row(percore_table(slot, PORT), row), PACKETS, 7);
  in_child(read_under_a_filter);
}

const struct unit_fixtures unit_fixtures = {
    .before_each = unit_make_runtime_dir,
    .after_each = unit_remove_runtime_dir};
