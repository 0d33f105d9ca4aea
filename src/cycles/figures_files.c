#include "figures_private.h"

#include <stdio.h>

static void cstates_interval(const struct figures *figures,
                             struct core_windows *windows,
                             struct core_figures *core) {
  struct cpuidle now;
  uint64_t now_ns = figures->engine->time_ns;
  core->cstates_len = 0;
  if (!figures->options.cstates || !core->online)
    return;
  cpuidle_read(&now, figures->engine->options.machine, core->core);
  double wall_ns = (double)(now_ns - windows->cpuidle_ns);
  bool comparable =
      wall_ns > 0 && now.states_len == windows->cpuidle.states_len;
  core->cstates_len = (size_t)now.states_len;
  for (int i = 0; i < now.states_len; i++) {
    struct cstate_figures *figure = &core->cstate[i];
    const struct cpuidle_state *from = &windows->cpuidle.state[i];
    const struct cpuidle_state *to = &now.state[i];
    snprintf(figure->name, sizeof(figure->name), "%s", to->name);
    figure->poll = to->poll;
    figure->entries = to->entries;
    /* The kernel adds the time of a state when the core leaves it, so a long
     * stay can add more than the length of the interval in which it ends. */
    figure->residency =
        comparable && to->time_ns >= from->time_ns
            ? between_0_and_1((double)(to->time_ns - from->time_ns) / wall_ns)
            : NAN;
  }
  windows->cpuidle = now;
  windows->cpuidle_ns = now_ns;
}

static void schedstat_interval(const struct figures *figures,
                               struct core_windows *windows,
                               struct core_figures *core) {
  const struct schedstat *stat = &figures->schedstat;
  core->waiting = core->switches = NAN;
  if (!figures->has_schedstat || !core->online ||
      !core_set_has(&stat->cores, core->core)) {
    windows->wait_time_ns = 0;
    return;
  }
  const struct schedstat_row *row = &stat->rows[core->core];
  uint64_t now_ns = figures->engine->time_ns;
  if (windows->wait_time_ns != 0 && row->wait_ns >= windows->wait_ns)
    core->waiting = ratio((double)(row->wait_ns - windows->wait_ns),
                          (double)(now_ns - windows->wait_time_ns));
  core->switches = (double)row->switches;
  windows->wait_ns = row->wait_ns;
  windows->wait_time_ns = now_ns;
}

void figures_files_read(struct figures *figures) {
  figures->has_schedstat =
      figures->options.schedstat &&
      schedstat_read(&figures->schedstat, figures->engine->options.machine) ==
          0;
  if (figures->softirq != NULL)
    softirq_clock_read(figures->softirq);
}

void figures_files_interval(const struct figures *figures,
                            struct core_windows *windows,
                            struct core_figures *core) {
  cstates_interval(figures, windows, core);
  schedstat_interval(figures, windows, core);
  core->softirq = softirq_clock_core(figures->softirq, core->core);
}
