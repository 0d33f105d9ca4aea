#include "json.h"
#include "load.h"

#include <errno.h>

static void put_averages(struct json *json, const char *key,
                         const struct snapshot *snapshot,
                         const double *averages) {
  json_open_object(json, key);
  for (size_t i = 0; i < snapshot->periods_len; i++) {
    char period[32];
    snprintf(period, sizeof(period), "%.15g", snapshot->period_s[i]);
    json_number(json, period, averages[i]);
  }
  json_close_object(json);
}

static void put_core(struct json *json, const struct snapshot *snapshot,
                     const struct core_figures *core) {
  json_open_object(json, NULL);
  json_integer(json, "core", core->core);
  json_bool(json, "online", core->online);
  json_bool(json, "isolated", core->isolated);
  json_text(json, "source", source_name(core->source));
  json_text(json, "proof", proof_name(core->proof));
  json_number(json, "load", core->load);
  json_number(json, "load_low", core->load_low);
  json_number(json, "load_high", core->load_high);
  json_number(json, "load_trough", core->load_trough);
  json_number(json, "load_peak", core->load_peak);
  json_number(json, "taken", core->taken);
  json_number(json, "idle_poll", core->idle_poll);
  json_number(json, "sibling_load", core->sibling_load);
  put_averages(json, "load_average", snapshot, core->load_average);
  json_number(json, "hidden", core->hidden);
  json_number(json, "unaccounted", core->unaccounted);
  json_number(json, "steal", core->steal);
  json_number(json, "frequency_hz", core->frequency_hz);
  json_number(json, "counter_running", core->counter_running);
  json_close_object(json);
}

static void put_aggregate(struct json *json,
                          const struct aggregate_figures *aggregate) {
  json_open_object(json, NULL);
  json_text(json, "name", aggregate->name);
  json_integer(json, "cores", aggregate->cores_len);
  json_integer(json, "cores_without_value", aggregate->cores_without_value);
  json_number(json, "mean", aggregate->load.mean);
  json_number(json, "min", aggregate->load.min);
  json_number(json, "max", aggregate->load.max);
  json_number(json, "stddev", aggregate->load.stddev);
  json_close_object(json);
}

static void put_host(struct json *json, const struct snapshot *snapshot) {
  const struct host_figures *host = &snapshot->host;
  json_open_object(json, "host");
  put_averages(json, "load_average", snapshot, host->load_average);
  put_averages(json, "run_queue_average", snapshot, host->run_queue_average);
  json_number(json, "hidden", host->hidden);
  json_number(json, "unaccounted", host->unaccounted);
  json_number(json, "steal", host->steal);
  json_bool(json, "hypervisor", snapshot->hypervisor);
  json_close_object(json);
}

int load_json_write(FILE *out, const void *figures) {
  const struct snapshot *snapshot = figures;
  struct json *json = json_begin(out, "load");
  json_thousandths(json, "time", (double)snapshot->time_ns / 1e9);
  json_number(json, "interval_s", (double)snapshot->covered_ns / 1e9);
  json_open_array(json, "cores");
  for (size_t i = 0; i < snapshot->cores_len; i++)
    put_core(json, snapshot, &snapshot->cores[i]);
  json_close_array(json);
  json_open_array(json, "aggregates");
  for (size_t i = 0; i < snapshot->aggregates_len; i++)
    put_aggregate(json, &snapshot->aggregates[i]);
  json_close_array(json);
  put_host(json, snapshot);
  json_end(json);
  return 0;
}
