#include "dispatch.h"

#include "put.h"

#include "globals.h"
#include "utils/common/common.h"

#include <math.h>

#define WHEN(member) offsetof(struct config, member)
#define CORE(member) offsetof(struct core_figures, member)

/* The snapshot that is being dispatched. */
struct out {
  const struct config *config;
  const struct snapshot *snapshot;
  value_list_t list;
};

/* ---------------------------------------------------------------------------
 * Figures
 */

/* How a figure is converted and dispatched. NAN stays NAN. */
enum scale {
  /* A share of 0 to 1, shown in percent. It is clamped, because collectd does
   * not enforce the limits of 0 and 100 that types.db declares. */
  PERCENT,
  POINTS, /* a difference of shares, shown in percentage points; may be negative
           */
  PLAIN,  /* unchanged; negative figures become NAN */
  NUMBER, /* an int, unchanged */
  TOTAL,  /* a uint64_t, dispatched as DERIVE */
};

/* `figure` is the offset of a number in a struct of figures: a double, unless
 * the scale says otherwise. `when` is the offset of the bool in struct config
 * that enables the metric; 0: it is always enabled. */
struct metric {
  const char *type;
  const char *type_instance;
  enum scale scale;
  size_t figure;
  size_t when;
};

static double scaled(double figure, enum scale scale) {
  if (!isfinite(figure))
    return NAN;
  switch (scale) {
  case PERCENT:
    return figure <= 0 ? 0 : figure >= 1 ? 100 : figure * 100;
  case POINTS:
    return figure * 100;
  default:
    return figure < 0 ? NAN : figure;
  }
}

static void put_figure(struct out *out, const char *type,
                       const char *type_instance, double figure,
                       enum scale scale) {
  put_gauge(&out->list, type, type_instance, scaled(figure, scale));
}

static void put_metric(struct out *out, const struct metric *metric,
                       const void *at) {
  const char *type = metric->type, *type_instance = metric->type_instance;
  switch (metric->scale) {
  case TOTAL:
    put_derive(&out->list, type, type_instance, *(const uint64_t *)at);
    break;
  case NUMBER:
    put_figure(out, type, type_instance, *(const int *)at, PLAIN);
    break;
  default:
    put_figure(out, type, type_instance, *(const double *)at, metric->scale);
  }
}

/* Dispatches the metrics that are enabled and whose figures are known.
 * `figures` points to the struct of figures. */
static void put_metrics(struct out *out, const struct metric *metrics,
                        size_t metrics_len, const void *figures) {
  for (size_t i = 0; i < metrics_len; i++)
    if (metrics[i].when == 0 || *((const bool *)out->config + metrics[i].when))
      put_metric(out, &metrics[i], (const char *)figures + metrics[i].figure);
}

/* Puts load averages: one value with three data sources. */
static void put_load_averages(struct out *out, const double *average,
                              const char *name, double ceiling) {
  value_t value[LOADAVG_PERIODS];
  for (size_t i = 0; i < LOADAVG_PERIODS; i++) {
    if (!isfinite(average[i]))
      return;
    value[i].gauge = fmin(scaled(average[i], PLAIN), ceiling);
  }
  put_values(&out->list, "load", name, value, LOADAVG_PERIODS);
}

/* ---------------------------------------------------------------------------
 * Cores
 */

static const struct metric core_details[] = {
    {"percent", "load_low", PERCENT, CORE(load_low),
     WHEN(sampler.engine.bounds)},
    {"percent", "load_high", PERCENT, CORE(load_high),
     WHEN(sampler.engine.bounds)},
    {"gauge", "hidden", POINTS, CORE(hidden), WHEN(load.report_hidden)},
    {"percent", "steal", PERCENT, CORE(steal), WHEN(load.report_hidden)},
    {"cpufreq", "", PLAIN, CORE(frequency_hz), WHEN(sampler.engine.frequency)},
    {"percent", "softirq_all", PERCENT, CORE(softirq.all),
     WHEN(sampler.figures.softirq)},
};

/* Puts the time in each idle state and how often the core entered it. The state
 * POLL is named idle_poll and not cstate_POLL, because the core spins in it, so
 * the time is part of the load. */
