/* Tests how answers of programs that poll are read: recorded answers of each
 * version, and answers that no honest program gives. */
#include "poller/poller.h"
#include "unit.h"

static struct poller_server server;

static void begin(void) { server = (struct poller_server){.fd = -1}; }

const struct unit_fixtures unit_fixtures = {.before_each = begin};

enum dialect { OVS_TEXT, DPDK_JSON };

static size_t take(enum dialect dialect, const char *text) {
  char *answer = strdup(text); /* so that a sanitizer sees its end */
  server.is_dpdk = dialect == DPDK_JSON;
  server.told = 0;
  poller_answer_take(&server, answer);
  free(answer);
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
      take(DPDK_JSON,
           "{\"/eal/lcore/usage\":{\"lcore_ids\":[7,64],\"total_cycles\":"
           "[19659487808,18446744073709551615],\"busy_cycles\":[19163801955,"
           "9223372036854775809],\"usage_ratio\":[\"97.48%\",\"50.00%\"]}}"),
      2);
  check(0, 7, UINT64_C(19163801955), UINT64_C(19659487808));
  check(1, 64, UINT64_C(9223372036854775809), UINT64_MAX);
  assert_int_equal(server.threads[0].core, -1); /* an lcore is no core */
}

TEST(an_lcore_is_on_the_only_core_of_its_cpuset) {
  take(DPDK_JSON, "{\"/eal/lcore/usage\":{\"lcore_ids\":[5,7],\"total_cycles\":"
                  "[2,4],\"busy_cycles\":[1,1],\"usage_ratio\":[]}}");
  take(DPDK_JSON,
       "{\"/eal/lcore/info\":{\"lcore_id\":7,\"socket\":0,\"role\":\"RTE\","
       "\"cpuset\":[1],\"busy_cycles\":1,\"total_cycles\":4}}");
  assert_int_equal(server.threads[0].core, -1);
  assert_int_equal(server.threads[1].core, 1);
}

TEST(an_lcore_that_may_run_on_several_cores_is_on_none) {
  take(DPDK_JSON, "{\"/eal/lcore/usage\":{\"lcore_ids\":[7],\"total_cycles\":"
                  "[4],\"busy_cycles\":[1]}}");
  take(DPDK_JSON, "{\"/eal/lcore/info\":{\"lcore_id\":7,\"cpuset\":[1,2]}}");
  assert_int_equal(server.threads[0].core, -1);
  take(DPDK_JSON, "{\"/eal/lcore/info\":{\"lcore_id\":7,\"cpuset\":[8192]}}");
  assert_int_equal(server.threads[0].core, -1);
}

TEST(dpdk_22_11_tells_nothing) {
  assert_int_equal(take(DPDK_JSON, "{\"/eal/lcore/usage\":null}"), 0);
}

TEST(dpdk_without_a_usage_callback_tells_nothing) {
  assert_int_equal(take(DPDK_JSON, "{\"/eal/lcore/usage\":{}}"), 0);
  assert_int_equal(take(DPDK_JSON, "{\"/eal/lcore/usage\":{\"lcore_ids\":[],"
                                   "\"total_cycles\":[],\"busy_cycles\":[]}}"),
                   0);
}

TEST(lists_of_unequal_length_are_not_used) {
  assert_int_equal(take(DPDK_JSON,
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
          OVS_TEXT,
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
  assert_int_equal(take(OVS_TEXT, OVS("main thread:\\n  packets received: 0\\n"
                                      "  idle cycles: 5 (100.00%)\\n")),
                   0);
  assert_int_equal(
      take(OVS_TEXT, "{\"id\":0,\"result\":null,\"error\":\"please specify an "
                     "existing datapath\\n\"}"),
      0);
}

/* What pmd-stats-show answers there is that of pmd-perf-show. */
TEST(open_vswitch_4_tells_no_cycles) {
  assert_int_equal(
      take(
          OVS_TEXT,
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
          OVS_TEXT,
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
      take(OVS_TEXT,
           OVS("Displaying last 5 seconds pmd usage %\\npmd thread numa_id 0 "
               "core_id 1:\\n  isolated : false\\n  port: p0                "
               "queue-id:  0 (enabled)   pmd usage: NOT AVAIL\\n  port: p1     "
               "           queue-id:  0 (enabled)   pmd usage: NOT AVAIL\\n  "
               "overhead: NOT AVAIL\\n")),
      1);
  assert_nan(server.threads[0].share);
}

/* ---------------------------------------------------------------------------
 * Anything
 */

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
      "{\"/eal/lcore/usage\":{\"lcore_ids\":[",
      "{\"/eal/lcore/usage\":{\"lcore_ids\":[,],\"total_cycles\":[,],"
      "\"busy_cycles\":[,]}}",
      "{\"/eal/lcore/info\":{\"lcore_id\":,\"cpuset\":[1",
      "pmd thread core_id \\n idle cycles: \\n processing cycles: \\n",
      "{\"/eal/lcore/usage\":[]}",
      "{\"/eal/lcore/usage\":{\"lcore_ids\":7}}",
      "{\"/eal/lcore/info\":{\"cpuset\":[1]}}",
      "{\"a\":}",
  };
  for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
    assert_int_equal(take(DPDK_JSON, texts[i]), 0);
    assert_int_equal(take(OVS_TEXT, texts[i]), 0);
  }
}

TEST(a_program_has_no_more_than_1024_threads) {
  char *text = malloc(1 << 16), *end = text;
  end += sprintf(end, "{\"result\":\"");
  for (int i = 0; i < 1100; i++)
    end +=
        sprintf(end, "pmd thread numa_id 0 core_id %d:\\nidle cycles: 1\\n", i);
  strcpy(end, "\"}");
  assert_int_equal(take(OVS_TEXT, text), 1024);
  assert_int_equal(server.len, 1024);
  free(text);
}

TEST(a_dpdk_program_has_no_more_than_1024_threads) {
  static const char *const keys[] = {"lcore_ids", "total_cycles",
                                     "busy_cycles"};
  char *text = malloc(1 << 16), *end = text;
  for (int k = 0; k < 3; k++) {
    end += sprintf(end, "\"%s\": [0", keys[k]);
    for (int i = 1; i < 1100; i++)
      end += sprintf(end, ", %d", i);
    end += sprintf(end, "]");
  }
  assert_int_equal(take(DPDK_JSON, text), 1024);
  free(text);
}
