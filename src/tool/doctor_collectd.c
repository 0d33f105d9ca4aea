/* percore doctor: does every running collectd report what its configuration
 * asks for? Reads the configuration that the process reads: in its own root
 * directory, with all files that the configuration includes. */
#include "doctor.h"
#include "region/layout.h"
#include "text.h"

#include <dirent.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#define COLLECTD "collectd"
#define LINES_MAX 100000 /* lines and files that are read */
#define DEPTH_MAX 8      /* of Include, as in collectd */
#define COLLECTDS_MAX 8
#define EDIT "systemctl edit collectd, add below [Service]: "
#define RESTART "; then: systemctl restart collectd"

/* ---------------------------------------------------------------------------
 * The configuration
 */

struct config {
  char root[FACT_SIZE]; /* "", or the root directory of the process */
  char path[FACT_SIZE]; /* the main file, as the process sees it */
  char plugin_dir[FACT_SIZE];
  char source[32];        /* Source of the block Load; "": not given */
  char unread[FACT_SIZE]; /* a file that could not be read */
  bool names_percore;
  bool in_percore; /* reading <Plugin percore> */
  int lines;       /* and files, so far */
};

static void read_files(struct config *config, const char *path,
                       const char *filter, int depth);

/* Splits a line such as `<Plugin "percore">` or `Source "idle" # text` into its
 * first word and its first value. Returns true if it begins a block. */
static bool split(char *line, char **key, char **value) {
  char *word = line + strspn(line, " \t");
  bool is_block = *word == '<' && word[1] != '/';
  *key = word + is_block;
  *value = *key + strcspn(*key, " \t\r\n>");
  if (**value != '\0')
    *(*value)++ = '\0';
  *value += strspn(*value, " \t");
  bool is_quoted = **value == '"';
  *value += is_quoted;
  (*value)[strcspn(*value, is_quoted ? "\"\n" : " \t\r\n>#")] = '\0';
  return is_block;
}

/* A block <Include> that is being read. */
struct include {
  char path[FACT_SIZE], filter[FACT_SIZE];
};

static void take_line(struct config *config, struct include *include,
                      char *line, int depth) {
  char *key, *value;
  bool is_block = split(line, &key, &value);
  if (strcasecmp(key, "PluginDir") == 0) {
    snprintf(config->plugin_dir, FACT_SIZE, "%s", value);
  } else if (strcasecmp(key, "LoadPlugin") == 0) {
    config->names_percore |= strcasecmp(value, "percore") == 0;
  } else if (strcasecmp(key, "Plugin") == 0) {
    config->in_percore = is_block && strcasecmp(value, "percore") == 0;
  } else if (strcasecmp(key, "Source") == 0 && config->in_percore) {
    snprintf(config->source, sizeof(config->source), "%s", value);
  } else if (strcasecmp(key, "Include") == 0 && is_block) {
    *include = (struct include){0};
    snprintf(include->path, FACT_SIZE, "%s", value);
  } else if (strcasecmp(key, "Include") == 0) {
    read_files(config, value, "", depth + 1);
  } else if (strcasecmp(key, "Filter") == 0) {
    snprintf(include->filter, FACT_SIZE, "%s", value);
  } else if (strcasecmp(key, "</Include") == 0) {
    read_files(config, include->path, include->filter, depth + 1);
  }
}

static void read_file(struct config *config, const char *path, int depth) {
  char line[1024];
  struct include include = {0};
  struct stat status;
  /* Every user can start a process that is called collectd and name a FIFO with
   * -C, and reading it might block. */
  int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  FILE *file = fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode)
                   ? fdopen(fd, "r")
                   : NULL;
  while (file != NULL && config->lines++ < LINES_MAX &&
         fgets(line, sizeof(line), file) != NULL)
    take_line(config, &include, line, depth);
  if (file != NULL) {
    fclose(file);
    return;
  }
  snprintf(config->unread, FACT_SIZE, "%s", path + strlen(config->root));
  if (fd >= 0)
    close(fd);
}

/* Reads all files that match a pattern of the shell, such as "/etc/c/?.conf",
 * and whose names match the filter; of a directory all its files. */
