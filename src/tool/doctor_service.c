/* percore doctor: the checks of regions and of collectd. */
#include "doctor.h"
#include "listing.h"
#include "text.h"
#include "tool.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---------------------------------------------------------------------------
 * Files of processes
 */

static FILE *open_file(const char *proc, const char *pid, const char *name) {
  char path[FACT_SIZE + 64];
  snprintf(path, sizeof(path), "%s/%s/%s", proc, pid, name);
  return fopen(path, "re");
}

/* Reads at most size - 1 bytes, and appends a NUL. Returns the number of bytes
 * read, which is 0 if the file cannot be opened. */
static size_t read_start(char *text, size_t size, const char *proc,
                         const char *pid, const char *name) {
  FILE *file = open_file(proc, pid, name);
  size_t length = file != NULL ? fread(text, 1, size - 1, file) : 0;
  text[length] = '\0';
  if (file != NULL)
    fclose(file);
  return length;
}

void rights_read(struct rights *rights, const char *proc, const char *pid,
                 long group) {
  char status[8192];
  *rights = (struct rights){0};
  read_start(status, sizeof(status), proc, pid, "status");
  for (char *line, *rest = status; (line = strsep(&rest, "\n")) != NULL;) {
    sscanf(line, "PPid: %ld", &rights->parent);
    sscanf(line, "Uid: %*u %u", &rights->uid);
    sscanf(line, "CapEff: %llx", &rights->capabilities);
    /* The second number in the line is the effective group. */
    unsigned effective;
    if (sscanf(line, "Gid: %*u %u", &effective) == 1)
      rights->in_group |= group == (long)effective;
    if (strncmp(line, "Groups:", 7) != 0 || group < 0)
      continue;
    char *end;
    for (char *list = line + 7;; list = end) { /* "4 27 1000 " */
      long number = strtol(list, &end, 10);
      if (end == list)
        break;
      rights->in_group |= number == group;
    }
  }
}

/* ---------------------------------------------------------------------------
 * Regions
 */

#define REGIONS "regions"

static void check_directory(struct doctor *doctor, int error) {
  const char *path = region_runtime_dir();
  struct stat status;
  if (error == 0)
    error = stat(path, &status) == 0 ? 0 : errno;
  if (error != 0) {
    doctor_say(doctor, REGIONS, "directory", VERDICT_MISSING,
               listing_advice(error), "%s: %s", path, strerror(error));
    return;
  }
  const struct passwd *user = getpwuid(status.st_uid);
  const struct group *group = getgrgid(status.st_gid);
  bool listed = (status.st_mode & S_IROTH) != 0;
  doctor_say(doctor, REGIONS, "directory", listed ? VERDICT_NOTE : VERDICT_OK,
             listed ? "chmod 3770 it: a user outside its group who lists it "
                      "can block every producer and collectd"
                    : NULL,
             "%s, mode %o, owner %s, group %s", path, status.st_mode & 07777,
             user != NULL ? user->pw_name : "(unknown)",
             group != NULL ? group->gr_name : "(unknown)");
}

static const char *join_advice(char advice[FACT_SIZE]) {
  const struct passwd *user = getpwuid(geteuid());
  snprintf(advice, FACT_SIZE, "usermod -aG percore %s, then log in again",
           user != NULL ? user->pw_name : "(unknown)");
  return advice;
}

static void check_group(struct doctor *doctor) {
  char advice[FACT_SIZE];
  bool root = doctor->rights.uid == 0, member = doctor->rights.in_group;
  const struct passwd *user = getpwuid(doctor->rights.uid);
  if (doctor->group < 0)
    doctor_say(doctor, REGIONS, "group", VERDICT_MISSING,
               "groupadd --system percore",
               "there is no group percore: only root and the user of a "
               "producer can read its region");
  else
    doctor_say(
        doctor, REGIONS, "group", member || root ? VERDICT_OK : VERDICT_NOTE,
        member || root ? NULL : join_advice(advice), "percore; user %s %s",
        user != NULL ? user->pw_name : "(unknown)",
        member ? "is a member"
        : root ? "needs no membership"
               : "is not a member");
}

static void check_unreadable(struct doctor *doctor,
                             const struct listed *listed) {
  char why[LISTED_WHY_SIZE], advice[2 * FACT_SIZE];
  int error = listed_reason(why, listed);
  const char *name = listed->name;
  if (error == EACCES || error == EPERM)
    join_advice(advice);
  else if (error == ECONNREFUSED || error == ECONNRESET)
    snprintf(advice, sizeof(advice),
             "start the producer again, or remove what it left: rm "
             "'%s/%s.sock'",
             region_runtime_dir(), name);
  else if (error == EAGAIN || error == ETIMEDOUT)
    snprintf(advice, sizeof(advice),
             "the producer is stopped, or must call percore_serve more often");
  else /* without an error, the producer has not answered in time */
    snprintf(advice, sizeof(advice), "percore %s %s",
             error == 0 ? "dump" : "check", name);
  doctor_say(doctor, REGIONS, "socket", VERDICT_NOTE, advice, "%s: %s", name,
             why[0] != '\0' ? why : "no answer");
}

