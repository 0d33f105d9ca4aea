/* find.c: finds programs by the names of their threads, in all containers.
 *
 * To read the name of a thread takes 10 us. So the threads of a process are
 * only looked at in its first minutes, while its program may still be starting,
 * and those of all processes every four hours, because a script may have become
 * such a program. New processes have higher numbers than older ones, so /proc
 * is read from the last number on, unless numbers have begun again. */
#include "poller.h"

#include "base/clock.h"
#include "base/file.h"
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
#define OF_ANOTHER "another process has its socket"
enum {
  PATH_SIZE = 64,
  SOCKET_PATH = sizeof(((struct poller_server *)0)->path),
  INODES = 4096,
  TRIES = 32 /* of sockets, in a minute */
};

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

static const char *proc_path(char path[PATH_SIZE], pid_t pid,
                             const char *name) {
  snprintf(path, PATH_SIZE, "/proc/%d/%s", (int)pid, name);
  return path;
}

static void set_process(struct poller_server *server, pid_t pid) {
  char comm[32];
  file_read(comm, sizeof(comm), "/proc/%d/comm", (int)pid);
  utf8_clean(server->name, sizeof(server->name), comm, strcspn(comm, "\n"), "_",
             "");
  if (server->pid == pid)
    return;
  /* Another process has the given socket: its lcores may have other cores. */
  for (size_t i = 0; i < server->len; i++)
    poller_thread_forget(&server->threads[i]);
  server->len = 0;
  server->is_percent = false;
  server->pid = pid;
}

/* True if the process has a place before this one among the programs. Those
 * that an option names come first. */
static bool is_known(const struct pollers *pollers,
                     const struct poller_server *before,
                     enum poller_dialect dialect, pid_t pid) {
  for (size_t i = 0; i < pollers->len && pollers->servers[i] != before; i++)
    if (pid != 0 && pollers->servers[i]->pid == pid &&
        pollers->servers[i]->dialect == dialect)
      return true;
  return false;
}

/* True if the process's user may say how useful its threads are: root, the user
 * of this process, and members of the group that may publish regions. Others
 * could make a core look free that they have taken. */