static void read_files(struct config *config, const char *pattern,
                       const char *filter, int depth) {
  char path[2 * FACT_SIZE];
  struct stat status;
  glob_t found;
  snprintf(path, sizeof(path), "%s%s%s", config->root,
           pattern[0] == '/' ? "" : "/", pattern);
  /* A file that is named must exist. */
  int flags = strpbrk(pattern, "*?[") == NULL ? GLOB_NOCHECK : 0;
  if (depth > DEPTH_MAX || glob(path, flags, NULL, &found) != 0)
    return;
  for (size_t i = 0; i < found.gl_pathc && config->lines++ < LINES_MAX; i++) {
    const char *each = found.gl_pathv[i];
    if (stat(each, &status) == 0 && S_ISDIR(status.st_mode)) {
      snprintf(path, sizeof(path), "%s/*", each + strlen(config->root));
      read_files(config, path, filter, depth + 1);
    } else if (filter[0] == '\0' ||
               fnmatch(filter, strrchr(each, '/') + 1, FNM_PATHNAME) == 0) {
      read_file(config, each, depth);
    }
  }
  globfree(&found);
}

static bool exists(const struct config *config, const char *path) {
  char whole[2 * FACT_SIZE];
  snprintf(whole, sizeof(whole), "%s%s", config->root, path);
  return access(whole, F_OK) == 0;
}

/* Reads the configuration of a process or, if config->path is "", the file that
 * collectd reads by default. */
static void read_config(struct config *config) {
  static const char debian[] = "/etc/collectd/collectd.conf",
                    fedora[] = "/etc/collectd.conf";
  if (config->path[0] == '\0')
    snprintf(config->path, FACT_SIZE, "%s",
             exists(config, fedora) && !exists(config, debian) ? fedora
                                                               : debian);
  snprintf(config->plugin_dir, FACT_SIZE, "%s", PLUGINDIR);
  read_files(config, config->path, "", 0);
}

/* ---------------------------------------------------------------------------
 * Processes
 */

struct collectd {
  char pid[32];
  struct rights rights;
  struct config config;
  /* From the memory map of the process, which only root and its own user may
   * read. */
  enum { PLUGIN_UNKNOWN, PLUGIN_ABSENT, PLUGIN_LOADED } plugin;
};

/* Writes the path of the configuration file that option -C names, or "". */
static void find_config(char path[FACT_SIZE], const char *proc,
                        const char *pid) {
  char line[4096] = ""; /* ends with two NULs, in case -C is the last word */
  size_t length = process_read(line, sizeof(line) - 1, proc, pid, "cmdline");
  path[0] = '\0';
  for (const char *word = line; word < line + length; word += strlen(word) + 1)
    if (strncmp(word, "-C", 2) == 0)
      snprintf(path, FACT_SIZE, "%s",
               word[2] != '\0' ? word + 2 : word + strlen(word) + 1);
}

/* Finds out whether the plugin is loaded, and from which directory. */
static void read_map(struct collectd *collectd, const char *proc) {
  char line[4096], path[FACT_SIZE];
  snprintf(path, sizeof(path), "%s/%s/maps", proc, collectd->pid);
  FILE *file = fopen(path, "re");
  while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
    char *begin = strchr(line, '/'), *name = strstr(line, "/percore.so");
    if (collectd->plugin == PLUGIN_UNKNOWN)
      collectd->plugin = PLUGIN_ABSENT;
    if (name == NULL)
      continue;
    collectd->plugin = PLUGIN_LOADED;
    snprintf(collectd->config.plugin_dir, FACT_SIZE, "%.*s",
             (int)(name - begin), begin);
  }
  if (file != NULL)
    fclose(file);
}

/* Reads a process. Returns false if it is not a collectd, or if its parent is
 * one: collectd's exec plugin has forked it, and it has not executed its
 * program yet. */
