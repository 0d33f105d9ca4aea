/* Tests which sockets are asked, and who is believed. Owners and modes of the
 * files below are those that a test gives them, and so is the user who listens.
 */
#include "poller/poller.h"
#include "region_unit.h"
#include "unit.h"

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { STRANGER = 4242 };

static struct pollers *pollers;
static char directory[32], path[PATH_MAX], pattern[64];
static char told[8192]; /* to the journal */
static int listener;

/* What the file system says of one path; all others are root's, mode 755. */
static struct {
  const char *path;
  uid_t uid;
  mode_t mode;
} played;
static long peer_uid; /* -1: that of this process */

int __wrap_fstatat(int fd, const char *name, struct stat *file, int flags);
int __real_fstatat(int fd, const char *name, struct stat *file, int flags);
int __wrap_fstatat(int fd, const char *name, struct stat *file, int flags) {
  int status = __real_fstatat(fd, name, file, flags);
  file->st_uid = 0;
  file->st_mode = (file->st_mode & S_IFMT) | 0755;
  if (played.path != NULL && strcmp(played.path, name) == 0) {
    file->st_uid = played.uid;
    file->st_mode = played.mode;
  }
  return status;
}

int __wrap_getsockopt(int fd, int level, int name, void *value,
                      socklen_t *size);
int __real_getsockopt(int fd, int level, int name, void *value,
                      socklen_t *size);
int __wrap_getsockopt(int fd, int level, int name, void *value,
                      socklen_t *size) {
  int status = __real_getsockopt(fd, level, name, value, size);
  if (name == SO_PEERCRED && peer_uid >= 0)
    ((struct ucred *)value)->uid = (uid_t)peer_uid;
  return status;
}

static void hear(void *context, enum journal_level level, const char *line) {
  (void)context;
  (void)level;
  snprintf(told + strlen(told), sizeof(told) - strlen(told), "%s\n", line);
}

static void listen_at(const char *name, int type) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  snprintf(address.sun_path, sizeof(address.sun_path), "%.30s/%.60s", directory,
           name);
  snprintf(path, sizeof(path), "%s", address.sun_path);
  listener = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
  assert_return_code(bind(listener, (void *)&address, sizeof(address)), errno);
  assert_return_code(listen(listener, 8), errno);
}

/* The option `Socket`. */
static void give(const char *name) {
  static const char *list[1];
  snprintf(pattern, sizeof(pattern), "%.30s/%.30s", directory, name);
  list[0] = pattern;
  pollers->options.sockets = (struct names){list, 1};
}

static void begin(void) {
  memset(&played, 0, sizeof(played));
  peer_uid = -1;
  told[0] = '\0';
  strcpy(directory, "/tmp/percore-unit-XXXXXX");
  assert_non_null(mkdtemp(directory));
  pollers = calloc(1, sizeof(*pollers));
  pollers->options.journal.write = hear;
  pollers->most = POLLER_SERVERS_MAX;
}

static void end(void) {
  char command[64];
  for (size_t i = 0; i < pollers->len; i++)
    pollers->servers[i]->is_found = false;
  pollers_sweep(pollers);
  free(pollers);
  close(listener);
  snprintf(command, sizeof(command), "rm -r %s", directory);
  assert_int_equal(system(command), 0);
}

const struct unit_fixtures unit_fixtures = {.before_each = begin,
                                            .after_each = end};

static struct poller_server *find(void) {
  pollers_find(pollers);
  return pollers->servers[0];
}

/* Finds the socket as if it were at a usual place. */
static struct poller_server *find_usual(void) {
  listen_at("ovs-vswitchd.1.ctl", SOCK_STREAM);
  give("*.ctl");
  struct poller_server *server = find();
  server->is_given = false;
  return server;
}

/* ---------------------------------------------------------------------------
 * Usual places
 */

TEST(a_socket_where_only_root_can_put_one_is_asked) {
  struct poller_server *server = find_usual();
  assert_true(poller_connect(server));
  assert_int_equal(server->peer.pid, getpid());
  assert_true(server->tasks >= 0);
}

TEST(a_socket_of_the_user_of_this_process_is_asked) {
  struct poller_server *server = find_usual();
  played.path = path;
  played.mode = S_IFSOCK | 0777;
  played.uid = geteuid();
  assert_true(poller_connect(server));
}

static void check_refused(const char *file, uid_t uid, mode_t mode) {
  struct poller_server *server = find_usual();
  played.path = file;
  played.uid = uid;
  played.mode = mode;
  assert_false(poller_connect(server));
  assert_int_equal(server->fd, -1);
  assert_non_null(strstr(server->why, file));
  assert_non_null(strstr(server->why, "others than root can change"));
  assert_non_null(strstr(server->why, "; name the socket in <Pollers>"));
}

TEST(a_socket_of_another_user_is_not_asked) {
  check_refused(path, STRANGER, S_IFSOCK | 0755);
}

