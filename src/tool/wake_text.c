#include "wake.h"

#include "text.h"

#include <math.h>
#include <string.h>

#define BAR_MAX 200
#define CELL 16

/* ---------------------------------------------------------------------------
 * The summary
 */

static void write_check(FILE *out, const struct wake_run *run) {
  const struct wake_collect_status *status = &run->status;
  if (status->usage >= 0)
    fprintf(out, "idle states entered: %llu; cpuidle counted %lld%s\n",
            (unsigned long long)status->idles, (long long)status->usage,
            wake_collect_check(status) == WAKE_DIFFERS
                ? ",\n  so events were missed, and the figures are unreliable"
                : "");
  else if (!status->is_gone)
    fputs("unchecked: this core has no cpuidle driver to compare with\n", out);
  if (status->is_gone)
    fputs(
        "ended early: the core went offline, or its timer was moved to another "
        "core\n",
        out);
}

static void write_head(FILE *out, const struct wake_run *run) {
  const struct wake_collect_status *status = &run->status;
  fprintf(out, "core %d, method %s: %llu datapoint%s in %.1f s", run->core,
          run->method, (unsigned long long)status->datapoints,
          status->datapoints == 1 ? "" : "s", run->seconds);
  if (status->armed > 0)
    fprintf(out, ", %.0f events/s",
            (double)status->armed / fmax(run->seconds, 1e-3));
  fputc('\n', out);
  for (int i = 0; i < WAKE_DROPS; i++)
    if (status->drops[i] > 0)
      fprintf(out, "dropped %llu: %s\n", (unsigned long long)status->drops[i],
              wake_drop_texts[i].help);
  write_check(out, run);
  if (status->smis >= 0)
    fprintf(out, "system management interrupts: %lld\n",
            (long long)status->smis);
  if (run->limit.us < INFINITY)
    fprintf(out,
            "idle states with an exit latency above %g us are not used:\n"
            "  %s\n",
            run->limit.us, run->limit.text);
}

/* Writes a line of an idle state's table, which has a column for each metric
 * that is known: a figure or, if it is WAKE_FIGURES, the count. */
static void write_figure(FILE *out, const struct histogram *histograms,
                         enum wake_figure figure) {
  bool is_count = figure == WAKE_FIGURES;
  char line[WAKE_METRICS * (CELL + 1) + 1] = "", *end = line;
  for (int metric = 0; metric < WAKE_METRICS; metric++) {
    const struct histogram *histogram = &histograms[metric];
    char cell[CELL];
    number_text(cell, CELL, is_count ? "%.0f" : "%.2f",
                is_count ? (double)histogram->count
                         : wake_figure(histogram, figure));
    if (histogram->count > 0)
      end += sprintf(end, " %12s", cell);
  }
  if (strpbrk(line, "0123456789") != NULL)
    fprintf(out, "  %-9s%s\n",
            is_count ? "count" : wake_figure_names[figure].text, line);
}

/* ---------------------------------------------------------------------------
 * The histogram
 */

#define FINE_BITS                                                              \
  (HISTOGRAM_BITS - 1) /* of a bucket within a bar's range                     \
                        */

static void write_histogram(FILE *out, const struct histogram *histogram,
                            enum wake_metric metric, int width) {
  uint64_t counts[(HISTOGRAM_BUCKETS >> FINE_BITS) + 1] = {0}, most = 0;
  int below_1_us = 20, first = histogram->first >> FINE_BITS,
      last = histogram->last >> FINE_BITS;
  first = first < below_1_us ? below_1_us - 1 : first;
  last = last < first ? first : last;
  for (int i = histogram->first; i <= histogram->last; i++) {
    int bar = i >> FINE_BITS < first ? first : i >> FINE_BITS;
    counts[bar] += histogram->buckets[i];
    most = counts[bar] > most ? counts[bar] : most;
  }
  fprintf(out, "  %s, us\n", wake_metric_names[metric]);
  int room = (width > 0 ? width : 80) - 30;
  room = room < 10 ? 10 : room > BAR_MAX ? BAR_MAX : room;
  for (int i = first; i <= last; i++) {
    char bar[BAR_MAX + 1];
    int length = (int)((double)counts[i] * room / (double)most + 0.5);
    memset(bar, '#', (size_t)length);
    bar[length] = '\0';
    fprintf(out, "%9.1f to %-8.1f %7llu %s\n",
            i < below_1_us ? 0 : histogram_limit(i << FINE_BITS),
            histogram_limit((i + 1) << FINE_BITS),
            (unsigned long long)counts[i], bar);
  }
}