static bool read_process(struct collectd *collectd, const struct doctor *doctor,
                         const char *pid) {
  char name[32], parent[32];
  *collectd = (struct collectd){0};
  process_read(name, sizeof(name), doctor->proc, pid, "comm");
  if (strtol(pid, NULL, 10) <= 0 || strcmp(name, "collectd\n") != 0)
    return false;
  snprintf(collectd->pid, sizeof(collectd->pid), "%.31s", pid);
  rights_read(&collectd->rights, doctor->proc, pid, doctor->group);
  snprintf(parent, sizeof(parent), "%ld", collectd->rights.parent);
  process_read(name, sizeof(name), doctor->proc, parent, "comm");
  if (strcmp(name, "collectd\n") == 0)
    return false;
  struct config *config = &collectd->config;
  snprintf(config->root, FACT_SIZE, "%.200s/%s/root", doctor->proc,
           collectd->pid);
  if (access(config->root, X_OK) != 0)
    config->root[0] = '\0';
  find_config(config->path, doctor->proc, pid);
  read_config(config);
  read_map(collectd, doctor->proc);
  return true;
}

static size_t find_processes(struct collectd *found,
                             const struct doctor *doctor) {
  size_t len = 0;
  DIR *dir = opendir(doctor->proc);
  for (struct dirent *entry;
       dir != NULL && len < COLLECTDS_MAX && (entry = readdir(dir)) != NULL;)
    len += read_process(&found[len], doctor, entry->d_name);
  if (dir != NULL)
    closedir(dir);
  return len;
}

/* ---------------------------------------------------------------------------
 * Checks
 */

static void check_plugin(struct doctor *doctor, const struct config *config) {
  char path[3 * FACT_SIZE], advice[3 * FACT_SIZE];
  struct stat status;
  const char *directory = config->plugin_dir;
  snprintf(path, sizeof(path), "%s%s/percore.so", config->root, directory);
  /* Use lstat, because collectd refuses to load a symbolic link. */
  bool is_there = lstat(path, &status) == 0 && S_ISREG(status.st_mode);
  snprintf(advice, sizeof(advice),
           strcmp(directory, PLUGINDIR) == 0
               ? "install the package collectd-plugin-percore, or 'make "
                 "install' in percore's build directory"
               : "PluginDir of %s is %s, but percore.so is installed in %s: "
                 "change PluginDir",
           config->path, directory, PLUGINDIR);
  if (PLUGINDIR[0] == '\0')
    snprintf(advice, sizeof(advice), "build percore without --disable-plugin");
  doctor_say(doctor, COLLECTD, "plugin", VERDICT_MISSING,
             is_there ? NULL : advice, "%s/percore.so%s", directory,
             is_there ? "" : " is not installed");
}

static void check_config(struct doctor *doctor, const struct config *config) {
  enum source_kind source;
  bool is_named = source_parse(&source, config->source) == 0 && source >= 0;
  if (config->unread[0] != '\0')
    doctor_say(doctor, COLLECTD, "configuration", VERDICT_MISSING,
               "run percore doctor as root, or repair the path",
               "%s cannot be read", config->unread);
  /* An event is not tested here, because its name would be needed. */
  else if (is_named && source != SOURCE_EVENT &&
           doctor->source[source].cores < doctor->cores_online)
    doctor_say(doctor, COLLECTD, "configuration", VERDICT_MISSING,
               "remove the line, so that the best source that works is used",
               "%s has Source \"%s\", which works on %d of %d cores",
               config->path, config->source, doctor->source[source].cores,
               doctor->cores_online);
  else
    doctor_say(doctor, COLLECTD, "configuration", VERDICT_OK, NULL, "%s",
               config->path);
}

static void check_loaded(struct doctor *doctor,
                         const struct collectd *collectd) {
  const struct config *config = &collectd->config;
  char advice[3 * FACT_SIZE];
  bool is_loaded = collectd->plugin == PLUGIN_LOADED;
  snprintf(advice, sizeof(advice),
           config->names_percore
               ? "'collectd -T -C %s' shows what collectd refuses" RESTART
               : "add the line 'LoadPlugin percore' to %s" RESTART,
           config->path);
  if (collectd->plugin == PLUGIN_UNKNOWN && config->names_percore)
    doctor_say(doctor, COLLECTD, "LoadPlugin", VERDICT_MISSING,
               "run percore doctor as root",
               "unknown: collectd runs as another user");
  else
    doctor_say(doctor, COLLECTD, "LoadPlugin", VERDICT_MISSING,
               is_loaded ? NULL : advice, "percore is %s",
               is_loaded               ? "loaded"
               : config->names_percore ? "configured but not loaded"
                                       : "not loaded");
}

