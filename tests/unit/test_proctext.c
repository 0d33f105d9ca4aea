#include "unit.h"

#include "tool/proctext.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CORES 4

/* Reduced to the lines that percore reads: core 0 is busy, and core 1 has been
 * idle for 1 s with its tick stopped. Lines that belong to no core follow. */
static const char timer_list[] =
    "Timer List Version: v0.10\n"
    "HRTIMER_MAX_CLOCK_BASES: 8\n"
    "now at 100000000000 nsecs\n"
    "\n"
    "cpu: 0\n"
    " clock 0:\n"
    "  .base:       00000000f24d8723\n"
    "active timers:\n"
    " #0: <000000004b9bfc2f>, tick_nohz_handler, S:01\n"
    "  .tick_stopped   : 0\n"
    "  .idle_entrytime : 99999000000 nsecs\n"
    "  .idle_sleeptime : 40000000000 nsecs\n"
    "  .iowait_sleeptime: 500000000 nsecs\n"
    "jiffies: 4295205328\n"
    "\n"
    "cpu: 1\n"
    "  .tick_stopped   : 1\n"
    "  .idle_entrytime : 99000000000 nsecs\n"
    "  .idle_sleeptime : 50000000000 nsecs\n"
    "  .iowait_sleeptime: 0 nsecs\n"
    "jiffies: 4295205329\n"
    "\n"
    "Tick Device: mode:     1\n"
    "Per CPU device: 0\n"
    " retries:        28\n"
    "\n";

static void the_idle_period_in_progress_is_added(void **state) {
  (void)state;
  double idle_ns[CORES], now_ns;
  assert_int_equal(timer_list_parse(timer_list, idle_ns, CORES, &now_ns), 0);
  assert_near(now_ns, 100e9, 0);
  assert_near(idle_ns[0], 40.5e9, 0);
  assert_near(idle_ns[1], 51e9, 0);
  assert_nan(idle_ns[2]);
  assert_nan(idle_ns[3]);
}

static void cores_that_the_machine_lacks_are_ignored(void **state) {
  (void)state;
  double idle_ns[1], now_ns;
  assert_int_equal(timer_list_parse(timer_list, idle_ns, 1, &now_ns), 0);
  assert_near(idle_ns[0], 40.5e9, 0);
}

/* Wherever the text is cut off, the parser stores either the correct idle time
 * of a core or NAN. It must not store a number that was cut off. */
static void a_truncated_timer_list_gives_no_wrong_figure(void **state) {
  (void)state;
  for (size_t length = 0; length < sizeof(timer_list); length++) {
    char text[sizeof(timer_list)];
    double idle_ns[CORES], now_ns;
    memcpy(text, timer_list, length);
    text[length] = '\0';
    if (timer_list_parse(text, idle_ns, CORES, &now_ns) != 0)
      continue;
    assert_true(isnan(idle_ns[0]) || idle_ns[0] == 40.5e9 ||
                idle_ns[0] == 40e9 /* without its iowait line */);
    assert_true(isnan(idle_ns[1]) || idle_ns[1] == 51e9);
  }
}

static void a_timer_list_without_a_dynamic_tick_has_no_figures(void **state) {
  (void)state;
  double idle_ns[CORES], now_ns;
  assert_int_equal(
      timer_list_parse("now at 100 nsecs\n\ncpu: 0\n clock 0:\n"
                       "  .expires_next   : 1113204000000 nsecs\n\n",
                       idle_ns, CORES, &now_ns),
      -EINVAL);
  assert_int_equal(timer_list_parse("", idle_ns, CORES, &now_ns), -EINVAL);
}

static void numbers_that_exceed_64_bits_are_ignored(void **state) {
  (void)state;
  double idle_ns[CORES], now_ns;
  assert_int_equal(
      timer_list_parse("now at 100 nsecs\ncpu: 0\n  .tick_stopped   : 0\n"
                       "  .idle_entrytime : 1 nsecs\n"
                       "  .idle_sleeptime : 18446744073709551616 nsecs\n\n",
                       idle_ns, CORES, &now_ns),
      -EINVAL);
}

static void cpuacct_has_a_number_for_each_possible_core(void **state) {
  (void)state;
  struct core_set possible;
  double run_ns[CORES];
  assert_int_equal(core_set_parse(&possible, "0,2-3"), 0);
  assert_int_equal(cpuacct_parse("100 200 300 \n", &possible, run_ns, CORES),
                   0);
  assert_near(run_ns[0], 100, 0);
  assert_nan(run_ns[1]);
  assert_near(run_ns[2], 200, 0);
  assert_near(run_ns[3], 300, 0);
  assert_int_equal(cpuacct_parse("100 20", &possible, run_ns, CORES), -EINVAL);
  assert_int_equal(cpuacct_parse("x\n", &possible, run_ns, CORES), -EINVAL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_idle_period_in_progress_is_added),
      cmocka_unit_test(cores_that_the_machine_lacks_are_ignored),
      cmocka_unit_test(a_truncated_timer_list_gives_no_wrong_figure),
      cmocka_unit_test(a_timer_list_without_a_dynamic_tick_has_no_figures),
      cmocka_unit_test(numbers_that_exceed_64_bits_are_ignored),
      cmocka_unit_test(cpuacct_has_a_number_for_each_possible_core),
  };
  return cmocka_run_group_tests_name("proctext", tests, NULL, NULL);
}
