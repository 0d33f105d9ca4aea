/* Findings on regions and on the running collectd, and all findings. */
#include "doctor.h"
#include "listing.h"

#include <errno.h>
#include <string.h>

/* ---------------------------------------------------------------------------
 * Regions
 */

#define REGIONS "regions"
static void add_directory(struct findings *findings,
                          const struct regions_facts *facts) {
  if (facts->error == 0)
    findings_add(findings, REGIONS, "directory", VERDICT_OK, NULL, "%s, %s",
                 facts->directory, facts->mode);
  else
    findings_add(findings, REGIONS, "directory", VERDICT_MISSING,
                 listing_advice(facts->error), "%s: %s", facts->directory,
                 strerror(facts->error));
}

static void add_group(struct findings *findings,
                      const struct regions_facts *facts) {
  char advice[2 * FACT_SIZE];
  if (facts->group < 0) {
    findings_add(findings, REGIONS, "group", VERDICT_MISSING,
                 "groupadd --system percore",
                 "there is no group percore: only root and the user of a "
                 "producer can read its region");
    return;
  }
  bool reads = facts->member || facts->root;
  snprintf(advice, sizeof(advice), "usermod -aG percore %s, then log in again",
           facts->user);
  findings_add(findings, REGIONS, "group", reads ? VERDICT_OK : VERDICT_NOTE,
               reads ? NULL : advice, "percore; user %s %s", facts->user,
               facts->member ? "is a member"
               : facts->root ? "needs no membership"
                             : "is not a member");
}

static void add_unreadable(struct findings *findings,
                           const struct regions_facts *facts, int n) {
  const char *name = facts->unreadable[n].name;
  char advice[3 * FACT_SIZE]; /* room for a path and a name */
  switch (facts->unreadable[n].error) {
  case EACCES:
  case EPERM:
    snprintf(advice, sizeof(advice),
             "usermod -aG percore %s, then log in again", facts->user);
    break;
  case ECONNREFUSED:
  case ECONNRESET:
    snprintf(advice, sizeof(advice),
             "start the producer again, or remove what it left: rm "
             "'%s/%s.sock'",
             facts->directory, name);
    break;
  case EAGAIN:
  case ETIMEDOUT:
    snprintf(advice, sizeof(advice),
             "the producer is stopped, or must call percore_serve more often");
    break;
  case 0: /* no answer in time */
    snprintf(advice, sizeof(advice), "percore dump %s", name);
    break;
  default:
    snprintf(advice, sizeof(advice), "percore check %s", name);
  }
  findings_add(findings, REGIONS, "socket", VERDICT_NOTE, advice, "%s: %s",
               name,
               facts->unreadable[n].why[0] != '\0' ? facts->unreadable[n].why
                                                   : "no answer");
}

static void add_regions(struct findings *findings,
                        const struct doctor_facts *facts) {
  const struct regions_facts *regions = &facts->regions;
  add_directory(findings, regions);
  add_group(findings, regions);
  if (regions->error != 0)
    return;
  findings_add(findings, REGIONS, "sockets", VERDICT_OK, NULL,
               "%d; %d regions can be read", regions->sockets, regions->alive);
  for (int i = 0; i < regions->unreadable_len; i++)
    add_unreadable(findings, regions, i);
}

/* ---------------------------------------------------------------------------
 * collectd
 */

#define COLLECTD "collectd"
#define EDIT "systemctl edit collectd, add below [Service]: "
#define RESTART "; then: systemctl restart collectd"

static void add_installed(struct findings *findings,
                          const struct doctor_facts *facts) {
  bool found = facts->collectd[0] != '\0';
  findings_add(findings, COLLECTD, "daemon",
               found ? VERDICT_OK : VERDICT_MISSING,
               found ? NULL : "apt-get install collectd-core", "%s",
               found ? facts->collectd : "not found");
  if (facts->plugindir[0] == '\0')
    findings_add(findings, COLLECTD, "plugin", VERDICT_MISSING,
                 "configure without --disable-plugin",
                 "this percore was built without the plugin");
  else
    findings_add(findings, COLLECTD, "plugin",
                 facts->plugin_installed ? VERDICT_OK : VERDICT_MISSING,
                 facts->plugin_installed
                     ? NULL
                     : "make install, or install the package "
                       "collectd-plugin-percore",
                 "%s/percore.so%s", facts->plugindir,
                 facts->plugin_installed ? "" : " is not installed");
}

