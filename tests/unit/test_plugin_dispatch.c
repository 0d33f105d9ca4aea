/* Tests how snapshots are dispatched as value lists. */
#include "plugin_unit.h"

#include "plugin/dispatch.h"
#include "plugin/region_workers.h"
#include "wake/survey.h"

#include <ctype.h>

#define SECOND UINT64_C(1000000000)
#define START (UINT64_C(1700000000) * SECOND)

static struct dispatch dispatch;

static void set_up(void) {
  plugin_unit_set_up();
  dispatch = (struct dispatch){.config = &config};
}

/* ---------------------------------------------------------------------------
 * Snapshots
 */

#define KINDS_THAT_HAVE_RUN 4

static void fill_core(struct core_figures *core, int number) {
  *core = (struct core_figures){
      .core = number,
      .online = true,
      .source = SOURCE_IDLE,
      .proof = PROOF_PROVEN,
      .load = 0.5,
      .load_low = 0.5,
      .load_high = 0.75,
      .load_trough = 0.25,
      .load_peak = 0.75,
      .load_average = {0.1, 0.2, 0.3},
      .hidden = 0.125,
      .room = 0.6,
      .steal = 0.01,
      .time = {0.1, 0.02, 0.2, 0.03, 0.04, 0.3, 0.05},
      .frequency_hz = 2.5e9,
      .softirq = {.all = 0.35,
                  .kind = {NAN, 0.125, NAN, 0.2, NAN, NAN, NAN, 0, 0.025, NAN,
                           0.015}},
      .cstates = {.states_len = 3,
                  .state = {{.name = "POLL", .entries = 7, .poll = 1},
                            {.name = "C1E", .entries = 100},
                            {.name = "C6_ACPI", .entries = 1000}}},
      .residency = {0.02, 0.1, 0.3},
  };
}

static void fill_aggregate(struct aggregate_figures *aggregate,
                           const char *name) {
  *aggregate = (struct aggregate_figures){.cores_len = 1,
                                          .load = {0.5, 0.25, 0.75, 0.125},
                                          .room = {0.6, 0.3, 0.9, 0.125}};
  for (int i = 0; i < TIMES; i++)
    aggregate->time[i] = (struct spread_figures){0.2, 0.1, 0.4, 0.05};
  snprintf(aggregate->name, sizeof(aggregate->name), "%s", name);
}

/* Makes snapshot number n of a host with cores_len cores on two NUMA nodes. */
static struct snapshot *make_snapshot(size_t cores_len, unsigned n) {
  static const char *const names[] = {"all", "node0", "node1"};
  struct snapshot *snapshot = calloc(1, sizeof(*snapshot));
  assert_non_null(snapshot);
  *snapshot = (struct snapshot){
      .time_ns = START + n * 10 * SECOND,
      .interval_ns = 10 * SECOND,
      .cores_len = cores_len,
      .cores = calloc(cores_len, sizeof(struct core_figures)),
      .aggregates_len = 3,
      .aggregates = calloc(3, sizeof(struct aggregate_figures)),
      .host = {.load_average = {100, 200, 8192},
               .run_queue_average = {1, 2, 3},
               .hidden = 0.1,
               .steal = 0.3},
      .self = {.cores_online = (int)cores_len,
               .cores_without_value = 1,
               .cores_unproven = 2,
               .cores_tick_sampled = 3,
               .cores_by_source = {[SOURCE_IDLE] = (int)cores_len},
               .counts = {11, 12, 13, 14},
               .lateness_s = 0.001,
               .sample_cost_s = 0.002,
               .sampler_cpu = 0.0005},
      .hypervisor = true,
  };
  assert_non_null(snapshot->cores);
  assert_non_null(snapshot->aggregates);
  for (size_t i = 0; i < cores_len; i++)
    fill_core(&snapshot->cores[i], (int)i);
  for (size_t i = 0; i < 3; i++)
    fill_aggregate(&snapshot->aggregates[i], names[i]);
  return snapshot;
}

static void free_snapshot(struct snapshot *snapshot) {
  free(snapshot->cores);
  free(snapshot->aggregates);
  free(snapshot);
}

static void dispatch_and_free(struct snapshot *snapshot) {
  dispatch_snapshot(&dispatch, snapshot);
  free_snapshot(snapshot);
}