static bool may_be_asked(pid_t pid) {
  char path[PATH_SIZE];
  struct stat shared;
  struct rights rights;
  bool is_there = stat(region_runtime_dir(), &shared) == 0;
  rights_read(&rights, proc_path(path, pid, ""), ".",
              is_there ? (long)shared.st_gid : -1);
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

/* Reads where the open files of a process lead, and marks those that are
 * sockets by their inodes, modulo INODES. Returns NULL, or why it is not asked.
 */
static const char *read_files(pid_t pid, bool is_open[INODES]) {
  char path[PATH_SIZE], target[64];
  unsigned long inode;
  bool publishes = false;
  DIR *files = opendir(proc_path(path, pid, "fd"));
  if (files == NULL)
    return "its socket cannot be found; run as root, or with CAP_SYS_PTRACE";
  for (struct dirent *entry; (entry = readdir(files)) != NULL;) {
    ssize_t length =
        readlinkat(dirfd(files), entry->d_name, target, sizeof(target) - 1);
    target[length > 0 ? length : 0] = '\0';
    publishes |= is_region(dirfd(files), entry->d_name, target);
    if (sscanf(target, "socket:[%lu]", &inode) == 1)
      is_open[inode % INODES] = true;
  }
  closedir(files);
  return publishes ? "it publishes a region itself" : NULL;
}

/* Connects to a path such as /var/run/x, which is in the root directory of the
 * process; symbolic links do not leave that. Returns NULL, or why not. */
static const char *connect_to(struct poller_server *server, const char *path) {
  const struct open_how how = {.flags = O_PATH | O_CLOEXEC,
                               .resolve = RESOLVE_IN_ROOT};
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  struct ucred peer;
  socklen_t size = sizeof(peer);
  char proc[PATH_SIZE];
  pid_t pid = server->is_given ? getpid() : server->pid;
  int type = signs[server->dialect].type | SOCK_NONBLOCK | SOCK_CLOEXEC;
  int root = open(proc_path(proc, pid, "root"), O_PATH | O_CLOEXEC);
  long file =
      root < 0 ? -1 : syscall(SYS_openat2, root, path, &how, sizeof(how));
  snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%ld",
           file);
  int fd = socket(AF_UNIX, type, 0);
  const char *why = NULL;
  if (file < 0 || fd < 0 ||
      connect(fd, (void *)&address, sizeof(address)) != 0 ||
      getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
    why = strerror(errno);
  else if (!server->is_given && peer.pid != server->pid)
    why = OF_ANOTHER;
  close((int)file);
  close(root);
  if (why != NULL) {
    close(fd);
    return why;
  }
  set_process(server, peer.pid);
  if (path != server->path)
    strcpy(server->path, path);
  server->fd = fd;
  return NULL;
}

/* Reads a line of /proc/PID/net/unix. Returns true if it tells of a socket that
 * listens and may be the one that is looked for. */
static bool is_candidate(enum poller_dialect dialect, const char *line,
                         const bool is_open[INODES], char path[SOCKET_PATH]) {
  unsigned flags, type, state;
  unsigned long inode;
  return strstr(line, signs[dialect].socket) != NULL &&
         sscanf(line, "%*x: %*x %*x %x %x %x %lu %108[^\n]", &flags, &type,
                &state, &inode, path) == 5 &&
         flags == 0x10000 && type == (unsigned)signs[dialect].type &&
         state == 1 && is_open[inode % INODES] && path[0] == '/';
}

/* Paths may contain anything, also what looks like a line, so that only a
 * connection proves whose socket it is. Many such lines are tried in turn, some
 * in each minute. */
static const char *search(struct poller_server *server,
                          const bool is_open[INODES]) {
  char proc[PATH_SIZE], line[256], path[SOCKET_PATH];
  const char *why = server->passed_by == 0 ? "it has no socket" : OF_ANOTHER;
  unsigned found = 0, most = server->passed_by + TRIES;
  FILE *file = fopen(proc_path(proc, server->pid, "net/unix"), "re");
  while (file != NULL && server->fd < 0 && found < most &&
         fgets(line, sizeof(line), file) != NULL)
    if (is_candidate(server->dialect, line, is_open, path) &&
        found++ >= server->passed_by)
      why = connect_to(server, path);
  server->passed_by = found < most ? 0 : found;
  if (file != NULL)
    fclose(file);
  return why;
}

/* Finds the socket, unless it is known, and connects to it. */
static const char *inspect(struct poller_server *server) {
  bool is_open[INODES] = {false};
  if (names_have(&server->pollers->options.ignored, server->name))
    return "it is ignored";
  if (!may_be_asked(server->pid))
    return "its user may not publish regions; add it to the group percore";
  const char *why = read_files(server->pid, is_open);
  if (why != NULL || server->fd >= 0 ||
      connect_to(server, server->path) == NULL)
    return why;
  return search(server, is_open);
}

const char *poller_connect(struct poller_server *server, uint64_t now_ns) {
  const char *why = NULL;
  if (now_ns >= server->inspect_ns && !server->is_given) {
    server->inspect_ns = now_ns + INSPECT_NS;
    why = inspect(server);
  } else if (server->fd < 0)
    why = connect_to(server, server->path);
  if (why == NULL &&
      is_known(server->pollers, server, server->dialect, server->pid))
    why = "it is read already";
  if (why != NULL)
    server->inspect_ns = 0;
  return why;
}

/* ---------------------------------------------------------------------------
 * All processes
 */

/* Programs of users who may not be asked are only told of. Half of the places,
 * and as many lines in all, are for them. */
static void add(struct pollers *pollers, enum poller_dialect dialect, pid_t pid,
                const char *path) {
  bool is_stranger = pid != 0 && !may_be_asked(pid);
  if (pollers->len == POLLER_SERVERS_MAX ||
      (is_stranger && pollers->strangers == POLLER_SERVERS_MAX / 2) ||
      is_known(pollers, NULL, dialect, pid))
    return;
  struct poller_server *server = calloc(1, sizeof(*server));
  if (server == NULL)
    return;
  server->pollers = pollers;
  server->dialect = dialect;
  server->is_given = pid == 0;
  server->fd = -1;
  snprintf(server->path, sizeof(server->path), "%s", path);
  set_process(server, pid);
  pollers->strangers += is_stranger;
  pollers->servers[pollers->len++] = server;
}

/* Looks at the names of a process's threads. */
static void look_at(struct pollers *pollers, pid_t pid) {
  char path[PATH_SIZE], comm[32];
  bool has[POLLER_DIALECTS] = {false};
  DIR *tasks = opendir(proc_path(path, pid, "task"));
  for (struct dirent *task; tasks != NULL && (task = readdir(tasks)) != NULL;) {
    file_read(comm, sizeof(comm), "%s/%s/comm", path, task->d_name);
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

/* Looks at the processes whose numbers are higher than that of `from`, and at
 * most `last`, the number of the newest process; if `all` is true, also at
 * higher numbers. Returns the place of the newest process in /proc. */
static long look_from(struct pollers *pollers, struct poller_place from,
                      int last, bool all) {
  seekdir(pollers->proc, from.at);
  for (;;) {
    long next = telldir(pollers->proc);
    const struct dirent *entry = readdir(pollers->proc);
    int pid = entry != NULL ? atoi(entry->d_name) : 0;
    if (entry == NULL || (pid > last && !all))
      return from.at;
    if (pid > 0 && pid <= last)
      from.at = next;
    if (pid > from.pid)
      look_at(pollers, pid);
  }
}

void pollers_find(struct pollers *pollers) {
  static const struct poller_place begin = {0};
  const struct pollers_options *options = &pollers->options;
  char load[128];
  unsigned look = pollers->looks++;
  for (int d = 0; d < POLLER_DIALECTS; d++)
    for (size_t i = 0; i < options->sockets[d].len && look == 0; i++)
      add(pollers, (enum poller_dialect)d, 0, options->sockets[d].list[i]);
  if (pollers->proc == NULL && (pollers->proc = opendir("/proc")) == NULL)
    return;
  file_read(load, sizeof(load), "/proc/loadavg");
  const char *word = strrchr(load, ' ');
  int last = word != NULL ? atoi(word) : 0;
  if (last < pollers->older.pid) /* numbers have begun again */
    pollers->older = pollers->newer = begin;
  bool all = look % POLLER_LOOKS_TO_ALL == 0 || pollers->older.pid == 0;
  long at = look_from(pollers, all ? begin : pollers->older, last, all);
  if (look % POLLER_LOOKS != 0)
    return;
  pollers->older = pollers->newer;
  pollers->newer = (struct poller_place){last, at};
}
