/* serve.c: passes the region's descriptor to readers that connect, and resets
 * tables on request. Runs in a thread, or when the application calls
 * percore_serve. claim.c manages the socket. */
#include "percore_config.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/cancellation.h"
#include "base/clock.h"
#include "message.h"
#include "writer.h"

enum { STACK_SIZE = 512 << 10 };

/* How often to check that the socket still exists: at most, and as long as the
 * name cannot be claimed; and how often the serving thread wakes for it: at
 * multiples of this time, as collectd does, so that an idle host wakes once. */
enum { CHECK_SOCKET_MS = 2000, THREAD_CHECKS_MS = 10000 };

/* ---------------------------------------------------------------------------
 * Connections
 */

static int watch(struct server *server, int fd) {
  struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
  return epoll_ctl(server->epoll, EPOLL_CTL_ADD, fd, &event);
}

/* Returns a free element for a connection. If no element is free, closes the
 * oldest connection: its reader connects again and loses no count. */
static struct server_connection *make_place(struct server *server) {
  struct server_connection *oldest = &server->connections[0];
  for (int i = 0; i < SERVER_CONNECTIONS; i++) {
    struct server_connection *connection = &server->connections[i];
    if (connection->fd < 0)
      return connection;
    if (connection->number < oldest->number)
      oldest = connection;
  }
  region_close_fd(&oldest->fd);
  return oldest;
}

/* Sends HELLO and watches the connection. Returns false if the peer only wanted
 * to know which process listens and receives nothing; such a peer must not
 * evict a reader. */
static bool greet(struct percore_region *region, int fd) {
  struct region_message hello = {.type = REGION_HELLO,
                                 .argument = region->size};
  return region_message_send(fd, &hello, &region->shared, 1) &&
         watch(&region->server, fd) == 0;
}

/* Accepts connections until one belongs to a reader or none is pending. Call
 * with the region locked, so that a fork finds every connection in the array.
 * Returns false if accept4 failed, for example for lack of descriptors or
 * memory. The connection is then still pending, so the caller must pause before
 * the next attempt. */
