/* Tests the programs that add up the time of softirqs, compiled for this
 * machine, and the shares that are made of it. */
#include "unit.h"

#include <linux/bpf.h>

#define PERCORE_TEST
#define SEC(name)
#define __uint(name, value) int(*name)[value]
#define __type(name, type) typeof(type) *name

static uint64_t time_ns;
static void *bpf_map_lookup_elem(void *map, const void *key);

static uint64_t bpf_ktime_get_ns(void) { return time_ns; }

#include "cycles/softirq_time.bpf.c"

#define NET_RX 3
#define HRTIMER 8

static struct softirq_words words;

static void *bpf_map_lookup_elem(void *map, const void *key) {
  (void)map;
  return *(const uint32_t *)key == 0 ? &words : NULL; /* its only element */
}

static void handle_interrupt(uint64_t ns) {
  on_irq_handler_entry(NULL);
  time_ns += ns;
  on_irq_handler_exit(NULL);
}

static void end_softirq(uint64_t kind) {
  union {
    struct bpf_raw_tracepoint_args tracepoint;
    uint64_t kind;
  } arguments = {.kind = kind};
  on_softirq_exit(&arguments.tracepoint);
}

static void set_up(void) {
  memset(&words, 0, sizeof(words));
  time_ns = 1000000;
}

TEST(a_span_is_the_time_between_entry_and_exit) {
  set_up();
  handle_interrupt(5000);
  handle_interrupt(1000);
  on_softirq_entry(NULL);
  time_ns += 300;
  end_softirq(NET_RX);
  assert_int_equal(words.ns[SOFTIRQ_HARD], 6000);
  assert_int_equal(words.ns[NET_RX], 300);
}

TEST(an_interrupt_handler_within_a_softirq_does_not_count_as_softirq) {
  set_up();
  on_softirq_entry(NULL);
  time_ns += 300;
  handle_interrupt(2000);
  time_ns += 400;
  end_softirq(HRTIMER);
  assert_int_equal(words.ns[HRTIMER], 700);
  assert_int_equal(words.ns[SOFTIRQ_HARD], 2000);
}

TEST(an_exit_without_an_entry_counts_nothing) {
  set_up();
  on_irq_handler_exit(NULL);
  end_softirq(NET_RX);
  on_softirq_entry(NULL);
  time_ns += 50;
  end_softirq(SOFTIRQ_KINDS); /* a kernel with more kinds */
  for (int i = 0; i < SOFTIRQ_KINDS; i++)
    assert_int_equal(words.ns[i], 0);
}

TEST(shares_are_of_the_window_and_a_kind_that_has_not_run_has_none) {
  struct softirq_words from = {.ns = {[NET_RX] = 1000, [SOFTIRQ_HARD] = 7}};
  struct softirq_words to = {
      .ns = {[NET_RX] = 3000, [HRTIMER] = 1000, [SOFTIRQ_HARD] = 507}};
  struct softirq_shares shares = softirq_shares(&from, &to, 10000);
  assert_true(shares.kind[NET_RX] == 0.2 && shares.kind[HRTIMER] == 0.1);
  assert_true(fabs(shares.all - 0.3) < 1e-9);
  assert_true(shares.kind[SOFTIRQ_HARD] == 0.05);
  assert_true(isnan(shares.kind[0]));
}

TEST(no_share_exceeds_the_window_if_a_span_began_before_it) {
  struct softirq_words from = {.ns = {[NET_RX] = 1}};
  struct softirq_words to = {.ns = {[NET_RX] = 12001, [HRTIMER] = 1000}};
  struct softirq_shares shares = softirq_shares(&from, &to, 10000);
  assert_true(shares.kind[NET_RX] == 1 && shares.all == 1);
}