static void check_rights_of(struct doctor *doctor,
                            const struct collectd *collectd) {
  const struct rights *rights = &collectd->rights;
  bool counts = doctor_may_count(doctor, rights->capabilities);
  bool useful = (doctor->has_mperf || doctor->core_pmu) &&
                strcmp(collectd->config.source, "idle") != 0;
  bool reads = rights->in_group ||
               (rights->uid == 0 &&
                (rights->capabilities & CAPABILITY_DAC_OVERRIDE) != 0);
  doctor_say(
      doctor, COLLECTD, "counters", VERDICT_MISSING,
      counts || !useful ? NULL : EDIT "AmbientCapabilities=CAP_PERFMON" RESTART,
      counts   ? "collectd may read counters"
      : useful ? "collectd may not read counters: it lacks CAP_PERFMON"
               : "collectd lacks CAP_PERFMON, but has no counter to read "
                 "here");
  doctor_say(doctor, COLLECTD, "regions", VERDICT_MISSING,
             reads ? NULL : EDIT "SupplementaryGroups=percore" RESTART,
             reads ? "collectd may read regions"
                   : "collectd may not read regions: it is not in the group "
                     "percore");
}

/* A collectd in a container or with PrivateTmp= and the like may see another
 * directory under the same name. */
static void check_namespace(struct doctor *doctor,
                            const struct config *config) {
  char path[2 * FACT_SIZE];
  struct stat ours, theirs = {0};
  const char *directory = region_runtime_dir();
  snprintf(path, sizeof(path), "%s%s", config->root, directory);
  if (config->root[0] == '\0' || stat(directory, &ours) != 0 ||
      (stat(path, &theirs) == 0 && theirs.st_ino == ours.st_ino &&
       theirs.st_dev == ours.st_dev))
    return;
  doctor_say(doctor, COLLECTD, "namespace", VERDICT_MISSING,
             "mount this directory into the container in which collectd runs",
             "collectd does not see the regions in %s: it has other mounts or "
             "another root directory",
             directory);
}

static void check_stopped(struct doctor *doctor) {
  struct collectd stopped = {.plugin = PLUGIN_ABSENT};
  struct config *config = &stopped.config;
  char advice[2 * FACT_SIZE];
  snprintf(config->root, FACT_SIZE, "%s", doctor->root);
  read_config(config);
  if (config->unread[0] == '\0') {
    check_config(doctor, config);
    check_plugin(doctor, config);
    if (!config->names_percore)
      check_loaded(doctor, &stopped);
  }
  snprintf(advice, sizeof(advice),
           config->unread[0] != '\0'
               ? "apt-get install collectd, or write %s"
               : "'collectd -T -C %s' shows what collectd refuses; then: "
                 "systemctl start collectd",
           config->path);
  doctor_say(doctor, COLLECTD, "running", VERDICT_MISSING, advice, "no");
}

/* True if the process has loaded percore, or should. */
static bool is_asked(const struct collectd *collectd) {
  return collectd->config.names_percore || collectd->plugin == PLUGIN_LOADED;
}

/* Of several processes, those that nobody has asked to load percore do not
 * matter, unless nobody has asked any. */
void check_collectd(struct doctor *doctor) {
  struct collectd found[COLLECTDS_MAX];
  size_t len = find_processes(found, doctor);
  bool any = false;
  for (size_t i = 0; i < len; i++)
    any |= is_asked(&found[i]);
  if (len == 0)
    check_stopped(doctor);
  for (size_t i = 0; i < len; i++) {
    const struct collectd *collectd = &found[i];
    doctor_say(doctor, COLLECTD, "running", VERDICT_OK, NULL, "pid %s, uid %u",
               collectd->pid, collectd->rights.uid);
    if (any && !is_asked(collectd))
      continue;
    check_config(doctor, &collectd->config);
    check_plugin(doctor, &collectd->config);
    check_loaded(doctor, collectd);
    check_rights_of(doctor, collectd);
    check_namespace(doctor, &collectd->config);
  }
}
