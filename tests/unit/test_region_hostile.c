/* Producers that are none, or lie: what they place in the runtime directory and
 * say over the socket. A test's state is the receiver that its readers use. */
#include "percore_config.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "region/connection.h"
#include "region/message.h"
#include "region/receiver.h"
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

/* As many as the kernel passes with one message. */
enum { MOST_PASSED = 253 };

/* A HELLO that carries so many copies of passed. False if nobody takes it. */
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

/* Says hello to everyone who has come; who only looks cannot be sent it. */
static void greet_all(int listener, int passed, int copies) {
  struct pollfd ready = {.fd = listener, .events = POLLIN};
  while (poll(&ready, 1, 0) > 0) {
    int fd = accept(listener, NULL, NULL);
    assert_true(fd >= 0);
    (void)try_hello(fd, passed, copies);
    close(fd);
  }
}

/* Refreshes a reader until its producer is known, for good or ill. */
static enum region_event meet(struct region_reader *reader, int listener,
                              int passed, int copies) {
  for (;;) {
    enum region_event event = region_reader_refresh(reader);
    int error = region_reader_errno(reader);
    /* EBUSY: processes of the tests before are still about to end. */
    if (event != REGION_AS_BEFORE || (error != ETIMEDOUT && error != EBUSY))
      return event;
    greet_all(listener, passed, copies);
  }
}

static void what_is_no_region_is_refused_with_a_reason(void **state) {
  enum { ALL = F_SEAL_SHRINK | F_SEAL_GROW | 0x10 | F_SEAL_SEAL };
  static const struct {
    const char *text;
    size_t size;
    int seals, copies;
    const char *why;
  } cases[] = {
      {"", 4096, ALL, 0, "without memory"},
      {"PERCORE1", 4096, 0, 1, "not sealed"},
      {"PERCORE1", 4096, F_SEAL_SHRINK | F_SEAL_GROW, 1, "not sealed"},
      {"", 0, ALL, 1, "no size"},
      {"PERCORE1", 100, ALL, 1, "too short"},
      {"VARNISH4", 4096, ALL, 1, "bad magic"},
      {"PERCORE1", 4096, ALL, MOST_PASSED, "byte order"},
      {"PERCORE1", 4096, 0, MOST_PASSED, "not sealed"},
      {"", (size_t)1 << 40, ALL, 1, "larger than allowed"},
  };
  struct region_reader_options options = {.hello_wait_ms = 1,
                                          .receiver = *state};
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
    assert_int_equal(region_reader_errno(reader),
                     cases[i].size > (size_t)4 << 30 ? EFBIG : EPROTO);
    assert_int_equal(count_descriptors(), before);
  }
  region_reader_close(reader);
  close(listener);
}

static void what_is_no_socket_is_not_connected_to(void **state) {
  (void)state;
  char path[128], link[128];
  const char *dir = getenv("PERCORE_RUNTIME_DIR");
  struct percore_region *region = unit_create(PERCORE_SERVE_THREAD);
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
  assert_return_code(percore_destroy(region), 0);
}

