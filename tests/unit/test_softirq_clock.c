/* Tests the softirq clock on words that the tests set. */
#include "unit.h"

#include "cycles/programs.h"
#include "cycles/softirq_clock.h"
#include "play.h"

#define SECOND INT64_C(1000000000)
#define NET_RX 3
#define TIMER 1
#define IDLE_NET_RX (SOFTIRQ_IDLE * SOFTIRQ_VECTORS + NET_RX)
#define TASKS_NET_RX (SOFTIRQ_TASKS * SOFTIRQ_VECTORS + NET_RX)
#define KSOFTIRQD_TIMER (SOFTIRQ_KSOFTIRQD * SOFTIRQ_VECTORS + TIMER)

static struct {
  struct softirq_words words[2];
  int load_status, read_status;
  int loads, reads, slow_reads;
  uint64_t slow_ns;
  bool is_open;
} kernel;

struct it {
  struct play play;
  struct softirq_clock *clock;
};

static struct it it;

static int load(struct programs *programs, enum clock_kind kind,
                const bool *state0_polls, char why[WHY_SIZE]) {
  (void)programs, (void)state0_polls;
  if (kind != CLOCK_SOFTIRQ)
    return -ENOENT;
  snprintf(why, WHY_SIZE, "no rights");
  kernel.loads++;
  kernel.is_open = kernel.load_status == 0;
  return kernel.load_status;
}

static int read_kernel(const struct programs *programs, void *words,
                       int cores) {
  (void)programs;
  kernel.reads++;
  if (kernel.reads <= kernel.slow_reads)
    fake_machine_run(it.play.fake, kernel.slow_ns);
  memcpy(words, kernel.words, (size_t)cores * sizeof(*kernel.words));
  return kernel.read_status;
}

static void close_kernel(struct programs *programs) {
  (void)programs;
  kernel.is_open = false;
}

static const struct clock_calls calls = {
    .open = load, .read = read_kernel, .close = close_kernel};

/* Opens a softirq clock on a fake machine. If `path` is not NULL, the machine
 * also has a file `path` that contains `text`. */
static struct it *begin(const char *path, const char *text) {
  memset(&kernel, 0, sizeof(kernel));
  kernel.slow_ns = 2 * FAKE_MS;
  play_start(&it.play, 2);
  it.play.fake->machine.clocks = &calls;
  if (path != NULL)
    fake_machine_file(it.play.fake, path, text);
  play_open(&it.play);
  it.clock = softirq_clock_open(it.play.engine);
  return &it;
}

static void setup(void) { begin(NULL, NULL); }

static void teardown(void) {
  softirq_clock_close(it.clock);
  assert_false(kernel.is_open);
  play_end(&it.play);
}

/* Lets a second pass and reads the clock. Returns the figures of core 0 for
 * this second. */
static struct softirq_figures next(struct it *it) {
  play_seconds(&it->play, 1);
  softirq_clock_read(it->clock);
  return softirq_clock_core(it->clock, 0);
}

static int64_t now_ns(const struct it *it) {
  return (int64_t)it->play.fake->monotonic_ns;
}

static void assert_unknown(struct softirq_figures figures) {
  assert_nan(figures.hard);
  assert_nan(figures.softirq);
  assert_nan(figures.context[SOFTIRQ_TASKS]);
  assert_nan(figures.vector[NET_RX]);
}

TEST(shares_are_of_wall_time_and_divide_the_softirqs_twice) {
  assert_unknown(next(&it));
  kernel.words[0].hard = SECOND / 20;
  kernel.words[0].softirq[IDLE_NET_RX] = SECOND / 5;
  kernel.words[0].softirq[TASKS_NET_RX] = SECOND / 10;
  kernel.words[0].softirq[KSOFTIRQD_TIMER] = SECOND / 40;
  struct softirq_figures figures = next(&it);
  assert_near(figures.hard, 0.05, 1e-5);
  assert_near(figures.context[SOFTIRQ_IDLE], 0.2, 1e-5);
  assert_near(figures.context[SOFTIRQ_TASKS], 0.1, 1e-5);
  assert_near(figures.context[SOFTIRQ_KSOFTIRQD], 0.025, 1e-5);
  assert_near(figures.vector[NET_RX], 0.3, 1e-5);
  assert_near(figures.vector[TIMER], 0.025, 1e-5);
  assert_near(figures.softirq, 0.325, 1e-5);
  figures = next(&it);
  assert_near(figures.softirq, 0, 0);
}

