#include "wake.h"

#include "window.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BAR_MAX 200
#define BUCKETS 64
#define CELL 16

static void put_number(FILE *out, double value) {
  char text[CELL];
  number_text(text, sizeof(text), "%.2f", value);
  fprintf(out, " %9s", text);
}

static bool state_has(const struct wake_points *points, int state) {
  for (size_t i = 0; i < points->len; i++)
    if (points->list[i].state == state)
      return true;
  return false;
}

enum wake_metric wake_main_metric(const struct wake_points *points) {
  bool has_interrupt = false;
  for (size_t i = 0; i < points->len; i++) {
    const struct wake_point *point = &points->list[i];
    if (point->interrupts_off && !isnan(point->us[WAKE_LATENCY]))
      return WAKE_LATENCY;
    has_interrupt |= !isnan(point->us[WAKE_INTR_LATENCY]);
  }
  return has_interrupt ? WAKE_INTR_LATENCY : WAKE_USER_LATENCY;
}

/* ---------------------------------------------------------------------------
 * The summary
 */

static void write_head(FILE *out, const struct wake_run *run) {
  const struct wake_collect_status *status = &run->status;
  if (run->file != NULL) {
    fprintf(out, "%s: %zu datapoints\n", run->file, run->points->len);
    return;
  }
  fprintf(out, "core %d, %s: %zu datapoints in %.1f s", run->core, run->method,
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
            "interrupts on\n",
            status->held);
  if (status->overrun > 0)
    fprintf(out, "lost %llu: events came faster than they could be read\n",
            (unsigned long long)status->overrun);
  if (status->usage > 0 && status->idles > 0)
    fprintf(out, "idle states entered: %llu; cpuidle counted %lld\n",
            (unsigned long long)status->idles, (long long)status->usage);
  else if (status->idles > 0)
    fputs("unchecked: this core has no cpuidle driver to compare with\n", out);
}

static int write_row(FILE *out, const struct wake_points *points, int state,
                     enum wake_metric metric) {
  struct wake_summary summary;
  int status = wake_summarize(&summary, points, state, metric);
  if (status != 0 || summary.count == 0)
    return status;
  fprintf(out, "%-12.12s %-11s %8zu", points->states[state],
          wake_metric_name(metric), summary.count);
  const double figures[] = {summary.min, summary.mean, summary.median,
                            summary.stddev, summary.max};
  for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++)
    put_number(out, figures[i]);
  for (size_t i = 0; i < WAKE_PERCENTILES; i++)
    put_number(out, summary.percentile[i]);
  fputc('\n', out);
  return 0;
}

int wake_write_text(FILE *out, const struct wake_run *run) {
  const struct wake_points *points = run->points;
  int status = 0;
  write_head(out, run);
  if (points->len == 0)
    return 0;
  fprintf(out, "%-12s %-11s %8s %9s %9s %9s %9s %9s %9s %9s %9s %9s\n", "state",
          "us", "count", "min", "mean", "median", "stddev", "max", "99 %",
          "99.9 %", "99.99 %", "99.999 %");
  for (size_t state = 0; state < points->states_len; state++)
    for (int metric = 0; metric < WAKE_METRICS && status == 0; metric++)
      if (state_has(points, (int)state))
        status = write_row(out, points, (int)state, (enum wake_metric)metric);
  return status;
}

/* ---------------------------------------------------------------------------
 * The histogram
 */

/* 1, 1.4, 2, 2.8, 4 ... microseconds. */
static int bucket_of(double us) {
  double bucket = us < 1 ? 0 : floor(2 * log2(us)) + 1;
  return bucket < BUCKETS ? (int)bucket : BUCKETS - 1;
}

static double bucket_from(int bucket) {
  return bucket == 0 ? 0 : exp2((bucket - 1) / 2.0);
}

int wake_write_histogram(FILE *out, const struct wake_points *points,
                         int width) {
  enum wake_metric metric = wake_main_metric(points);
  size_t counts[BUCKETS] = {0}, most = 0, len;
  float *numbers;
  if (wake_numbers(&numbers, &len, points, WAKE_ALL_STATES, metric) != 0)
    return -ENOMEM;
  int first = BUCKETS, last = -1;
  for (size_t i = 0; i < len; i++) {
    int bucket = bucket_of((double)numbers[i]);
    counts[bucket]++;
    most = counts[bucket] > most ? counts[bucket] : most;
    first = bucket < first ? bucket : first;
    last = bucket > last ? bucket : last;
  }
  free(numbers);
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
  return 0;
}

/* ---------------------------------------------------------------------------
 * Two runs
 */

static int find_state(const struct wake_points *points, const char *name) {
  for (size_t i = 0; i < points->states_len; i++)
    if (strcmp(points->states[i], name) == 0)
      return (int)i;
  return -1;
}

static void put_change(FILE *out, const char *state, enum wake_metric metric,
                       const char *figure, double a, double b) {
  char change[CELL];
  if (isnan(a) || isnan(b))
    return;
  number_text(change, sizeof(change), "%+.1f", a > 0 ? 100 * (b / a - 1) : NAN);
  fprintf(out, "%-12.12s %-11s %-9s", state, wake_metric_name(metric), figure);
  put_number(out, a);
  put_number(out, b);
  fprintf(out, " %8s\n", change);
}

static int compare(FILE *out, const struct wake_points *a, int state_a,
                   const struct wake_points *b, int state_b,
                   enum wake_metric metric) {
  struct wake_summary x, y;
  const char *state = a->states[state_a];
  if (wake_summarize(&x, a, state_a, metric) != 0 ||
      wake_summarize(&y, b, state_b, metric) != 0)
    return -ENOMEM;
  if (x.count == 0 || y.count == 0)
    return 0;
  put_change(out, state, metric, "min", x.min, y.min);
  put_change(out, state, metric, "mean", x.mean, y.mean);
  put_change(out, state, metric, "median", x.median, y.median);
  for (size_t i = 0; i < WAKE_PERCENTILES; i++) {
    char figure[CELL];
    snprintf(figure, sizeof(figure), "%g %%", wake_percentiles[i]);
    put_change(out, state, metric, figure, x.percentile[i], y.percentile[i]);
  }
  put_change(out, state, metric, "max", x.max, y.max);
  return 0;
}

int wake_write_comparison(FILE *out, const struct wake_run *a,
                          const struct wake_run *b) {
  int status = 0;
  fprintf(out, "A %s: %zu datapoints\nB %s: %zu datapoints\n", a->file,
          a->points->len, b->file, b->points->len);
  fprintf(out, "%-12s %-11s %-9s %9s %9s %8s\n", "state", "us", "", "A", "B",
          "change %");
  for (size_t s = 0; s < a->points->states_len; s++) {
    int other = find_state(b->points, a->points->states[s]);
    for (int metric = 0; metric < WAKE_METRICS && status == 0; metric++)
      if (other >= 0)
        status = compare(out, a->points, (int)s, b->points, other,
                         (enum wake_metric)metric);
  }
  return status;
}
