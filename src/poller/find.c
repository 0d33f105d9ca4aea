/* find.c: finds programs by the names of their threads, in all containers.
 *
 * Reading the names of all threads takes 10 us for each, so only the processes
 * of the last looks are looked at: a program may take a while to start. Once an
 * hour, all are: a script may have become one. New processes have larger
 * numbers than those before, so /proc is read on from there, unless numbers
 * have begun again. */
#include "poller.h"

#include "base/clock.h"
#include "base/process.h"
#include "base/utf8.h"
#include "region/name.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#define INSPECT_NS (60 * NS_PER_S)

static const struct {
  const char *thread, *socket; /* what their names contain */
  int type;                    /* of the socket, in /proc/net/unix */
} signs[] = {
    [POLLER_DPDK] = {"telemet", "/dpdk_telemetry.v2", SOCK_SEQPACKET},
    [POLLER_OVS] = {"ovs-vswitchd", ".ctl", SOCK_STREAM},
    [POLLER_SPDK] = {"reactor_", ".sock", SOCK_STREAM},
};

/* ---------------------------------------------------------------------------
 * A process
 */

enum { PATH_SIZE = 64 };

static const char *proc_path(char path[PATH_SIZE], pid_t pid,
                             const char *name) {
  snprintf(path, PATH_SIZE, "/proc/%d/%s", (int)pid, name);
  return path;
}

static void set_process(struct poller_server *server, pid_t pid) {
  char comm[32], path[PATH_SIZE];
  process_read(comm, sizeof(comm), proc_path(path, pid, ""), ".", "comm");
  utf8_clean(server->name, sizeof(server->name), comm, strcspn(comm, "\n"), "_",
             "");
  if (server->pid == pid)
    return;
  /* Another process has the given socket: its lcores may have other cores. */
  for (size_t i = 0; i < server->len; i++)
    poller_thread_forget(server, &server->threads[i]);
  server->len = 0;
  server->pid = pid;
}

static bool is_known(const struct pollers *pollers, enum poller_dialect dialect,
                     pid_t pid) {
  size_t i = 0;
  while (i < pollers->len && (pollers->servers[i]->pid != pid ||
                              pollers->servers[i]->dialect != dialect))
    i++;
  return pid != 0 && i < pollers->len;
}

/* True if the process is asked for another server. Whom an option names is
 * asked in any case, so the same program that was found as well is not. */
static bool is_asked_already(const struct poller_server *server, pid_t pid) {
  const struct pollers *pollers = server->pollers;
  for (size_t i = 0; i < pollers->len; i++) {
    const struct poller_server *other = pollers->servers[i];
    if (other != server && other->pid == pid &&
        other->dialect == server->dialect &&
        (other->is_given || other->len > 0))
      return true;
  }
  return false;
}

/* True if the process's user may say how useful its threads are: root, the user
 * of this process, and members of the group that may publish regions. Others
 * could make a core look free that they have taken. */
static bool may_be_asked(const struct pollers *pollers, pid_t pid) {
  const char *directory = pollers->options.runtime_dir;
  char path[PATH_SIZE];
  struct stat shared;
  struct rights rights;
  if (directory == NULL)
    directory = region_runtime_dir();
  long group = stat(directory, &shared) == 0 ? (long)shared.st_gid : -1;
  rights_read(&rights, proc_path(path, pid, ""), ".", group);
  return rights.uid == 0 || rights.uid == geteuid() || rights.in_group;
}

/* True if this open file is the memory of a region. */
static bool is_region(int directory, const char *file, const char *target) {
  char magic[8] = "";
  int fd = strncmp(target, "/memfd:", strlen("/memfd:")) == 0
               ? openat(directory, file, O_RDONLY | O_NONBLOCK | O_CLOEXEC)
               : -1;
  if (fd >= 0) {
    (void)!pread(fd, magic, sizeof(magic), 0);
    close(fd);
  }
  return memcmp(magic, "PERCORE1", sizeof(magic)) == 0;
}

/* Copies the path of a socket if it is the one that is looked for. `sockets` is
 * the text of /proc/PID/net/unix. */
static void take_path(struct poller_server *server, const char *target,
                      const char *sockets) {
  char line[64], path[sizeof(server->path)];
  unsigned long inode;
  if (sscanf(target, "socket:[%lu]", &inode) != 1)
    return;
  snprintf(line, sizeof(line), " 00010000 %04x 01 %5lu /", /* listens */
           (unsigned)signs[server->dialect].type, inode);
  const char *found = strstr(sockets, line);
  if (found != NULL &&
      sscanf(found + strlen(line) - 1, "%107[^\n]", path) == 1 &&
      strstr(path, signs[server->dialect].socket) != NULL)
    strcpy(server->path, path);
}

/* Finds the socket. Returns NULL, or why not. */
static const char *inspect(struct poller_server *server) {
  char path[PATH_SIZE], target[64], *sockets = NULL;
  size_t size = 0;
  bool publishes = false;
  server->path[0] = '\0';
  if (names_have(&server->pollers->options.ignored, server->name))
    return "it is ignored";
  if (!may_be_asked(server->pollers, server->pid))
    return "its user may not publish regions; add it to the group percore";
  DIR *files = opendir(proc_path(path, server->pid, "fd"));
  if (files == NULL)
    return "its socket cannot be found; run as root, or with CAP_SYS_PTRACE";
  FILE *file = fopen(proc_path(path, server->pid, "net/unix"), "re");
  if (file == NULL || getdelim(&sockets, &size, '\0', file) < 0)
    size = 0;
  for (struct dirent *entry; size > 0 && (entry = readdir(files)) != NULL;) {
    ssize_t length =
        readlinkat(dirfd(files), entry->d_name, target, sizeof(target) - 1);
    target[length > 0 ? length : 0] = '\0';
    publishes |= is_region(dirfd(files), entry->d_name, target);
    take_path(server, target, sockets);
  }
  free(sockets);
  if (file != NULL)
    fclose(file);
  closedir(files);
  return publishes                 ? "it publishes a region itself"
         : server->path[0] == '\0' ? "it has no socket"
                                   : NULL;
}

