/* Tests what percore wake says about idle states. A simulated core has idle
 * states that take a known time to leave. */
#include "tool/wake.h"

#include "unit.h"

#define TIMER 0xfeed

static struct wake_run run;
static struct wake_steps steps;
static struct wake_points points;
static uint64_t now;
static unsigned seed;

/* How long the states take to leave: this, and at random up to as much again.
 */
static double cost_us[] = {0.4, 1.5, 84};

static void begin(void) {
  run = (struct wake_run){.limit = {INFINITY, ""}};
  run.status = (struct wake_collect_status){
      .core = 3, .method = "bpf-timer", .smis = -1};
  run.status.states = (struct wake_states){
      .len = 4,
      .list = {{.name = "POLL"},
               {.name = "C1", .latency_us = 2, .residency_us = 2},
               {.name = "C6", .latency_us = 30, .residency_us = 400},
               {.name = "C8", .latency_us = 300, .residency_us = 1200}}};
  points = (struct wake_points){0};
  steps = (struct wake_steps){.timer = TIMER};
  now = 1000000;
  seed = 1;
}

static void end(void) {
  wake_points_free(&points);
  wake_stats_free(&run.stats);
}

/* The core becomes idle, is woken by our timer, and runs for a while. */
static void play(uint32_t state, double exit_us) {
  uint64_t ltime = now + 1000 + (uint64_t)rand_r(&seed) % 4000000;
  bool off = state != 0, is_point;
  steps.is_armed = 1;
  run.status.armed++;
  is_point = wake_on_idle(&steps, now, state);
  now = ltime + (uint64_t)(1000 * exit_us + 0.5);
  if (off)
    is_point |= wake_on_wake(&steps, now);
  wake_on_interrupt(&steps, off ? now + 700 : now, 236);
  is_point |= wake_on_expire(&steps, now + 800, TIMER, ltime);
  if (!off)
    is_point |= wake_on_wake(&steps, now + 900);
  assert_true(is_point);
  assert_int_equal(wake_points_add(&points, &run.status.states, &steps.event),
                   1);
  now += 5000;
  run.status.states.list[state].entries++;
  run.status.states.list[state].time_us += (now - steps.tbi) / 1000;
}

/* Plays events of each state, which are mixed. */
static void play_mix(int poll, int c1, int c6) {
  const int counts[] = {poll, c1, c6};
  int played[3] = {0};
  for (int i = 0, all = poll + c1 + c6; i < all; i++) {
    uint32_t state = (uint32_t)rand_r(&seed) % 3;
    while (played[state] == counts[state])
      state = (state + 1) % 3;
    double part = (double)(played[state]++ * 7919 % 10007) / 10007;
    play(state, cost_us[state] * (1 + part));
  }
  for (size_t i = 0; i < points.len; i++)
    assert_int_equal(wake_stats_add(&run.stats, &points.list[i]), 0);
  run.status.datapoints += points.len;
  points.len = 0;
  run.status.seconds = (double)now / 1e9;
}

static const char *text_of(void) {
  FILE *out = unit_open();
  wake_write_text(out, &run);
  return unit_close();
}

/* Asserts that the table has a line for the state that ends with these words.
 */
static void assert_words(const char *name, const char *words) {
  char line[64], found[128] = "";
  snprintf(line, sizeof(line), "\n%-12s ", name);
  const char *row = strstr(strstr(text_of(), "\nidle state "), line);
  assert_non_null(row);
  assert_int_equal(sscanf(row, "\n%*[^\n]\n %127[^\n]", found), 1);
  assert_string_equal(found, words);
}

static void assert_row(int state, double cost, const char *words) {
  const struct histogram *latency = wake_stats_latency(&run.stats, state);
  assert_near(wake_percentile(latency, 50), 1.5 * cost, 0.05 * cost);
  assert_near(wake_percentile(latency, 99), 1.99 * cost, 0.05 * cost);
  assert_near(wake_figure(latency, WAKE_MAX), 2 * cost, 0.05 * cost);
  assert_words(run.status.states.list[state].name, words);
}

static const char *json_of(void) {
  FILE *out = unit_open();
  wake_write_json(out, &run);
  return unit_close();
}

