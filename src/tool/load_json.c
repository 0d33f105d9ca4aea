#include "json.h"
#include "load.h"


static void put_averages(struct json *json, const double *averages,
                         double scale) {
  json_number(json, "load_1m", scale * averages[0]);
  json_number(json, "load_5m", scale * averages[1]);
  json_number(json, "load_15m", scale * averages[2]);
}

static void put_times(struct json *json, const struct core_figures *core) {
  static const char *const names[TIMES] = {
      [TIME_USER] = "user",       [TIME_NICE] = "nice",
      [TIME_SYSTEM] = "system",   [TIME_IRQ] = "irq",
      [TIME_SOFTIRQ] = "softirq", [TIME_GUEST] = "guest",
      [TIME_IOWAIT] = "iowait"};
  json_open_object(json, "time");
  for (int i = 0; i < TIMES; i++)
    json_percent(json, names[i], core->time[i]);
  json_close_object(json);
}

static void put_core(struct json *json, const struct core_figures *core) {
  json_open_object(json, NULL);
  json_integer(json, "core", core->core);
  json_bool(json, "online", core->online);
  json_bool(json, "isolated", core->isolated);
  json_text(json, "source", source_name(core->source));
  json_text(json, "proof", proof_name(core->proof));
  json_percent(json, "load", core->load);
  json_percent(json, "load_low", core->load_low);
  json_percent(json, "load_high", core->load_high);
  json_percent(json, "load_trough", core->load_trough);
  json_percent(json, "load_peak", core->load_peak);
  put_averages(json, core->load_average, 100);
  json_percent(json, "room", core->room);
  json_percent(json, "sibling_load", core->sibling_load);
  put_times(json, core);
  json_percent(json, "hidden", core->hidden);
  json_percent(json, "steal", core->steal);
  json_number(json, "frequency_hz", core->frequency_hz);
  json_close_object(json);
}

static void put_set(struct json *json,
                    const struct aggregate_figures *aggregate) {
  json_open_object(json, NULL);
  json_text(json, "name", aggregate->name);
  json_integer(json, "cores", aggregate->cores_len);
  json_integer(json, "cores_without_value", aggregate->cores_without_value);
  json_percent(json, "load_mean", aggregate->load.mean);
  json_percent(json, "load_min", aggregate->load.min);
  json_percent(json, "load_max", aggregate->load.max);
  json_percent(json, "load_stddev", aggregate->load.stddev);
  json_percent(json, "room_mean", aggregate->room.mean);
  json_percent(json, "room_min", aggregate->room.min);
  json_close_object(json);
}

static void put_host(struct json *json, const struct snapshot *snapshot) {
  const struct host_figures *host = &snapshot->host;
  json_open_object(json, "host");
  put_averages(json, host->load_average, 100.0 / snapshot->self.cores_online);
  json_number(json, "runqueue_1m", host->run_queue_average[0]);
  json_number(json, "runqueue_5m", host->run_queue_average[1]);
  json_number(json, "runqueue_15m", host->run_queue_average[2]);
  json_percent(json, "hidden", host->hidden);
  json_percent(json, "steal", host->steal);
  json_bool(json, "hypervisor", snapshot->hypervisor);
  json_close_object(json);
}

int load_json_write(FILE *out, const void *figures) {
  const struct snapshot *snapshot =
      ((const struct load_page *)figures)->snapshot;
  struct json *json = json_begin(out, "load");
  json_thousandths(json, "time", (double)snapshot->time_ns / 1e9);
  json_number(json, "interval_s", (double)snapshot->covered_ns / 1e9);
  json_open_array(json, "cores");
  for (size_t i = 0; i < snapshot->cores_len; i++)
    put_core(json, &snapshot->cores[i]);
  json_close_array(json);
  json_open_array(json, "sets");
  for (size_t i = 0; i < snapshot->aggregates_len; i++)
    put_set(json, &snapshot->aggregates[i]);
  json_close_array(json);
  put_host(json, snapshot);
  json_end(json);
  return 0;
}
