/* Shared by methods.c and method_readers.c. */
#ifndef PERCORE_METHODS_PRIVATE_H
#define PERCORE_METHODS_PRIVATE_H

#include "compare.h"

#include "cycles/perf_event.h"
#include "cycles/schedstat.h"

/* Busy time and wall time of one core, measured by one method from an arbitrary
 * start. Readings of different epochs have different starts. */
struct reading {
  bool valid;
  uint64_t epoch;
  double wall_ns;
  double busy_ns;
};

/* What a method makes of the columns of /proc/stat. */
enum stat_figure { STAT_BUSY, STAT_SUM, STAT_SHARE, STAT_NOT_IDLE };

struct row; /* an open method */

struct method {
  const char *name;
  const char *title;
  enum source source; /* if an engine reads the method */
  /* Prepares a row. Returns 0 or -errno. May be NULL. */
  int (*open)(struct methods *methods, struct row *row);
  /* Fills row->now for the online cores. */
  void (*read)(struct methods *methods, struct row *row);
  enum stat_figure figure; /* for read_stat */
};

struct row {
  const struct method *method;
  struct machine *machine; /* used by this row and its engine only */
  struct engine *engine;
  struct perf_group *groups; /* indexed by core number */
  const char *path;
  double *ns;                   /* indexed by core number; filled by a parser */
  struct reading *before, *now; /* indexed by core number */
};

struct methods {
  const struct machine *machine;
  struct engine_options options; /* options for `engine` */
  /* Percore's own engine: all sources of `auto`, /proc/stat. */
  struct engine *engine;
  int cores_len; /* the highest possible core number + 1 */
  char *file;
  size_t file_size;
  struct schedstat schedstat;
  size_t rows_len;
  struct row rows[METHODS_MAX];
  uint64_t sampled_ns;
  struct comparison comparison;
};

static inline uint64_t methods_now_ns(const struct methods *methods) {
  return methods->machine->clock_ns(methods->machine->context, CLOCK_MONOTONIC);
}

/* The readers, by the row they fill. */
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
