/* Tests how answers of programs that poll are read: recorded answers of each
 * version, and answers that no honest program gives. */
#include "poller/poller.h"
#include "unit.h"

static struct poller_server server;

static void begin(void) { server = (struct poller_server){.fd = -1}; }

const struct unit_fixtures unit_fixtures = {.before_each = begin};

static size_t take(enum poller_dialect dialect, const char *text) {
  server.dialect = dialect;
  server.told = 0;
  poller_answer_take(&server, text);
  return server.told;
}

static void check(size_t i, uint64_t id, uint64_t busy, uint64_t total) {
  assert_true(i < server.len);
  assert_true(server.threads[i].id == id);
  assert_true(server.threads[i].busy == busy);
  assert_true(server.threads[i].total == total);
}

/* ---------------------------------------------------------------------------
 * DPDK
 */

TEST(dpdk_tells_busy_and_total_cycles_of_each_lcore) {
  assert_int_equal(
      take(POLLER_DPDK,
           "{\"/eal/lcore/usage\":{\"lcore_ids\":[7,64],\"total_cycles\":"
           "[19659487808,18446744073709551615],\"busy_cycles\":[19163801955,"
           "9223372036854775809],\"usage_ratio\":[\"97.48%\",\"50.00%\"]}}"),
      2);
  check(0, 7, UINT64_C(19163801955), UINT64_C(19659487808));
  check(1, 64, UINT64_C(9223372036854775809), UINT64_MAX);
  assert_int_equal(server.threads[0].core, -1); /* an lcore is no core */
}

TEST(an_lcore_is_on_the_only_core_of_its_cpuset) {
  take(POLLER_DPDK,
       "{\"/eal/lcore/usage\":{\"lcore_ids\":[5,7],\"total_cycles\":"
       "[2,4],\"busy_cycles\":[1,1],\"usage_ratio\":[]}}");
  take(POLLER_DPDK,
       "{\"/eal/lcore/info\":{\"lcore_id\":7,\"socket\":0,\"role\":\"RTE\","
       "\"cpuset\":[1],\"busy_cycles\":1,\"total_cycles\":4}}");
  assert_int_equal(server.threads[0].core, -1);
  assert_int_equal(server.threads[1].core, 1);
}

TEST(an_lcore_that_may_run_on_several_cores_is_on_none) {
  take(POLLER_DPDK, "{\"/eal/lcore/usage\":{\"lcore_ids\":[7],\"total_cycles\":"
                    "[4],\"busy_cycles\":[1]}}");
  take(POLLER_DPDK, "{\"/eal/lcore/info\":{\"lcore_id\":7,\"cpuset\":[1,2]}}");
  assert_int_equal(server.threads[0].core, -1);
  take(POLLER_DPDK, "{\"/eal/lcore/info\":{\"lcore_id\":7,\"cpuset\":[8192]}}");
  assert_int_equal(server.threads[0].core, -1);
}

TEST(dpdk_22_11_tells_nothing) {
  assert_int_equal(take(POLLER_DPDK, "{\"/eal/lcore/usage\":null}"), 0);
}

TEST(dpdk_without_a_usage_callback_tells_nothing) {
  assert_int_equal(take(POLLER_DPDK, "{\"/eal/lcore/usage\":{}}"), 0);
  assert_int_equal(take(POLLER_DPDK,
                        "{\"/eal/lcore/usage\":{\"lcore_ids\":[],"
                        "\"total_cycles\":[],\"busy_cycles\":[]}}"),
                   0);
}

TEST(lists_of_unequal_length_are_not_used) {
  assert_int_equal(take(POLLER_DPDK,
                        "{\"/eal/lcore/usage\":{\"lcore_ids\":[1,2],"
                        "\"total_cycles\":[5],\"busy_cycles\":[4,4]}}"),
                   0);
}

/* ---------------------------------------------------------------------------
 * Open vSwitch
 */

#define OVS(text) "{\"id\":0,\"result\":\"" text "\",\"error\":null}"

