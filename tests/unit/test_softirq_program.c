/* Tests the programs of the softirq clock, compiled for this machine. Hard
 * interrupts fire between any two of their accesses to words and time. */
#include "unit.h"

#include <linux/bpf.h>

#define SEC(name)
#define __uint(name, value) int(*name)[value]
#define __type(name, type) typeof(type) *name

static int64_t time_ns;
static int steps; /* number of accesses since the program under test began */
/* A hard interrupt fires before the access with this number; 0: no interrupt.
 */
static int interrupt_at;
static const char *task; /* name of the current task; NULL: the core is idle */
static void step(void);

#define READ_ONCE(x) (step(), (x))
#define WRITE_ONCE(x, value) (step(), (x) = (value))

static void *bpf_map_lookup_elem(void *map, const void *key);

static uint64_t bpf_ktime_get_ns(void) {
  step();
  return (uint64_t)time_ns;
}

static uint64_t bpf_get_current_pid_tgid(void) {
  step();
  return task == NULL ? 0 : UINT64_C(17) << 32 | 17;
}

static long bpf_get_current_comm(void *name, uint32_t size) {
  step();
  snprintf(name, size, "%s", task);
  return 0;
}

#include "cycles/softirq_clock.bpf.c"

#define NET_RX 3
#define HRTIMER 8
#define HANDLER_NS 1000
#define PROGRAM_NS 50 /* longer than all accesses of a program together */

static struct softirq_words words;

static void *bpf_map_lookup_elem(void *map, const void *key) {
  (void)map;
  return *(const uint32_t *)key == 0 ? &words : NULL; /* its only element */
}

static void interrupt(void) {
  on_hard_entry(NULL);
  time_ns += HANDLER_NS;
  on_hard_exit(NULL);
}

static void step(void) {
  time_ns++;
  if (++steps == interrupt_at)
    interrupt();
}

static void enter(uint64_t vector) {
  union {
    struct bpf_raw_tracepoint_args tracepoint;
    uint64_t vector;
  } arguments = {.vector = vector};
  on_softirq_entry(&arguments.tracepoint);
}

static void begin_again(void) {
  memset(&words, 0, sizeof(words));
  time_ns = 1000000;
  steps = interrupt_at = 0;
  task = NULL;
}

static int64_t all_softirqs(void) {
  int64_t sum = 0;
  for (int i = 0; i < SOFTIRQ_CONTEXTS * SOFTIRQ_VECTORS; i++)
    sum += words.softirq[i];
  return sum;
}

TEST(a_hard_interrupt_is_the_time_between_entry_and_exit) {
  on_hard_entry(NULL);
  assert_true(words.hard < 0);
  time_ns += 5000;
  on_hard_exit(NULL);
  assert_in_range(words.hard, 5000, 5000 + PROGRAM_NS);
  interrupt();
  assert_in_range(words.hard, 6000, 6000 + PROGRAM_NS);
}

TEST(an_entry_within_a_hard_interrupt_and_an_exit_without_one_count_nothing) {
  on_hard_exit(NULL);
  on_softirq_exit(NULL);
  assert_int_equal(words.hard, 0);
  assert_int_equal(all_softirqs(), 0);
  on_hard_entry(NULL);
  time_ns += 3000;
  interrupt(); /* ends the span */
  assert_in_range(words.hard, 4000, 4000 + PROGRAM_NS);
}

TEST(a_softirq_is_counted_by_vector_and_by_what_it_ran_in) {
  static const struct {
    const char *task;
    enum softirq_context context;
  } cases[] = {
      {NULL, SOFTIRQ_IDLE},           {"percore", SOFTIRQ_TASKS},
      {"ksoftirqx/3", SOFTIRQ_TASKS}, {"ksoftirqd", SOFTIRQ_TASKS},
      {"my_tasksd/3", SOFTIRQ_TASKS}, {"ksoftirqd/3", SOFTIRQ_KSOFTIRQD},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    begin_again();
    task = cases[i].task;
    enter(NET_RX);
    time_ns += 7000;
    on_softirq_exit(NULL);
    int64_t counted =
        words.softirq[cases[i].context * SOFTIRQ_VECTORS + NET_RX];
    assert_in_range(counted, 7000, 7000 + PROGRAM_NS);
    assert_int_equal(all_softirqs(), counted);
  }
}

TEST(a_hard_interrupt_within_a_softirq_is_no_softirq) {
  enter(HRTIMER);
  time_ns += 2000;
  interrupt();
  interrupt();
  time_ns += 3000;
  on_softirq_exit(NULL);
  assert_in_range(words.hard, 2 * HANDLER_NS, 2 * HANDLER_NS + PROGRAM_NS);
  assert_in_range(words.softirq[HRTIMER], 5000, 5000 + PROGRAM_NS);
}

TEST(no_time_is_counted_twice_wherever_the_interrupt_comes) {
  for (int ends = 0; ends < 2; ends++)
    for (int at = 1; at <= PROGRAM_NS; at++) {
      begin_again();
      int64_t begin_ns = time_ns;
      interrupt_at = ends ? 0 : at;
      enter(NET_RX);
      time_ns += 5000;
      steps = 0;
      interrupt_at = ends ? at : 0;
      on_softirq_exit(NULL);
      interrupt_at = 0;
      assert_true(words.hard >= 0 && words.open == 0);
      assert_in_range(words.softirq[NET_RX], 5000, 5000 + PROGRAM_NS);
      assert_true(words.hard == 0 || words.hard >= HANDLER_NS);
      assert_true(words.hard + all_softirqs() <= time_ns - begin_ns);
    }
}

TEST(an_entry_within_a_softirq_counts_nothing) {
  enter(NET_RX);
  time_ns += 1000;
  enter(HRTIMER);
  time_ns += 2000;
  on_softirq_exit(NULL);
  assert_in_range(words.softirq[NET_RX], 3000, 3000 + PROGRAM_NS);
  assert_int_equal(all_softirqs(), words.softirq[NET_RX]);
}

TEST(a_vector_that_the_kernel_does_not_have_is_not_counted) {
  const uint64_t vectors[] = {SOFTIRQ_VECTORS, UINT32_MAX, UINT64_MAX};
  for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
    enter(vectors[i]);
    time_ns += 1000;
    on_softirq_exit(NULL);
    assert_int_equal(all_softirqs(), 0);
  }
}

const struct unit_fixtures unit_fixtures = {.before_each = begin_again};
