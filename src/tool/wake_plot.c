#include "wake.h"

#include "tool.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COMMAND "wake"
/* The maximum number of points in the scatter plot, because an SVG file
 * contains an element for each point. */
#define SCATTER_MAX 20000
#define CUMULATIVE 1000 /* steps of the cumulative histogram */

/* Writes text in single quotes, in which gnuplot reads two single quotes as
 * one. */
static void put_quoted(FILE *plot, const char *text) {
  fputc('\'', plot);
  for (; *text != '\0'; text++) {
    if (*text == '\'')
      fputc('\'', plot);
    fputc(*text, plot);
  }
  fputc('\'', plot);
}

/* Writes the data to be plotted. Returns true if there is a scatter plot: if at
 * least one datapoint contains both the metric and a SilentTime. */
static bool put_data(FILE *plot, const struct wake_points *points,
                     enum wake_metric metric, const float *sorted, size_t len) {
  fputs("$sorted << EOD\n", plot);
  for (size_t i = 0; i <= CUMULATIVE; i++) {
    size_t at = (len - 1) * i / CUMULATIVE;
    fprintf(plot, "%.3f %.6f\n", (double)sorted[at],
            100.0 * (double)(at + 1) / (double)len);
  }
  fputs("EOD\n$all << EOD\n", plot);
  for (size_t i = 0; i < len; i++)
    fprintf(plot, "%.3f\n", (double)sorted[i]);
  fputs("EOD\n$scatter << EOD\n", plot);
  size_t step = points->len / SCATTER_MAX + 1;
  bool has_scatter = false;
  for (size_t i = 0; i < points->len; i += step) {
    const struct wake_point *point = &points->list[i];
    if (isnan(point->us[metric]) || isnan(point->us[WAKE_SILENT_TIME]))
      continue;
    has_scatter = true;
    fprintf(plot, "%.3f %.3f\n", (double)point->us[WAKE_SILENT_TIME],
            (double)point->us[metric]);
  }
  fputs("EOD\n", plot);
  return has_scatter;
}

/* Writes the plot commands. The latency axis begins at `from` and ends just
 * above `to`; `above` datapoints are beyond its end. */
static void put_plots(FILE *plot, enum wake_metric metric, double from,
                      double to, size_t above, bool has_scatter) {
  const char *name = wake_metric_name(metric);
  double width = fmax((to - from) / 100, 1e-3);
  fprintf(plot, "set xlabel '%s, us", name);
  if (above > 0)
    fprintf(plot, "; above %.1f us: %zu datapoint%s, not shown", to + width,
            above, above == 1 ? "" : "s");
  fprintf(plot,
          "'\nset ylabel 'datapoints'\n"
          "set xrange [%g:%g]\nset style fill solid 0.6\n"
          "width = %g\nset boxwidth width absolute\n"
          "plot $all using (width * floor($1 / width) + width / 2):(1) smooth "
          "frequency with boxes\n"
          "set ylabel 'percent of datapoints'\nset yrange [0:100]\n"
          "plot $sorted using 1:2 with lines linewidth 2\n",
          from, to + width, width);
  if (has_scatter)
    fprintf(plot,
            "set xrange [*:*]\nset yrange [0:*]\n"
            "set xlabel 'SilentTime, us'\nset ylabel '%s, us'\n"
            "plot $scatter using 1:2 with points pointtype 7 pointsize 0.2\n",
            name);
}

bool wake_can_plot(void) {
  return system("command -v gnuplot >/dev/null") == 0;
}

/* Writes a title such as "core 1, method thread, source bpf, C6: 2000
 * datapoints". */
static void put_title(FILE *plot, const struct wake_run *run, size_t len) {
  char title[512];
  int used = run->file != NULL
                 ? snprintf(title, sizeof(title), "%.300s", run->file)
                 : snprintf(title, sizeof(title),
                            "core %d, method %s, source %s", run->core,
                            run->method, wake_source_name(run->status.source));
  const struct wake_points *points = run->points;
  for (size_t s = 0; s < points->states_len && (size_t)used < 450; s++)
    if (wake_state_has(points, (int)s))
      used += snprintf(title + used, sizeof(title) - (size_t)used, ", %s",
                       points->states[s]);
  snprintf(title + used, sizeof(title) - (size_t)used, ": %zu datapoints", len);
  put_quoted(plot, title);
}

int wake_plot(const char *path, const struct wake_run *run) {
  const struct wake_points *points = run->points;
  enum wake_metric metric = wake_main_metric(points);
  float *numbers;
  size_t len;
  if (wake_numbers(&numbers, &len, points, WAKE_ALL_STATES, metric) != 0)
    return say_failure(COMMAND, "%s", strerror(ENOMEM));
  FILE *plot = len > 0 ? popen("gnuplot --default-settings", "w") : NULL;
  if (plot == NULL) {
    free(numbers);
    return say_failure(COMMAND,
                       len > 0 ? "cannot run gnuplot: %s"
                               : "there are no datapoints to plot%.0s",
                       strerror(errno));
  }
  wake_sort_numbers(numbers, len);
  fputs("set terminal svg size 900,1200 background 'white'\nset output ", plot);
  put_quoted(plot, path);
  fputs("\nset multiplot layout 3,1 title ", plot);
  put_title(plot, run, len);
  fputs(" noenhanced\nset grid\nset key off\n", plot);
  bool has_scatter = put_data(plot, points, metric, numbers, len);
  /* The latency axis ends near the 99.9th percentile. If it included all
   * outliers, the other datapoints would be squeezed into one bar. */
  double from = (double)numbers[0];
  double to = (double)numbers[(size_t)((double)(len - 1) * 0.999)];
  double end = to + fmax((to - from) / 100, 1e-3);
  size_t above = 0;
  while (above < len && (double)numbers[len - 1 - above] > end)
    above++;
  put_plots(plot, metric, from, to, above, has_scatter);
  free(numbers);
  if (pclose(plot) == 0)
    return TOOL_OK;
  return say_failure(COMMAND, "cannot draw %s: gnuplot failed; see its message",
                     path);
}