TEST(open_vswitch_3_tells_idle_and_processing_cycles_of_each_core) {
  assert_int_equal(
      take(
          POLLER_OVS,
          OVS("pmd thread numa_id 0 core_id 1:\\n  packets received: 7165504\\n"
              "  packet recirculations: 0\\n  avg. datapath passes per packet: "
              "1.00\\n  phwol hits: 0\\n  miss with failed upcall: 448\\n  "
              "avg. "
              "packets per output batch: 0.00\\n  idle cycles: 1000 (27.91%)\\n"
              "  processing cycles: 2583025788 (72.09%)\\n  avg cycles per "
              "packet: 360.48 (2583025788/7165504)\\n  avg processing cycles "
              "per "
              "packet: 360.48 (2583025788/7165504)\\n"
              "pmd thread numa_id 1 core_id 12:\\n  packets received: 0\\n  "
              "idle "
              "cycles: 77 (100.00%)\\n  processing cycles: 0 (0.00%)\\n"
              "main thread:\\n  packets received: 0\\n  idle cycles: 5 "
              "(50%)\\n  "
              "processing cycles: 5 (50%)\\n")),
      2);
  check(0, 1, UINT64_C(2583025788), UINT64_C(2583026788));
  check(1, 12, 0, 77);
  assert_int_equal(server.threads[1].core, 12);
}

TEST(open_vswitch_without_threads_that_poll_tells_nothing) {
  assert_int_equal(
      take(POLLER_OVS, OVS("main thread:\\n  packets received: 0\\n"
                           "  idle cycles: 5 (100.00%)\\n")),
      0);
  assert_int_equal(
      take(POLLER_OVS,
           "{\"id\":0,\"result\":null,\"error\":\"please specify an "
           "existing datapath\\n\"}"),
      0);
}

/* What pmd-stats-show answers there is that of pmd-perf-show. */
TEST(open_vswitch_4_tells_no_cycles) {
  assert_int_equal(
      take(
          POLLER_OVS,
          OVS("\\nTime: 12:55:03.343\\nMeasurement duration: 20.034 s\\n\\npmd "
              "thread numa_id 0 core_id 1:\\n\\n  Iterations:              "
              "4103856  (5.12 us/it)\\n  - Used TSC cycles:   45980854778  ( "
              "99.9 % of total cycles)\\n  - idle iterations:       4072888  ( "
              "45.3 % of used cycles)\\n  - busy iterations:         30968  ( "
              "54.7 % of used cycles)\\n  - sleep iterations:            0  (  "
              "0.0 % of iterations)\\n  Sleep time (us):               0  (  0 "
              "us/iteration avg.)\\n  Rx packets:                30969  (2 "
              "Kpps, 811982 cycles/pkt)\\n  Datapath passes:           30969  "
              "(1.00 passes/pkt)\\n  - PHWOL hits:                  0  (  0.0 "
              "%)\\n  - Upcalls:                 30969  (100.0 %, 0.0 "
              "us/upcall)\\n  - Lost upcalls:                0  (  0.0 %)\\n  "
              "Tx packets:                61938  (3 Kpps)\\n  Tx batches:      "
              "          61938  (1.00 pkts/batch)\\n\\nTime: "
              "12:55:03.343\\nMeasurement duration: 20.034 s\\n\\nmain "
              "thread:\\n\\n  Rx packets:                    0\\n  Tx packets: "
              "                   0\\n\\n")),
      0);
}

TEST(open_vswitch_4_tells_whole_percents_of_each_queue) {
  server.is_percent = true;
  assert_int_equal(
      take(
          POLLER_OVS,
          OVS("Displaying last 5 seconds pmd usage %\\n"
              "pmd thread numa_id 0 core_id 1:\\n  isolated : false\\n  port: "
              "p0                queue-id:  0 (enabled)   pmd usage: 46 %\\n  "
              "port: p1                queue-id:  0 (disabled)  pmd usage:  2 "
              "%\\n  overhead:  4 %\\n"
              "pmd thread numa_id 0 core_id 2:\\n  isolated : true\\n  port: p1"
              "                queue-id:  0 (enabled)   pmd usage: 99 %\\n  "
              "overhead:  2 %\\n"
              "pmd thread numa_id 0 core_id 3:\\n  isolated : false\\n")),
      2);
  check(0, 1, 52, 100);
  check(1, 2, 100, 100);
  assert_near(server.threads[0].share, 0.52, 1e-9);
}