static void put_cstates(struct out *out, const struct core_figures *core) {
  for (int i = 0; i < core->cstates.states_len; i++) {
    const struct cpuidle_state *state = &core->cstates.state[i];
    char name[DATA_MAX_NAME_LEN] = "idle_poll";
    if (!state->poll)
      snprintf(name, sizeof(name), "cstate_%s", state->name);
    put_figure(out, "percent", name, core->residency[i], PERCENT);
    put_derive(&out->list, "operations", name, state->entries);
  }
}

static void put_softirq_kinds(struct out *out,
                              const struct core_figures *core) {
  static const char *const names[SOFTIRQ_KINDS] = {
      "softirq_hi",
      "softirq_timer",
      "softirq_net_tx",
      "softirq_net_rx",
      "softirq_block",
      "softirq_irq_poll",
      "softirq_tasklet",
      "softirq_sched",
      "softirq_hrtimer",
      "softirq_rcu",
      [SOFTIRQ_HARD] = "hardirq",
  };
  for (int i = 0; i < SOFTIRQ_KINDS; i++)
    put_figure(out, "percent", names[i], core->softirq.kind[i], PERCENT);
}

static const char *const time_names[TIMES] = {
    [TIME_USER] = "user",       [TIME_NICE] = "nice",
    [TIME_SYSTEM] = "system",   [TIME_IRQ] = "irq",
    [TIME_SOFTIRQ] = "softirq", [TIME_GUEST] = "guest",
    [TIME_IOWAIT] = "iowait",
};

static void put_core(struct out *out, const struct core_figures *core) {
  const struct config *config = out->config;
  char number[16];
  snprintf(number, sizeof(number), "%d", core->core);
  put_subject(&out->list, PLUGIN_CORE, number);
  put_figure(out, "percent", "load", core->load, PERCENT);
  put_figure(out, "percent", "room", core->room, PERCENT);
  put_load_averages(out, core->load_average, "", 1);
  if (config->load.sample_interval_s > 0) {
    put_figure(out, "percent", "load_peak", core->load_peak, PERCENT);
    put_figure(out, "percent", "load_trough", core->load_trough, PERCENT);
  }
  for (int i = 0; config->load.report_time && i < TIMES; i++)
    put_figure(out, "percent", time_names[i], core->time[i], PERCENT);
  put_metrics(out, core_details, STATIC_ARRAY_SIZE(core_details), core);
  if (config->sampler.figures.softirq)
    put_softirq_kinds(out, core);
  if (config->sampler.figures.cstates)
    put_cstates(out, core);
}

static void put_cores(struct out *out) {
  for (size_t i = 0; i < out->snapshot->cores_len; i++)
    if (out->snapshot->cores[i].online)
      put_core(out, &out->snapshot->cores[i]);
}

/* ---------------------------------------------------------------------------
 * Host
 */

enum parts { MEAN = 1, MEAN_AND_MIN, MEAN_TO_STDDEV = 4 };

static void put_spread(struct out *out, const char *prefix, enum parts len,
                       const struct spread_figures *spread) {
  const struct {
    const char *name;
    double figure;
  } parts[] = {{"_mean", spread->mean},
               {"_min", spread->min},
               {"_max", spread->max},
               {"_stddev", spread->stddev}};
  for (size_t i = 0; i < len; i++) {
    char name[DATA_MAX_NAME_LEN];
    stpcpy(stpcpy(name, prefix), parts[i].name);
    put_figure(out, "percent", name, parts[i].figure, PERCENT);
  }
}

/* By default, only the classes of the host that tell why cores are full. */
static void put_times(struct out *out,
                      const struct aggregate_figures *aggregate, bool is_host) {
  static const enum figures_time why[] = {TIME_USER, TIME_SYSTEM, TIME_IRQ,
                                          TIME_SOFTIRQ};
  if (out->config->load.report_time)
    for (int time = 0; time < TIMES; time++)
      put_spread(out, time_names[time], MEAN_TO_STDDEV, &aggregate->time[time]);
  else if (is_host)
    for (size_t i = 0; i < STATIC_ARRAY_SIZE(why); i++)
      put_spread(out, time_names[why[i]], MEAN, &aggregate->time[why[i]]);
}

static void put_sets(struct out *out) {
  const struct snapshot *snapshot = out->snapshot;
  for (size_t i = 0; i < snapshot->aggregates_len; i++) {
    const struct aggregate_figures *aggregate = &snapshot->aggregates[i];
    put_subject(&out->list, PLUGIN_HOST, aggregate->name);
    put_spread(out, "load", MEAN_TO_STDDEV, &aggregate->load);
    put_spread(out, "room", MEAN_AND_MIN, &aggregate->room);
    put_times(out, aggregate, i == 0);
  }
}