void check_regions(struct doctor *doctor) {
  struct listing listing;
  int error = -listing_read(&listing), alive = 0;
  check_directory(doctor, error);
  check_group(doctor);
  for (size_t i = 0; error == 0 && i < listing.names.len; i++)
    alive += strcmp(listed_state(&listing.listed[i]), "alive") == 0;
  if (error == 0)
    doctor_say(doctor, REGIONS, "sockets", VERDICT_OK, NULL,
               "%zu; %d can be read", listing.names.len, alive);
  for (size_t i = 0; error == 0 && i < listing.names.len; i++)
    if (strcmp(listed_state(&listing.listed[i]), "alive") != 0)
      check_unreadable(doctor, &listing.listed[i]);
  listing_free(&listing);
}

/* ---------------------------------------------------------------------------
 * collectd
 */

#define COLLECTD "collectd"
#define CONFIG "/etc/collectd/collectd.conf"
#define CONFIG_LINES_MAX 100000
#define COLLECTDS_MAX 4
#define EDIT "systemctl edit collectd, add below [Service]: "
#define RESTART "; then: systemctl restart collectd"

/* `directory` is collectd's plugin directory. */
static void check_plugin(struct doctor *doctor, const char *directory) {
  char path[FACT_SIZE + 16];
  struct stat status;
  snprintf(path, sizeof(path), "%s/percore.so", directory);
  /* Use lstat, because collectd refuses to load a symbolic link. */
  if (directory[0] == '\0')
    doctor_say(doctor, COLLECTD, "plugin", VERDICT_MISSING,
               "configure without --disable-plugin",
               "this percore was built without the plugin");
  else if (lstat(path, &status) == 0 && S_ISREG(status.st_mode))
    doctor_say(doctor, COLLECTD, "plugin", VERDICT_OK, NULL, "%s", path);
  else
    doctor_say(doctor, COLLECTD, "plugin", VERDICT_MISSING,
               "make install, or install the package collectd-plugin-percore",
               "%s is not installed", path);
}

/* Writes the path of a collectd process's configuration file: the argument of
 * its option -C, or the default path. */
static void find_config(char path[FACT_SIZE], const char *proc,
                        const char *pid) {
  char line[4096] = ""; /* ends with two NULs, in case -C is the last word */
  size_t length = read_start(line, sizeof(line) - 1, proc, pid, "cmdline");
  snprintf(path, FACT_SIZE, "%s", CONFIG);
  for (const char *word = line; word < line + length; word += strlen(word) + 1)
    if (strncmp(word, "-C", 2) == 0)
      snprintf(path, FACT_SIZE, "%s",
               word[2] != '\0' ? word + 2 : word + strlen(word) + 1);
}

/* Sets `directory` to the PluginDir in the configuration file, if there is one.
 * Ignores the files that the configuration file includes. Reads regular files
 * only: every user can start a process that is called collectd and name a FIFO
 * with -C, and reading it might block. */
static void read_config(char directory[FACT_SIZE], const char *proc,
                        const char *pid) {
  char path[FACT_SIZE], line[1024], key[16], value[FACT_SIZE];
  struct stat status;
  find_config(path, proc, pid);
  int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  FILE *file = fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode)
                   ? fdopen(fd, "r")
                   : NULL;
  for (int i = 0; i < CONFIG_LINES_MAX && file != NULL &&
                  fgets(line, sizeof(line), file) != NULL;
       i++)
    if (sscanf(line, " %15s \"%255[^\"\n]", key, value) == 2 &&
        strcasecmp(key, "PluginDir") == 0)
      snprintf(directory, FACT_SIZE, "%s", value);
  if (file != NULL)
    fclose(file);
  else if (fd >= 0)
    close(fd);
}

/* Finds out from collectd's memory map whether the plugin is loaded, and from
 * which directory. Only root and collectd's own user may read the map. */
static void check_loaded(struct doctor *doctor, const char *pid,
                         char directory[FACT_SIZE]) {
  enum { UNKNOWN, ABSENT, LOADED, REPLACED } state = UNKNOWN;
  static const struct {
    enum verdict verdict;
    const char *value, *advice;
  } states[] = {
      {VERDICT_NOTE, "unknown: collectd runs as another user",
       "run percore doctor as root"},
      {VERDICT_MISSING, "percore is not loaded",
       "echo 'LoadPlugin percore' > "
       "/etc/collectd/collectd.conf.d/percore.conf" RESTART},
      {VERDICT_OK, "percore is loaded", NULL},
      {VERDICT_NOTE, "percore.so has been replaced since collectd started",
       "systemctl restart collectd"},
  };
  char line[4096];
  FILE *file = open_file(doctor->proc, pid, "maps");
  while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
    char *path = strchr(line, '/'), *name = strstr(line, "/percore.so");
    state = state == UNKNOWN ? ABSENT : state;
    if (name == NULL)
      continue;
    state = strcmp(name, "/percore.so\n") == 0 ? LOADED : REPLACED;
    snprintf(directory, FACT_SIZE, "%.*s", (int)(name - path), path);
  }
  if (file != NULL)
    fclose(file);
  check_plugin(doctor, directory);
  doctor_say(doctor, COLLECTD, "LoadPlugin", states[state].verdict,
             states[state].advice, "%s", states[state].value);
}

