#include "wake.h"

#include "text.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#define BAR_MAX 200
#define BUCKETS 64
#define CELL 16
static void put_number(FILE *out, double value) {
  char text[CELL];
  number_text(text, sizeof(text), "%.2f", value);
  fprintf(out, " %12s", text);
}

bool wake_state_has(const struct wake_points *points, int state) {
  for (size_t i = 0; i < points->len; i++)
    if (points->list[i].state == state)
      return true;
  return false;
}

enum wake_metric wake_main_metric(const struct wake_points *points) {
  bool has_interrupt = false;
  for (size_t i = 0; i < points->len; i++) {
    const struct wake_point *point = &points->list[i];
    if (!isnan(point->us[WAKE_LATENCY]))
      return WAKE_LATENCY;
    has_interrupt |= !isnan(point->us[WAKE_INTR_LATENCY]);
  }
  return has_interrupt ? WAKE_INTR_LATENCY : WAKE_USER_LATENCY;
}

/* ---------------------------------------------------------------------------
 * The summary
 */

/* True if the source and cpuidle counted about the same number of idle states.
 * The two numbers may differ by 0.5 %, or by one idle state at each end of the
 * measurement. */
static bool agrees(const struct wake_collect_status *status) {
  return fabs((double)status->idles - (double)status->usage) <=
         fmax(0.005 * (double)status->usage, 2);
}

static void write_head(FILE *out, const struct wake_run *run) {
  const struct wake_collect_status *status = &run->status;
  fprintf(out, "core %d, method %s, source %s: %zu datapoints in %.1f s",
          run->core, run->method, wake_source_name(status->source),
          run->points->len, run->seconds);
  if (status->armed > 0)
    fprintf(out, ", %.0f events a second",
            (double)status->armed / fmax(run->seconds, 1e-3));
  fputc('\n', out);
  for (int i = 0; i < WAKE_DROPS; i++)
    if (status->drops[i] > 0)
      fprintf(out, "dropped %llu: %s\n", (unsigned long long)status->drops[i],
              wake_drop_help(i));
  if (status->held > 0)
    fprintf(out,
            "held back %zu: too few to tell whether their idle state has "
            "interrupts on; measure longer (--time)\n",
            status->held);
  if (status->overrun > 0)
    fprintf(out, "lost %llu: events came faster than they could be read\n",
            (unsigned long long)status->overrun);
  if (status->usage > 0 && status->idles == 0)
    fprintf(out,
            "%s saw none of %lld idle states of core %d; use %s or another "
            "core\n",
            wake_source_name(status->source), (long long)status->usage,
            run->core,
            status->source == WAKE_PERF ? "--source bpf" : "--source perf");
  else if (status->usage >= 0)
    fprintf(out, "idle states entered: %llu; cpuidle counted %lld%s\n",
            (unsigned long long)status->idles, (long long)status->usage,
            agrees(status)
                ? ""
                : ": events were missed, so the figures are unreliable");
  else if (status->source != WAKE_NONE)
    fputs(status->is_offline
              ? "unchecked: the core went offline; measure it again\n"
              : "unchecked: this core has no cpuidle driver to compare with\n",
          out);
}

/* Writes the headings and the counts of an idle state's table. The table shows
 * a line per figure and a column per metric; figures and metrics without any
 * known value are left out. */
static void write_titles(FILE *out,
                         const struct wake_summary summaries[WAKE_METRICS]) {
  fprintf(out, "  %-9s", "us");
  for (int metric = 0; metric < WAKE_METRICS; metric++)
    if (summaries[metric].count > 0)
      fprintf(out, " %12s", wake_metric_name((enum wake_metric)metric));
  fprintf(out, "\n  %-9s", "count");
  for (int metric = 0; metric < WAKE_METRICS; metric++)
    if (summaries[metric].count > 0)
      fprintf(out, " %12zu", summaries[metric].count);
  fputc('\n', out);
}

static void write_figure(FILE *out,
                         const struct wake_summary summaries[WAKE_METRICS],
                         size_t figure) {
  bool is_known = false;
  for (int metric = 0; metric < WAKE_METRICS; metric++)
    is_known |= !isnan(wake_figure(&summaries[metric], figure));
  if (!is_known)
    return;
  fprintf(out, "  %-9s", wake_figures[figure].name);
  for (int metric = 0; metric < WAKE_METRICS; metric++)
    if (summaries[metric].count > 0)
      put_number(out, wake_figure(&summaries[metric], figure));
  fputc('\n', out);
}

static int write_state(FILE *out, const struct wake_points *points, int state) {
  struct wake_summary summaries[WAKE_METRICS];
  for (int metric = 0; metric < WAKE_METRICS; metric++)
    if (wake_summarize(&summaries[metric], points, state,
                       (enum wake_metric)metric) != 0)
      return -ENOMEM;
  fprintf(out, "%s\n", points->states[state]);
  write_titles(out, summaries);
  for (size_t figure = 0; figure < WAKE_FIGURES; figure++)
    write_figure(out, summaries, figure);
  return 0;
}

int wake_write_text(FILE *out, const struct wake_run *run) {
  const struct wake_points *points = run->points;
  int status = 0;
  write_head(out, run);
  for (size_t state = 0; state < points->states_len && status == 0; state++)
    if (wake_state_has(points, (int)state))
      status = write_state(out, points, (int)state);
  return status;
}

/* ---------------------------------------------------------------------------
 * The histogram
 */

/* Returns the bucket of a latency. Bucket 0 is for latencies below 1 us; the
 * buckets above it begin at 1, 1.4, 2, 2.8, 4 ... us. */
static int bucket_of(double us) {
  double bucket = us < 1 ? 0 : floor(2 * log2(us)) + 1;
  return bucket < BUCKETS ? (int)bucket : BUCKETS - 1;
}

static double bucket_from(int bucket) {
  return bucket == 0 ? 0 : exp2((bucket - 1) / 2.0);
}

void wake_write_histogram(FILE *out, const struct wake_points *points,
                          int width) {
  enum wake_metric metric = wake_main_metric(points);
  size_t counts[BUCKETS] = {0}, most = 0;
  int first = BUCKETS, last = -1;
  for (size_t i = 0; i < points->len; i++) {
    double us = (double)points->list[i].us[metric];
    if (isnan(us))
      continue;
    int bucket = bucket_of(us);
    counts[bucket]++;
    most = counts[bucket] > most ? counts[bucket] : most;
    first = bucket < first ? bucket : first;
    last = bucket > last ? bucket : last;
  }
  fprintf(out, "%s, us\n", wake_metric_name(metric));
  int room = (width > 0 ? width : 80) - 30;
  room = room < 10 ? 10 : room > BAR_MAX ? BAR_MAX : room;
  for (int bucket = first; bucket <= last; bucket++) {
    char bar[BAR_MAX + 1];
    int length = (int)((double)counts[bucket] * room / (double)most + 0.5);
    memset(bar, '#', (size_t)length);
    bar[length] = '\0';
    fprintf(out, "%9.1f to %-8.1f %7zu %s\n", bucket_from(bucket),
            bucket_from(bucket + 1), counts[bucket], bar);
  }
}

