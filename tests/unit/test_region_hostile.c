/* Tests hostile producers: files in the runtime directory, and messages over
 * the socket. The state of each test is the receiver (region/receiver.h) that
 * its readers use. */
#include "percore_config.h"

#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "region/connection.h"
#include "region/message.h"
#include "region/receive.h"
#include "region/writer.h"
#include "region_unit.h"

static int listen_as_unit(void) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  snprintf(address.sun_path, sizeof(address.sun_path), "%s/unit.sock",
           getenv("PERCORE_RUNTIME_DIR"));
  unlink(address.sun_path);
  int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  assert_return_code(bind(fd, (void *)&address, sizeof(address)), errno);
  assert_return_code(listen(fd, 4), errno);
  return fd;
}

/* The largest number of descriptors that the kernel passes in one message. */
enum { MOST_PASSED = 253 };

/* Sends a HELLO with `copies` copies of the descriptor `passed`. Returns false
 * if the message cannot be sent. */
static bool try_hello(int fd, int passed, int copies) {
  struct region_message hello = {.magic = REGION_MESSAGE_MAGIC,
                                 .version = REGION_MESSAGE_VERSION,
                                 .type = REGION_HELLO,
                                 .length = sizeof(hello)};
  struct iovec part = {&hello, sizeof(hello)};
  char control[CMSG_SPACE(MOST_PASSED * sizeof(int))] = {0};
  struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
  if (copies > 0) {
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE((size_t)copies * sizeof(int));
    struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN((size_t)copies * sizeof(int));
    for (int i = 0; i < copies; i++)
      memcpy(CMSG_DATA(rights) + (size_t)i * sizeof(int), &passed, sizeof(int));
  }
  return sendmsg(fd, &header, MSG_NOSIGNAL) == sizeof(hello);
}

static void send_hello(int fd, int passed, int copies) {
  assert_true(try_hello(fd, passed, copies));
}

/* Answers one connection. */
static void say_hello(int listener, int passed, int copies) {
  int fd = accept(listener, NULL, NULL);
  assert_true(fd >= 0);
  send_hello(fd, passed, copies);
  close(fd);
}

static int sealed_memory(const char *text, size_t size, int seals) {
  int fd = memfd_create("unit", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  assert_return_code(ftruncate(fd, (off_t)size), errno);
  assert_true(pwrite(fd, text, strlen(text), 0) >= 0);
  if (seals != 0)
    assert_return_code(fcntl(fd, F_ADD_SEALS, seals), errno);
  return fd;
}

static unsigned count_descriptors(void) {
  unsigned count = 0;
  for (int fd = 0; fd < 1024; fd++)
    count += fcntl(fd, F_GETFD) >= 0;
  return count;
}

/* Accepts all pending connections and sends HELLO on each. If a connection is a
 * probe, sending fails, which is ignored. */
static void greet_all(int listener, int passed, int copies) {
  struct pollfd ready = {.fd = listener, .events = POLLIN};
  while (poll(&ready, 1, 0) > 0) {
    int fd = accept(listener, NULL, NULL);
    assert_true(fd >= 0);
    (void)try_hello(fd, passed, copies);
    close(fd);
  }
}

/* Refreshes a reader until it accepts or refuses its producer. Returns the
 * event. */
static enum region_event meet(struct region_reader *reader, int listener,
                              int passed, int copies) {
  for (;;) {
    enum region_event event = region_reader_refresh(reader);
    int error = region_reader_errno(reader);
    /* EBUSY: receiving processes of earlier tests have not exited yet */
    if (event != REGION_AS_BEFORE || (error != ETIMEDOUT && error != EBUSY))
      return event;
    greet_all(listener, passed, copies);
  }
}

TEST(memory_that_is_not_a_region_is_refused_with_a_reason) {
  enum { ALL = F_SEAL_SHRINK | F_SEAL_GROW | 0x10 | F_SEAL_SEAL };
  static const struct {
    const char *text;
    size_t size;
    int seals, copies;
    const char *why;
  } cases[] = {
      {"", 4096, ALL, 0, "carries no memory"},
      {"PERCORE1", 4096, 0, 1, "not a sealed memfd"},
      {"PERCORE1", 4096, F_SEAL_SHRINK | F_SEAL_GROW, 1, "not a sealed memfd"},
      {"", 0, ALL, 1, "too short"},
      {"PERCORE1", 100, ALL, 1, "too short"},
      {"VARNISH4", 4096, ALL, 1, "bad magic"},
      {"PERCORE1", 4096, ALL, 1, "byte order"},
      {"PERCORE1", 4096, ALL, 2, "more than HELLO"},
      {"PERCORE1", 4096, ALL, MOST_PASSED, "more than HELLO"},
      {"PERCORE1", 4096, 0, MOST_PASSED, "more than HELLO"},
      {"", (size_t)1 << 40, ALL, 1, "bad magic"},
  };
  struct region_reader_options options = {.hello_wait_ms = 1};
  struct region_reader *reader;
  int listener = listen_as_unit();
  assert_return_code(region_reader_open(&reader, "unit", NULL, &options), 0);
  unsigned before = count_descriptors();
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    int fd = sealed_memory(cases[i].text, cases[i].size, cases[i].seals);
    assert_int_equal(meet(reader, listener, fd, cases[i].copies),
                     REGION_AS_BEFORE);
    close(fd);
    if (strstr(region_reader_error(reader), cases[i].why) == NULL)
      fail_msg("\"%s\" has no \"%s\"", region_reader_error(reader),
               cases[i].why);
    assert_int_equal(region_reader_errno(reader), EPROTO);
    assert_int_equal(count_descriptors(), before);
  }
  region_reader_close(reader);
  close(listener);
}