TEST(a_vector_that_has_run_on_no_core_has_no_figure) {
  kernel.words[1].softirq[KSOFTIRQD_TIMER] = kernel.words[1].hard = 1;
  next(&it);
  struct softirq_figures figures = next(&it);
  for (int vector = 0; vector < SOFTIRQ_VECTORS; vector++)
    if (vector == TIMER)
      assert_near(figures.vector[TIMER], 0, 0);
    else
      assert_nan(figures.vector[vector]);
  assert_near(figures.softirq, 0, 0);
}

TEST(a_span_under_way_counts_up_to_the_read) {
  next(&it);
  kernel.words[0].softirq[IDLE_NET_RX] = -now_ns(&it) - SECOND / 2;
  assert_near(next(&it).softirq, 0.5, 1e-5);
  assert_near(next(&it).softirq, 1, 1e-5);
}

TEST(a_hard_interrupt_under_way_stops_the_softirq_that_it_interrupted) {
  next(&it);
  /* The softirq began at the start of the window, and the hard interrupt 0.25 s
   * later. */
  kernel.words[0].softirq[IDLE_NET_RX] = -now_ns(&it);
  kernel.words[0].hard = -now_ns(&it) - SECOND / 4;
  struct softirq_figures figures = next(&it);
  assert_near(figures.softirq, 0.25, 1e-5);
  assert_near(figures.hard, 0.75, 1e-5);
}

TEST(words_of_different_instants_are_never_more_than_wall_time) {
  next(&it);
  kernel.words[0].hard = SECOND / 2;
  kernel.words[0].softirq[IDLE_NET_RX] = SECOND / 2 + 900000;
  struct softirq_figures figures = next(&it);
  assert_near(figures.hard + figures.softirq, 1, 1e-12);
  assert_near(figures.softirq, figures.context[SOFTIRQ_IDLE], 0);
}

/* The words of both reads may be as old as the read is long. */
TEST(words_may_exceed_wall_time_by_the_length_of_the_reads) {
  kernel.slow_reads = 100;
  kernel.slow_ns = 900000;
  next(&it);
  for (int i = 0; i < 2; i++) {
    kernel.words[0].hard += SECOND + (i == 0 ? 3 : 6) * (int64_t)FAKE_MS;
    double hard = next(&it).hard;
    if (i == 0)
      assert_near(hard, 1, 1e-12);
    else
      assert_nan(hard);
  }
}

TEST(a_sum_never_steps_back) {
  kernel.words[0].softirq[IDLE_NET_RX] = SECOND / 10;
  next(&it);
  kernel.words[0].softirq[IDLE_NET_RX] -= 900;
  assert_near(next(&it).softirq, 0, 0);
  kernel.words[0].softirq[IDLE_NET_RX] = SECOND / 10 + SECOND / 4;
  assert_near(next(&it).softirq, 0.25, 1e-5);
}

TEST(a_sum_that_steps_back_far_begins_anew) {
  kernel.words[0].hard = SECOND / 2;
  next(&it);
  kernel.words[0].hard = SECOND / 10;
  assert_unknown(next(&it));
  assert_unknown(next(&it));
  kernel.words[0].hard = SECOND / 5;
  assert_near(next(&it).hard, 0.1, 1e-5);
}

TEST(words_that_no_clock_can_hold_give_no_figures) {
  const int64_t impossible[] = {INT64_MAX, INT64_MIN, now_ns(&it) * 2,
                                -now_ns(&it) * 2};
  for (size_t i = 0; i < sizeof(impossible) / sizeof(impossible[0]); i++) {
    for (int word = 0; word < 2; word++) {
      int64_t *at =
          word ? &kernel.words[0].hard : &kernel.words[0].softirq[TASKS_NET_RX];
      *at = 0;
      next(&it);
      *at = impossible[i];
      for (int j = 0; j < 3; j++)
        assert_unknown(next(&it));
      *at = 0;
      next(&it);
      assert_near(next(&it).hard, 0, 0);
    }
  }
}

TEST(a_read_that_took_too_long_is_repeated_or_part_of_the_next) {
  next(&it);
  kernel.slow_reads = kernel.reads + 2;
  assert_near(next(&it).softirq, 0, 0);
  kernel.slow_reads = kernel.reads + 3;
  kernel.words[0].softirq[IDLE_NET_RX] = SECOND;
  assert_unknown(next(&it));
  assert_near(next(&it).softirq, 0.5, 0.01);
}