static void report_everything(void) {
  config.sampler.engine.bounds = true;
  config.load.sample_interval_s = 1;
  config.load.report_hidden = config.load.report_self = true;
  config.load.report_time = config.sampler.figures.softirq = true;
  config.sampler.engine.frequency = true;
  config.sampler.figures.cstates = true;
}

static void dispatch_host(size_t cores_len, unsigned n) {
  struct snapshot *snapshot = make_snapshot(cores_len, n);
  dispatch_and_free(snapshot);
}

static void assert_value(const char *identifier, double expected) {
  const struct fake_value *value = fake_find(identifier);
  if (value == NULL)
    fail_msg("%s was not dispatched", identifier);
  bool derive = strcmp(value->list.type, "derive") == 0 ||
                strcmp(value->list.type, "operations") == 0;
  double got =
      derive ? (double)value->values[0].derive : value->values[0].gauge;
  if (fabs(got - expected) > 1e-9 * fmax(1, fabs(expected)))
    fail_msg("%s is %g and should be %g", identifier, got, expected);
}

static void assert_three(const char *identifier, double a, double b, double c) {
  const struct fake_value *value = fake_find(identifier);
  if (value == NULL)
    fail_msg("%s was not dispatched", identifier);
  assert_int_equal(value->list.values_len, 3);
  assert_true(value->values[0].gauge == a);
  assert_true(value->values[1].gauge == b);
  assert_true(value->values[2].gauge == c);
}

static void assert_absent(const char *identifier) {
  if (fake_find(identifier) != NULL)
    fail_msg("%s was dispatched", identifier);
}

/* ---------------------------------------------------------------------------
 * Identifiers
 */

TEST(by_default_each_core_has_its_load_its_room_and_load_averages) {
  dispatch_host(2, 0);
  size_t of_core_1 = 0;
  for (size_t i = 0; i < fake.values_len; i++)
    of_core_1 += strcmp(fake.values[i].list.plugin, "percore") == 0 &&
                 strcmp(fake.values[i].list.plugin_instance, "1") == 0;
  assert_int_equal(of_core_1, 3);
  assert_value("percore-1/percent-load", 50);
  assert_value("percore-1/percent-room", 60);
  assert_three("percore-1/load", 0.1, 0.2, 0.3);
}

static struct empty_polls polls;

static void dispatch_loads(const double *loads, size_t len, unsigned n) {
  struct snapshot *snapshot = make_snapshot(len, n);
  for (size_t i = 0; i < len; i++) {
    snapshot->cores[i].load = loads[i];
    snapshot->cores[i].room = 1 - loads[i];
  }
  empty_polls_add(&polls, snapshot);
  dispatch_and_free(snapshot);
}

TEST(empty_polls_leave_room_and_other_work_does_not) {
  polls = (struct empty_polls){
      .stamp_ns = START, .end = 2, .polled_empty = {0.7, 0.05}};
  dispatch_loads((double[]){1, 1, 0.92, 0.3}, 4, 0);
  assert_value("percore-0/percent-load", 100);
  assert_value("percore-0/percent-room", 70);
  assert_value("percore-1/percent-room", 5);
  assert_value("percore-2/percent-room", 8);
  assert_value("percore-3/percent-room", 70);
}

/* The idle loop of core 0 polls for 35 % of its time. */
static double room_beside_idle_polls(double polled_empty, double room) {
  struct core_figures core = {.core = 0, .load = 0.95, .room = room};
  polls = (struct empty_polls){
      .stamp_ns = START, .end = 1, .polled_empty = {polled_empty}};
  assert_true(empty_polls_add(
      &polls,
      &(struct snapshot){.time_ns = START, .cores_len = 1, .cores = &core}));
  return core.room;
}

TEST(empty_polls_leave_room_beside_idle_polls) {
  assert_near(room_beside_idle_polls(0.5, 0.4), 0.9, 1e-9);
  assert_near(room_beside_idle_polls(0.7, 0.4), 1, 0);
  assert_nan(room_beside_idle_polls(0.5, NAN));
}

TEST(old_empty_polls_leave_no_room) {
  polls =
      (struct empty_polls){.stamp_ns = START, .end = 1, .polled_empty = {1}};
  dispatch_loads((double[]){1}, 1, 3);
  assert_value("percore-0/percent-room", 100);
  fake_reset();
  dispatch_loads((double[]){1}, 1, 4);
  assert_value("percore-0/percent-room", 0);
}