TEST(a_thread_of_open_vswitch_4_polls_although_it_has_no_percents_yet) {
  server.is_percent = true;
  assert_int_equal(
      take(POLLER_OVS,
           OVS("Displaying last 5 seconds pmd usage %\\npmd thread numa_id 0 "
               "core_id 1:\\n  isolated : false\\n  port: p0                "
               "queue-id:  0 (enabled)   pmd usage: NOT AVAIL\\n  port: p1     "
               "           queue-id:  0 (enabled)   pmd usage: NOT AVAIL\\n  "
               "overhead: NOT AVAIL\\n")),
      1);
  assert_nan(server.threads[0].share);
}

/* ---------------------------------------------------------------------------
 * SPDK
 */

TEST(spdk_tells_busy_and_idle_cycles_of_each_reactor) {
  assert_int_equal(
      take(
          POLLER_SPDK,
          "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"tick_rate\":2596100000,"
          "\"pid\":18303,\"reactors\":[{\"lcore\":0,\"numa_id\":0,\"tid\":"
          "18303,"
          "\"busy\":9547150905,\"idle\":3901734064,\"in_interrupt\":false,"
          "\"irq\":0,\"sys\":85,\"usr\":424,\"lw_threads\":[{\"name\":"
          "\"app_thread\",\"id\":1,\"cpumask\":\"1\",\"elapsed\":13449417111}]}"
          "]}}"),
      1);
  check(0, 0, UINT64_C(9547150905), UINT64_C(13448884969));
  assert_int_equal(server.threads[0].core, 0);
}

/* ---------------------------------------------------------------------------
 * Anything
 */

static bool is_whole(const char *text) {
  return poller_answer_is_whole(text, strlen(text));
}

TEST(an_answer_ends_with_the_bracket_that_closes_its_first) {
  assert_false(is_whole(""));
  assert_false(is_whole("{\"a\":[1,{\"b\":2}]"));
  assert_true(is_whole("{\"a\":[1,{\"b\":2}]}"));
  assert_true(is_whole(" [] {"));
}

TEST(brackets_in_strings_do_not_end_an_answer) {
  assert_false(is_whole("{\"a\":\"}\\\"}\\\\\""));
  assert_true(is_whole("{\"a\":\"}\\\"}\\\\\"}"));
}

TEST(an_answer_that_nests_deeply_never_ends) {
  char text[400] = "";
  for (int i = 0; i < 100; i++)
    strcat(text, "[");
  for (int i = 0; i < 100; i++)
    strcat(text, "]");
  assert_false(is_whole(text));
  assert_true(is_whole(text + 50)); /* with as many more at its end */
}

/* yajl, which skips comments, would nest the brackets. */
TEST(an_answer_with_a_comment_never_ends) {
  assert_false(is_whole("[/*\"*/[[]]/*\"*/]"));
  assert_false(is_whole("[//\n]"));
  assert_true(is_whole("{\"/eal/lcore\":1}"));
}

TEST(what_is_no_answer_tells_nothing) {
  static const char *const texts[] = {
      "",
      "{}",
      "[]",
      "[[[]]]",
      "{\"result\":{}}",
      "{\"result\":[]}",
      "{\"result\":7}",
      "{\"result\":\"\"}",
      "{\"result\":\"core_id 1\"}",
      "{\"result\":{\"reactors\":7}}",
      "{\"/eal/lcore/usage\":[]}",
      "{\"/eal/lcore/usage\":{\"lcore_ids\":7}}",
      "{\"/eal/lcore/info\":{\"cpuset\":[1]}}",
      "{\"a\":}",
  };
  for (int dialect = 0; dialect < POLLER_DIALECTS; dialect++)
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
      assert_int_equal(take((enum poller_dialect)dialect, texts[i]), 0);
}

TEST(a_program_has_no_more_than_1024_threads) {
  char *text = malloc(1 << 16), *end = text;
  end += sprintf(end, "{\"result\":{\"reactors\":[");
  for (int i = 0; i < 1100; i++)
    end += sprintf(end, "%s{\"lcore\":%d,\"busy\":1,\"idle\":1}",
                   i > 0 ? "," : "", i);
  strcpy(end, "]}}");
  assert_int_equal(take(POLLER_SPDK, text), 1024);
  assert_int_equal(server.len, 1024);
  free(text);
}
