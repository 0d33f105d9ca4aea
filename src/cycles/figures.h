/* figures: loads, load averages and other figures of an interval, computed from
 * the running totals of the engine. */
#ifndef PERCORE_FIGURES_H
#define PERCORE_FIGURES_H

#include "domains.h"
#include "engine.h"
#include "loadavg.h"
#include "softirq_clock.h"

#include <stddef.h>
#include <stdint.h>

#define FIGURES_PERIODS_MAX 16
#define FIGURES_CSTATES_MAX 10
#define FIGURES_NAME_MAX 64

/* A set of cores that has aggregates of its own. */
struct figures_group {
  char name[FIGURES_NAME_MAX];
  struct core_set cores;
};

struct figures_options {
  /* Load averages, seconds; the first three are always 60, 300 and 900. */
  double period_s[FIGURES_PERIODS_MAX];
  size_t periods_len;
  bool run_queue;
  bool count_blocked; /* add procs_blocked to the run queue */
  bool cstates;
  bool residency; /* of physical cores and packages */
  bool power;
  bool throttles;
  bool schedstat;
  bool softirq;
  const struct figures_group *groups;
  size_t groups_len;
};

struct cstate_figures {
  char name[32];    /* only letters, digits, '-', '_' and '.' */
  double residency; /* share of the interval, 0 to 1; NAN unknown */
  uint64_t entries; /* since boot */
  bool poll;        /* the core spins in it instead of halting */
};

/* What a core did according to the tick: the columns of /proc/stat except idle
 * and steal, without overlap. */
enum figures_time {
  TIME_USER, /* without guest */
  TIME_NICE, /* likewise */
  TIME_SYSTEM,
  TIME_IRQ,
  TIME_SOFTIRQ,
  TIME_GUEST, /* guest + guest_nice */
  TIME_IOWAIT,
  TIMES,
};

/* One core over one interval. NAN means unknown, and is never dispatched. */
struct core_figures {
  int core;
  bool online;
  bool isolated;
  enum source source;
  enum proof proof;
  double busy;               /* load over the interval, 0 to 1 */
  double busy_min, busy_max; /* of the sample windows that ended in it */
  double sibling_busy; /* of the busiest other thread of its physical core */
  double load_average[FIGURES_PERIODS_MAX];
  double hidden;       /* share of wall time that the tick did not see */
  double unaccounted;  /* 1 - sum of columns / wall */
  double steal;        /* share of wall time */
  double time[TIMES];  /* likewise */
  double frequency_hz; /* while unhalted */
  double waiting;      /* tasks that waited for the core, on average */
  double switches;     /* tasks that began to run, since boot */
  double throttles;    /* of the core for heat, since boot */
  double package_throttles;
  double smi; /* system management interrupts, since the first reading */
  double ipc; /* instructions per cycle */
  double ipc_running; /* share of time that the IPC counters had, 0 to 1 */
  struct softirq_figures softirq;
  double counter_running; /* time_running / time_enabled of the source */
  size_t cstates_len;
  struct cstate_figures cstate[FIGURES_CSTATES_MAX];
};

/* Over the cores of a set that have the figure; NAN if no core has it. */
struct spread_figures {
  double mean, min, max, stddev; /* population standard deviation */
};

/* The busy share of a set of cores, each 0 to 1. Cores without a value count
 * only in cores_without_value. */
struct aggregate_figures {
  char name[FIGURES_NAME_MAX]; /* all, isolated, housekeeping, node0, ... */
  int cores_len;               /* with a value */
  int cores_without_value;
  double mean, min, max, stddev;     /* of busy, as spread_figures */
  struct spread_figures time[TIMES]; /* of what the tick saw */
};

struct host_figures {
  /* The sum of the cores' averages: how many cores are busy. NAN unless every
   * selected online core has an average. */
  double load_average[FIGURES_PERIODS_MAX];
  double run_queue_average[FIGURES_PERIODS_MAX];
  double hidden, unaccounted, steal; /* mean over cores, share of wall time */
  double
      cores_without_room; /* with a load of 0.9 or more; NAN: no core has one */
};

struct self_figures {
  int cores_online;
  int cores_without_value;
  int cores_unproven;
  int cores_tick_sampled;
  int cores_by_source[SOURCES];
  struct engine_counts counts;
  double lateness_s;    /* largest delay of a sample in the interval */
  double sample_cost_s; /* longest wall time of a sample in the interval */
  double sampler_cpu;   /* CPU time of the sampling thread / wall, 0 to 1 */
  uint64_t snapshots_dropped; /* not taken in time */
};

struct snapshot {
  uint64_t time_ns;     /* CLOCK_REALTIME */
  uint64_t interval_ns; /* nominal; 0: none */
  uint64_t covered_ns;  /* as measured: the time that the figures cover */
  double period_s[FIGURES_PERIODS_MAX];
  size_t periods_len;
  size_t cores_len;
  struct core_figures
      *cores; /* in rising core numbers, including offline ones */
  size_t aggregates_len;
  struct aggregate_figures *aggregates;
  size_t domains_len;
  struct domain_figure *domains;
  struct host_figures host;
  struct self_figures self;
  bool hypervisor; /* the CPU says that it is virtual, or time was stolen */
};

void snapshot_free(struct snapshot *snapshot);

struct figures;

/* Copies the options. NULL if out of memory. */
struct figures *figures_open(const struct figures_options *options,
                             const struct engine *engine);
void figures_close(struct figures *figures);

/* Call these after engine_sample for each that is due: a sample window (minimum
 * and maximum), a window of the load averages, an interval. Return 0 or
 * -ENOMEM. */
int figures_sample(struct figures *figures);
int figures_load_average(struct figures *figures);
/* The caller fills in the snapshot's time, its interval and the sampler's own
 * figures. NULL if out of memory. */
struct snapshot *figures_interval(struct figures *figures);

#endif
