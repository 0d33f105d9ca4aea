/* figures: loads, load averages and other figures of an interval, computed from
 * the running totals of the engine. */
#ifndef PERCORE_FIGURES_H
#define PERCORE_FIGURES_H

#include "cpuidle.h"
#include "engine.h"
#include "loadavg.h"
#include "softirq_time.h"

#include <stddef.h>
#include <stdint.h>

#define FIGURES_NAME_MAX 64

/* A named set of cores for which an aggregate is computed. */
struct figures_group {
  char name[FIGURES_NAME_MAX];
  struct core_set cores;
};

struct figures_options {
  bool cstates;
  bool softirq;
  const struct figures_group *groups; /* must outlive the figures */
  size_t groups_len;
};

/* What a core did according to the tick: the columns of /proc/stat except idle
 * and steal, arranged so that no time is counted twice. */
enum figures_time {
  TIME_USER, /* without guest */
  TIME_NICE, /* without guest_nice */
  TIME_SYSTEM,
  TIME_IRQ,
  TIME_SOFTIRQ,
  TIME_GUEST, /* guest + guest_nice */
  TIME_IOWAIT,
  TIMES,
};

/* One core over one interval. A figure that is NAN is unknown and is not
 * dispatched. */
struct core_figures {
  int core;
  bool online;
  bool isolated;
  enum source_kind source;
  enum proof proof;
  double load;                /* load over the interval, 0 to 1 */
  double load_low, load_high; /* its bounds: see totals.h */
  /* 1 - load + the time in which the core polled and found nothing: in the idle
   * loop; that of workers is added by the host program, which knows it
   * (sampler_options.publish). */
  double room;
  /* The smallest and the largest load of the sample windows that ended in the
   * interval. */
  double load_trough, load_peak;
  /* Load of the busiest other hardware thread of the same physical core. */
  double sibling_load;
  double load_average[LOADAVG_PERIODS];
  /* load that the tick did not see, as a share of wall time */
  double hidden;
  double steal;        /* share of wall time */
  double time[TIMES];  /* shares of wall time */
  double frequency_hz; /* while unhalted */
  struct softirq_shares softirq;
  struct cpuidle cstates;
  double residency[CPUIDLE_STATES_MAX]; /* share of the interval, 0 to 1 */
};

/* Statistics of a figure over those cores of a set on which the figure is
 * known; NAN if it is unknown on all of them. */
struct spread_figures {
  double mean, min, max, stddev; /* population standard deviation */
};

/* Statistics of the loads of a set of cores, each 0 to 1. A core whose load is
 * unknown is counted only in cores_without_value. */
struct aggregate_figures {
  char name[FIGURES_NAME_MAX]; /* all, isolated, housekeeping, node0, ... */
  int cores_len;               /* online cores whose load is known */
  int cores_without_value;
  struct spread_figures load, room;
  /* Statistics of each member of core_figures.time. */
  struct spread_figures time[TIMES];
};

struct host_figures {
  /* The sum of the cores' load averages: how many cores are busy on average.
   * NAN unless the load average of every selected online core is known. */
  double load_average[LOADAVG_PERIODS];
  /* Of the tasks that run, without our own, or are blocked. */
  double run_queue_average[LOADAVG_PERIODS];
  double hidden, steal; /* mean shares of wall time */
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
};

struct snapshot {
  uint64_t time_ns;     /* CLOCK_REALTIME */
  uint64_t interval_ns; /* as configured; 0 if there is no interval */
  uint64_t covered_ns;  /* the measured time that the figures cover */
  size_t cores_len;
  struct core_figures *cores; /* in ascending order, including offline cores */
  size_t aggregates_len;
  struct aggregate_figures *aggregates;
  struct host_figures host;
  struct self_figures self;
  bool hypervisor; /* the CPU reports a hypervisor, or time has been stolen */
  bool isolates;   /* a core of the machine is isolated, even if not selected */
};

void snapshot_free(struct snapshot *snapshot);

/* Computes the host's load averages from those of the cores. */
void snapshot_sum_averages(struct snapshot *snapshot);

struct figures;

/* Returns NULL if out of memory. */
struct figures *figures_open(const struct figures_options *options,
                             const struct engine *engine);
void figures_close(struct figures *figures);

/* Each of these functions ends a window: figures_sample a short window, for the
 * minimum and maximum of loads; figures_load_average a window of the load
 * averages; figures_interval an interval. Call engine_sample first. */
void figures_sample(struct figures *figures);
void figures_load_average(struct figures *figures);
/* Returns a snapshot in which the caller fills in the time, the interval and
 * the sampler's own figures; NULL if out of memory. */
struct snapshot *figures_interval(struct figures *figures);

#endif
