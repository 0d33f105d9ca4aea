/* doctor: what can be measured on this machine, and what would help.
 *
 * doctor.c collects facts, findings.c judges them: the latter needs no machine.
 */
#ifndef PERCORE_DOCTOR_H
#define PERCORE_DOCTOR_H

#include "cycles/source.h"
#include "window.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define FINDINGS_MAX 24
#define FACT_SIZE 256

struct source_facts {
  int cores;              /* online ones that it can serve */
  int chosen;             /* online ones that it serves by `auto` */
  enum proof proof;       /* if it can serve any */
  char reason[FACT_SIZE]; /* if not; or what is wrong with it nevertheless */
};

struct doctor_facts {
  char kernel[FACT_SIZE];
  int cores_online;
  char online[FACT_SIZE], possible[FACT_SIZE];
  char isolated[FACT_SIZE], nohz_full[FACT_SIZE]; /* "": none */
  int isolated_on_idle; /* isolated cores that `auto` measures by idle */
  bool hypervisor;
  bool arm64;
  bool lxcfs;           /* makes /proc/stat and the list of cores */
  bool steal_unknown;   /* and it has never reported any */
  bool softirq_is_idle; /* to this kernel */
  bool tsc_steady;
  char clocksource[FACT_SIZE]; /* "": not known */
  char pmus[FACT_SIZE];        /* names with blanks between */
  bool core_pmu;               /* one of them is that of the cores */
  bool has_paranoid;
  long paranoid; /* kernel.perf_event_paranoid */
  bool may_perf; /* CAP_PERFMON or CAP_SYS_ADMIN is effective */
  struct source_facts source[SOURCES];
  char collectd[FACT_SIZE];  /* where it is, "" if nowhere */
  char plugindir[FACT_SIZE]; /* "": built without the plugin */
  bool plugin_installed;
};

enum verdict { VERDICT_OK, VERDICT_NOTE, VERDICT_MISSING };

struct finding {
  const char *group;
  const char *name;
  enum verdict verdict;
  char value[2 * FACT_SIZE];
  const char *advice; /* NULL: nothing needs to be done */
};

struct findings {
  size_t len;
  struct finding finding[FINDINGS_MAX];
};

void findings_make(struct findings *findings, const struct doctor_facts *facts);

/* Can a load be measured at all? */
bool facts_have_source(const struct doctor_facts *facts);

/* Return 0 or -ENOMEM. Width 0: any. */
int findings_text_write(FILE *out, const struct findings *findings,
                        const struct doctor_facts *facts, int width);
int findings_json_write(FILE *out, const struct findings *findings,
                        const struct doctor_facts *facts);

#endif