static bool accept_one(struct percore_region *region) {
  struct server *server = &region->server;
  for (int i = 0; i < SERVER_CONNECTIONS; i++) {
    int fd = accept4(server->claim.listener, NULL, NULL,
                     SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
      return errno == EAGAIN;
    if (!greet(region, fd)) {
      close(fd);
      continue;
    }
    struct server_connection *connection = make_place(server);
    connection->fd = fd;
    connection->uid = region_peer(fd).uid;
    connection->number = server->accepted++;
    break;
  }
  return true;
}

/* Resets a table or row, which only root and the producer's own user may
 * request. Returns 0, or the errno to send in the answer. */
static int answer_reset(struct percore_region *region,
                        const struct server_connection *from,
                        const struct region_message *request) {
  if (from->uid != 0 && from->uid != geteuid())
    return EPERM;
  return region_reset(region, request->table, request->row) == 0 ? 0 : errno;
}

/* Receives and answers a message. Returns false if the connection must be
 * closed. There may be no message: if a connection has been closed and a new
 * one has its descriptor, an event of the old one is handled here, too. */
static bool handle_message(struct percore_region *region,
                           const struct server_connection *from) {
  struct region_message message;
  ssize_t size =
      recv(from->fd, &message, sizeof(message), MSG_DONTWAIT | MSG_TRUNC);
  if (size < 0)
    return errno == EAGAIN;
  if (size != sizeof(message) || message.magic != REGION_MESSAGE_MAGIC)
    return false;
  int error = ENOSYS; /* for message types of later versions */
  if (message.type == REGION_RESET)
    error = answer_reset(region, from, &message);
  message.type = error == 0 ? message.type : REGION_ERROR;
  message.argument = (uint64_t)error;
  return region_message_send(from->fd, &message, NULL, 0);
}

/* Writes the number that the instance "*" has got. No reader has seen the
 * region before. */
static void write_number(struct percore_region *region) {
  char *instance = region_at(region, region->header->strings_offset +
                                         region->header->instance);
  snprintf(instance, sizeof(REGION_LONGEST_NUMBER), "%u",
           region->server.claim.number);
}

/* Claims the name, or makes its socket anew. A directory can appear, a process
 * that has the name can end, and rights can be given. Call with the region
 * locked, so that a fork finds the descriptors. */
static void claim_name(struct percore_region *region) {
  struct server *server = &region->server;
  bool needs_number = server->claim.number_at != 0;
  bool claimed = region_claim_take(&server->claim) == 0;
  if (claimed && needs_number)
    write_number(region);
  claimed = claimed && watch(server, server->claim.listener) == 0;
  server->error = claimed ? 0 : errno;
  server->checked_ms = region_now_ms();
}

static bool is_found(const struct server *server) {
  return server->error == 0 && region_claim_is_found(&server->claim);
}

int region_server_restore(struct percore_region *region) {
  struct server *server = &region->server;
  if (!region_lock(region))
    return errno;
  if (!is_found(server))
    claim_name(region);
  int error = server->error;
  region_unlock(region);
  return error;
}

/* Recreates the socket if it was removed, perhaps with its directory. Does not
 * check on every call, because an application may call percore_serve in each
 * round of its loop. */
static void keep_socket(struct percore_region *region) {
  struct server *server = &region->server;
  int64_t now_ms = region_now_ms();
  if (now_ms - server->checked_ms < CHECK_SOCKET_MS)
    return;
  server->checked_ms = now_ms;
  region_release_ended(region);
  if (!is_found(server))
    (void)region_server_restore(region);
}

/* How long the serving thread pauses after a turn: what readers send must not
 * cost the producer a core. Longer if a limit keeps it from accepting. */
enum { PAUSE_MS = 5, LONG_PAUSE_MS = 100 };

/* Handles one event of each ready descriptor, for which it waits until the next
 * check if `waits`. Returns how long the serving thread must pause before the
 * next call, in milliseconds. */
static int serve_turn(struct percore_region *region, bool waits) {
  struct server *server = &region->server;
  struct epoll_event events[SERVER_CONNECTIONS + 2];
  bool go_on = true;
  keep_socket(region);
  uint64_t clock_ms = clock_now_ns(CLOCK_REALTIME) / 1000000;
  int timeout = server->error != 0
                    ? CHECK_SOCKET_MS
                    : THREAD_CHECKS_MS - (int)(clock_ms % THREAD_CHECKS_MS);
  int ready = epoll_wait(server->epoll, events, SERVER_CONNECTIONS + 2,
                         waits ? timeout : 0);
  for (int i = 0; i < ready; i++) {
    int fd = events[i].data.fd;
    if (fd == server->claim.listener && region_lock(region)) {
      go_on = accept_one(region);
      region_unlock(region);
    }
    for (int c = 0; c < SERVER_CONNECTIONS; c++)
      if (server->connections[c].fd == fd &&
          !handle_message(region, &server->connections[c]) &&
          region_lock(region)) {
        region_close_fd(&server->connections[c].fd);
        region_unlock(region);
      }
  }
  return !go_on ? LONG_PAUSE_MS : ready > 0 ? PAUSE_MS : 0;
}

/* ---------------------------------------------------------------------------
 * The thread
 */

static void *serve_thread(void *argument) {
  struct percore_region *region = argument;
  struct server *server = &region->server;
  pthread_setname_np(pthread_self(), "percore-serve");
  while (region_poll(server->stop, POLLIN, serve_turn(region, true)) == 0)
    ;
  return NULL;
}

/* Starts the serving thread. The thread that creates a region may be pinned and
 * may run with a real-time priority; the serving thread must inherit neither.
 */
static int start_thread(struct percore_region *region) {
  struct server *server = &region->server;
  struct sched_param param = {0};
  pthread_attr_t attributes;
  sigset_t all, before;
  pthread_attr_init(&attributes);
  pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED);
  pthread_attr_setschedpolicy(&attributes, SCHED_OTHER);
  pthread_attr_setschedparam(&attributes, &param);
  pthread_attr_setstacksize(&attributes, STACK_SIZE);
  server->has_thread = true; /* set before the thread starts */
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int error =
      pthread_create(&server->thread, &attributes, serve_thread, region);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
  if (error == 0) {
    /* Here and not in the thread, which would lock the region for it while the
     * application adds its first rows, perhaps under a system call filter. */
    region_server_avoid_slots(region);
    return 0;
  }
  server->has_thread = false;
  return region_failed(error);
}

/* The affinity with which the process was started. It is not taken from the
 * thread that creates a region, which may be pinned to a core reserved for
 * other work. */
static cpu_set_t process_cpus;