/* A path such as /var/run/x is in the root directory of the process, which
 * symbolic links do not leave. */
static const char *connect_to(struct poller_server *server, int type) {
  const struct open_how how = {.flags = O_PATH | O_CLOEXEC,
                               .resolve = RESOLVE_IN_ROOT};
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  struct ucred peer;
  socklen_t size = sizeof(peer);
  char path[PATH_SIZE];
  pid_t pid = server->is_given ? getpid() : server->pid;
  int root = open(proc_path(path, pid, "root"), O_PATH | O_CLOEXEC);
  long file = root < 0
                  ? -1
                  : syscall(SYS_openat2, root, server->path, &how, sizeof(how));
  snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%ld",
           file);
  int fd = socket(AF_UNIX, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const char *why = NULL;
  if (file < 0 || fd < 0 ||
      connect(fd, (void *)&address, sizeof(address)) != 0 ||
      getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
    why = strerror(errno);
  else if (!server->is_given && peer.pid != server->pid)
    why = "another process has its socket";
  else if (is_asked_already(server, peer.pid))
    why = "it is read already";
  else
    set_process(server, peer.pid);
  close((int)file);
  close(root);
  server->fd = fd;
  return why;
}

const char *poller_connect(struct poller_server *server, int type) {
  uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);
  const char *why = NULL;
  if (now_ns >= server->inspect_ns && !server->is_given)
    why = inspect(server);
  server->inspect_ns = why == NULL ? now_ns + INSPECT_NS : 0;
  if (why == NULL && server->fd < 0)
    why = connect_to(server, type);
  return why;
}

/* ---------------------------------------------------------------------------
 * All processes
 */

/* Programs that are not asked, but only told of, get half of the places. */
static void add(struct pollers *pollers, enum poller_dialect dialect, pid_t pid,
                const char *path) {
  size_t most = pid == 0 || may_be_asked(pollers, pid) ? POLLER_SERVERS_MAX
                                                       : POLLER_SERVERS_MAX / 2;
  struct poller_server *server =
      pollers->len >= most || is_known(pollers, dialect, pid)
          ? NULL
          : calloc(1, sizeof(*server));
  if (server == NULL)
    return;
  server->pollers = pollers;
  server->dialect = dialect;
  server->is_given = pid == 0;
  server->fd = -1;
  snprintf(server->path, sizeof(server->path), "%s", path);
  set_process(server, pid);
  pollers->servers[pollers->len++] = server;
}

/* Looks at the names of a process's threads. */
static void look_at(struct pollers *pollers, pid_t pid) {
  char path[PATH_SIZE], comm[32];
  bool has[POLLER_DIALECTS] = {false};
  DIR *tasks = opendir(proc_path(path, pid, "task"));
  for (struct dirent *task; tasks != NULL && (task = readdir(tasks)) != NULL;) {
    process_read(comm, sizeof(comm), path, task->d_name, "comm");
    for (int d = 0; d < POLLER_DIALECTS; d++)
      has[d] |= strstr(comm, signs[d].thread) != NULL;
  }
  if (tasks != NULL)
    closedir(tasks);
  has[POLLER_DPDK] &= !has[POLLER_OVS]; /* it registers no usage */
  for (int d = 0; d < POLLER_DIALECTS; d++)
    if (has[d] && pollers->options.wanted[d])
      add(pollers, (enum poller_dialect)d, pid, "");
}

/* Looks at the processes with numbers after `from` and up to `to`. `at` is
 * where they begin in /proc. Returns where the last of them is. */
static long look_from(struct pollers *pollers, long at, int from, int to) {
  seekdir(pollers->proc, at);
  for (;;) {
    long next = telldir(pollers->proc);
    const struct dirent *entry = readdir(pollers->proc);
    int pid = entry != NULL ? atoi(entry->d_name) : 0;
    if (entry == NULL || pid > to)
      return at;
    if (pid > 0)
      at = next;
    if (pid > from)
      look_at(pollers, pid);
  }
}

void pollers_find(struct pollers *pollers) {
  const struct pollers_options *options = &pollers->options;
  char load[128];
  unsigned look = pollers->looks++;
  bool is_first = look < POLLER_LOOKS; /* at all processes */
  for (int d = 0; d < POLLER_DIALECTS; d++)
    for (size_t i = 0; i < options->sockets[d].len && look == 0; i++)
      add(pollers, (enum poller_dialect)d, 0, options->sockets[d].list[i]);
  if (pollers->proc == NULL && (pollers->proc = opendir("/proc")) == NULL)
    return;
  process_read(load, sizeof(load), "/proc", ".", "loadavg");
  const char *word = strrchr(load, ' ');
  int last = word != NULL ? atoi(word) : 0;
  int from = pollers->seen[look % POLLER_LOOKS].pid;
  long at = pollers->seen[look % POLLER_LOOKS].at;
  if (last < from) { /* numbers have begun again */
    look_from(pollers, at, from, INT_MAX);
    at = from = 0;
  }
  if (look % POLLER_LOOKS_TO_ALL == 0)
    at = from = 0;
  at = look_from(pollers, at, from, is_first ? INT_MAX : last);
  pollers->seen[look % POLLER_LOOKS].pid = last;
  pollers->seen[look % POLLER_LOOKS].at = is_first ? 0 : at;
}
