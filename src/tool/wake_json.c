#include "wake.h"

#include "json.h"

#include <errno.h>

static int put_metrics(struct json *json, const struct wake_points *points,
                       int state) {
  struct wake_summary summaries[WAKE_METRICS];
  if (wake_summarize(summaries, points, state) != 0)
    return -ENOMEM;
  json_open_array(json, "metrics");
  for (int metric = 0; metric < WAKE_METRICS; metric++) {
    if (summaries[metric].count == 0)
      continue;
    json_open_object(json, NULL);
    json_text(json, "metric", wake_metric_names[metric]);
    json_unsigned(json, "count", summaries[metric].count);
    for (int figure = 0; figure < WAKE_FIGURES; figure++)
      json_number(json, wake_figure_names[figure].key,
                  summaries[metric].us[figure]);
    json_close_object(json);
  }
  json_close_array(json);
  return 0;
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
  for (int s = 0; s < run->points.states_len && status == 0; s++) {
    json_open_object(json, NULL);
    json_text(json, "state", run->points.states[s]);
    status = put_metrics(json, &run->points, s);
    json_close_object(json);
  }
  json_close_array(json);
  json_end(json);
  return status;
}
