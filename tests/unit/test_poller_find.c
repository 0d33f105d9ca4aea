/* Tests which programs that poll are found and asked. They are children of this
 * process. */
#include "poller/poller.h"
#include "region_unit.h"
#include "unit.h"

#include <grp.h>
#include <limits.h>
#include <pthread.h>
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
static bool shows_processes_alone; /* /proc, as if mounted with subset=pid */

/* What a program does before it listens. */
struct habits {
  const char *name, *socket; /* of its thread; in the directory */
  void (*prepare)(void);
  void (*later)(void); /* when it is told to go */
};

static const struct habits open_vswitch = {.name = "ovs-vswitchd",
                                           .socket = "ovs-vswitchd.1.ctl"};
static const struct habits dpdk = {.name = "dpdk-telemet-v2",
                                   .socket = "dpdk_telemetry.v2:1"};

static int listen_to(const char *path, int type) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
  memcpy(address.sun_path, path, strlen(path));
  if (bind(fd, (void *)&address, sizeof(address)) != 0 || listen(fd, 128) != 0)
    _exit(1);
  return fd;
}

static int listen_at(const char *name, int type) {
  char path[128];
  snprintf(path, sizeof(path), "%s/%s", directory, name);
  return listen_to(path, type);
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
    habits->later();
    (void)!write(ready[1], "", 1);
    pause();
  }
  await(ready[0]);
}

static void let_go(void) {
  (void)!write(go[1], "", 1);
  await(ready[0]);
}

static void begin(void) {
  shows_processes_alone = false;
  unit_make_runtime_dir();
  strcpy(directory, "/tmp/percore-unit-XXXXXX");
  assert_non_null(mkdtemp(directory));
  chmod(directory, 0755);
  pollers = calloc(1, sizeof(*pollers));
  pollers->options.wanted[POLLER_DPDK] = true;
  pollers->options.wanted[POLLER_OVS] = true;
}

static void end(void) {
  char command[64];
  pollers_close(pollers);
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
  for (int i = 0; i < 2; i++) {
    close(ready[i]);
    close(go[i]);
  }
  snprintf(command, sizeof(command), "rm -r %s", directory);
  assert_int_equal(system(command), 0);
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
  return poller_connect(server, 0);
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

static void *wait_on(void *argument) {
  pause();
  return argument;
}

static void use_dpdk(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, wait_on, NULL);
  pthread_setname_np(thread, "dpdk-telemet-v2");
}

TEST(open_vswitch_with_dpdk_is_not_asked_as_dpdk) {
  static const struct habits habits = {
      .name = "ovs-vswitchd", .socket = "ovs.ctl", .prepare = use_dpdk};
  size_t found = 0;
  assert_null(try(&habits));
  for (size_t i = 0; i < pollers->len; i++)
    found += pollers->servers[i]->pid == child;
  assert_int_equal(found, 1);
  assert_int_equal(find()->dialect, POLLER_OVS);
}

TEST(a_program_is_found_once) {
  start(&open_vswitch);
  struct poller_server *server = find();
  assert_ptr_equal(find(), server);
  assert_ptr_equal(find(), server);
}

static void change_name(void) { prctl(PR_SET_NAME, "other"); }

TEST(a_program_that_changes_its_name_stays_the_same_program) {
  static const struct habits habits = {
      .name = "ovs-vswitchd", .socket = "ovs.ctl", .later = change_name};
  start(&habits);
  struct poller_server *server = find();
  assert_null(poller_connect(server, 0));
  let_go();
  assert_ptr_equal(find(), server);
  assert_null(poller_connect(server, 61 * NS_PER_S));
}

TEST(a_program_that_starts_after_many_looks_is_found) {
  for (int i = 0; i < 3 * POLLER_LOOKS; i++)
    pollers_find(pollers);
  start(&open_vswitch);
  assert_non_null(find());
}

FILE *__real_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode) {
  if (!shows_processes_alone || strcmp(path, "/proc/loadavg") != 0)
    return __real_fopen(path, mode);
  errno = ENOENT;
  return NULL;
}

TEST(a_program_is_found_even_if_proc_shows_processes_alone) {
  shows_processes_alone = true;
  for (int i = 0; i < 3 * POLLER_LOOKS; i++)
    pollers_find(pollers);
  start(&open_vswitch);
  assert_non_null(find());
}

static void become_switch(void) { prctl(PR_SET_NAME, "ovs-vswitchd"); }