/* ---------------------------------------------------------------------------
 * The states
 */

/* Writes nothing if the state has no datapoints. */
static void write_state(FILE *out, const struct wake_run *run, int state,
                        int width) {
  const struct histogram *histograms = run->stats.of[state];
  enum wake_metric latency = wake_stats_latency(&run->stats, state);
  if (histograms[latency].count == 0)
    return;
  fprintf(out, "%s\n  us       ",
          state == WAKE_ALL_STATES ? "All states"
                                   : run->states.list[state].name);
  for (int metric = 0; metric < WAKE_METRICS; metric++)
    if (histograms[metric].count > 0)
      fprintf(out, " %12s", wake_metric_names[metric]);
  fputc('\n', out);
  write_figure(out, histograms, WAKE_FIGURES);
  for (int figure = 0; figure < WAKE_FIGURES; figure++)
    write_figure(out, histograms, (enum wake_figure)figure);
  write_histogram(out, &histograms[latency], latency, width);
}

static void write_table(FILE *out, const struct wake_run *run) {
  const struct wake_states *states = &run->states;
  fputs("idle state    exit target   entered stayed  probes      50%      99%"
        "      max\n",
        out);
  for (int i = 0; i < states->len; i++) {
    const struct wake_state *state = &states->list[i];
    struct wake_row row = wake_row_of(run, i);
    char cells[5][CELL];
    const double values[] = {state->latency_us, state->residency_us, row.p50_us,
                             row.p99_us, row.max_us};
    for (int v = 0; v < 5; v++)
      number_text(cells[v], CELL, v < 2 ? "%.0f" : "%.1f", values[v]);
    fprintf(out, "%-12.12s %5s %6s %9llu %5.1f%% %7llu %8s %8s %8s\n  %s\n",
            state->name, cells[0], cells[1], (unsigned long long)state->entries,
            (double)state->time_us / fmax(1e4 * run->seconds, 1),
            (unsigned long long)row.latency->count, cells[2], cells[3],
            cells[4], row.words);
  }
}

static void write_advice(FILE *out, const struct wake_run *run) {
  const struct wake_states *states = &run->states;
  struct wake_advice advice = wake_advise(run);
  fprintf(out, "budget %g us: ", run->budget_us);
  if (advice.deepest < 0)
    fputs("no idle state with a known 99 % fits; 99 % needs 1000 datapoints\n",
          out);
  else
    fprintf(out, "%s is the deepest idle state that fits\n",
            states->list[advice.deepest].name);
  if (!isnan(advice.dma_us) && advice.avoid != 0)
    fprintf(out, "  hold /dev/cpu_dma_latency at %g; or\n", advice.dma_us);
  if (advice.avoid != 0)
    fputs("  disable", out);
  for (int i = 0; i < states->len; i++)
    if (advice.avoid >> i & 1)
      fprintf(out, " %s (state%d)", states->list[i].name, i);
  if (advice.avoid != 0)
    fputc('\n', out);
}

void wake_write_text(FILE *out, const struct wake_run *run, int width) {
  const struct wake_states *states = &run->states;
  int met = 0;
  write_head(out, run);
  for (int state = 0; state < states->len; state++)
    met += run->stats.of[state][WAKE_INTR_LATENCY].count > 0;
  if (met > 1)
    write_state(out, run, WAKE_ALL_STATES, width);
  for (int state = 0; state < states->len; state++)
    write_state(out, run, state, width);
  write_table(out, run);
  if (run->budget_us > 0)
    write_advice(out, run);
}