static void a_region_of_another_name_than_its_socket_is_refused(void **state) {
  (void)state;
  static const char *const files[] = {"other.sock", "unit@a.sock"};
  char path[128], other[128];
  const char *dir = getenv("PERCORE_RUNTIME_DIR");
  snprintf(path, sizeof(path), "%s/unit.sock", dir);
  struct percore_region *region = unit_create(PERCORE_SERVE_THREAD);
  for (int i = 0; i < 2; i++) {
    struct region_reader_options options = {.hello_wait_ms = 5000};
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
  assert_return_code(percore_destroy(region), 0);
}

/* One end of a connection whose other end reads nothing, with more to send than
 * fits between them: whoever closes it last waits for an hour. */
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

static void a_socket_that_lingers_holds_up_nobody(void **state) {
  (void)state;
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

/* Who asks looks no longer than it was to wait, however many there are. */
static void answers_that_nobody_asked_for_hold_up_no_reset(void **state) {
  (void)state;
  struct region_message answer = {.magic = REGION_MESSAGE_MAGIC,
                                  .version = REGION_MESSAGE_VERSION,
                                  .type = REGION_RESET,
                                  .length = sizeof(answer)};
  struct region_connection connection;
  char path[128];
  int listener = listen_as_unit();
  snprintf(path, sizeof(path), "%s/unit.sock", getenv("PERCORE_RUNTIME_DIR"));
  assert_return_code(region_connection_open(&connection, path), errno);
  int fd = accept(listener, NULL, NULL);
  for (int i = 0; i < 3; i++)
    assert_int_equal(send(fd, &answer, sizeof(answer), 0), sizeof(answer));
  assert_int_equal(region_connection_reset(&connection, 1, 0, 0), -1);
  assert_int_equal(errno, ETIMEDOUT);
  assert_int_equal(
      recv(connection.socket, &answer, sizeof(answer), MSG_DONTWAIT),
      sizeof(answer));
  region_connection_close(&connection);
  close(fd);
  close(listener);
}

/* ---------------------------------------------------------------------------
 * With a receiver
 */

static struct region_reader *open_with(struct region_receiver *receiver,
                                       int wait_ms) {
  struct region_reader_options options = {.hello_wait_ms = wait_ms,
                                          .receiver = receiver};
  struct region_reader *reader;
  assert_return_code(region_reader_open(&reader, "unit", NULL, &options), 0);
  return reader;
}

/* At most processes of before are to be waited for. */
static void refresh_until_it_came(struct region_reader *reader) {
  while (region_reader_refresh(reader) != REGION_CAME)
    assert_int_equal(region_reader_errno(reader), EBUSY);
}

static void
a_region_is_read_and_its_end_is_seen_through_a_receiver(void **state) {
  struct percore_region *region = unit_create(PERCORE_SERVE_THREAD);
  struct region_reader *reader = open_with(*state, 60000);
  refresh_until_it_came(reader);
  assert_int_equal(region_reader_pid(reader), getpid());
  assert_int_equal(region_reader_uid(reader), getuid());
  assert_int_equal(region_reader_refresh(reader), REGION_AS_BEFORE);
  assert_int_equal(region_reader_presence(reader), REGION_ALIVE);
  assert_int_equal(region_reader_reset(reader, UINT32_MAX, UINT32_MAX, 0), -1);
  assert_int_equal(errno, ENOTSUP);
  assert_return_code(percore_destroy(region), 0);
  assert_int_equal(region_reader_refresh(reader), REGION_WENT);
  assert_int_equal(region_reader_refresh(reader), REGION_AS_BEFORE);
  assert_int_equal(region_reader_presence(reader), REGION_LEFT);
  region = unit_create(PERCORE_SERVE_THREAD);
  refresh_until_it_came(reader);
  assert_return_code(percore_destroy(region), 0);
  region_reader_close(reader);
}

static void who_is_only_looked_at_can_send_nothing(void **state) {
  (void)state;
  struct region_connection connection;
  char path[128];
  int listener = listen_as_unit();
  snprintf(path, sizeof(path), "%s/unit.sock", getenv("PERCORE_RUNTIME_DIR"));
  assert_return_code(region_connection_probe(&connection, path), errno);
  assert_int_equal(connection.uid, getuid());
  int peer = accept(listener, NULL, NULL);
  assert_int_equal(send(peer, "", 1, MSG_NOSIGNAL), -1);
  assert_int_equal(errno, EPIPE);
  region_connection_close(&connection);
  close(peer);
  close(listener);
}

/* The process that waits for hello on this peer, stopped. */
static pid_t stop_reception(int peer) {
  struct ucred process;
  socklen_t size = sizeof(process);
  assert_return_code(getsockopt(peer, SOL_SOCKET, SO_PEERCRED, &process, &size),
                     errno);
  assert_int_not_equal(process.pid, getpid());
  assert_return_code(kill(process.pid, SIGSTOP), errno);
  return process.pid;
}

/* Lets a process connect; returns the producer's end. */
static int accept_reception(struct region_connection *connection,
                            struct region_receiver *receiver) {
  char path[128];
  const char *why;
  int listener = listen_as_unit();
  snprintf(path, sizeof(path), "%s/unit.sock", getenv("PERCORE_RUNTIME_DIR"));
  for (;;) {
    assert_return_code(region_connection_probe(connection, path), errno);
    close(accept(listener, NULL, NULL)); /* who only looks */
    assert_return_code(region_receiver_ask(receiver, connection, path, &why),
                       errno);
    struct pollfd ready = {.fd = listener, .events = POLLIN};
    while (region_receiver_hello(connection, 0, &why) != 0 && errno == EAGAIN)
      if (poll(&ready, 1, 1) > 0) {
        int peer = accept(listener, NULL, NULL);
        close(listener);
        return peer;
      }
    region_connection_close(connection);
  }
}

static void after_hello_a_producer_can_send_nothing(void **state) {
  struct percore_region *region = unit_create(PERCORE_SERVE_POLLED);
  struct region_connection connection;
  const char *why;
  int peer = accept_reception(&connection, *state);
  send_hello(peer, region->memfd, 1);
  assert_return_code(region_receiver_hello(&connection, 60000, &why), errno);
  assert_int_equal(connection.size, region->size);
  assert_true(region_connection_is_alive(&connection));
  assert_int_equal(send(peer, "", 1, MSG_NOSIGNAL), -1);
  assert_int_equal(errno, EPIPE);
  assert_true(region_connection_is_alive(&connection));
  close(peer);
  assert_false(region_connection_is_alive(&connection));
  region_connection_close(&connection);
  assert_return_code(percore_destroy(region), 0);
}

/* An empty message with a descriptor, too: it must not look like the end. */
static void who_sends_more_than_hello_is_refused(void **state) {
  enum { HELLO, EMPTY_WITH_DESCRIPTOR, EMPTY, BYTE, KINDS };
  struct percore_region *region = unit_create(PERCORE_SERVE_POLLED);
  char byte = 0;
  struct iovec parts[KINDS] = {[BYTE] = {&byte, 1}};
  char control[CMSG_SPACE(sizeof(int))] = {0};
  struct cmsghdr *rights = (void *)control;
  *rights = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)),
                             .cmsg_level = SOL_SOCKET,
                             .cmsg_type = SCM_RIGHTS};
  memcpy(CMSG_DATA(rights), &region->memfd, sizeof(int));
  for (int kind = 0; kind < KINDS; kind++) {
    struct region_connection connection;
    const char *why;
    int peer = accept_reception(&connection, *state);
    pid_t pid = stop_reception(peer);
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
    assert_return_code(kill(pid, SIGCONT), errno);
    assert_int_equal(region_receiver_hello(&connection, 60000, &why), -1);
    assert_int_equal(errno, EPROTO);
    assert_non_null(strstr(why, "more than hello"));
    region_connection_close(&connection);
    close(peer);
  }
  assert_return_code(percore_destroy(region), 0);
}