TEST(what_each_state_costs_is_right_to_five_percent) {
  play_mix(1500, 2500, 4000);
  assert_row(0, 0.4, "as advertised");
  assert_row(1, 1.5, "as advertised");
  assert_row(2, 84, "dearer: 126 us, advertised 30");
  assert_words("C8", "not reached");
}

TEST(a_mix_that_shifts_moves_no_state) {
  play_mix(0, 6000, 2000);
  assert_row(1, 1.5, "as advertised");
  assert_row(2, 84, "dearer: 126 us, advertised 30");
  wake_stats_clear(&run.stats);
  play_mix(0, 2000, 6000);
  assert_row(1, 1.5, "as advertised");
  assert_row(2, 84, "dearer: 126 us, advertised 30");
}

TEST(a_state_is_dearer_only_beyond_what_the_kernel_itself_takes) {
  play_mix(0, 1000, 0);
  static const struct {
    double advertised_us;
    const char *verdict;
  } cases[] = {
      {0, "as advertised"}, {2.2, "as advertised"}, {100, "as advertised"}};
  for (size_t i = 0; i < 3; i++) {
    run.status.states.list[1].latency_us = cases[i].advertised_us;
    assert_string_equal(wake_verdict(&run, 1), cases[i].verdict);
  }
  play_mix(0, 0, 1000);
  run.status.states.list[2].latency_us = 107;
  assert_string_equal(wake_verdict(&run, 2), "as advertised");
  run.status.states.list[2].latency_us = 104;
  assert_string_equal(wake_verdict(&run, 2), "dearer");
}

TEST(few_datapoints_have_no_verdict) {
  play_mix(0, 19, 0);
  assert_words("C1", "too few");
  run.status.states.list[3].entries = 5; /* entered, but not woken from */
  assert_words("C8", "too few");
}

TEST(why_a_state_is_not_reached_is_said) {
  play_mix(0, 100, 0);
  run.status.states.list[2].is_disabled = true;
  assert_words("C6", "not reached: disabled");
  run.limit = (struct latency_limit){20, "what sets it"};
  assert_words("C8", "not reached: above 20 us");
  assert_non_null(strstr(text_of(), "above 20 us are not used:\n"
                                    "  what sets it\n"));
}

TEST(without_cpuidle_nothing_is_advertised_or_counted) {
  run.status.states = (struct wake_states){
      1, {{"idle", .latency_us = NAN, .residency_us = NAN}}};
  run.status.usage = -1;
  assert_words("idle", "not advertised");
  assert_non_null(strstr(text_of(), "\nidle             -      -         -"
                                    "      -       0        -"));
  assert_non_null(strstr(json_of(), "\"idle_check\":\"unchecked\""));
  assert_null(strstr(json_of(), "\"entries\""));
  assert_null(strstr(json_of(), "\"time_us\""));
}

TEST(the_table_shows_every_state) {
  play_mix(0, 1500, 1500);
  const char *table = strstr(text_of(), "\nidle state ");
  assert_non_null(table);
  assert_non_null(strstr(table, "\nPOLL             0      0         0   0.0%"
                                "       0        -        -        -\n"
                                "  not reached\n"));
  assert_non_null(strstr(table, "\nC6              30    400      1500 "));
  assert_non_null(strstr(table, "\n  dearer: 126 us, advertised 30\n"));
  assert_non_null(strstr(table, "\nC8 "));
}

TEST(the_document_has_what_the_table_has) {
  play_mix(0, 1500, 1500);
  const char *c6 = strstr(json_of(), "{\"state\":\"C6\"");
  assert_non_null(c6);
  assert_non_null(strstr(c6, "\"latency_us\":30,\"residency_us\":400,"
                             "\"disabled\":false,\"entries\":1500,"));
  assert_non_null(strstr(c6, "\"verdict\":\"dearer\",\"metrics\":[{"
                             "\"metric\":\"WakeLatency\",\"count\":1500,"));
  assert_null(strstr(c6, "\"disable\""));
}

const struct unit_fixtures unit_fixtures = {.before_each = begin,
                                            .after_each = end};
