#include "wake.h"

#include "text.h"

#include <math.h>
#include <string.h>

/* ---------------------------------------------------------------------------
 * The summary
 */

static void write_head(FILE *out, const struct wake_run *run) {
  const struct wake_collect_status *status = &run->status;
  char why[WHY_SIZE];
  fprintf(out, "core %d, method %s: %llu datapoint%s in %.1f s", status->core,
          status->method, (unsigned long long)status->datapoints,
          status->datapoints == 1 ? "" : "s", status->seconds);
  if (status->armed > 0)
    fprintf(out, ", %.0f events/s",
            (double)status->armed / fmax(status->seconds, 1e-3));
  fputc('\n', out);
  for (int i = 0; i < WAKE_DROPS; i++)
    if (status->drops[i] > 0)
      fprintf(out, "dropped %llu: %s\n", (unsigned long long)status->drops[i],
              wake_drop_texts[i].help);
  const char *check = wake_check_names[wake_collect_check(status, why)];
  fprintf(out, "idle check %s: %s\n", check, why);
  if (status->smis >= 0)
    fprintf(out, "system management interrupts: %lld\n",
            (long long)status->smis);
  if (run->limit.us < INFINITY)
    fprintf(out,
            "idle states with an exit latency above %g us are not used:\n"
            "  %s\n",
            run->limit.us, run->limit.text);
}

/* Writes a number, or "-" for NAN. */
static void write_number(FILE *out, int width, const char *format,
                         double number) {
  char cell[16];
  number_text(cell, sizeof(cell), format, number);
  fprintf(out, " %*s", width, cell);
}

/* Writes a line of an idle state's table, which has a column for each metric
 * that is known, unless the figure is known for no metric: SilentTime has the
 * most datapoints. */
static void write_figure(FILE *out, const struct histogram *histograms,
                         enum wake_figure figure) {
  if (isnan(wake_figure(&histograms[WAKE_SILENT_TIME], figure)))
    return;
  fprintf(out, "  %-9s", wake_figure_names[figure].text);
  for (int metric = 0; metric < WAKE_METRICS; metric++)
    if (histograms[metric].count > 0)
      write_number(out, 12, "%.2f", wake_figure(&histograms[metric], figure));
  fputc('\n', out);
}

/* ---------------------------------------------------------------------------
 * The states
 */

/* Writes nothing if the state has no datapoints. */
static void write_state(FILE *out, const struct wake_run *run, int state) {
  const struct histogram *histograms = run->stats.of[state];
  if (wake_stats_latency(&run->stats, state)->count == 0)
    return;
  fprintf(out, "%s\n  us       ",
          state == WAKE_ALL_STATES ? "All states"
                                   : run->status.states.list[state].name);
  for (int metric = 0; metric < WAKE_METRICS; metric++)
    if (histograms[metric].count > 0)
      fprintf(out, " %12s", wake_metric_names[metric]);
  fputs("\n  count    ", out);
  for (int metric = 0; metric < WAKE_METRICS; metric++)
    if (histograms[metric].count > 0)
      fprintf(out, " %12llu", (unsigned long long)histograms[metric].count);
  fputc('\n', out);
  for (int figure = 0; figure < WAKE_FIGURES; figure++)
    write_figure(out, histograms, (enum wake_figure)figure);
}

/* Writes the numbers of a state, and its verdict with the reason. */
static void write_row(FILE *out, const struct wake_run *run, int number) {
  const struct wake_state *state = &run->status.states.list[number];
  const struct histogram *latency = wake_stats_latency(&run->stats, number);
  const char *verdict = wake_verdict(run, number);
  bool is_counted = !isnan(state->latency_us);
  double p50_us = wake_percentile(latency, 50);
  double stayed = (double)state->time_us / fmax(1e4 * run->status.seconds, 1);
  fprintf(out, "%-12.12s", state->name);
  write_number(out, 5, "%.0f", state->latency_us);
  write_number(out, 6, "%.0f", state->residency_us);
  write_number(out, 9, "%.0f", is_counted ? (double)state->entries : NAN);
  write_number(out, 6, "%.1f%%", is_counted ? stayed : NAN);
  write_number(out, 7, "%.0f", (double)latency->count);
  write_number(out, 8, "%.1f", p50_us);
  write_number(out, 8, "%.1f", wake_percentile(latency, 99));
  write_number(out, 8, "%.1f", wake_figure(latency, WAKE_MAX));
  fprintf(out, "\n  %s", verdict);
  if (strcmp(verdict, "dearer") == 0)
    fprintf(out, ": %.0f us, advertised %.0f", p50_us, state->latency_us);
  else if (strcmp(verdict, "not reached") == 0 && state->is_disabled)
    fputs(": disabled", out);
  else if (strcmp(verdict, "not reached") == 0 &&
           state->latency_us > run->limit.us)
    fprintf(out, ": above %g us", run->limit.us);
  fputc('\n', out);
}

void wake_write_text(FILE *out, const struct wake_run *run) {
  int len = run->status.states.len, met = 0;
  write_head(out, run);
  for (int state = 0; state < len; state++)
    met += run->stats.of[state][WAKE_SILENT_TIME].count > 0;
  if (met > 1)
    write_state(out, run, WAKE_ALL_STATES);
  for (int state = 0; state < len; state++)
    write_state(out, run, state);
  fputs("idle state    exit target   entered stayed  probes      50%      99%"
        "      max\n",
        out);
  for (int state = 0; state < len; state++)
    write_row(out, run, state);
}