TEST(by_default_the_host_has_what_tells_where_room_is_and_why_it_is_not) {
  dispatch_host(2, 0);
  assert_value("percore_host-all/percent-load_mean", 50);
  assert_value("percore_host-node0/percent-load_min", 25);
  assert_value("percore_host-node1/percent-load_max", 75);
  assert_value("percore_host-node1/percent-load_stddev", 12.5);
  assert_value("percore_host-all/percent-room_mean", 60);
  assert_value("percore_host-node1/percent-room_min", 30);
  assert_absent("percore_host-all/percent-room_max");
  assert_three("percore_host-all/load", 100, 200, 8192);
  assert_three("percore_host-all/load-runqueue", 1, 2, 3);
  assert_value("percore_host-all/gauge-hidden", 10);
  assert_value("percore_host-all/percent-steal", 30);
  assert_value("percore_host-all/percent-user_mean", 20);
  assert_value("percore_host-all/percent-system_mean", 20);
  assert_value("percore_host-all/percent-irq_mean", 20);
  assert_value("percore_host-all/percent-softirq_mean", 20);
  assert_absent("percore_host-all/percent-iowait_mean");
  assert_absent("percore_host-all/percent-user_max");
  assert_absent("percore_host-node0/percent-user_mean");
  assert_value("percore_host-self/gauge-cores_online", 2);
  assert_value("percore_host-self/gauge-cores_without_value", 1);
  assert_value("percore_host-self/percent-sampler_cpu", 0.05);
  assert_absent("percore_host-self/gauge-cores_unproven");
  assert_absent("percore_host-self/gauge-cores_idle");
  assert_absent("percore_host-self/derive-snapshots_dropped");
}

TEST(report_self_adds_the_other_figures_of_percore_itself) {
  config.load.report_self = true;
  dispatch_host(2, 0);
  assert_value("percore_host-self/gauge-cores_unproven", 2);
  assert_value("percore_host-self/gauge-cores_tick_sampled", 3);
  assert_value("percore_host-self/gauge-cores_idle", 2);
  assert_value("percore_host-self/derive-windows_discarded", 11);
  assert_value("percore_host-self/derive-errors", 12);
  assert_value("percore_host-self/derive-reopens", 13);
  assert_value("percore_host-self/derive-source_changes", 14);
  assert_value("percore_host-self/derive-snapshots_dropped", 0);
  assert_value("percore_host-self/duration-lateness", 0.001);
  assert_value("percore_host-self/duration-sample_cost", 0.002);
}

TEST(every_option_adds_its_values) {
  report_everything();
  struct snapshot *snapshot = make_snapshot(1, 0);
  dispatch_and_free(snapshot);
  assert_value("percore-0/percent-load_low", 50);
  assert_value("percore-0/percent-load_high", 75);
  assert_value("percore-0/percent-load_trough", 25);
  assert_value("percore-0/percent-load_peak", 75);
  assert_value("percore-0/gauge-hidden", 12.5);
  assert_value("percore-0/percent-steal", 1);
  assert_value("percore-0/percent-user", 10);
  assert_value("percore-0/percent-nice", 2);
  assert_value("percore-0/percent-system", 20);
  assert_value("percore-0/percent-irq", 3);
  assert_value("percore-0/percent-softirq", 4);
  assert_value("percore-0/percent-hardirq", 1.5);
  assert_value("percore-0/percent-softirq_all", 35);
  assert_value("percore-0/percent-softirq_timer", 12.5);
  assert_value("percore-0/percent-softirq_net_rx", 20);
  assert_value("percore-0/percent-softirq_sched", 0);
  assert_value("percore-0/percent-softirq_hrtimer", 2.5);
  assert_absent("percore-0/percent-softirq_net_tx");
  assert_value("percore-0/percent-guest", 30);
  assert_value("percore-0/percent-iowait", 5);
  assert_value("percore_host-all/percent-user_mean", 20);
  assert_value("percore_host-node0/percent-softirq_min", 10);
  assert_value("percore_host-node1/percent-irq_max", 40);
  assert_value("percore_host-node1/percent-iowait_stddev", 5);
  assert_value("percore-0/cpufreq", 2.5e9);
  assert_value("percore-0/percent-idle_poll", 2);
  assert_value("percore-0/operations-idle_poll", 7);
  assert_value("percore-0/percent-cstate_C1E", 10);
  assert_value("percore-0/operations-cstate_C1E", 100);
  assert_value("percore-0/percent-cstate_C6_ACPI", 30);
}