static void what_is_no_memory_stays_with_the_receiver(void **state) {
  struct region_connection connection;
  const char *why;
  int other, fd = lingering_socket(&other);
  unsigned before = count_descriptors();
  int peer = accept_reception(&connection, *state);
  pid_t pid = stop_reception(peer);
  send_hello(peer, fd, 1);
  close(fd); /* not the last close, which would wait */
  assert_return_code(kill(pid, SIGCONT), errno);
  assert_int_equal(region_receiver_hello(&connection, 60000, &why), -1);
  assert_int_equal(errno, EPROTO);
  assert_non_null(strstr(why, "not sealed, or is none"));
  region_connection_close(&connection);
  close(peer);
  assert_int_equal(count_descriptors(), before - 1);
  close(other);
}

static void two_processes_wait_for_one_producer_at_most(void **state) {
  struct region_connection connections[3];
  const char *why;
  char path[128];
  int peers[2];
  snprintf(path, sizeof(path), "%s/unit.sock", getenv("PERCORE_RUNTIME_DIR"));
  for (int i = 0; i < 2; i++)
    peers[i] = accept_reception(&connections[i], *state);
  int listener = listen_as_unit();
  assert_return_code(region_connection_probe(&connections[2], path), errno);
  assert_return_code(region_receiver_ask(*state, &connections[2], path, &why),
                     errno);
  assert_int_equal(region_receiver_hello(&connections[2], 60000, &why), -1);
  assert_int_equal(errno, EBUSY);
  assert_non_null(strstr(why, "held up"));
  region_connection_close(&connections[0]); /* its process ends */
  region_connection_close(&connections[2]);
  close(listener);
  close(peers[0]);
  peers[0] = accept_reception(&connections[0], *state);
  for (int i = 0; i < 2; i++) {
    region_connection_close(&connections[i]);
    close(peers[i]);
  }
}

