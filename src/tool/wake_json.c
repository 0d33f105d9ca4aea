#include "wake.h"

#include "json.h"

#include <errno.h>

static void put_summary(struct json *json, const struct wake_summary *summary,
                        enum wake_metric metric) {
  json_open_object(json, NULL);
  json_text(json, "metric", wake_metric_name(metric));
  json_unsigned(json, "count", summary->count);
  for (size_t i = 0; i < WAKE_FIGURES; i++)
    json_number(json, wake_figure_names[i].key, summary->us[i]);
  json_close_object(json);
}

static int put_metrics(struct json *json, const struct wake_points *points,
                       int state) {
  struct wake_summary summaries[WAKE_METRICS];
  if (wake_summarize(summaries, points, state) != 0)
    return -ENOMEM;
  json_open_array(json, "metrics");
  for (int metric = 0; metric < WAKE_METRICS; metric++)
    if (summaries[metric].count > 0)
      put_summary(json, &summaries[metric], (enum wake_metric)metric);
  json_close_array(json);
  return 0;
}

static int put_state(struct json *json, const struct wake_points *points,
                     int state) {
  json_open_object(json, NULL);
  json_text(json, "state", points->states[state]);
  int status = put_metrics(json, points, state);
  json_close_object(json);
  return status;
}

static void put_measurement(struct json *json, const struct wake_run *run) {
  const struct wake_collect_status *status = &run->status;
  json_integer(json, "core", run->core);
  json_text(json, "method", run->method);
  json_number(json, "seconds", run->seconds);
  json_unsigned(json, "armed", status->armed);
  json_open_object(json, "dropped");
  for (int i = 0; i < WAKE_DROPS; i++)
    json_unsigned(json, wake_drop_texts[i].name, status->drops[i]);
  json_unsigned(json, "minority",
                run->points.len - wake_points_counted(&run->points));
  json_unsigned(json, "overrun", status->overrun);
  json_close_object(json);
  json_unsigned(json, "idles", status->idles);
  if (status->usage >= 0)
    json_integer(json, "cpuidle_usage", status->usage);
}

int wake_write_json(FILE *out, const struct wake_run *run) {
  struct json *json = json_begin(out, "wake");
  put_measurement(json, run);
  json_unsigned(json, "datapoints", wake_points_counted(&run->points));
  int status = put_metrics(json, &run->points, WAKE_ALL_STATES);
  json_open_array(json, "states");
  for (int s = 0; s < run->points.states_len && status == 0; s++)
    status = put_state(json, &run->points, s);
  json_close_array(json);
  json_end(json);
  return status;
}
