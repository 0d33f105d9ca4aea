/* doctor: what can be measured on this machine, and what to improve.
 *
 * doctor*.c collect facts. findings*.c turn facts into findings: the lines of
 * the report, with advice. Tests can therefore check the advice with simulated
 * facts. */
#ifndef PERCORE_DOCTOR_H
#define PERCORE_DOCTOR_H

#include "cycles/source.h"
#include "window.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define FINDINGS_MAX 64
#define COLLECTDS_MAX 4
#define FACT_SIZE 256

struct source_facts {
  int cores;        /* the number of online cores on which the source works */
  int chosen;       /* the number of online cores for which `auto` chose it */
  enum proof proof; /* valid if cores > 0 */
  char reason[FACT_SIZE]; /* why it works on no core, or another problem */
};

/* Facts about the runtime directory of regions. */
struct regions_facts {
  char directory[FACT_SIZE];
  int error;            /* errno if the directory cannot be read, otherwise 0 */
  char mode[FACT_SIZE]; /* such as "mode 3775, owner root, group percore" */
  long group;           /* gid of the group percore; -1 if it does not exist */
  bool member;          /* this process is a member of the group percore */
  bool root;
  char user[FACT_SIZE]; /* the user name of this process */
  int alive, sockets;
  /* The first regions that cannot be read, at most four. */
  int unreadable_len;
  struct {
    char name[FACT_SIZE];
    char why[FACT_SIZE];
    int error;
  } unreadable[4];
};

/* Whether percore.so is installed in collectd's plugin directory. */
struct plugin_facts {
  char directory[FACT_SIZE]; /* "" if percore was built without the plugin */
  bool is_installed;
};
void plugin_find(struct plugin_facts *facts, const char *directory);

enum plugin_state {
  PLUGIN_UNKNOWN, /* collectd's memory map is not readable */
  PLUGIN_ABSENT,
  PLUGIN_LOADED,
  PLUGIN_REPLACED, /* percore.so was replaced after collectd loaded it */
};

/* A running collectd. */
struct collectd_facts {
  long pid, parent;
  unsigned uid;                    /* effective */
  unsigned long long capabilities; /* effective */
  bool in_group;                   /* member of the group percore */
  long open_files;                 /* soft limit on open files; 0 if unknown */
  enum plugin_state state;
  struct plugin_facts plugin;
};

/* Fills `list` with facts about at most COLLECTDS_MAX running collectd
 * processes, and returns their number. `proc` is "/proc", or a simulated
 * directory in tests. `group` is the gid of the group percore, or -1 if it does
 * not exist. */
int collectd_find(struct collectd_facts list[COLLECTDS_MAX], const char *proc,
                  long group);
/* Reads a process's parent, effective user and effective capabilities, and
 * whether it is in the group. `pid` is a directory in `proc`, such as "self".
 */
void collectd_read_status(struct collectd_facts *facts, const char *proc,
                          const char *pid, long group);

struct doctor_facts {
  char kernel[FACT_SIZE];
  int cores_online;
  char online[FACT_SIZE], possible[FACT_SIZE];
  /* Lists of cores; "" if there are none. */
  char isolated[FACT_SIZE], nohz_full[FACT_SIZE];
  /* The number of isolated cores for which `auto` chose the source "idle". */
  int isolated_on_idle;
  bool hypervisor;
  bool arm64;
  bool lxcfs;           /* LXCFS provides /proc/stat and the core list */
  bool steal_unknown;   /* the hypervisor has never reported steal */
  bool softirq_is_idle; /* this kernel charges softirq time as idle time */
  bool tsc_steady;
  char clocksource[FACT_SIZE]; /* "" if unknown */
  char pmus[FACT_SIZE];        /* names separated by blanks */
  bool core_pmu;               /* `pmus` includes the PMU of the cores */
  bool has_mperf;              /* the PMU msr provides the event mperf */
  bool has_paranoid;
  long paranoid; /* kernel.perf_event_paranoid */
  bool may_perf; /* CAP_PERFMON or CAP_SYS_ADMIN is effective */
  /* Why the BPF programs of percore wake cannot be loaded; "" if they can. */
  char wake_reason[FACT_SIZE];
  bool has_cpuidle; /* a cpuidle driver controls core 0 */
  struct source_facts source[SOURCES];
  /* Why softirqs cannot be measured; "" if they can. */
  char softirq_trouble[FACT_SIZE];
  char clock_unseen[FACT_SIZE]; /* interrupts that the source "bpf" misses */
  struct regions_facts regions;
  char collectd[FACT_SIZE];   /* path of collectd; "" if not found */
  struct plugin_facts plugin; /* the plugin in the default directory */
  int running_len;
  struct collectd_facts running[COLLECTDS_MAX];
};

/* Capability bits, defined here because older versions of linux/capability.h
 * lack CAP_PERFMON. */
#define CAPABILITY_DAC_OVERRIDE (1ULL << 1)
#define CAPABILITY_SYS_ADMIN (1ULL << 21)
#define CAPABILITY_PERFMON (1ULL << 38)

enum verdict { VERDICT_OK, VERDICT_NOTE, VERDICT_MISSING };

struct finding {
  const char *group;
  const char *name;
  enum verdict verdict;
  char value[2 * FACT_SIZE];
  char advice[2 * FACT_SIZE]; /* "" if nothing needs to be done */
};

struct findings {
  size_t len;
  struct finding finding[FINDINGS_MAX];
};

void findings_make(struct findings *findings, const struct doctor_facts *facts);

/* True if at least one source works. */
bool facts_have_source(const struct doctor_facts *facts);

/* Write the findings. Return 0 or -ENOMEM. `width` is in characters; 0 means
 * unlimited. */
int findings_text_write(FILE *out, const struct findings *findings,
                        const struct doctor_facts *facts, int width,
                        bool colour);
int findings_json_write(FILE *out, const struct findings *findings,
                        const struct doctor_facts *facts);

/* ---------------------------------------------------------------------------
 * Shared by findings*.c
 */

/* Adds a finding. advice is NULL if nothing needs to be done. */
void findings_add(struct findings *findings, const char *group,
                  const char *name, enum verdict verdict, const char *advice,
                  const char *format, ...)
    __attribute__((format(printf, 6, 7)));
/* True if a process with these capabilities may count perf events of a whole
 * core. */
bool facts_may_count(const struct doctor_facts *facts,
                     unsigned long long capabilities);
/* Adds the findings about the sources, the machine, and the rights of this
 * process. */
void findings_add_machine(struct findings *findings,
                          const struct doctor_facts *facts);

#endif
