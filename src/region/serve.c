/* serve.c: hands the region's descriptor to whoever connects, and resets when
 * asked; in a thread of its own, or in turns of the application's loop.
 *
 * A region's name in a runtime directory belongs to who holds the lock file.
 * Under that lock a socket that is still there belongs to nobody.
 */
#include "percore_config.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "message.h"
#include "writer.h"

enum { MAX_CONNECTIONS = 16, STACK_SIZE = 512 << 10 };

struct connection {
  int fd; /* -1 if unused */
  uid_t uid;
  uint64_t number;
};

struct server {
  pthread_mutex_t turn; /* one thread at a time in serve_turn */
  char socket_path[sizeof(((struct sockaddr_un *)0)->sun_path)];
  int lock, listener, epoll, stop;
  struct connection connections[MAX_CONNECTIONS];
  uint64_t accepted;
  bool has_thread, chosen_cpus;
  pthread_t thread;
  pid_t tid; /* 0 until the thread runs */
};

/* ---------------------------------------------------------------------------
 * Connections
 */

static int watch(struct server *server, int fd) {
  struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
  return epoll_ctl(server->epoll, EPOLL_CTL_ADD, fd, &event);
}

/* -1 if it is not known. */
static uid_t peer_uid(int fd) {
  struct ucred peer = {.uid = (uid_t)-1};
  socklen_t size = sizeof(peer);
  (void)getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size);
  return peer.uid;
}

static int count_connections(const struct server *server, uid_t uid) {
  int count = 0;
  for (int i = 0; i < MAX_CONNECTIONS; i++)
    count += server->connections[i].uid == uid;
  return count;
}

/* A free place, or that of the oldest connection of the user with the most, so
 * that nobody can take the places of another user's readers. */
static struct connection *make_place(struct server *server) {
  struct connection *victim = NULL;
  int most = 0;
  for (int i = 0; i < MAX_CONNECTIONS; i++) {
    struct connection *connection = &server->connections[i];
    if (connection->fd < 0)
      return connection;
    int count = count_connections(server, connection->uid);
    if (count > most ||
        (count == most && connection->number < victim->number)) {
      victim = connection;
      most = count;
    }
  }
  region_close_fd(&victim->fd);
  return victim;
}

/* Who only looks whether anybody listens is sent nothing, and takes nobody's
 * place. */
static bool greet(struct percore_region *region, int fd) {
  struct region_message hello = {.type = REGION_HELLO,
                                 .argument = region->size};
  return region_message_send(fd, &hello, &region->memfd, 1) &&
         watch(region->server, fd) == 0;
}

/* With the region locked, so that a fork finds every connection in its place.
 * false if there is no descriptor or memory for it: it would be asked again at
 * once. */
