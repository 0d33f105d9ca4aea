/* Shared by methods.c and method_readers.c. */
#ifndef PERCORE_METHODS_PRIVATE_H
#define PERCORE_METHODS_PRIVATE_H

#include "compare.h"

#include "cycles/perf_event.h"
#include "cycles/schedstat.h"

/* The busy time and wall time of a core since an arbitrary moment. That moment
 * differs between readings with different epochs, so such readings are not
 * subtracted from each other. */
struct reading {
  bool valid;
  uint64_t epoch;
  double wall_ns;
  double busy_ns;
};

/* How a method turns the columns of /proc/stat into a load. */
enum stat_figure { STAT_BUSY, STAT_SUM, STAT_SHARE, STAT_NOT_IDLE };

struct row; /* an open method */

struct method {
  const char *name;
  const char *title;
  enum source source; /* SOURCE_NONE if the method uses no source of percore */
  /* Prepares a row. Returns 0 or -errno. NULL if a row needs no preparation. */
  int (*open)(struct methods *methods, struct row *row);
  /* Fills row->now for the cores in methods->online. */
  void (*read)(struct methods *methods, struct row *row);
  enum stat_figure figure; /* for read_stat */
};

struct row {
  const struct method *method;
  struct machine *machine; /* used only by this row and its engine */
  struct engine *engine;
  const char *path; /* the file to read; NULL if the row reads no file */
  /* The arrays below are indexed by core number. */
  struct perf_group *groups;
  double *ns; /* times in nanoseconds, filled by a parser */
  struct reading *before, *now;
};

struct methods {
  const struct machine *machine;
  struct engine_options options; /* of `engine` */
  struct engine *engine;  /* measures the row "percore" and reads /proc/stat */
  int cores_len;          /* highest possible core number + 1, when opened */
  struct core_set online; /* the online cores with numbers below cores_len */
  char *file;
  size_t file_size;
  struct schedstat schedstat;
  struct row rows[METHODS_MAX]; /* row i belongs to comparison.method[i] */
  uint64_t sampled_ns;
  struct comparison comparison;
};

static inline uint64_t methods_now_ns(const struct methods *methods) {
  return methods->machine->clock_ns(methods->machine->context, CLOCK_MONOTONIC);
}

/* The functions in the table of methods. */
void read_stat(struct methods *methods, struct row *row);
int open_ns(struct methods *methods, struct row *row);
void read_schedstat(struct methods *methods, struct row *row);
void read_timer_list(struct methods *methods, struct row *row);
int open_cpuacct(struct methods *methods, struct row *row);
void read_cpuacct(struct methods *methods, struct row *row);
void read_cpuidle(struct methods *methods, struct row *row);
int open_task_clock(struct methods *methods, struct row *row);
void read_task_clock(struct methods *methods, struct row *row);
int open_source(struct methods *methods, struct row *row);
void read_source(struct methods *methods, struct row *row);
void read_percore(struct methods *methods, struct row *row);

#endif