/* Another producer may have come since its socket was looked at. */
static void the_producer_is_who_said_hello(void **state) {
  struct percore_region *region = unit_create(PERCORE_SERVE_POLLED);
  struct region_connection connection;
  const char *why;
  int peer = accept_reception(&connection, *state);
  connection.pid = getppid();
  region_close_fd(&connection.pidfd);
  send_hello(peer, region->memfd, 1);
  assert_return_code(region_receiver_hello(&connection, 60000, &why), errno);
  assert_int_equal(connection.pid, getpid());
  assert_true(connection.pidfd >= 0);
  region_connection_close(&connection);
  close(peer);
  assert_return_code(percore_destroy(region), 0);
}

/* It takes one connection at a time, and is looked at first. */
static void a_producer_without_a_queue_is_connected_to(void **state) {
  struct percore_region *region = unit_create(PERCORE_SERVE_POLLED);
  struct region_connection connection;
  const char *why;
  char path[128];
  int listener = listen_as_unit(), peer = -1;
  /* By another name, for which no process of before can be about to end. */
  snprintf(path, sizeof(path), "%s/./unit.sock", getenv("PERCORE_RUNTIME_DIR"));
  assert_return_code(listen(listener, 0), errno);
  assert_return_code(region_connection_probe(&connection, path), errno);
  assert_return_code(region_receiver_ask(*state, &connection, path, &why),
                     errno);
  for (int i = 0; i < 5; i++) { /* nobody takes the first one meanwhile */
    assert_int_equal(region_receiver_hello(&connection, 1, &why), -1);
    assert_int_equal(errno, EAGAIN);
  }
  do {
    close(peer);
    peer = accept(listener, NULL, NULL);
  } while (!try_hello(peer, region->memfd, 1));
  assert_return_code(region_receiver_hello(&connection, 60000, &why), errno);
  region_connection_close(&connection);
  close(peer);
  close(listener);
  assert_return_code(percore_destroy(region), 0);
}

/* The producer of a stopped process goes; its reader must not wait on. */
static void a_silent_connection_ends_with_its_producer(void **state) {
  struct region_connection connection;
  const char *why;
  int peer = accept_reception(&connection, *state);
  pid_t reception = stop_reception(peer), producer = fork();
  if (producer == 0)
    _exit(0);
  region_close_fd(&connection.pidfd);
  connection.pidfd = (int)syscall(SYS_pidfd_open, producer, 0);
  assert_int_equal(waitpid(producer, NULL, 0), producer);
  assert_int_equal(region_receiver_hello(&connection, 0, &why), -1);
  assert_int_equal(errno, ECONNRESET);
  assert_return_code(kill(reception, SIGCONT), errno);
  region_connection_close(&connection);
  close(peer);
}

static bool nobody(uid_t uid, void *argument) {
  (void)uid;
  (void)argument;
  return false;
}