static bool accept_one(struct percore_region *region) {
  struct server *server = region->server;
  for (int i = 0; i < MAX_CONNECTIONS; i++) {
    int fd =
        accept4(server->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
      return errno != EMFILE && errno != ENFILE && errno != ENOMEM &&
             errno != ENOBUFS;
    if (!greet(region, fd)) {
      close(fd);
      continue;
    }
    struct connection *connection = make_place(server);
    connection->fd = fd;
    connection->uid = peer_uid(fd);
    connection->number = server->accepted++;
    break;
  }
  return true;
}

static bool may_reset(int fd) {
  uid_t uid = peer_uid(fd);
  return uid == 0 || uid == geteuid();
}

/* The errno of the answer, 0 for success. */
static int answer_reset(struct percore_region *region, int fd,
                        const struct region_message *request) {
  if (!may_reset(fd))
    return EPERM;
  return region_reset(region, request->table, request->row) == 0 ? 0 : errno;
}

/* false if the connection is to be closed. */
static bool handle_message(struct percore_region *region, int fd) {
  struct region_message message;
  ssize_t size = recv(fd, &message, sizeof(message), MSG_DONTWAIT | MSG_TRUNC);
  if (size < 0)
    return errno == EAGAIN || errno == EINTR;
  if (size != sizeof(message) || message.magic != REGION_MESSAGE_MAGIC)
    return false;
  int error = ENOSYS; /* types of later versions */
  if (message.type == REGION_RESET)
    error = answer_reset(region, fd, &message);
  message.type = error == 0 ? message.type : REGION_ERROR;
  message.argument = (uint64_t)error;
  return region_message_send(fd, &message, NULL, 0);
}

/* Everything that is ready, one step of each. false if it is no use to look
 * again at once. */
static bool serve_turn(struct percore_region *region, int timeout) {
  struct server *server = region->server;
  struct epoll_event events[MAX_CONNECTIONS + 2];
  bool useful = true;
  int ready = epoll_wait(server->epoll, events, MAX_CONNECTIONS + 2, timeout);
  for (int i = 0; i < ready; i++) {
    int fd = events[i].data.fd;
    if (fd == server->stop)
      continue;
    if (fd == server->listener) {
      if (region_lock(region)) {
        useful = accept_one(region);
        region_unlock(region);
      }
      continue;
    }
    for (int c = 0; c < MAX_CONNECTIONS; c++)
      if (server->connections[c].fd == fd) {
        bool keep = handle_message(region, fd);
        if (!keep)
          region_close_fd(&server->connections[c].fd);
      }
  }
  return useful;
}

/* ---------------------------------------------------------------------------
 * The thread
 */

static bool is_stopped(const struct server *server) {
  uint64_t count;
  return read(server->stop, &count, sizeof(count)) == sizeof(count);
}

static void *serve_thread(void *argument) {
  struct percore_region *region = argument;
  struct server *server = region->server;
  __atomic_store_n(&server->tid, (pid_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
  pthread_setname_np(pthread_self(), "percore-serve");
  region_lock(region);
  region_server_avoid_slots(region);
  region_unlock(region);
  struct timespec pause = {.tv_nsec = 100000000};
  while (!is_stopped(server))
    if (!serve_turn(region, -1))
      nanosleep(&pause, NULL);
  return NULL;
}

/* The thread that creates a region may be pinned and of real-time priority;
 * this one must be neither. */
static int start_thread(struct percore_region *region,
                        const struct percore_options *options) {
  struct server *server = region->server;
  struct sched_param param = {0};
  pthread_attr_t attributes;
  sigset_t all, before;
  pthread_attr_init(&attributes);
  pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED);
  pthread_attr_setschedpolicy(&attributes, SCHED_OTHER);
  pthread_attr_setschedparam(&attributes, &param);
  pthread_attr_setstacksize(&attributes, STACK_SIZE);
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  for (uint32_t i = 0; i < options->serve_cpu_count; i++)
    if (options->serve_cpus[i] >= 0 && options->serve_cpus[i] < CPU_SETSIZE)
      CPU_SET(options->serve_cpus[i], &cpus);
  server->chosen_cpus = options->serve_cpu_count > 0;
  if (server->chosen_cpus)
    pthread_attr_setaffinity_np(&attributes, sizeof(cpus), &cpus);
  server->has_thread = true; /* before the thread looks */
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int error =
      pthread_create(&server->thread, &attributes, serve_thread, region);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
  if (error == 0)
    return 0;
  server->has_thread = false;
  errno = error;
  return -1;
}

/* Every core that is no attached slot's; the kernel leaves out what the process
 * is not allowed. If nothing is left, every core. */
void region_server_avoid_slots(struct percore_region *region) {
  struct server *server = region->server;
  if (server == NULL || !server->has_thread || server->chosen_cpus)
    return;
  pid_t tid = __atomic_load_n(&server->tid, __ATOMIC_ACQUIRE);
  if (tid == 0)
    return; /* it looks for itself when it starts */
  cpu_set_t all, free_cpus;
  memset(&all, 0xff, sizeof(all));
  free_cpus = all;
  for (uint32_t s = 0; s < region->header->slot_count; s++)
    if (region->slots[s].tid != 0 && region->slots[s].core < CPU_SETSIZE)
      CPU_CLR((size_t)region->slots[s].core, &free_cpus);
  if (sched_setaffinity(tid, sizeof(free_cpus), &free_cpus) != 0)
    (void)sched_setaffinity(tid, sizeof(all), &all);
}

/* ---------------------------------------------------------------------------
 * Starting and stopping
 */

static int take_name(struct server *server, const char *name,
                     const struct percore_options *options) {
  char path[4096];
  if (region_path(path, sizeof(path), options->runtime_dir, name,
                  options->instance, "lock") != 0 ||
      region_path(server->socket_path, sizeof(server->socket_path),
                  options->runtime_dir, name, options->instance, "sock") != 0)
    return -1;
  server->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (server->lock < 0)
    return -1;
  if (flock(server->lock, LOCK_EX | LOCK_NB) == 0)
    return 0;
  if (errno == EWOULDBLOCK)
    errno = EADDRINUSE;
  return -1;
}

/* Who may connect is settled before anybody can: the group of the directory. */
static int listen_at_path(struct server *server) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  memcpy(address.sun_path, server->socket_path, sizeof(address.sun_path));
  server->listener =
      socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (server->listener < 0)
    return -1;
  if (unlink(server->socket_path) != 0 && errno != ENOENT)
    return -1;
  if (bind(server->listener, (struct sockaddr *)&address, sizeof(address)) != 0)
    return -1;
  if (chmod(server->socket_path, 0660) != 0)
    return -1;
  return listen(server->listener, MAX_CONNECTIONS);
}

static void close_server(struct server *server) {
  for (int c = 0; c < MAX_CONNECTIONS; c++)
    region_close_fd(&server->connections[c].fd);
  region_close_fd(&server->listener);
  region_close_fd(&server->epoll);
  region_close_fd(&server->stop);
  region_close_fd(&server->lock);
}

static void free_server(struct server *server) {
  close_server(server);
  pthread_mutex_destroy(&server->turn);
  free(server);
}

int region_server_start(struct percore_region *region, const char *name,
                        const struct percore_options *options) {
  struct server *server = calloc(1, sizeof(*server));
  if (server == NULL)
    return -1;
  pthread_mutex_init(&server->turn, NULL);
  server->lock = server->listener = server->epoll = server->stop = -1;
  for (int c = 0; c < MAX_CONNECTIONS; c++)
    server->connections[c].fd = -1;
  region->server = server;
  server->epoll = epoll_create1(EPOLL_CLOEXEC);
  server->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  bool named = false;
  if (server->epoll >= 0 && server->stop >= 0 &&
      take_name(server, name, options) == 0) {
    named = true;
    if (listen_at_path(server) == 0 && watch(server, server->stop) == 0 &&
        watch(server, server->listener) == 0 &&
        (options->serving == PERCORE_SERVE_POLLED ||
         start_thread(region, options) == 0))
      return 0;
  }
  int saved = errno;
  if (named)
    unlink(server->socket_path);
  free_server(server);
  region->server = NULL;
  errno = saved;
  return -1;
}

void region_server_stop(struct percore_region *region) {
  struct server *server = region->server;
  if (server == NULL)
    return;
  if (server->has_thread) {
    uint64_t one = 1;
    while (write(server->stop, &one, sizeof(one)) < 0 && errno == EINTR)
      ;
    pthread_join(server->thread, NULL);
  }
  unlink(server->socket_path);
  free_server(server);
  region->server = NULL;
}

void region_server_abandon(struct percore_region *region) {
  struct server *server = region->server;
  if (server == NULL)
    return;
  close_server(server);
  region->server = NULL; /* leaked: free() may not be called here */
}

int percore_fd(const struct percore_region *region) {
  if (region->server == NULL || region->server->has_thread) {
    errno = ENODEV;
    return -1;
  }
  return region->server->epoll;
}

int percore_serve(struct percore_region *region) {
  if (percore_fd(region) < 0)
    return -1;
  pthread_mutex_lock(&region->server->turn);
  serve_turn(region, 0);
  pthread_mutex_unlock(&region->server->turn);
  return 0;
}
