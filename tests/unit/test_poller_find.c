/* Tests which programs that poll are found and asked. They are children of this
 * process. */
#include "poller/poller.h"
#include "region_unit.h"
#include "unit.h"

#include <grp.h>
#include <limits.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static struct pollers *pollers;
static char directory[32];
static pid_t child;

/* What a program does before it listens. */
struct habits {
  const char *name, *socket; /* of its thread; in the directory */
  void (*prepare)(void);
};

static const struct habits open_vswitch = {.name = "ovs-vswitchd",
                                           .socket = "ovs-vswitchd.1.ctl"};
static const struct habits dpdk = {.name = "dpdk-telemet-v2",
                                   .socket = "dpdk_telemetry.v2:1"};

static void listen_at(const char *name, int type) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  snprintf(address.sun_path, sizeof(address.sun_path), "%s/%s", directory,
           name);
  int fd = socket(AF_UNIX, type, 0);
  if (bind(fd, (void *)&address, sizeof(address)) != 0 || listen(fd, 1) != 0)
    _exit(1);
}

static int ready[2], go[2];

static void await(int fd) {
  char byte;
  assert_int_equal(read(fd, &byte, 1), 1);
}

static void start(const struct habits *habits) {
  assert_return_code(pipe(ready), errno);
  assert_return_code(pipe(go), errno);
  child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NAME, habits->name);
    if (habits->prepare != NULL)
      habits->prepare();
    /* As many sockets as it has, that of Open vSwitch among them. */
    listen_at("other.sock", SOCK_STREAM);
    if (habits->socket != NULL)
      listen_at(habits->socket, habits == &dpdk ? SOCK_SEQPACKET : SOCK_STREAM);
    (void)!write(ready[1], "", 1);
    await(go[0]);
    prctl(PR_SET_NAME, "ovs-vswitchd");
    (void)!write(ready[1], "", 1);
    pause();
  }
  await(ready[0]);
}

static void begin(void) {
  unit_make_runtime_dir();
  strcpy(directory, "/tmp/percore-unit-XXXXXX");
  assert_non_null(mkdtemp(directory));
  chmod(directory, 0755);
  pollers = calloc(1, sizeof(*pollers));
  pollers->options.wanted[POLLER_DPDK] = true;
  pollers->options.wanted[POLLER_OVS] = true;
}

static void end(void) {
  static const char *const sockets[] = {"other.sock", "ovs-vswitchd.1.ctl",
                                        "dpdk_telemetry.v2:1"};
  char path[128];
  pollers_close(pollers);
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
  for (int i = 0; i < 2; i++) {
    close(ready[i]);
    close(go[i]);
  }
  for (size_t i = 0; i < COUNT_OF(sockets); i++) {
    snprintf(path, sizeof(path), "%s/%s", directory, sockets[i]);
    unlink(path);
  }
  rmdir(directory);
  unit_remove_runtime_dir();
}

const struct unit_fixtures unit_fixtures = {.before_each = begin,
                                            .after_each = end};

/* Programs that happen to run on this machine are passed over. */
static struct poller_server *find(void) {
  pollers_find(pollers);
  for (size_t i = 0; i < pollers->len; i++)
    if (pollers->servers[i]->pid == child)
      return pollers->servers[i];
  return NULL;
}

/* Returns why the program cannot be asked; NULL: a connection was made. */
static const char *try(const struct habits *habits) {
  start(habits);
  struct poller_server *server = find();
  assert_non_null(server);
  return poller_connect(server, habits == &dpdk ? SOCK_SEQPACKET : SOCK_STREAM);
}

TEST(open_vswitch_is_found_by_the_name_of_its_thread_and_its_socket) {
  assert_null(try(&open_vswitch));
  assert_int_equal(find()->dialect, POLLER_OVS);
  assert_string_equal(find()->name, "ovs-vswitchd");
  assert_non_null(strstr(find()->path, "/ovs-vswitchd.1.ctl"));
}

TEST(dpdk_is_found_by_the_name_of_its_thread_and_its_socket) {
  assert_null(try(&dpdk));
  assert_int_equal(find()->dialect, POLLER_DPDK);
}

TEST(a_program_is_found_once) {
  start(&open_vswitch);
  struct poller_server *server = find();
  assert_ptr_equal(find(), server);
  assert_ptr_equal(find(), server);
}

TEST(a_program_that_starts_after_many_looks_is_found) {
  for (int i = 0; i < 3 * POLLER_LOOKS; i++)
    pollers_find(pollers);
  start(&open_vswitch);
  assert_non_null(find());
}

