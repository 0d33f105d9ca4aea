/* Makes the findings about regions and collectd, and combines all findings. */
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
  case 0: /* the producer has not answered in time */
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
               "%d; %d can be read", regions->sockets, regions->alive);
  for (int i = 0; i < regions->unreadable_len; i++)
    add_unreadable(findings, regions, i);
}

/* ---------------------------------------------------------------------------
 * collectd
 */

#define COLLECTD "collectd"
#define EDIT "systemctl edit collectd, add below [Service]: "
#define RESTART "; then: systemctl restart collectd"

static void add_plugin(struct findings *findings,
                       const struct plugin_facts *plugin) {
  if (plugin->directory[0] == '\0')
    findings_add(findings, COLLECTD, "plugin", VERDICT_MISSING,
                 "configure without --disable-plugin",
                 "this percore was built without the plugin");
  else if (plugin->is_installed)
    findings_add(findings, COLLECTD, "plugin", VERDICT_OK, NULL,
                 "%s/percore.so", plugin->directory);
  else
    findings_add(findings, COLLECTD, "plugin", VERDICT_MISSING,
                 "make install, or install the package collectd-plugin-percore",
                 "%s/percore.so is not installed", plugin->directory);
}

static void add_loaded(struct findings *findings, enum plugin_state state) {
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
  findings_add(findings, COLLECTD, "LoadPlugin", states[state].verdict,
               states[state].advice, "%s", states[state].value);
}

static void add_rights(struct findings *findings,
                       const struct doctor_facts *facts,
                       const struct collectd_facts *running) {
  if (facts_may_count(facts, running->capabilities))
    findings_add(findings, COLLECTD, "counters", VERDICT_OK, NULL,
                 "collectd may read counters");
  else if (facts->has_mperf || facts->core_pmu)
    findings_add(findings, COLLECTD, "counters", VERDICT_MISSING,
                 EDIT "AmbientCapabilities=CAP_PERFMON" RESTART,
                 "collectd may not read counters: it lacks CAP_PERFMON");
  else
    findings_add(findings, COLLECTD, "counters", VERDICT_NOTE,
                 EDIT "AmbientCapabilities=CAP_PERFMON" RESTART,
                 "collectd lacks CAP_PERFMON, but this machine offers no "
                 "counters either");
  if (running->in_group ||
      (running->uid == 0 &&
       (running->capabilities & CAPABILITY_DAC_OVERRIDE) != 0))
    findings_add(findings, COLLECTD, "regions", VERDICT_OK, NULL,
                 "collectd may read regions");
  else
    findings_add(findings, COLLECTD, "regions", VERDICT_MISSING,
                 EDIT "SupplementaryGroups=percore" RESTART,
                 "collectd may not read regions: it is not in the group "
                 "percore");
}

/* Recommends a limit on open files: three descriptors per core for counters,
 * and 512 for regions and other plugins. */
static void add_open_files(struct findings *findings, int cores, long limit) {
  long wanted = 3L * cores + 512;
  if (limit >= wanted)
    findings_add(findings, COLLECTD, "open files", VERDICT_OK, NULL,
                 "at most %ld", limit);
  else if (limit > 0)
    findings_add(findings, COLLECTD, "open files", VERDICT_NOTE,
                 EDIT "LimitNOFILE=4096:524288" RESTART,
                 "at most %ld; %ld are recommended here", limit, wanted);
}

static void add_running(struct findings *findings,
                        const struct doctor_facts *facts,
                        const struct collectd_facts *running) {
  findings_add(findings, COLLECTD, "running", VERDICT_OK, NULL,
               "pid %ld, uid %u", running->pid, running->uid);
  add_plugin(findings, &running->plugin);
  add_loaded(findings, running->state);
  add_rights(findings, facts, running);
  add_open_files(findings, facts->cores_online, running->open_files);
}

static void add_collectd(struct findings *findings,
                         const struct doctor_facts *facts) {
  if (facts->collectd[0] != '\0')
    findings_add(findings, COLLECTD, "daemon", VERDICT_OK, NULL, "%s",
                 facts->collectd);
  else
    findings_add(findings, COLLECTD, "daemon", VERDICT_MISSING,
                 "apt-get install collectd-core", "not found");
  for (int i = 0; i < facts->running_len; i++)
    add_running(findings, facts, &facts->running[i]);
  if (facts->running_len > 0)
    return;
  add_plugin(findings, &facts->plugin);
  findings_add(findings, COLLECTD, "running", VERDICT_NOTE,
               "systemctl start collectd", "no");
}

void findings_make(struct findings *findings,
                   const struct doctor_facts *facts) {
  findings->len = 0;
  findings_add_machine(findings, facts);
  add_regions(findings, facts);
  add_collectd(findings, facts);
}
