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

/* ---------------------------------------------------------------------------
 * The summary
 */

/* True if the programs and cpuidle counted about the same number of idle
 * states. The two numbers may differ by 0.5 %, or by one idle state at each end
 * of the measurement. */
static bool agrees(const struct wake_collect_status *status) {
  return fabs((double)status->idles - (double)status->usage) <=
         fmax(0.005 * (double)status->usage, 2);
}

static void write_head(FILE *out, const struct wake_run *run) {
  const struct wake_collect_status *status = &run->status;
  size_t counted = wake_points_counted(&run->points);
  size_t minority = run->points.len - counted;
  fprintf(out, "core %d, method %s: %zu datapoints in %.1f s", run->core,
          run->method, counted, run->seconds);
  if (status->armed > 0)
    fprintf(out, ", %.0f events a second",
            (double)status->armed / fmax(run->seconds, 1e-3));
  fputc('\n', out);
  for (int i = 0; i < WAKE_DROPS; i++)
    if (status->drops[i] > 0)
      fprintf(out, "dropped %llu: %s\n", (unsigned long long)status->drops[i],
              wake_drop_texts[i].help);
  if (minority > 0)
    fprintf(out,
            "dropped %zu: in most idle periods of the same state, interrupts "
            "were off\n  where they were on here, or on where they were off\n",
            minority);
  if (status->overrun > 0)
    fprintf(out, "lost %llu: events came faster than they could be read\n",
            (unsigned long long)status->overrun);
  if (status->usage >= 0)
    fprintf(out, "idle states entered: %llu; cpuidle counted %lld%s\n",
            (unsigned long long)status->idles, (long long)status->usage,
            agrees(status)
                ? ""
                : ",\n  so events were missed, and the figures are unreliable");
  else
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
      fprintf(out, " %12s", wake_metric_names[metric]);
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
    is_known |= !isnan(summaries[metric].us[figure]);
  if (!is_known)
    return;
  fprintf(out, "  %-9s", wake_figure_names[figure].text);
  for (int metric = 0; metric < WAKE_METRICS; metric++)
    if (summaries[metric].count > 0)
      put_number(out, summaries[metric].us[figure]);
  fputc('\n', out);
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

static void write_histogram(FILE *out, const struct wake_points *points,
                            int state, enum wake_metric metric, int width) {
  size_t counts[BUCKETS] = {0}, most = 0;
  int first = BUCKETS, last = -1;
  for (size_t i = 0; i < points->len; i++) {
    double us = wake_point_us(points, &points->list[i], state, metric);
    if (isnan(us))
      continue;
    int bucket = bucket_of(us);
    counts[bucket]++;
    most = counts[bucket] > most ? counts[bucket] : most;
    first = bucket < first ? bucket : first;
    last = bucket > last ? bucket : last;
  }
  fprintf(out, "  %s, us\n", wake_metric_names[metric]);
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

/* ---------------------------------------------------------------------------
 * The states
 */

/* Writes nothing if the state has no datapoints. Returns 0 or -ENOMEM. */
static int write_state(FILE *out, const struct wake_points *points, int state,
                       int width) {
  struct wake_summary summaries[WAKE_METRICS];
  if (wake_summarize(summaries, points, state) != 0)
    return -ENOMEM;
  if (summaries[WAKE_INTR_LATENCY].count == 0)
    return 0;
  fprintf(out, "%s\n",
          state == WAKE_ALL_STATES ? "All states" : points->states[state]);
  write_titles(out, summaries);
  for (size_t figure = 0; figure < WAKE_FIGURES; figure++)
    write_figure(out, summaries, figure);
  write_histogram(out, points, state,
                  summaries[WAKE_LATENCY].count > 0 ? WAKE_LATENCY
                                                    : WAKE_INTR_LATENCY,
                  width);
  return 0;
}

int wake_write_text(FILE *out, const struct wake_run *run, int width) {
  const struct wake_points *points = &run->points;
  int status = 0, states = 0;
  write_head(out, run);
  for (int state = 0; state < points->states_len; state++)
    states += points->len_of[state][0] + points->len_of[state][1] > 0;
  if (states > 1)
    status = write_state(out, points, WAKE_ALL_STATES, width);
  for (int state = 0; state < points->states_len && status == 0; state++)
    status = write_state(out, points, state, width);
  return status;
}
