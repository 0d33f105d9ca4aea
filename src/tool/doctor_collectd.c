/* percore doctor: can every running collectd report? What its configuration
 * says is not read: 'collectd -T' does that, and says what it refuses.
 *
 * Protects from strangers, who can call any process of theirs "collectd": of
 * one that is neither root's nor the caller's, or is in another user namespace,
 * doctor says only that it is there. Nothing that a process has chosen, such as
 * its arguments, becomes part of advice. */
#include "base/bpf.h"
#include "base/file.h"
#include "doctor.h"
#include "region/layout.h"
#include "text.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define COLLECTD "collectd"
#define COLLECTDS_MAX 8
#define EDIT "systemctl edit collectd, add below [Service]: "
#define RESTART "; then: systemctl restart collectd"

/* ---------------------------------------------------------------------------
 * Processes
 */

/* From /proc/PID/status. */
struct rights {
  long parent;
  unsigned uid, real_uid; /* effective, real; -1: unknown */
  unsigned long long capabilities;
  bool in_group; /* a member of the group percore */
};

struct collectd {
  char pid[32];
  struct rights rights;
  bool is_foreign; /* somebody else's */
  /* From the memory map of the process, which only root and its own user may
   * read. */
  enum { PLUGIN_UNKNOWN, PLUGIN_ABSENT, PLUGIN_LOADED } plugin;
};

static void read_rights(struct rights *rights, const struct doctor *doctor,
                        const char *pid) {
  char status[8192];
  *rights = (struct rights){.uid = (unsigned)-1, .real_uid = (unsigned)-1};
  file_read(status, sizeof(status), "%s/%s/status", doctor->proc, pid);
  for (char *line, *rest = status; (line = strsep(&rest, "\n")) != NULL;) {
    sscanf(line, "PPid: %ld", &rights->parent);
    sscanf(line, "Uid: %u %u", &rights->real_uid, &rights->uid);
    sscanf(line, "CapEff: %llx", &rights->capabilities);
    /* The second number in the line is the effective group. */
    unsigned effective;
    if (sscanf(line, "Gid: %*u %u", &effective) == 1)
      rights->in_group |= doctor->group == (long)effective;
    if (strncmp(line, "Groups:", 7) != 0 || doctor->group < 0)
      continue;
    char *end;
    for (char *list = line + 7;; list = end) { /* "4 27 1000 " */
      long number = strtol(list, &end, 10);
      if (end == list)
        break;
      rights->in_group |= number == doctor->group;
    }
  }
}

static bool is_ours(unsigned uid) { return uid == 0 || uid == geteuid(); }

/* A setuid program has the user who started it as its real one. */
static bool is_foreign(const struct doctor *doctor,
                       const struct collectd *collectd) {
  char path[FACT_SIZE], theirs[64] = "", ours[64] = "";
  snprintf(path, sizeof(path), "%.200s/%.31s/ns/user", doctor->proc,
           collectd->pid);
  bool is_known = readlink(path, theirs, sizeof(theirs) - 1) > 0;
  snprintf(path, sizeof(path), "%.200s/self/ns/user", doctor->proc);
  is_known &= readlink(path, ours, sizeof(ours) - 1) > 0;
  return !is_ours(collectd->rights.uid) ||
         !is_ours(collectd->rights.real_uid) ||
         (is_known && strcmp(theirs, ours) != 0);
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
  char name[32], line[2];
  *collectd = (struct collectd){0};
  file_read(name, sizeof(name), "%s/%s/comm", doctor->proc, pid);
  if (strtol(pid, NULL, 10) <= 0 || strcmp(name, "collectd\n") != 0)
    return false;
  snprintf(collectd->pid, sizeof(collectd->pid), "%.31s", pid);
  read_rights(&collectd->rights, doctor, pid);
  file_read(name, sizeof(name), "%s/%ld/comm", doctor->proc,
            collectd->rights.parent);
  if (strcmp(name, "collectd\n") == 0 ||
      file_read(line, sizeof(line), "%s/%s/cmdline", doctor->proc, pid) == 0)
    return false;
  collectd->is_foreign = is_foreign(doctor, collectd);
  if (!collectd->is_foreign)
    read_map(collectd, doctor->proc);
  return true;
}

/* Finds the processes of root and the caller, and one of each that is not. */
static size_t find_processes(struct collectd *found, struct collectd *foreign,
                             int *foreign_len, const struct doctor *doctor) {
  size_t len = 0;
  DIR *dir = opendir(doctor->proc);
  for (struct dirent *entry;
       dir != NULL && len < COLLECTDS_MAX && (entry = readdir(dir)) != NULL;) {
    if (!read_process(&found[len], doctor, entry->d_name))
      continue;
    if (found[len].is_foreign) {
      *foreign = found[len];
      ++*foreign_len;
    } else
      len++;
  }
  if (dir != NULL)
    closedir(dir);
  return len;
}

/* ---------------------------------------------------------------------------
 * Checks
 */