TEST(a_socket_in_a_directory_of_another_user_is_not_asked) {
  check_refused(directory, STRANGER, S_IFDIR | 0755);
}

TEST(a_socket_below_a_directory_of_another_user_is_not_asked) {
  check_refused("/tmp", STRANGER, S_IFDIR | 0755);
}

TEST(a_socket_below_a_directory_to_which_a_group_may_write_is_not_asked) {
  check_refused("/tmp", 0, S_IFDIR | 0775);
}

TEST(a_socket_below_a_directory_to_which_all_may_write_is_not_asked) {
  check_refused("/", 0, S_IFDIR | 0757);
}

TEST(a_socket_in_a_sticky_directory_is_not_asked) {
  check_refused(directory, 0, S_IFDIR | 01777);
}

TEST(a_link_is_not_followed) { check_refused(directory, 0, S_IFLNK | 0777); }

/* ---------------------------------------------------------------------------
 * Given sockets
 */

TEST(a_given_socket_is_believed_wherever_it_is) {
  struct poller_server *server = find_usual();
  server->is_given = true;
  played.path = directory;
  played.uid = STRANGER;
  played.mode = S_IFDIR | 01777;
  assert_true(poller_connect(server));
}

TEST(a_given_path_may_be_longer_than_an_address) {
  char folder[256], command[1024];
  memset(folder, 'x', 200);
  folder[200] = '\0';
  listen_at("dpdk_telemetry.v2", SOCK_SEQPACKET);
  snprintf(command, sizeof(command), "cd %s && mkdir %s && mv *.v2 %s",
           directory, folder, folder);
  assert_int_equal(system(command), 0);
  give("*/dpdk_telemetry.v2");
  assert_true(strlen(find()->path) > 200);
  assert_true(poller_connect(pollers->servers[0]));
}

TEST(the_user_who_listens_must_be_root_or_the_sockets_owner) {
  struct poller_server *server = find_usual();
  server->is_given = true;
  peer_uid = STRANGER;
  assert_false(poller_connect(server));
  assert_non_null(strstr(server->why, "; run the program as that user"));
  peer_uid = 0;
  assert_true(poller_connect(server));
  close(server->fd);
  server->fd = -1;
  peer_uid = STRANGER;
  if (geteuid() == 0) { /* may give files away */
    assert_return_code(chown(path, STRANGER, 0), errno);
    assert_true(poller_connect(server));
  }
}

/* ---------------------------------------------------------------------------
 * Patterns
 */

static void touch(const char *format, int number) {
  char name[128];
  snprintf(name, sizeof(name), "%s/", directory);
  snprintf(name + strlen(name), 64, format, number);
  fclose(fopen(name, "w"));
}

TEST(new_sockets_of_a_pattern_are_found_and_old_ones_forgotten) {
  give("*.v2");
  find();
  assert_int_equal(pollers->len, 1); /* the pattern, which nothing matches */
  assert_string_equal(pollers->servers[0]->path, pattern);
  touch("%d.v2", 1);
  touch("%d.v2", 2);
  find();
  assert_int_equal(pollers->len, 2);
  const struct poller_server *second = pollers->servers[1];
  snprintf(path, sizeof(path), "%.30s/1.v2", directory);
  unlink(path);
  assert_ptr_equal(find(), second);
  assert_int_equal(pollers->len, 1);
}

TEST(the_end_of_a_name_says_what_is_asked) {
  give("*");
  touch("ovs-vswitchd.%d.ctl", 1);
  touch("z_dpdk_telemetry.v2:%d", 1);
  find();
  assert_false(pollers->servers[0]->is_dpdk);
  assert_true(pollers->servers[1]->is_dpdk);
}

TEST(of_many_sockets_64_are_asked_and_this_is_told_once) {
  give("*.v2");
  for (int i = 0; i < 70; i++)
    touch("%d.v2", i);
  find();
  find();
  assert_int_equal(pollers->len, 64);
  const char *line = strstr(told, "64 sockets are asked, and no more");
  assert_non_null(line);
  assert_null(strstr(line + 1, "64 sockets"));
}

TEST(no_more_than_a_quarter_of_the_descriptors_that_are_left_is_used) {
  struct rlimit before, few = {.rlim_cur = 160, .rlim_max = 160};
  give("*.v2");
  for (int i = 0; i < 70; i++)
    touch("%d.v2", i);
  assert_return_code(getrlimit(RLIMIT_NOFILE, &before), errno);
  few.rlim_max = before.rlim_max;
  assert_return_code(setrlimit(RLIMIT_NOFILE, &few), errno);
  struct pollers *others;
  pollers->options.wanted = true;
  assert_int_equal(pollers_start(&others, &pollers->options), 0);
  pollers_close(others);
  setrlimit(RLIMIT_NOFILE, &before);
  unsigned asked = 0;
  assert_int_equal(sscanf(told, "pollers: %u sockets", &asked), 1);
  assert_in_range(asked, 8, 160 / 8); /* two for each */
}
