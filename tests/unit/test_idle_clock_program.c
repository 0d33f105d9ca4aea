/* Tests the programs of the idle clock, compiled for this machine, with
 * interrupts between any two of their accesses to memory and time. */
#include "unit.h"

#include <linux/bpf.h>

#define SEC(name)
#define __uint(name, value) int(*name)[value]
#define __type(name, type) typeof(type) *name

static int64_t word, time_ns;
static int steps; /* number of accesses since the program under test began */
/* An interrupt fires before the access with this number; 0: no interrupt. */
static int interrupt_at;
/* True while a program runs for an interrupt: the kernel skips a program that
 * interrupts itself. */
static bool in_interrupt;
static void step(void);

#define READ_ONCE(x) (step(), (x))
#define WRITE_ONCE(x, value) (step(), (x) = (value))

static void *bpf_map_lookup_elem(const void *map, const void *key) {
  (void)map;
  return *(const uint32_t *)key == 0 ? &word : NULL; /* its only element */
}

static uint64_t bpf_ktime_get_ns(void) {
  step();
  return (uint64_t)time_ns;
}

#include "cycles/idle_clock.bpf.c"

#define POLL 0
#define HALT 1
#define HANDLER_NS 1000
#define PROGRAM_NS 50 /* longer than all accesses of a program together */

static void interrupt(void) {
  if (!in_interrupt) {
    in_interrupt = true;
    on_interrupt(NULL);
    in_interrupt = false;
  }
  time_ns += HANDLER_NS;
}

static void step(void) {
  time_ns++;
  if (++steps == interrupt_at)
    interrupt();
}

static union {
  struct bpf_raw_tracepoint_args tracepoint;
  uint64_t state;
} arguments;

static void idle(uint32_t state) {
  arguments.state = state;
  on_idle(&arguments.tracepoint);
}

static void begin_again(void) {
  word = 0;
  time_ns = 1000000;
  steps = interrupt_at = 0;
  in_interrupt = false;
}

/* Halts the core for `ns`. Then starts to count accesses from 0. */
static void halt(int64_t ns) {
  idle(HALT);
  time_ns += ns;
  steps = 0;
}

TEST(a_halt_is_the_time_between_entry_and_exit) {
  halt(5000);
  assert_true(word < 0);
  assert_in_range(word + time_ns, 5000, 5000 + PROGRAM_NS);
  idle(IDLE_EXIT);
  assert_in_range(word, 5000, 5000 + PROGRAM_NS);
  halt(3000);
  idle(IDLE_EXIT);
  assert_in_range(word, 8000, 8000 + 2 * PROGRAM_NS);
}

TEST(a_halt_ends_with_its_first_interrupt) {
  halt(5000);
  interrupt();
  time_ns += 7000; /* softirq */
  interrupt();
  idle(IDLE_EXIT);
  assert_in_range(word, 5000, 5000 + PROGRAM_NS);
}

TEST(an_interrupt_of_the_exit_is_not_halted_time_wherever_it_comes) {
  for (int at = 1; at <= PROGRAM_NS; at++) {
    begin_again();
    halt(5000);
    interrupt_at = at;
    idle(IDLE_EXIT);
    interrupt_at = 0;
    assert_in_range(word, 5000, 5000 + PROGRAM_NS);
    idle(IDLE_EXIT);
    assert_in_range(word, 5000, 5000 + PROGRAM_NS);
  }
}

TEST(an_interrupt_that_the_kernel_skips_loses_no_end_of_a_halt) {
  for (int at = 1; at <= PROGRAM_NS; at++) {
    begin_again();
    halt(5000);
    interrupt_at = at;
    interrupt();
    interrupt_at = 0;
    /* The word exceeds the halted time by at most the nested handler's time.
     */
    assert_in_range(word, 5000, 5000 + PROGRAM_NS + HANDLER_NS);
    int64_t halted = word;
    halt(2000);
    interrupt();
    assert_in_range(word - halted, 2000, 2000 + PROGRAM_NS);
  }
}

TEST(polling_is_no_halt) {
  halt(5000);
  idle(IDLE_EXIT);
  int64_t halted = word;
  idle(POLL);
  assert_int_equal(word, halted);
  time_ns += 9000;
  idle(IDLE_EXIT);
  assert_int_equal(word, halted);
}

TEST(state_0_is_a_halt_if_it_does_not_poll) {
  arguments.state = 0;
  on_idle_without_poll(&arguments.tracepoint);
  assert_true(word < 0);
  arguments.state = IDLE_EXIT;
  time_ns += 400;
  on_idle_without_poll(&arguments.tracepoint);
  assert_in_range(word, 400, 400 + PROGRAM_NS);
}

TEST(entering_twice_is_one_halt) {
  halt(5000);
  halt(5000);
  idle(IDLE_EXIT);
  assert_in_range(word, 10000, 10000 + 2 * PROGRAM_NS);
}

TEST(interrupts_and_exits_of_a_core_that_is_awake_change_nothing) {
  interrupt();
  idle(IDLE_EXIT);
  assert_int_equal(word, 0);
}

TEST(starting_marks_a_core_that_never_halted_and_no_other) {
  static const int64_t words[][2] = {{0, 1}, {1, 1}, {700, 700}, {-900, -900}};
  for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
    word = words[i][0];
    on_start(NULL);
    assert_int_equal(word, words[i][1]);
  }
}

const struct unit_fixtures unit_fixtures = {.before_each = begin_again};