static int by_text(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

static void assert_identifiers_distinct(void) {
  char **names = calloc(fake.values_len, sizeof(*names));
  assert_non_null(names);
  for (size_t i = 0; i < fake.values_len; i++) {
    char text[6 * DATA_MAX_NAME_LEN];
    fake_identifier(&fake.values[i], text, sizeof(text));
    names[i] = strdup(text);
  }
  qsort(names, fake.values_len, sizeof(*names), by_text);
  for (size_t i = 1; i < fake.values_len; i++)
    if (strcmp(names[i - 1], names[i]) == 0)
      fail_msg("%s was dispatched twice", names[i]);
  for (size_t i = 0; i < fake.values_len; i++)
    free(names[i]);
  free(names);
}

TEST(a_host_of_256_cores_has_distinct_identifiers) {
  dispatch_host(256, 0);
  assert_identifiers_distinct();
}

TEST(with_every_option_on_identifiers_are_still_distinct) {
  report_everything();
  struct snapshot *snapshot = make_snapshot(256, 0);
  dispatch_and_free(snapshot);
  assert_identifiers_distinct();
}

TEST(every_identifier_has_a_plugin_an_instance_and_a_stock_type) {
  static const char *const types[] = {"percent",    "load",    "gauge",
                                      "derive",     "cpufreq", "duration",
                                      "operations", "latency"};
  report_everything();
  struct snapshot *snapshot = make_snapshot(4, 0);
  dispatch_and_free(snapshot);
  for (size_t i = 0; i < fake.values_len; i++) {
    const value_list_t *list = &fake.values[i].list;
    assert_true(strcmp(list->plugin, "percore") == 0 ||
                strcmp(list->plugin, "percore_host") == 0);
    assert_true(list->plugin_instance[0] != '\0');
    assert_null(strchr(list->plugin_instance, '/'));
    assert_null(strpbrk(list->type_instance, "/ ;=\"\n"));
    bool stock = false;
    for (size_t t = 0; t < sizeof(types) / sizeof(types[0]); t++)
      stock = stock || strcmp(types[t], list->type) == 0;
    assert_true(stock);
    assert_true(list->interval == 0); /* that of the thread's context */
    assert_true(list->time == TIME_T_TO_CDTIME_T_STATIC(1700000000));
  }
}

TEST(a_source_is_counted_from_the_first_time_it_serves_a_core) {
  config.load.report_self = true;
  dispatch_host(2, 0);
  assert_absent("percore_host-self/gauge-cores_mperf");
  struct snapshot *snapshot = make_snapshot(2, 1);
  snapshot->self.cores_by_source[SOURCE_REF_CYCLES] = 2;
  snapshot->self.cores_by_source[SOURCE_IDLE] = 0;
  dispatch_and_free(snapshot);
  assert_value("percore_host-self/gauge-cores_ref_cycles", 2);
  assert_value("percore_host-self/gauge-cores_idle", 0);
}

/* ---------------------------------------------------------------------------
 * The number of values that a host produces
 */

struct cost {
  size_t values, series; /* in one interval */
};

static struct cost measure(size_t cores, size_t nodes) {
  struct cost cost = {0};
  fake_reset();
  dispatch.last = 0;
  struct snapshot *snapshot = make_snapshot(cores, 0);
  snapshot->aggregates_len = 1 + nodes;
  dispatch_and_free(snapshot);
  cost.values = fake.values_len;
  for (size_t i = 0; i < fake.values_len; i++)
    cost.series += fake.values[i].list.values_len;
  return cost;
}

/* Returns the text of a document. Replaces each run of white space and `#` by
 * one blank, so that sentences are found even if they are wrapped. */
static char *read_document(const char *name) {
  char path[PATH_MAX];
  snprintf(path, sizeof(path), "%s/%s", TEST_SOURCE, name);
  FILE *file = fopen(path, "r");
  if (file == NULL)
    fail_msg("%s: %s", path, strerror(errno));
  char *text = calloc(1, 1 << 20);
  assert_non_null(text);
  size_t len = 0;
  for (int c = fgetc(file); c != EOF && len + 1 < 1 << 20; c = fgetc(file))
    if (!isspace(c) && c != '#')
      text[len++] = (char)c;
    else if (len > 0 && text[len - 1] != ' ')
      text[len++] = ' ';
  fclose(file);
  return text;
}

static void assert_says(const char *document, const char *format, ...) {
  char sentence[256];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(sentence, sizeof(sentence), format, arguments);
  va_end(arguments);
  char *text = read_document(document);
  bool found = strstr(text, sentence) != NULL;
  free(text);
  if (!found)
    fail_msg("%s does not say \"%s\"", document, sentence);
}

static void assert_fleet_table_says(const char *options) {
  for (size_t cores = 2; cores <= 256; cores = cores == 2 ? 32 : 8 * cores) {
    struct cost cost = measure(cores, cores > 64 ? 2 : 0);
    assert_says("contrib/collectd/FLEET.md", "| %s | %zu | %zu | %zu |",
                options, cores, cost.values, cost.series);
  }
}

TEST(by_default_a_core_has_3_values_a_host_17_and_each_further_set_at_most_8) {
  size_t one = measure(1, 0).values, two = measure(2, 0).values;
  assert_int_equal(two - one, 3);
  assert_int_equal(one - 3, 17);
  assert_in_range(measure(1, 1).values - one, 1, 8);
}

TEST(the_documents_say_what_a_host_costs) {
  struct cost one = measure(1, 0), two = measure(2, 0), nodes = measure(1, 1),
              usual = measure(32, 0), largest = measure(256, 2);
  struct cost core = {two.values - one.values, two.series - one.series};
  static const char *const documents[] = {"README.md",
                                          "src/plugin/collectd-percore.pod",
                                          "contrib/collectd/FLEET.md"};
  for (size_t i = 0; i < 3; i++)
    assert_says(documents[i],
                "%zu values (%zu series) for each core and %zu values (%zu "
                "series) for the host",
                core.values, core.series, one.values - core.values,
                one.series - core.series);
  assert_says("src/plugin/collectd-percore.pod",
              "256 cores and two NUMA nodes has %zu values (%zu series)",
              largest.values, largest.series);
  assert_says("contrib/collectd/FLEET.md",
              "Each `Group`, and each NUMA node where there are several, adds "
              "%zu values",
              nodes.values - one.values);
  for (size_t i = 1; i < 3; i++)
    assert_says(
        documents[i],
        "adds up to %d values, and 2 for each idle state, for each core "
        "that it probes, and for the host 2, and 1 for each idle state",
        1 + WAKE_SURVEY_VALUES);
  assert_says("contrib/collectd/storage-schemas.conf",
              "a host with 32 cores produces %zu metrics", usual.series);
  assert_says("contrib/collectd/queue.conf",
              "a host with 256 cores produces %zu", largest.values);
  assert_says("contrib/collectd/rrdtool.conf",
              "a host with 256 cores are written to %zu files", largest.values);
  config.sampler.figures.softirq = true;
  assert_says("contrib/collectd/FLEET.md",
              "ReportSoftirq adds %zu values for each core",
              measure(1, 0).values - one.values - KINDS_THAT_HAVE_RUN);
}

TEST(the_table_of_the_fleet_page_is_what_is_dispatched) {
  assert_fleet_table_says("default");
  config.load.sample_interval_s = 1;
  config.load.report_hidden = true;
  config.sampler.figures.cstates = true;
  assert_fleet_table_says("SampleInterval, ReportHidden, ReportCStates");
}

/* ---------------------------------------------------------------------------
 * Values
 */

TEST(unknown_figures_are_not_dispatched) {
  report_everything();
  struct snapshot *snapshot = make_snapshot(2, 0);
  struct core_figures *core = &snapshot->cores[0];
  core->load = core->load_trough = core->load_peak = NAN;
  core->load_low = core->load_high = NAN;
  core->load_average[1] = NAN;
  core->hidden = INFINITY;
  core->room = NAN;
  core->steal = core->frequency_hz = -INFINITY;
  core->residency[1] = NAN;
  snapshot->host.load_average[0] = NAN;
  snapshot->host.hidden = 1e300;
  snapshot->aggregates[1].load = (struct spread_figures){NAN, NAN, NAN, NAN};
  snapshot->aggregates[2].load.mean = NAN;
  snapshot->self.lateness_s = NAN;
  dispatch_and_free(snapshot);
  for (size_t i = 0; i < fake.values_len; i++) {
    const struct fake_value *value = &fake.values[i];
    bool derive = strcmp(value->list.type, "derive") == 0 ||
                  strcmp(value->list.type, "operations") == 0;
    for (size_t v = 0; v < value->list.values_len && !derive; v++)
      assert_true(isfinite(value->values[v].gauge));
  }
  assert_absent("percore-0/percent-load");
  assert_absent("percore-0/percent-room");
  assert_absent("percore-0/load");
  assert_absent("percore-0/gauge-hidden");
  assert_absent("percore-0/percent-steal");
  assert_absent("percore-0/cpufreq");
  assert_absent("percore-0/percent-cstate_C1E");
  assert_value("percore-0/operations-cstate_C1E", 100);
  assert_absent("percore_host-all/load");
  assert_absent("percore_host-all/gauge-hidden");
  assert_absent("percore_host-node0/percent-load_min");
  assert_absent("percore_host-node1/percent-load_mean");
  assert_value("percore_host-node1/percent-load_min", 25);
  assert_absent("percore_host-self/duration-lateness");
  assert_value("percore-1/percent-load", 50);
}

TEST(shares_are_clamped_to_0_and_100_percent) {
  config.load.sample_interval_s = 1;
  struct snapshot *snapshot = make_snapshot(2, 0);
  snapshot->cores[0].load = 1.004;
  snapshot->cores[0].load_peak = 7;
  snapshot->cores[1].load = -0.004;
  snapshot->cores[1].load_average[0] = 1.01;
  snapshot->host.steal = -0.1;
  dispatch_and_free(snapshot);
  assert_value("percore-0/percent-load", 100);
  assert_value("percore-0/percent-load_peak", 100);
  assert_value("percore-1/percent-load", 0);
  assert_three("percore-1/load", 1, 0.2, 0.3);
  assert_value("percore_host-all/percent-steal", 0);
}

TEST(hidden_may_be_negative) {
  struct snapshot *snapshot = make_snapshot(1, 0);
  snapshot->host.hidden = -0.9;
  dispatch_and_free(snapshot);
  assert_value("percore_host-all/gauge-hidden", -90);
}

TEST(a_core_that_is_offline_has_no_values) {
  struct snapshot *snapshot = make_snapshot(2, 0);
  snapshot->cores[0].online = false;
  dispatch_and_free(snapshot);
  assert_absent("percore-0/percent-load");
  assert_absent("percore-0/load");
  assert_value("percore-1/percent-load", 50);
}

TEST(steal_of_the_host_is_reported_only_under_a_hypervisor) {
  struct snapshot *snapshot = make_snapshot(1, 0);
  snapshot->hypervisor = false;
  dispatch_and_free(snapshot);
  assert_absent("percore_host-all/percent-steal");
}

TEST(values_that_are_switched_off_are_left_out) {
  report_everything();
  config.load.report_per_core = false;
  dispatch_host(2, 0);
  assert_absent("percore-0/percent-load");
  assert_absent("percore-0/gauge-hidden");
  assert_value("percore_host-all/percent-load_mean", 50);
  fake_reset();
  config.load.report_per_core = true;
  config.load.report_host = false;
  dispatch_host(2, 1);
  assert_value("percore-0/percent-load", 50);
  assert_absent("percore_host-all/percent-load_mean");
  assert_absent("percore_host-all/load");
  assert_value("percore_host-self/gauge-cores_online", 2);
}

/* ---------------------------------------------------------------------------
 * Timestamps, and the limit on the number of values
 */

TEST(the_time_of_values_always_increases) {
  config.load.report_self = true;
  dispatch_host(1, 1);
  size_t values_len = fake.values_len;
  dispatch_host(1, 1);
  dispatch_host(1, 0);
  assert_int_equal(fake.values_len, values_len);
  assert_int_equal(fake_count_logged(LOG_WARNING), 1);
  dispatch_host(1, 2);
  assert_int_equal(fake.values_len, 2 * values_len);
  assert_value("percore_host-self/derive-snapshots_dropped", 2);
  assert_int_equal(fake_count_logged(LOG_INFO), 1);
  cdtime_t last = 0;
  for (size_t i = 0; i < fake.values_len; i++) {
    assert_true(fake.values[i].list.time >= last);
    last = fake.values[i].list.time;
  }
}

TEST(whoever_asks_learns_whether_loads_are_withheld) {
  struct snapshot *snapshot = make_snapshot(1, 1);
  assert_true(dispatch_snapshot(&dispatch, snapshot));
  assert_false(dispatch_snapshot(&dispatch, snapshot));
  dispatch_and_free(snapshot);
}

const struct unit_fixtures unit_fixtures = {
    .before_each = set_up, .after_each = plugin_unit_tear_down};