static void put_host(struct out *out) {
  const struct snapshot *snapshot = out->snapshot;
  const struct host_figures *host = &snapshot->host;
  put_sets(out);
  put_subject(&out->list, PLUGIN_HOST, INSTANCE_ALL);
  put_load_averages(out, host->load_average, "", CORES_MAX);
  put_load_averages(out, host->run_queue_average, "runqueue", GAUGE_MAX);
  put_figure(out, "gauge", "hidden", host->hidden, POINTS);
  if (snapshot->hypervisor)
    put_figure(out, "percent", "steal", host->steal, PERCENT);
}

/* ---------------------------------------------------------------------------
 * percore's own figures
 */

#define SELF(member) offsetof(struct self_figures, member)

#define REPORT_SELF WHEN(load.report_self)

static const struct metric self_metrics[] = {
    {"gauge", "cores_online", NUMBER, SELF(cores_online), 0},
    {"gauge", "cores_without_value", NUMBER, SELF(cores_without_value), 0},
    {"percent", "sampler_cpu", PERCENT, SELF(sampler_cpu), 0},
    {"gauge", "cores_unproven", NUMBER, SELF(cores_unproven), REPORT_SELF},
    {"gauge", "cores_tick_sampled", NUMBER, SELF(cores_tick_sampled),
     REPORT_SELF},
    {"derive", "windows_discarded", TOTAL, SELF(counts.windows_discarded),
     REPORT_SELF},
    {"derive", "errors", TOTAL, SELF(counts.errors), REPORT_SELF},
    {"derive", "reopens", TOTAL, SELF(counts.reopens), REPORT_SELF},
    {"derive", "source_changes", TOTAL, SELF(counts.source_changes),
     REPORT_SELF},
    {"duration", "lateness", PLAIN, SELF(lateness_s), REPORT_SELF},
    {"duration", "sample_cost", PLAIN, SELF(sample_cost_s), REPORT_SELF},
};

/* Reports how many cores are measured with each source. To save series, leaves
 * out sources that have not measured a core since start. */
static void put_sources(struct out *out, const struct dispatch *dispatch) {
  for (int source = 0; source < SOURCES; source++) {
    char name[DATA_MAX_NAME_LEN];
    if (!dispatch->source_seen[source])
      continue;
    snprintf(name, sizeof(name), "cores_%s", source_name(source));
    for (char *p = name; *p != '\0'; p++)
      if (*p == '-')
        *p = '_';
    put_figure(out, "gauge", name, out->snapshot->self.cores_by_source[source],
               PLAIN);
  }
}

static void put_self(struct out *out, const struct dispatch *dispatch) {
  put_subject(&out->list, PLUGIN_HOST, INSTANCE_SELF);
  put_metrics(out, self_metrics, STATIC_ARRAY_SIZE(self_metrics),
              &out->snapshot->self);
  if (!out->config->load.report_self)
    return;
  put_derive(&out->list, "derive", "snapshots_dropped",
             dispatch->snapshots_withheld);
  put_sources(out, dispatch);
}

/* ---------------------------------------------------------------------------
 * A whole snapshot
 */

bool dispatch_snapshot(struct dispatch *dispatch,
                       const struct snapshot *snapshot) {
  cdtime_t time = NS_TO_CDTIME_T(snapshot->time_ns);
  if (time <= dispatch->last) {
    dispatch->snapshots_withheld++;
    c_complain_once(LOG_WARNING, &dispatch->backwards,
                    "percore: the clock was set back; values are "
                    "withheld until it has caught up.");
    return false;
  }
  c_release(LOG_INFO, &dispatch->backwards,
            "percore: the clock has caught up; values are dispatched again.");
  dispatch->last = time;
  for (int source = 0; source < SOURCES; source++)
    if (snapshot->self.cores_by_source[source] > 0)
      dispatch->source_seen[source] = true;

  /* collectd would look up the interval and copy the host for each value. */
  struct out out = {.config = dispatch->config,
                    .snapshot = snapshot,
                    .list = {.time = time, .interval = plugin_get_interval()}};
  sstrncpy(out.list.host, hostname_g, sizeof(out.list.host));
  if (dispatch->config->load.report_per_core)
    put_cores(&out);
  if (dispatch->config->load.report_host)
    put_host(&out);
  put_self(&out, dispatch);
  return true;
}