static void check_loaded(struct doctor *doctor,
                         const struct collectd *collectd) {
  bool is_loaded = collectd->plugin == PLUGIN_LOADED;
  if (collectd->plugin == PLUGIN_UNKNOWN)
    doctor_say(doctor, COLLECTD, "LoadPlugin", VERDICT_NOTE,
               "run percore doctor as root",
               "pid %s: whether it has loaded percore cannot be seen",
               collectd->pid);
  else
    doctor_say(doctor, COLLECTD, "LoadPlugin", VERDICT_MISSING,
               is_loaded ? NULL
                         : "add the line 'LoadPlugin percore' to its "
                           "configuration, unless it is there" RESTART
                           "; 'collectd -T' shows what collectd refuses",
               "pid %s has %sloaded percore", collectd->pid,
               is_loaded ? "" : "not ");
}

static bool has(const struct rights *rights, int capability) {
  return (rights->capabilities >> capability & 1) != 0;
}

/* Above level 0 of perf_event_paranoid, counting the events of a whole core
 * needs CAP_PERFMON. */
static void check_rights_of(struct doctor *doctor,
                            const struct collectd *collectd) {
  const struct rights *rights = &collectd->rights;
  bool counts = has(rights, CAP_PERFMON) || has(rights, CAP_SYS_ADMIN) ||
                doctor->paranoid <= 0;
  bool reads =
      rights->in_group || (rights->uid == 0 && has(rights, CAP_DAC_OVERRIDE));
  bool any = false; /* counter works here */
  for (int source = 0; source < SOURCES; source++)
    any |= source_is_counter(source) && doctor->source[source].is_available;
  if (any)
    doctor_say(doctor, COLLECTD, "counters",
               VERDICT_NOTE, /* because Source may be "idle" */
               counts ? NULL : EDIT "AmbientCapabilities=CAP_PERFMON" RESTART,
               "pid %s can%s read counters%s", collectd->pid,
               counts ? "" : "not", counts ? "" : ": it lacks CAP_PERFMON");
  doctor_say(doctor, COLLECTD, "regions", VERDICT_MISSING,
             reads ? NULL : EDIT "SupplementaryGroups=percore" RESTART,
             "pid %s can%s read regions%s", collectd->pid, reads ? "" : "not",
             reads ? "" : ": it is not in the group percore");
}

/* Writes the runtime directory that the environment of a process names, or the
 * usual one. */
static void find_directory(char path[FACT_SIZE], const struct doctor *doctor,
                           const struct collectd *collectd) {
  static char environment[1 << 16];
  static const char name[] = "PERCORE_RUNTIME_DIR=";
  size_t length = file_read(environment, sizeof(environment), "%s/%s/environ",
                            doctor->proc, collectd->pid);
  snprintf(path, FACT_SIZE, "%s", REGION_RUNTIME_DIR);
  for (const char *word = environment; word < environment + length;
       word += strlen(word) + 1)
    if (strncmp(word, name, strlen(name)) == 0 && word[strlen(name)] != '\0')
      snprintf(path, FACT_SIZE, "%s", word + strlen(name));
}

/* A collectd in a container or with PrivateTmp= and the like may see another
 * directory under the same name. */
static void check_directory_of(struct doctor *doctor,
                               const struct collectd *collectd) {
  char path[3 * FACT_SIZE], theirs_path[FACT_SIZE];
  struct stat ours, theirs = {0};
  const char *directory = region_runtime_dir();
  snprintf(path, sizeof(path), "%.300s/%.31s/root", doctor->proc,
           collectd->pid);
  if (stat(path, &theirs) != 0 || stat(directory, &ours) != 0)
    return;
  find_directory(theirs_path, doctor, collectd);
  snprintf(path, sizeof(path), "%.300s/%.31s/root%s", doctor->proc,
           collectd->pid, theirs_path);
  if (stat(path, &theirs) == 0 && theirs.st_ino == ours.st_ino &&
      theirs.st_dev == ours.st_dev)
    return;
  bool is_same = strcmp(theirs_path, directory) == 0;
  doctor_say(doctor, COLLECTD, "namespace", VERDICT_MISSING,
             is_same ? "mount this directory into the container in which "
                       "collectd runs"
                     : "set PERCORE_RUNTIME_DIR to the same directory for "
                       "collectd, its producers and percore, or for none",
             is_same ? "pid %s does not see the regions in %s: it has other "
                       "mounts or another root directory"
                     : "pid %s does not see the regions in %s: its "
                       "PERCORE_RUNTIME_DIR names %s",
             collectd->pid, directory, theirs_path);
}

/* Of several processes, those that have not loaded percore do not matter,
 * unless none has. */
void check_collectd(struct doctor *doctor) {
  struct collectd found[COLLECTDS_MAX], foreign;
  int foreign_len = 0;
  size_t len = find_processes(found, &foreign, &foreign_len, doctor);
  bool any = false;
  for (size_t i = 0; i < len; i++)
    any |= found[i].plugin != PLUGIN_ABSENT;
  if (foreign_len > 0)
    doctor_say(doctor, COLLECTD, "running", VERDICT_NOTE,
               "run percore doctor as the user of a collectd that you trust, "
               "to have it judged",
               "%d of others (the last: pid %s of user %u), which were not "
               "looked at",
               foreign_len, foreign.pid, foreign.rights.uid);
  else if (len == 0)
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
    check_directory_of(doctor, collectd);
  }
}