static void who_may_not_be_read_is_not_received_from(void **state) {
  struct region_reader_options options = {.may_read = nobody,
                                          .receiver = *state};
  struct region_reader *reader;
  int listener = listen_as_unit();
  assert_return_code(region_reader_open(&reader, "unit", NULL, &options), 0);
  assert_int_equal(region_reader_connect(reader), -1);
  assert_int_equal(errno, EACCES);
  int peer = accept(listener, NULL, NULL);
  assert_false(try_hello(peer, -1, 0));
  close(peer);
  close(listener);
  region_reader_close(reader);
}

static pid_t child_of(pid_t parent, const char *name) {
  char line[128], command[64] = "";
  snprintf(line, sizeof(line), "/proc/%d/task/%d/children", (int)parent,
           (int)parent);
  FILE *file = fopen(line, "re");
  int pid = 0, found = 0;
  while (file != NULL && fscanf(file, "%d", &pid) == 1) {
    snprintf(line, sizeof(line), "/proc/%d/comm", pid);
    FILE *comm = fopen(line, "re");
    if (comm != NULL && fgets(command, sizeof(command), comm) != NULL &&
        strcmp(command, name) == 0)
      found = pid;
    if (comm != NULL)
      fclose(comm);
  }
  if (file != NULL)
    fclose(file);
  return found;
}

static void a_receiver_that_is_killed_is_made_anew(void **state) {
  struct percore_region *region = unit_create(PERCORE_SERVE_THREAD);
  struct region_reader *reader = open_with(*state, 60000);
  pid_t pid = child_of(getpid(), "percore-receive\n");
  assert_true(pid > 0);
  assert_return_code(kill(pid, SIGKILL), errno);
  /* What was handed to it is lost with it; then there is another. */
  while (region_reader_refresh(reader) != REGION_CAME)
    assert_true(region_reader_errno(reader) == EPIPE ||
                region_reader_errno(reader) == ECONNRESET);
  assert_int_not_equal(child_of(getpid(), "percore-receive\n"), pid);
  assert_return_code(percore_destroy(region), 0);
  region_reader_close(reader);
}

int main(void) {
  struct region_receiver *receiver;
  if (region_receiver_start(&receiver) != 0)
    return 1;
#define WITH_RECEIVER(test)                                                    \
  { #test, test, NULL, NULL, receiver }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_no_region_is_refused_with_a_reason),
      {"what_is_no_region_is_refused_with_a_reason by a receiver",
       what_is_no_region_is_refused_with_a_reason, NULL, NULL, receiver},
      cmocka_unit_test(what_is_no_socket_is_not_connected_to),
      cmocka_unit_test(a_region_of_another_name_than_its_socket_is_refused),
      cmocka_unit_test(a_socket_that_lingers_holds_up_nobody),
      cmocka_unit_test(answers_that_nobody_asked_for_hold_up_no_reset),
      WITH_RECEIVER(a_region_is_read_and_its_end_is_seen_through_a_receiver),
      WITH_RECEIVER(who_is_only_looked_at_can_send_nothing),
      WITH_RECEIVER(after_hello_a_producer_can_send_nothing),
      WITH_RECEIVER(who_sends_more_than_hello_is_refused),
      WITH_RECEIVER(what_is_no_memory_stays_with_the_receiver),
      WITH_RECEIVER(two_processes_wait_for_one_producer_at_most),
      WITH_RECEIVER(the_producer_is_who_said_hello),
      WITH_RECEIVER(a_producer_without_a_queue_is_connected_to),
      WITH_RECEIVER(a_silent_connection_ends_with_its_producer),
      WITH_RECEIVER(who_may_not_be_read_is_not_received_from),
      WITH_RECEIVER(a_receiver_that_is_killed_is_made_anew),
  };
  alarm(600); /* whatever hangs ends */
  int failed = cmocka_run_group_tests(tests, unit_make_runtime_dir,
                                      unit_remove_runtime_dir);
  region_receiver_stop(receiver);
  return failed;
}
