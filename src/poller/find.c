/* find.c: which sockets are asked, and who is believed.
 *
 * Protects from strangers: a socket at a usual place is asked only if nobody
 * but root and the user of this process could put one there. What an option
 * names is believed. No process is looked for, and nothing of a process is
 * opened but the folder of the threads of the one that listens. */
#include "poller.h"

#include "base/file.h"
#include "base/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

bool poller_refuse(struct poller_server *server, const char *format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(server->why, sizeof(server->why), format, list);
  va_end(list);
  return false;
}

/* True if a socket and each directory above it belong to root or the user of
 * this process, and nobody else may write to these directories, not even where
 * only the owner can replace a file (mode 1777). Asks no file system that may
 * not answer. */
static bool is_trusted(struct poller_server *server) {
  const char *path = server->path;
  char part[PATH_MAX];
  struct stat file;
  for (size_t length = 1;; length += 1 + strcspn(path + length + 1, "/")) {
    snprintf(part, sizeof(part), "%.*s", (int)length, path);
    if (fstatat(AT_FDCWD, part, &file,
                AT_SYMLINK_NOFOLLOW | AT_STATX_DONT_SYNC) != 0)
      return poller_refuse(server, "%s", strerror(errno));
    bool is_open = /* links are */
        !S_ISSOCK(file.st_mode) && (file.st_mode & (S_IWGRP | S_IWOTH)) != 0;
    if (is_open || (file.st_uid != 0 && file.st_uid != geteuid()))
      return poller_refuse(server,
                           "others than root can change %s, or it is a link; "
                           "name the socket in <Pollers> to believe it",
                           part);
    if (path[length] == '\0')
      return true;
    length -= length == 1; /* the slash of "/" begins the next part, too */
  }
}

/* Decides whether the process that listens is believed. Another one may have
 * the number of one that has ended. */
static bool is_believed(struct poller_server *server, uid_t owner) {
  const struct pollers *pollers = server->pollers;
  const struct ucred *peer = &server->peer;
  char text[32];
  snprintf(text, sizeof(text), "%d", (int)peer->pid);
  if (faccessat(server->tasks, text, F_OK, 0) != 0) {
    poller_forget(server);
    file_read(text, sizeof(text), "/proc/%d/comm", (int)peer->pid);
    utf8_clean(server->name, sizeof(server->name), text, strcspn(text, "\n"),
               "_", "");
    snprintf(text, sizeof(text), "/proc/%d/task", (int)peer->pid);
    server->tasks = open(text, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  }
  if (peer->uid != 0 && peer->uid != geteuid() && peer->uid != owner)
    return poller_refuse(server,
                         "the socket belongs to user %u; run the "
                         "program as that user",
                         (unsigned)owner);
  for (size_t i = 0; i < pollers->len && pollers->servers[i] != server; i++)
    if (peer->pid != 0 && pollers->servers[i]->peer.pid == peer->pid &&
        pollers->servers[i]->misses < POLLER_MISSES)
      return poller_refuse(server, "it is asked at %s",
                           pollers->servers[i]->path);
  return true;
}

/* The address names a descriptor, because a path may be longer than one. */
bool poller_connect(struct poller_server *server) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  int type = server->is_dpdk ? SOCK_SEQPACKET : SOCK_STREAM;
  struct stat status;
  socklen_t size = sizeof(server->peer);
  if (server->fd >= 0)
    return true;
  if (!server->is_given && !is_trusted(server))
    return false;
  int file = open(server->path, O_PATH | O_CLOEXEC);
  int fd = socket(AF_UNIX, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d",
           file);
  if (file < 0 || fd < 0 || fstat(file, &status) != 0 ||
      connect(fd, (void *)&address, sizeof(address)) != 0 ||
      getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &server->peer, &size) != 0)
    poller_refuse(server, "%s; see whether its program runs", strerror(errno));
  else if (is_believed(server, status.st_uid))
    server->fd = fd;
  close(file);
  if (server->fd < 0)
    close(fd);
  return server->fd >= 0;
}

void poller_forget(struct poller_server *server) {
  for (size_t i = 0; i < server->len; i++)
    poller_thread_forget(&server->threads[i]);
  server->len = 0; /* its lcores may have other cores */
  server->is_percent = false;
  close(server->tasks);
  server->tasks = -1;
}

/* ---------------------------------------------------------------------------
 * All sockets
 */

/* DPDK's sockets end in ".v2", and ":1" and so forth. */
static void add(struct pollers *pollers, const char *path, bool is_given) {
  struct poller_server *server = NULL;
  for (size_t i = 0; i < pollers->len && server == NULL; i++)
    if (strcmp(pollers->servers[i]->path, path) == 0)
      server = pollers->servers[i];
  if (server == NULL && pollers->len < pollers->most &&
      (server = calloc(1, sizeof(*server))) != NULL) {
    server->pollers = pollers;
    server->is_dpdk = fnmatch("*.ctl", path, 0) != 0;
    snprintf(server->path, sizeof(server->path), "%s", path);
    server->is_given = is_given;
    server->fd = server->tasks = -1;
    pollers->servers[pollers->len++] = server;
    if (pollers->len == pollers->most)
      journal_say(&pollers->options.journal, JOURNAL_WARNING,
                  "pollers: %zu sockets are asked, and no more", pollers->len);
  }
  if (server != NULL)
    server->is_found = true;
}

void pollers_sweep(struct pollers *pollers) {
  size_t kept = 0;
  for (size_t i = 0; i < pollers->len; i++) {
    struct poller_server *server = pollers->servers[i];
    if (server->is_found) {
      server->is_found = false;
      pollers->servers[kept++] = server;
      continue;
    }
    poller_forget(server);
    close(server->fd);
    free(server);
  }
  pollers->len = kept;
}

/* A pattern of an option that nothing matches is told of as a path that is not
 * there. */
static void add_all(struct pollers *pollers, const char *pattern,
                    bool is_given) {
  glob_t found;
  if (glob(pattern, is_given ? GLOB_NOCHECK : 0, NULL, &found) != 0)
    return;
  for (size_t i = 0; i < found.gl_pathc; i++)
    add(pollers, found.gl_pathv[i], is_given);
  globfree(&found);
}

void pollers_find(struct pollers *pollers) {
  const struct pollers_options *options = &pollers->options;
  for (size_t i = 0; i < options->sockets.len; i++)
    add_all(pollers, options->sockets.list[i], true);
  if (options->usual) {
    add_all(pollers, "/run/openvswitch/ovs-vswitchd.*.ctl", false);
    add_all(pollers, "/run/dpdk/*/dpdk_telemetry.v2", false);
  }
  pollers_sweep(pollers);
}