int __real_poll(struct pollfd *fds, nfds_t count, int wait_ms);
int __wrap_poll(struct pollfd *fds, nfds_t count, int wait_ms);

/* If not NULL: waits end at once without an event, and their times are added.
 */
static int *waited_ms;

int __wrap_poll(struct pollfd *fds, nfds_t count, int wait_ms) {
  if (waited_ms == NULL || wait_ms == 0)
    return __real_poll(fds, count, wait_ms);
  *waited_ms += wait_ms;
  return 0;
}

TEST(a_producer_that_does_not_answer_is_waited_for_once) {
  struct region_reader_options options = {.hello_wait_ms = 60000};
  struct region_reader *reader;
  int listener = listen_as_unit(), sum_ms = 0;
  assert_return_code(region_reader_open(&reader, "unit", NULL, &options), 0);
  waited_ms = &sum_ms;
  for (int i = 0; i < 3; i++) {
    assert_int_equal(region_reader_refresh(reader), REGION_AS_BEFORE);
    assert_int_equal(region_reader_errno(reader), ETIMEDOUT);
  }
  waited_ms = NULL;
  assert_int_equal(sum_ms, options.hello_wait_ms);
  region_reader_close(reader);
  close(listener);
}

TEST(readers_connect_only_to_sockets) {
  char path[128], link[128];
  const char *dir = getenv("PERCORE_RUNTIME_DIR");
  UNIT_REGION(region, PERCORE_SERVE_THREAD);
  struct region_reader *reader;
  assert_return_code(region_reader_open(&reader, "odd", NULL, NULL), 0);
  snprintf(path, sizeof(path), "%s/odd.sock", dir);
  snprintf(link, sizeof(link), "%s/unit.sock", dir);
  for (int kind = 0; kind < 4; kind++) {
    if (kind == 0)
      assert_return_code(mkfifo(path, 0600), errno);
    else if (kind == 1)
      assert_return_code(mkdir(path, 0700), errno);
    else if (kind == 2)
      assert_return_code(symlink(link, path), errno);
    else
      close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    assert_int_equal(region_reader_refresh(reader), REGION_AS_BEFORE);
    assert_int_equal(region_reader_errno(reader), ENOTSOCK);
    assert_return_code(remove(path), errno);
  }
  region_reader_close(reader);
}

TEST(a_region_whose_name_differs_from_its_socket_is_refused) {
  static const char *const files[] = {"other.sock", "unit@a.sock"};
  char path[128], other[128];
  const char *dir = getenv("PERCORE_RUNTIME_DIR");
  snprintf(path, sizeof(path), "%s/unit.sock", dir);
  UNIT_REGION(region, PERCORE_SERVE_THREAD);
  for (int i = 0; i < 2; i++) {
    struct region_reader_options options = {.hello_wait_ms = 60000};
    struct region_reader *reader;
    snprintf(other, sizeof(other), "%s/%s", dir, files[i]);
    assert_return_code(link(path, other), errno);
    assert_return_code(region_reader_open(&reader, i == 0 ? "other" : "unit",
                                          i == 0 ? NULL : "a", &options),
                       0);
    assert_int_equal(region_reader_refresh(reader), REGION_AS_BEFORE);
    assert_non_null(
        strstr(region_reader_error(reader), "differs from its socket"));
    assert_int_equal(region_reader_fault(reader)->rule,
                     REGION_RULE_SOCKET_NAME);
    assert_int_equal(region_reader_errno(reader), EPROTO);
    assert_null(region_reader_directory(reader));
    assert_return_code(unlink(other), errno);
    region_reader_close(reader);
  }
}

