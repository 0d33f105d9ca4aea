/* percore doctor: can every running collectd report? What its configuration
 * says is not read: 'collectd -T' does that, and says what it refuses. */
#include "doctor.h"
#include "region/layout.h"
#include "text.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define COLLECTD "collectd"
#define COLLECTDS_MAX 8
#define EDIT "systemctl edit collectd, add below [Service]: "
#define RESTART "; then: systemctl restart collectd"

/* ---------------------------------------------------------------------------
 * Processes
 */

struct collectd {
  char pid[32];
  char config[FACT_SIZE]; /* the file that option -C names, or "" */
  struct rights rights;
  /* From the memory map of the process, which only root and its own user may
   * read. */
  enum { PLUGIN_UNKNOWN, PLUGIN_ABSENT, PLUGIN_LOADED } plugin;
};

/* Writes the path of the configuration file that option -C names, or "".
 * Returns false if the process has no command line: it has ended, but its
 * parent has not waited for it. */
static bool find_config(char path[FACT_SIZE], const char *proc,
                        const char *pid) {
  char line[4096] = ""; /* ends with two NULs, in case -C is the last word */
  size_t length = process_read(line, sizeof(line) - 1, proc, pid, "cmdline");
  path[0] = '\0';
  for (const char *word = line; word < line + length; word += strlen(word) + 1)
    if (strncmp(word, "-C", 2) == 0)
      snprintf(path, FACT_SIZE, "%s",
               word[2] != '\0' ? word + 2 : word + strlen(word) + 1);
  return length > 0;
}

/* Finds out whether the plugin is loaded. */
static void read_map(struct collectd *collectd, const char *proc) {
  char line[4096], path[FACT_SIZE];
  snprintf(path, sizeof(path), "%s/%s/maps", proc, collectd->pid);
  FILE *file = fopen(path, "re");
  while (file != NULL && collectd->plugin != PLUGIN_LOADED &&
         fgets(line, sizeof(line), file) != NULL)
    collectd->plugin =
        strstr(line, "/percore.so") != NULL ? PLUGIN_LOADED : PLUGIN_ABSENT;
  if (file != NULL)
    fclose(file);
}

/* Reads a process. Returns false if it is not a collectd, if it has ended, or
 * if its parent is a collectd: its exec plugin has forked the process, which
 * has not executed its program yet. */
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
  if (strcmp(name, "collectd\n") == 0 ||
      !find_config(collectd->config, doctor->proc, pid))
    return false;
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

static void check_loaded(struct doctor *doctor,
                         const struct collectd *collectd) {
  const char *config = collectd->config;
  char advice[3 * FACT_SIZE];
  if (collectd->plugin == PLUGIN_UNKNOWN) {
    doctor_say(doctor, COLLECTD, "LoadPlugin", VERDICT_MISSING,
               "run percore doctor as root",
               "unknown: collectd runs as another user");
    return;
  }
  snprintf(
      advice, sizeof(advice),
      "add the line 'LoadPlugin percore' to %.255s, unless it is there" RESTART
      "; 'collectd -T%s%.255s' shows what collectd refuses",
      config[0] != '\0' ? config : "collectd.conf",
      config[0] != '\0' ? " -C " : "", config);
  bool is_loaded = collectd->plugin == PLUGIN_LOADED;
  doctor_say(doctor, COLLECTD, "LoadPlugin", VERDICT_MISSING,
             is_loaded ? NULL : advice, "percore is %s",
             is_loaded ? "loaded" : "not loaded");
}

static void check_rights_of(struct doctor *doctor,
                            const struct collectd *collectd) {
  const struct rights *rights = &collectd->rights;
  bool counts = doctor_may_count(doctor, rights->capabilities);
  bool reads = rights->in_group ||
               (rights->uid == 0 &&
                (rights->capabilities & CAPABILITY_DAC_OVERRIDE) != 0);
  if (doctor->has_mperf || doctor->core_pmu)
    doctor_say(doctor, COLLECTD, "counters",
               VERDICT_NOTE, /* because Source may be "idle" */
               counts ? NULL : EDIT "AmbientCapabilities=CAP_PERFMON" RESTART,
               counts ? "collectd may read counters"
                      : "collectd may not read counters: it lacks CAP_PERFMON");
  doctor_say(doctor, COLLECTD, "regions", VERDICT_MISSING,
             reads ? NULL : EDIT "SupplementaryGroups=percore" RESTART,
             reads ? "collectd may read regions"
                   : "collectd may not read regions: it is not in the group "
                     "percore");
}

/* A collectd in a container or with PrivateTmp= and the like may see another
 * directory under the same name. */
static void check_namespace(struct doctor *doctor,
                            const struct collectd *collectd) {
  char path[3 * FACT_SIZE];
  struct stat ours, theirs = {0};
  const char *directory = region_runtime_dir();
  snprintf(path, sizeof(path), "%.300s/%.31s/root", doctor->proc,
           collectd->pid);
  if (stat(path, &theirs) != 0 || stat(directory, &ours) != 0)
    return;
  snprintf(path, sizeof(path), "%.300s/%.31s/root%s", doctor->proc,
           collectd->pid, directory);
  if (stat(path, &theirs) == 0 && theirs.st_ino == ours.st_ino &&
      theirs.st_dev == ours.st_dev)
    return;
  doctor_say(doctor, COLLECTD, "namespace", VERDICT_MISSING,
             "mount this directory into the container in which collectd runs",
             "collectd does not see the regions in %s: it has other mounts or "
             "another root directory",
             directory);
}

/* Of several processes, those that have not loaded percore do not matter,
 * unless none has. */
void check_collectd(struct doctor *doctor) {
  struct collectd found[COLLECTDS_MAX];
  size_t len = find_processes(found, doctor);
  bool any = false;
  for (size_t i = 0; i < len; i++)
    any |= found[i].plugin != PLUGIN_ABSENT;
  if (len == 0)
    doctor_say(doctor, COLLECTD, "running", VERDICT_MISSING,
               "install collectd and collectd-plugin-percore, unless they are "
               "installed; 'collectd -T' shows what collectd refuses; then: "
               "systemctl start collectd",
               "no");
  for (size_t i = 0; i < len; i++) {
    const struct collectd *collectd = &found[i];
    doctor_say(doctor, COLLECTD, "running", VERDICT_OK, NULL, "pid %s, uid %u",
               collectd->pid, collectd->rights.uid);
    if (any && collectd->plugin == PLUGIN_ABSENT)
      continue;
    check_loaded(doctor, collectd);
    check_rights_of(doctor, collectd);
    check_namespace(doctor, collectd);
  }
}
