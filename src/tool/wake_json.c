#include "wake.h"

#include "json.h"

#include <math.h>

static void put_metrics(struct json *json, const struct histogram *histograms) {
  json_open_array(json, "metrics");
  for (int metric = 0; metric < WAKE_METRICS; metric++) {
    const struct histogram *histogram = &histograms[metric];
    if (histogram->count == 0)
      continue;
    json_open_object(json, NULL);
    json_text(json, "metric", wake_metric_names[metric]);
    json_unsigned(json, "count", histogram->count);
    for (int figure = 0; figure < WAKE_FIGURES; figure++)
      json_number(json, wake_figure_names[figure].key,
                  wake_figure(histogram, (enum wake_figure)figure));
    json_close_object(json);
  }
  json_close_array(json);
}

static void put_measurement(struct json *json, const struct wake_run *run) {
  const struct wake_collect_status *status = &run->status;
  char why[WHY_SIZE];
  json_integer(json, "core", status->core);
  json_text(json, "method", status->method);
  json_number(json, "seconds", status->seconds);
  json_unsigned(json, "armed", status->armed);
  json_open_object(json, "dropped");
  for (int i = 0; i < WAKE_DROPS; i++)
    json_unsigned(json, wake_drop_texts[i].name, status->drops[i]);
  json_close_object(json);
  json_bool(json, "core_left", status->is_gone);
  json_unsigned(json, "idles", status->idles);
  if (status->usage >= 0)
    json_integer(json, "cpuidle_usage", status->usage);
  json_text(json, "idle_check",
            wake_check_names[wake_collect_check(status, why)]);
  if (status->smis >= 0)
    json_integer(json, "smis", status->smis);
  json_number(json, "limit_us", run->limit.us);
  json_text(json, "limit_by", run->limit.text);
  json_unsigned(json, "datapoints", status->datapoints);
  json_bool(json, "is_result", wake_collect_has_result(status));
}

static void put_state(struct json *json, const struct wake_run *run, int s) {
  const struct wake_state *state = &run->status.states.list[s];
  json_open_object(json, NULL);
  json_text(json, "state", state->name);
  json_number(json, "latency_us", state->latency_us);
  json_number(json, "residency_us", state->residency_us);
  json_bool(json, "disabled", state->is_disabled);
  if (!isnan(state->latency_us)) {
    json_unsigned(json, "entries", state->entries);
    json_unsigned(json, "time_us", state->time_us);
  }
  json_text(json, "verdict", wake_verdict(run, s));
  put_metrics(json, run->stats.of[s]);
  json_close_object(json);
}

void wake_write_json(FILE *out, const struct wake_run *run) {
  const struct wake_states *states = &run->status.states;
  const struct wake_point *above = &run->above;
  struct json *json = json_begin(out, "wake");
  put_measurement(json, run);
  put_metrics(json, run->stats.of[WAKE_ALL_STATES]);
  json_open_array(json, "states");
  for (int s = 0; s < states->len; s++)
    put_state(json, run, s);
  json_close_array(json);
  if (above->ltime_ns > 0) {
    json_open_object(json, "above");
    json_number(json, "latency_us", wake_latency_us(above));
    json_thousandths(json, "monotonic_s", (double)above->ltime_ns / 1e9);
    json_text(json, "state", states->list[above->state].name);
    json_number(json, "silent_us", (double)above->us[WAKE_SILENT_TIME]);
    json_unsigned(json, "interrupt", above->interrupt);
    json_close_object(json);
  }
  json_end(json);
}