static void check_running_rights(struct doctor *doctor,
                                 const struct rights *rights) {
  bool counts = doctor_may_count(doctor, rights->capabilities);
  bool useful = doctor->has_mperf || doctor->core_pmu;
  bool reads = rights->in_group ||
               (rights->uid == 0 &&
                (rights->capabilities & CAPABILITY_DAC_OVERRIDE) != 0);
  doctor_say(doctor, COLLECTD, "counters",
             counts   ? VERDICT_OK
             : useful ? VERDICT_MISSING
                      : VERDICT_NOTE,
             counts ? NULL : EDIT "AmbientCapabilities=CAP_PERFMON" RESTART,
             counts ? "collectd may read counters"
             : useful
                 ? "collectd may not read counters: it lacks CAP_PERFMON"
                 : "collectd lacks CAP_PERFMON, but this machine offers no "
                   "counters either");
  doctor_say(doctor, COLLECTD, "regions", reads ? VERDICT_OK : VERDICT_MISSING,
             reads ? NULL : EDIT "SupplementaryGroups=percore" RESTART,
             reads ? "collectd may read regions"
                   : "collectd may not read regions: it is not in the group "
                     "percore");
}

/* Recommends a limit on open files: three descriptors per core for counters,
 * and 512 for regions and other plugins. */
static void check_open_files(struct doctor *doctor, const char *pid) {
  static const char name[] = "\nMax open files";
  char limits[4096];
  read_start(limits, sizeof(limits), doctor->proc, pid, "limits");
  const char *line = strstr(limits, name);
  long limit = line != NULL ? strtol(line + strlen(name), NULL, 10) : 0;
  long wanted = 3L * doctor->cores_online + 512;
  if (limit >= wanted)
    doctor_say(doctor, COLLECTD, "open files", VERDICT_OK, NULL, "at most %ld",
               limit);
  else if (limit > 0)
    doctor_say(doctor, COLLECTD, "open files", VERDICT_NOTE,
               EDIT "LimitNOFILE=4096:524288" RESTART,
               "at most %ld; %ld are recommended here", limit, wanted);
}

/* Returns the rights of a collectd. Returns false if the process is not a
 * collectd, or if its parent is one: collectd's exec plugin has forked it, and
 * it has not executed its program yet. */
static bool is_collectd(const struct doctor *doctor, const char *pid,
                        struct rights *rights) {
  char name[32], parent[32];
  read_start(name, sizeof(name), doctor->proc, pid, "comm");
  if (strtol(pid, NULL, 10) <= 0 || strcmp(name, "collectd\n") != 0)
    return false;
  rights_read(rights, doctor->proc, pid, doctor->group);
  snprintf(parent, sizeof(parent), "%ld", rights->parent);
  read_start(name, sizeof(name), doctor->proc, parent, "comm");
  return strcmp(name, "collectd\n") != 0;
}

static void check_running(struct doctor *doctor, const char *pid,
                          const struct rights *rights) {
  char directory[FACT_SIZE] = PLUGINDIR;
  doctor_say(doctor, COLLECTD, "running", VERDICT_OK, NULL, "pid %s, uid %u",
             pid, rights->uid);
  read_config(directory, doctor->proc, pid);
  check_loaded(doctor, pid, directory);
  check_running_rights(doctor, rights);
  check_open_files(doctor, pid);
}

static void check_daemon(struct doctor *doctor) {
  static const char *const paths[] = {"/usr/sbin/collectd",
                                      "/usr/local/sbin/collectd",
                                      "/opt/collectd/sbin/collectd"};
  const char *found = NULL;
  for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
    if (found == NULL && access(paths[i], X_OK) == 0)
      found = paths[i];
  doctor_say(doctor, COLLECTD, "daemon",
             found != NULL ? VERDICT_OK : VERDICT_MISSING,
             found != NULL ? NULL : "apt-get install collectd-core", "%s",
             found != NULL ? found : "not found");
}

void check_collectd(struct doctor *doctor) {
  int running = 0;
  check_daemon(doctor);
  DIR *dir = opendir(doctor->proc);
  for (struct dirent *entry; dir != NULL && running < COLLECTDS_MAX &&
                             (entry = readdir(dir)) != NULL;) {
    struct rights rights;
    if (!is_collectd(doctor, entry->d_name, &rights))
      continue;
    check_running(doctor, entry->d_name, &rights);
    running++;
  }
  if (dir != NULL)
    closedir(dir);
  if (running > 0)
    return;
  check_plugin(doctor, PLUGINDIR);
  doctor_say(doctor, COLLECTD, "running", VERDICT_NOTE,
             "systemctl start collectd", "no");
}