static void add_loaded(struct findings *findings,
                       const struct collectd_facts *running) {
  static const struct {
    enum verdict verdict;
    const char *value, *advice;
  } states[] = {
      [PLUGIN_UNKNOWN] = {VERDICT_NOTE,
                          "unknown: collectd runs as another user",
                          "run percore doctor as root"},
      [PLUGIN_ABSENT] = {VERDICT_MISSING, "percore is not loaded",
                         "echo 'LoadPlugin percore' > "
                         "/etc/collectd/collectd.conf.d/percore.conf" RESTART},
      [PLUGIN_LOADED] = {VERDICT_OK, "percore is loaded", NULL},
      [PLUGIN_REPLACED] =
          {VERDICT_NOTE, "percore.so has been replaced since collectd started",
           "systemctl restart collectd"},
  };
  findings_add(findings, COLLECTD, "LoadPlugin",
               states[running->plugin].verdict, states[running->plugin].advice,
               "%s", states[running->plugin].value);
}

static void add_running_rights(struct findings *findings,
                               const struct doctor_facts *facts) {
  const struct collectd_facts *running = &facts->running;
  bool counts = facts_may_count(facts, running->capabilities);
  bool useful = facts->has_mperf || facts->core_pmu;
  findings_add(findings, COLLECTD, "counters",
               counts   ? VERDICT_OK
               : useful ? VERDICT_MISSING
                        : VERDICT_NOTE,
               counts ? NULL : EDIT "AmbientCapabilities=CAP_PERFMON" RESTART,
               "%s",
               counts   ? "collectd may read counters"
               : useful ? "collectd may not read counters: it lacks CAP_PERFMON"
                        : "collectd lacks CAP_PERFMON, but this machine offers "
                          "no counters either");
  bool reads = running->in_group ||
               (running->uid == 0 &&
                (running->capabilities & CAPABILITY_DAC_OVERRIDE) != 0);
  findings_add(findings, COLLECTD, "regions",
               reads ? VERDICT_OK : VERDICT_MISSING,
               reads ? NULL : EDIT "SupplementaryGroups=percore" RESTART, "%s",
               reads ? "collectd may read regions"
                     : "collectd may not read regions: it is not in the group "
                       "percore");
}

/* Three counters per core; the rest is for regions and other plugins. */
static void add_open_files(struct findings *findings,
                           const struct doctor_facts *facts) {
  long wanted = 3L * facts->cores_online + 512;
  bool enough = facts->running.open_files >= wanted;
  if (facts->running.open_files > 0)
    findings_add(
        findings, COLLECTD, "open files", enough ? VERDICT_OK : VERDICT_NOTE,
        enough ? NULL : EDIT "LimitNOFILE=4096:524288" RESTART,
        enough ? "at most %ld" : "at most %ld; %ld are recommended here",
        facts->running.open_files, wanted);
}

static void add_collectd(struct findings *findings,
                         const struct doctor_facts *facts) {
  const struct collectd_facts *running = &facts->running;
  add_installed(findings, facts);
  if (running->pid == 0) {
    findings_add(findings, COLLECTD, "running", VERDICT_NOTE,
                 "systemctl start collectd", "no");
    return;
  }
  findings_add(findings, COLLECTD, "running", VERDICT_OK, NULL,
               "pid %ld, uid %u", running->pid, running->uid);
  add_loaded(findings, running);
  add_running_rights(findings, facts);
  add_open_files(findings, facts);
}

void findings_make(struct findings *findings,
                   const struct doctor_facts *facts) {
  findings->len = 0;
  findings_add_machine(findings, facts);
  add_regions(findings, facts);
  add_collectd(findings, facts);
}