TEST(a_program_is_looked_at_while_it_starts) {
  static const struct habits slow = {"starting", "ovs-vswitchd.1.ctl", NULL};
  for (int i = 0; i < 3 * POLLER_LOOKS; i++)
    pollers_find(pollers);
  start(&slow);
  for (int i = 0; i < POLLER_LOOKS - 1; i++)
    assert_null(find());
  (void)!write(go[1], "", 1);
  await(ready[0]);
  assert_non_null(find());
}

TEST(a_process_that_becomes_a_poller_late_is_found_within_an_hour) {
  static const struct habits slow = {"starting", "ovs-vswitchd.1.ctl", NULL};
  start(&slow);
  for (int i = 0; i < 3 * POLLER_LOOKS; i++)
    assert_null(find());
  (void)!write(go[1], "", 1);
  await(ready[0]);
  struct poller_server *server = NULL;
  for (int i = 0; server == NULL && i < POLLER_LOOKS_TO_ALL; i++)
    server = find();
  assert_non_null(server);
}

TEST(numbers_of_processes_may_begin_again) {
  for (int i = 0; i < 3 * POLLER_LOOKS; i++)
    pollers_find(pollers);
  for (int i = 0; i < POLLER_LOOKS; i++)
    pollers->seen[i].pid = INT_MAX;
  start(&open_vswitch);
  assert_non_null(find());
}

TEST(a_program_that_is_not_wanted_is_not_found) {
  pollers->options.wanted[POLLER_OVS] = false;
  start(&open_vswitch);
  assert_null(find());
}

TEST(an_ignored_program_is_not_asked) {
  static const char *names[] = {"ovs-vswitchd"};
  pollers->options.ignored = (struct names){names, 1};
  assert_string_equal(try(&open_vswitch), "it is ignored");
}

static void open_region(void) {
  int fd = memfd_create("gtpu", 0);
  (void)!write(fd, "PERCORE1", 8);
}

TEST(a_program_that_publishes_a_region_is_not_asked) {
  static const struct habits habits = {"ovs-vswitchd", "ovs-vswitchd.1.ctl",
                                       open_region};
  assert_string_equal(try(&habits), "it publishes a region itself");
}

static void open_memory(void) { memfd_create("PERCORE1", 0); }

TEST(a_program_with_other_memory_is_asked) {
  static const struct habits habits = {"ovs-vswitchd", "ovs-vswitchd.1.ctl",
                                       open_memory};
  assert_null(try(&habits));
}

static void become_stranger(void) {
  chmod(directory, 0777);
  if (setresgid(65534, 65534, 65534) != 0 ||
      setresuid(65533, 65533, 65533) != 0)
    _exit(1);
}

TEST(a_user_outside_the_group_is_not_asked) {
  static const struct habits habits = {"ovs-vswitchd", "ovs-vswitchd.1.ctl",
                                       become_stranger};
  if (geteuid() != 0)
    skip();
  assert_non_null(strstr(try(&habits), "add it to the group percore"));
}

static void become_member(void) {
  gid_t member = 65000;
  chmod(directory, 0777);
  if (setgroups(1, &member) != 0 || setresgid(65534, 65534, 65534) != 0 ||
      setresuid(65533, 65533, 65533) != 0)
    _exit(1);
}

TEST(a_member_of_the_group_is_asked) {
  static const struct habits habits = {"ovs-vswitchd", "ovs-vswitchd.1.ctl",
                                       become_member};
  if (geteuid() != 0)
    skip();
  assert_return_code(chown(getenv("PERCORE_RUNTIME_DIR"), 0, 65000), errno);
  assert_null(try(&habits));
}

TEST(a_thread_with_the_name_but_without_a_socket_is_not_asked) {
  static const struct habits habits = {"ovs-vswitchd", NULL, NULL};
  assert_string_equal(try(&habits), "it has no socket");
}

static void enter_root(void) {
  if (chdir(directory) != 0 || mkdir("run", 0755) != 0 ||
      mkdir("var", 0755) != 0 || symlink("/run", "var/run") != 0 ||
      chroot(".") != 0)
    _exit(1);
  strcpy(directory, "/var/run");
}

/* As in a container: /var/run is a link to /run of its own root. */
TEST(a_program_with_another_root_is_asked) {
  static const struct habits habits = {"ovs-vswitchd", "ovs-vswitchd.1.ctl",
                                       enter_root};
  char command[128];
  if (geteuid() != 0)
    skip();
  assert_null(try(&habits));
  snprintf(command, sizeof(command), "rm -r %s/run %s/var", directory,
           directory);
  assert_int_equal(system(command), 0);
}