/* Returns a socket whose last close(2) blocks for an hour, because its peer
 * does not read and its send buffer is full. Stores the peer in *other. */
static int lingering_socket(int *other) {
  struct sockaddr_in address = {.sin_family = AF_INET,
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof(address);
  struct linger hour = {.l_onoff = 1, .l_linger = 3600};
  char bytes[4096] = {0};
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_return_code(bind(listener, (void *)&address, length), errno);
  assert_return_code(listen(listener, 1), errno);
  assert_return_code(getsockname(listener, (void *)&address, &length), errno);
  assert_return_code(connect(fd, (void *)&address, length), errno);
  *other = accept(listener, NULL, NULL);
  assert_return_code(*other, errno);
  close(listener);
  while (send(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
    ;
  assert_return_code(setsockopt(fd, SOL_SOCKET, SO_LINGER, &hour, sizeof(hour)),
                     errno);
  return fd;
}

TEST(a_lingering_socket_does_not_block_the_reader) {
  struct region_reader *reader;
  int other, listener = listen_as_unit();
  int fd = lingering_socket(&other);
  assert_return_code(region_reader_open(&reader, "unit", NULL, NULL), 0);
  region_reader_refresh(reader);
  say_hello(listener, fd, 2);
  close(fd);
  assert_int_equal(region_reader_refresh(reader), REGION_AS_BEFORE);
  assert_int_equal(region_reader_errno(reader), EPROTO);
  close(other);
  close(listener);
  region_reader_close(reader);
}

/* ---------------------------------------------------------------------------
 * The child that receives
 */

static void unit_path(char path[static 128]) {
  snprintf(path, 128, "%s/unit.sock", getenv("PERCORE_RUNTIME_DIR"));
}

static int connect_to_unit(struct region_connection *connection) {
  char path[128];
  int listener = listen_as_unit();
  unit_path(path);
  assert_return_code(region_connection_find(connection, path), errno);
  assert_return_code(region_connection_open(connection), errno);
  int peer = accept(listener, NULL, NULL);
  close(listener);
  return peer;
}

/* Waits until no child is held up by what this process has sent. */
static void await_children(void) {
  struct region_fault fault;
  for (int i = 0; i < 10000 && !region_receive_may(geteuid(), &fault); i++)
    poll(NULL, 0, 1);
  assert_true(region_receive_may(geteuid(), &fault));
}

TEST(the_host_does_not_see_the_child) {
  UNIT_REGION(region, PERCORE_SERVE_THREAD);
  struct region_reader_options options = {.hello_wait_ms = 60000};
  struct region_reader *reader;
  assert_return_code(region_reader_open(&reader, "unit", NULL, &options), 0);
  assert_int_equal(region_reader_refresh(reader), REGION_CAME);
  assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
  assert_int_equal(errno, ECHILD);
  assert_return_code(region_reader_reset(reader, UINT32_MAX, UINT32_MAX, 60000),
                     errno);
  region_reader_close(reader);
}

TEST(after_hello_a_producer_can_send_nothing) {
  UNIT_REGION(region, PERCORE_SERVE_POLLED);
  struct region_connection connection;
  struct region_fault fault;
  int peer = connect_to_unit(&connection);
  send_hello(peer, region->memfd, 1);
  assert_return_code(region_receive_hello(&connection, &fault), errno);
  assert_true(connection.memfd >= 0);
  assert_true(region_connection_is_open(&connection));
  assert_int_equal(send(peer, "", 1, MSG_NOSIGNAL), -1);
  assert_int_equal(errno, EPIPE);
  close(peer);
  assert_false(region_connection_is_open(&connection));
  region_connection_close(&connection);
  await_children();
}

/* One of the messages after HELLO is empty but carries a descriptor. It must
 * not be taken for the end of the connection. */
TEST(a_producer_that_sends_more_than_hello_is_refused) {
  enum { HELLO, EMPTY_WITH_DESCRIPTOR, EMPTY, BYTE, KINDS };
  UNIT_REGION(region, PERCORE_SERVE_POLLED);
  char byte = 0;
  struct iovec parts[KINDS] = {[BYTE] = {&byte, 1}};
  char control[CMSG_SPACE(sizeof(int))] = {0};
  struct cmsghdr *rights = (void *)control;
  *rights = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)),
                             .cmsg_level = SOL_SOCKET,
                             .cmsg_type = SCM_RIGHTS};
  memcpy(CMSG_DATA(rights), &region->memfd, sizeof(int));
  unsigned before = count_descriptors();
  for (int kind = 0; kind < KINDS; kind++) {
    struct region_connection connection;
    struct region_fault fault;
    int peer = connect_to_unit(&connection);
    struct msghdr more = {.msg_iov = &parts[kind], .msg_iovlen = 1};
    if (kind == EMPTY_WITH_DESCRIPTOR) {
      more.msg_control = control;
      more.msg_controllen = sizeof(control);
    }
    send_hello(peer, region->memfd, 1);
    if (kind == HELLO)
      send_hello(peer, region->memfd, 1);
    else
      assert_true(sendmsg(peer, &more, 0) >= 0);
    assert_int_equal(region_receive_hello(&connection, &fault), -1);
    assert_int_equal(errno, EPROTO);
    assert_non_null(strstr(fault.text, "more than HELLO"));
    region_connection_close(&connection);
    close(peer);
    await_children();
  }
  assert_int_equal(count_descriptors(), before);
}