TEST(a_clock_that_cannot_be_loaded_is_named_once_and_tried_again) {
  kernel.load_status = -EPERM;
  for (int i = 0; i < 60; i++)
    assert_unknown(next(&it));
  assert_in_range(kernel.loads, 2, 5);
  assert_int_equal(
      fake_journal_count(&it.play.journal, "softirq", "no rights", NULL), 1);
  kernel.load_status = 0;
  for (int i = 0; i < 60; i++)
    next(&it);
  assert_near(next(&it).softirq, 0, 0);
}

TEST(a_clock_that_cannot_be_read_is_loaded_anew) {
  kernel.words[0].hard = SECOND / 10;
  next(&it);
  kernel.read_status = -EINVAL;
  assert_unknown(next(&it));
  assert_false(kernel.is_open);
  kernel.read_status = 0;
  kernel.words[0].hard = SECOND / 2; /* hard time since the clock was loaded */
  while (kernel.loads < 2)
    assert_unknown(next(&it));
  kernel.words[0].hard = SECOND;
  assert_near(next(&it).hard, 0.5, 1e-5);
}

TEST(a_clock_that_never_can_be_read_is_loaded_ever_more_rarely) {
  kernel.read_status = -EINVAL;
  for (int i = 0; i < 60; i++)
    assert_unknown(next(&it));
  assert_in_range(kernel.loads, 2, 5);
  assert_int_equal(fake_journal_count(&it.play.journal, "softirq", NULL), 1);
}

TEST(after_a_good_read_the_next_failure_is_named_and_soon_tried_again) {
  kernel.read_status = -EINVAL;
  for (int i = 0; i < 60; i++)
    next(&it);
  int loads = kernel.loads;
  kernel.read_status = 0;
  while (kernel.loads == loads)
    next(&it);
  kernel.read_status = -EINVAL;
  for (int i = 0; i < 12; i++)
    next(&it);
  assert_int_equal(kernel.loads, loads + 2);
  assert_int_equal(fake_journal_count(&it.play.journal, "softirq", NULL), 2);
}

/* Its vectors may have run although their time is not known. */
TEST(a_read_that_took_too_long_gives_no_figures) {
  kernel.slow_reads = 100;
  assert_unknown(next(&it));
  assert_unknown(next(&it));
  kernel.slow_reads = 0;
  assert_unknown(next(&it));
  assert_near(next(&it).softirq, 0, 0);
}

TEST(nothing_is_loaded_for_the_files_of_another_machine) {
  softirq_clock_close(it.clock);
  play_end(&it.play);
  play_start(&it.play, 2);
  it.play.options.hardware = false;
  it.play.fake->machine.clocks = &calls;
  play_open(&it.play);
  it.clock = softirq_clock_open(it.play.engine);
  assert_unknown(next(&it));
  assert_int_equal(kernel.loads, 0);
  assert_int_equal(
      fake_journal_count(&it.play.journal, "softirqs", "SysRoot", NULL), 1);
}

TEST(nothing_is_loaded_where_the_figures_would_be_wrong_or_disturb) {
  static const struct {
    const char *path, *text, *said;
  } cases[] = {
      {"/sys/kernel/realtime", "1\n", "PREEMPT_RT"},
      {"/sys/devices/system/cpu/isolated", "1\n", "isolated"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    teardown();
    struct it *it = begin(cases[i].path, cases[i].text);
    assert_unknown(next(it));
    assert_int_equal(kernel.loads, 0);
    assert_int_equal(
        fake_journal_count(&it->play.journal, "softirq", cases[i].said, NULL),
        1);
  }
}

TEST(without_a_clock_figures_are_unknown) {
  assert_unknown(softirq_clock_core(NULL, 0));
  assert_unknown(softirq_clock_core(it.clock, 5));
}

TEST(a_refusal_says_whether_a_filter_or_the_kernel_refuses) {
  char why[WHY_SIZE];
  assert_int_equal(programs_refused(EPERM, why), -EPERM);
  assert_non_null(strstr(why, "seccomp filter"));
  assert_null(strstr(why, "5.14"));
  assert_int_equal(programs_refused(EINVAL, why), -EINVAL);
  assert_non_null(strstr(why, "Linux 5.14"));
}

const struct unit_fixtures unit_fixtures = {.before_each = setup,
                                            .after_each = teardown};
