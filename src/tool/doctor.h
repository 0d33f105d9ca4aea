/* doctor: what can be measured on this machine, and what to improve. Each check
 * reads what it needs and reports its findings. struct doctor holds only what
 * several checks need. */
#ifndef PERCORE_DOCTOR_H
#define PERCORE_DOCTOR_H

#include "cycles/engine.h"
#include "json.h"

#define FACT_SIZE 256

struct source_facts {
  bool is_available;
  int chosen;             /* the number of online cores that use it */
  enum proof proof;       /* valid if it is available */
  char reason[FACT_SIZE]; /* why it is not, or what is wrong with it */
};

struct doctor {
  const struct machine *machine;
  const char *proc; /* "/proc", or a simulated directory in tests */
  /* Where findings go: `json` or, if it is NULL, `out`. */
  struct json *json;
  FILE *out;
  int width; /* of `out` in characters; 0: unlimited */
  bool colour;
  const char *last_group;
  bool first_only; /* report only the first finding that is VERDICT_MISSING */
  bool one_line;   /* write a finding without its advice */
  int missing;     /* how many findings are VERDICT_MISSING */

  int cores_online;
  struct source_facts source[SOURCES];
  long paranoid; /* kernel.perf_event_paranoid */
  long group;    /* gid of the group percore; -1: no such group */
};

/* VERDICT_MISSING: without it, loads or regions of this host are not
 * reported. */
enum verdict { VERDICT_OK, VERDICT_NOTE, VERDICT_MISSING };

/* Reports a finding. advice is NULL if nothing needs to be done; the verdict is
 * then VERDICT_OK. */
void doctor_say(struct doctor *doctor, const char *group, const char *name,
                enum verdict verdict, const char *advice, const char *format,
                ...) __attribute__((format(printf, 6, 7)));

bool doctor_has_source(const struct doctor *doctor);

/* The checks. check_machine asks the engine that chose the sources. */
void check_sources(struct doctor *doctor);
void check_proc_stat(struct doctor *doctor);
void check_polling(struct doctor *doctor, int core);
void check_regions(struct doctor *doctor);
void check_pollers(struct doctor *doctor);
void check_collectd(struct doctor *doctor);

/* Returns the first thing that is missing as a line, or "" if nothing is. Does
 * not try the sources. The caller frees it; NULL if out of memory. */
char *doctor_line(const struct machine *machine);

#endif