/* The last close of the socket takes long. */
TEST(a_descriptor_that_is_not_memory_stays_in_the_child) {
  struct region_connection connection;
  struct region_fault fault;
  int other, fd = lingering_socket(&other);
  unsigned before = count_descriptors();
  int peer = connect_to_unit(&connection);
  send_hello(peer, fd, 1);
  close(fd);
  assert_int_equal(region_receive_hello(&connection, &fault), -1);
  assert_int_equal(errno, EPROTO);
  region_connection_close(&connection);
  close(peer);
  assert_int_equal(count_descriptors(), before - 1);
  await_children();
  close(other);
}

ssize_t __real_recvmsg(int socket, struct msghdr *message, int flags);
ssize_t __wrap_recvmsg(int socket, struct msghdr *message, int flags);

/* How many descriptors the child has when it first receives; 0: not known. */
static unsigned of_child;

ssize_t __wrap_recvmsg(int socket, struct msghdr *message, int flags) {
  if (of_child == 0)
    of_child = count_descriptors();
  return __real_recvmsg(socket, message, flags);
}

/* Its host has others below these two, between them (`peer`), and above. */
TEST(the_child_has_no_descriptor_but_its_two_sockets) {
  struct region_connection connection;
  struct region_fault fault;
  int peer = connect_to_unit(&connection);
  int above = fcntl(peer, F_DUPFD_CLOEXEC, connection.socket + 50);
  send_hello(peer, peer, 1);
  of_child = 0;
  assert_int_equal(region_receive_hello(&connection, &fault), -1);
  assert_int_equal(of_child, 2);
  close(above);
  close(peer);
  region_connection_close(&connection);
  await_children();
}

static bool nobody(uid_t uid, void *argument) {
  (void)uid;
  (void)argument;
  return false;
}

TEST(a_socket_of_a_user_who_is_not_allowed_is_not_connected_to) {
  struct region_reader_options options = {.may_read = nobody};
  struct region_reader *reader;
  int listener = listen_as_unit();
  struct pollfd pending = {.fd = listener, .events = POLLIN};
  assert_return_code(region_reader_open(&reader, "unit", NULL, &options), 0);
  assert_int_equal(region_reader_connect(reader), -1);
  assert_int_equal(errno, EACCES);
  assert_int_equal(poll(&pending, 1, 0), 0);
  close(listener);
  region_reader_close(reader);
}

/* ---------------------------------------------------------------------------
 * Answers of a producer to a reset
 */

struct answer {
  uint32_t request;
  enum region_message_type type;
  int error, descriptors;
  size_t missing; /* bytes at the end */
};

/* Forks a producer that sends HELLO on each connection, reads the request, and
 * sends `answers`. Returns the PID of the producer. */