static __attribute__((constructor)) void remember_process_cpus(void) {
  if (sched_getaffinity(0, sizeof(process_cpus), &process_cpus) != 0)
    memset(&process_cpus, 0xff, sizeof(process_cpus));
}

/* Removes from the set the core that a slot counts for, and the core to which
 * the slot's thread is pinned, which may be another core. */
static void leave_to_slot(const struct region_slot *slot, cpu_set_t *cpus) {
  cpu_set_t own, taken;
  if (slot->core >= 0 && slot->core < CPU_SETSIZE)
    CPU_CLR((size_t)slot->core, cpus);
  if (sched_getaffinity(slot->tid, sizeof(own), &own) != 0 ||
      CPU_COUNT(&own) != 1)
    return; /* the thread is not pinned */
  CPU_AND(&taken, cpus, &own);
  CPU_XOR(cpus, cpus, &taken);
}

/* Lets the serving thread run on every core of the process that belongs to no
 * attached slot, or on all cores of the process if there is no such core. */
void region_server_avoid_slots(struct percore_region *region) {
  struct server *server = &region->server;
  if (!server->has_thread)
    return;
  cpu_set_t free_cpus = process_cpus;
  for (uint32_t s = 0; s < region->header->slot_count; s++)
    if (region->slots[s].tid != 0)
      leave_to_slot(&region->slots[s], &free_cpus);
  if (pthread_setaffinity_np(server->thread, sizeof(free_cpus), &free_cpus) !=
      0)
    (void)pthread_setaffinity_np(server->thread, sizeof(process_cpus),
                                 &process_cpus);
}

uint32_t region_server_readers(const struct percore_region *region) {
  uint32_t readers = 0;
  for (int c = 0; c < SERVER_CONNECTIONS; c++)
    readers += region->server.connections[c].fd >= 0;
  return readers;
}

/* ---------------------------------------------------------------------------
 * Starting and stopping
 */

void region_server_close(struct percore_region *region) {
  struct server *server = &region->server;
  for (int c = 0; c < SERVER_CONNECTIONS; c++)
    region_close_fd(&server->connections[c].fd);
  region_claim_close(&server->claim);
  region_close_fd(&server->epoll);
  region_close_fd(&server->stop);
  server->has_thread = false; /* a forked child has none */
}

bool region_server_claims(const struct percore_region *region, const char *name,
                          const struct percore_options *options) {
  struct region_claim claim;
  return region_claim_init(&claim, name, options) == 0 &&
         region_claim_is_same(&claim, &region->server.claim);
}

void region_server_init(struct percore_region *region) {
  struct server *server = &region->server;
  pthread_mutex_init(&server->turn, NULL);
  server->claim.lock = server->claim.listener = -1;
  server->epoll = server->stop = -1;
  for (int c = 0; c < SERVER_CONNECTIONS; c++)
    server->connections[c].fd = -1;
}

int region_server_start(struct percore_region *region, const char *name,
                        const struct percore_options *options) {
  struct server *server = &region->server;
  server->epoll = epoll_create1(EPOLL_CLOEXEC);
  server->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (server->epoll >= 0 && server->stop >= 0 &&
      watch(server, server->stop) == 0 &&
      region_claim_init(&server->claim, name, options) == 0) {
    (void)region_server_restore(region); /* server->error remembers why not */
    if (options->serving == PERCORE_SERVE_POLLED || start_thread(region) == 0)
      return 0;
  }
  int saved = errno;
  region_server_stop(region);
  return region_failed(saved);
}

void region_server_stop(struct percore_region *region) {
  struct server *server = &region->server;
  if (server->has_thread) {
    uint64_t one = 1;
    while (write(server->stop, &one, sizeof(one)) < 0 && errno == EINTR)
      ;
    pthread_join(server->thread, NULL);
  }
  region_claim_release(&server->claim);
  region_server_close(region);
}

int percore_fd(const struct percore_region *region) {
  if (region->is_sink || region->server.epoll < 0 || region->server.has_thread)
    return region_failed(ENODEV);
  return region->server.epoll;
}

int percore_serve(struct percore_region *region) {
  NOT_CANCELLED;
  if (percore_fd(region) < 0)
    return -1;
  pthread_mutex_lock(&region->server.turn);
  serve_turn(region, false);
  pthread_mutex_unlock(&region->server.turn);
  return 0;
}