static const struct habits slow = {
    .name = "starting", .socket = "ovs-vswitchd.1.ctl", .later = become_switch};

TEST(a_program_is_looked_at_while_it_starts) {
  for (int i = 0; i < 3 * POLLER_LOOKS; i++)
    pollers_find(pollers);
  start(&slow);
  for (int i = 0; i < POLLER_LOOKS - 1; i++)
    assert_null(find());
  let_go();
  assert_non_null(find());
}

TEST(a_process_that_becomes_a_poller_late_is_found_within_four_hours) {
  start(&slow);
  for (int i = 0; i < 3 * POLLER_LOOKS; i++)
    assert_null(find());
  let_go();
  assert_null(find()); /* old processes are not looked at */
  struct poller_server *server = NULL;
  for (int i = 0; server == NULL && i < POLLER_LOOKS_TO_ALL; i++)
    server = find();
  assert_non_null(server);
}

TEST(numbers_of_processes_may_begin_again) {
  for (int i = 0; i < 3 * POLLER_LOOKS; i++)
    pollers_find(pollers);
  pollers->older.pid = INT_MAX;
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
                                       open_region, NULL};
  assert_string_equal(try(&habits), "it publishes a region itself");
}

TEST(a_program_that_begins_to_publish_a_region_is_asked_for_a_minute_at_most) {
  static const struct habits habits = {.name = "ovs-vswitchd",
                                       .socket = "ovs-vswitchd.1.ctl",
                                       .later = open_region};
  start(&habits);
  struct poller_server *server = find();
  assert_null(poller_connect(server, 0));
  let_go();
  const char *why = NULL;
  for (uint64_t s = 1; s <= 60 && why == NULL; s++)
    why = poller_connect(server, s * NS_PER_S);
  assert_string_equal(why, "it publishes a region itself");
}

static void open_memory(void) { memfd_create("PERCORE1", 0); }

TEST(a_program_with_other_memory_is_asked) {
  static const struct habits habits = {"ovs-vswitchd", "ovs-vswitchd.1.ctl",
                                       open_memory, NULL};
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
                                       become_stranger, NULL};
  if (geteuid() != 0)
    skip();
  assert_non_null(strstr(try(&habits), "add it to the group percore"));
}

TEST(users_outside_the_group_have_some_lines_of_the_log_and_no_more) {
  static const struct habits habits = {.name = "ovs-vswitchd",
                                       .prepare = become_stranger};
  if (geteuid() != 0)
    skip();
  pollers->strangers = POLLER_SERVERS_MAX / 2;
  start(&habits);
  assert_null(find());
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
                                       become_member, NULL};
  if (geteuid() != 0)
    skip();
  assert_return_code(chown(getenv("PERCORE_RUNTIME_DIR"), 0, 65000), errno);
  assert_null(try(&habits));
}

/* ---------------------------------------------------------------------------
 * Which socket is that of the program
 */

/* The path of a socket may contain anything, also what looks like a line of
 * /proc/net/unix. */
static unsigned long inode_of(const char *socket) {
  char path[64], line[256];
  unsigned long inode = 0;
  FILE *file = fopen("/proc/net/unix", "r");
  snprintf(path, sizeof(path), "%s/%s", directory, socket);
  while (fgets(line, sizeof(line), file) != NULL)
    if (strstr(line, path) != NULL)
      sscanf(line, "%*x: %*x %*x %*x %*x %*x %lu", &inode);
  fclose(file);
  assert_true(inode != 0);
  return inode;
}

enum { FORGED_MAX = 500 };
static int forged[FORGED_MAX], forgeries;

/* The line says that the program's socket, with this inode, is b.ctl. */
static void forge(unsigned long inode) {
  char path[128];
  snprintf(path, sizeof(path), "%d\n0: 2 0 00010000 0001 01 %5lu %s/b.ctl",
           forgeries, inode, directory);
  for (char *slash = path; (slash = strchr(slash, '/')) != NULL; slash++) {
    *slash = '\0';
    mkdir(path, 0755);
    *slash = '/';
  }
  forged[forgeries++] = listen_to(path, SOCK_STREAM);
}

/* Returns how often the program was inspected until it was asked. *tried: how
 * many connections the other program had after the first time. */