static pid_t answer_resets(int listener, int memory,
                           const struct answer *answers, size_t len) {
  struct region_message message;
  pid_t pid = fork();
  assert_return_code(pid, errno);
  if (pid != 0)
    return pid;
  for (;;) {
    int peer = accept(listener, NULL, NULL);
    if (!try_hello(peer, memory, 1) ||
        recv(peer, &message, sizeof(message), 0) != sizeof(message))
      _exit(1);
    for (size_t i = 0; i < len && answers[i].type != 0; i++) {
      message.request = answers[i].request;
      message.type = answers[i].type;
      message.argument = (uint64_t)answers[i].error;
      region_packet_send(peer, &message, sizeof(message) - answers[i].missing,
                         &memory, answers[i].descriptors);
    }
    (void)recv(peer, &message, sizeof(message),
               0); /* waits for the end of the connection */
    close(peer);
  }
}

TEST(a_question_to_a_producer_that_has_ended_fails) {
  struct region_message question = {.type = REGION_RESET};
  int pair[2];
  assert_return_code(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), errno);
  close(pair[1]);
  assert_fails(region_message_ask(pair[0], &question, 60000), EPIPE);
  close(pair[0]);
}

TEST(root_may_reset_the_region_of_another_user) {
  if (geteuid() != 0) {
    print_message("skipped: needs root, to act as two users\n");
    skip();
  }
  UNIT_REGION(region, PERCORE_SERVE_THREAD);
  struct region_message question = {
      .type = REGION_RESET, .request = 1, .table = GLOBALS + 1};
  struct region_connection connection;
  char path[128];
  unit_path(path);
  assert_return_code(region_connection_find(&connection, path), errno);
  assert_return_code(region_connection_open(&connection), errno);
  assert_return_code(seteuid(64001), errno); /* of the serving thread, too */
  int status = region_message_ask(connection.socket, &question, 60000);
  assert_return_code(seteuid(0), errno);
  assert_int_equal(status, 0);
  region_connection_close(&connection);
}

TEST(a_producer_says_which_types_it_does_not_know) {
  UNIT_REGION(region, PERCORE_SERVE_THREAD);
  struct region_message question = {.type = 77, .request = 1};
  struct region_connection connection;
  char path[128];
  unit_path(path);
  assert_return_code(region_connection_find(&connection, path), errno);
  assert_return_code(region_connection_open(&connection), errno);
  assert_int_equal(connection.file, -1);
  assert_fails(region_message_ask(connection.socket, &question, 60000), ENOSYS);
  region_connection_close(&connection);
}

TEST(a_reset_returns_the_producers_answer) {
  static const struct {
    struct answer answers[4];
    int error;
  } cases[] = {
      {{{1, REGION_RESET, 0, 0, 0}}, 0},
      {{{7, REGION_RESET, 0, 0, 0},
        {8, REGION_ERROR, EIO, 0, 0},
        {1, REGION_ERROR, EIO, 0, 8},
        {1, REGION_RESET, 0, 0, 0}},
       0},
      {{{1, REGION_ERROR, EPERM, 0, 0}}, EPERM},
      {{{1, REGION_ERROR, 4100, 0, 0}}, EPROTO},
      {{{1, REGION_RESET, 0, 1, 0}}, 0},
  };
  UNIT_REGION(region, PERCORE_SERVE_POLLED);
  int memory =
      dup(region->memfd); /* the forked producer loses region->memfd itself */
  char path[128];
  unit_path(path);
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    int listener = listen_as_unit();
    pid_t pid = answer_resets(listener, memory, cases[i].answers, 4);
    struct region_connection connection;
    struct region_message question = {.type = REGION_RESET, .request = 1};
    assert_return_code(region_connection_find(&connection, path), errno);
    assert_return_code(region_connection_open(&connection), errno);
    unsigned before = count_descriptors();
    int status = region_message_ask(connection.socket, &question, 60000);
    assert_int_equal(status == 0 ? 0 : errno, cases[i].error);
    assert_int_equal(count_descriptors(), before);
    region_connection_close(&connection);
    assert_return_code(kill(pid, SIGKILL), errno);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    close(listener);
  }
  close(memory);
}

const struct unit_fixtures unit_fixtures = {
    .before_each = unit_make_runtime_dir,
    .after_each = unit_remove_runtime_dir};