static unsigned connect_beside(int lines, int *tried) {
  struct poller_server *server;
  unsigned tries = 1;
  start(&open_vswitch);
  assert_return_code(chdir(directory), errno);
  unsigned long inode = inode_of("ovs-vswitchd.1.ctl");
  int stranger = listen_at("b.ctl", SOCK_STREAM | SOCK_NONBLOCK);
  for (forgeries = 0; forgeries < lines;)
    forge(inode);
  assert_non_null(server = find());
  bool is_asked = poller_connect(server, 0) == NULL;
  for (*tried = 0; accept(stranger, NULL, NULL) >= 0;)
    ++*tried;
  for (; !is_asked && tries < 100; tries++)
    is_asked = poller_connect(server, 0) == NULL;
  while (forgeries > 0)
    close(forged[--forgeries]);
  close(stranger);
  assert_return_code(chdir("/"), errno);
  assert_string_equal(strrchr(server->path, '/'), "/ovs-vswitchd.1.ctl");
  return tries;
}

TEST(forged_lines_of_other_sockets_do_not_hide_that_of_a_program) {
  int tried;
  assert_int_equal(connect_beside(30, &tried), 1);
}

/* The kernel leaves out a line now and then while other sockets end. */
TEST(hundreds_of_forged_lines_hide_a_socket_for_minutes) {
  int tried;
  assert_in_range(connect_beside(FORGED_MAX, &tried), 1, 99);
}

TEST(of_many_lines_that_look_like_its_own_some_are_tried_in_a_minute) {
  int tried;
  connect_beside(FORGED_MAX, &tried);
  assert_in_range(tried, 0, 32);
}

TEST(a_connection_is_kept_while_its_program_is_inspected) {
  assert_null(try(&dpdk));
  struct poller_server *server = find();
  int fd = server->fd;
  assert_null(poller_connect(server, 61 * NS_PER_S));
  assert_int_equal(server->fd, fd);
}

TEST(a_thread_with_the_name_but_without_a_socket_is_not_asked) {
  static const struct habits habits = {.name = "ovs-vswitchd"};
  assert_string_equal(try(&habits), "it has no socket");
}

static int lowest_descriptor(void) {
  int fd = dup(0);
  close(fd);
  return fd;
}

TEST(a_program_that_cannot_be_asked_takes_no_descriptor) {
  static const struct habits habits = {.name = "ovs-vswitchd"};
  start(&habits);
  struct poller_server *server = find();
  int lowest = lowest_descriptor();
  assert_non_null(poller_connect(server, 0));
  assert_int_equal(server->fd, -1);
  assert_int_equal(lowest_descriptor(), lowest);
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
                                       enter_root, NULL};
  if (geteuid() != 0)
    skip();
  assert_null(try(&habits));
}

/* Binds sockets whose path has as many bytes as fit in an address. */
static void use_a_long_path(void) {
  char path[109];
  memset(path, 'x', sizeof(path));
  memcpy(path, directory, strlen(directory));
  path[strlen(directory)] = '/';
  strcpy(path + 108 - strlen("/ovs.ctl"), "/ovs.ctl");
  *strrchr(path, '/') = '\0';
  mkdir(path, 0755);
  path[strlen(path)] = '/';
  listen_to(path, SOCK_STREAM);
}

TEST(a_program_is_asked_whose_path_fills_the_address) {
  static const struct habits habits = {.name = "ovs-vswitchd",
                                       .prepare = use_a_long_path};
  assert_null(try(&habits));
  assert_int_equal(strlen(find()->path), 108);
}

/* The directory of its socket becomes a link that leads out of its root. */
static void enter_root_with_a_link(void) {
  if (chdir(directory) != 0 || mkdir("root", 0755) != 0 ||
      mkdir("root/run", 0755) != 0 || chroot("root") != 0 || chdir("/") != 0)
    _exit(1);
  listen_to("/run/ovs-vswitchd.1.ctl", SOCK_STREAM);
  if (rename("/run", "/away") != 0 || symlink("..", "/run") != 0)
    _exit(1);
  directory[0] = '\0';
}

TEST(a_link_does_not_lead_out_of_the_root_of_a_program) {
  static const struct habits habits = {.name = "ovs-vswitchd",
                                       .prepare = enter_root_with_a_link};
  if (geteuid() != 0)
    skip();
  int outside = listen_at("ovs-vswitchd.1.ctl", SOCK_STREAM | SOCK_NONBLOCK);
  assert_non_null(try(&habits));
  assert_int_equal(accept(outside, NULL, NULL), -1);
  assert_int_equal(errno, EAGAIN);
  close(outside);
}
