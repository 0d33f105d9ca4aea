#include "unit.h"

#include "cycles/idle_clock.h"
#include "fake_machine.h"

#define SECOND INT64_C(1000000000)

/* A fake machine whose clock and words are set by the test. */
struct play {
  struct machine machine;
  struct fake_machine *fake;
  struct idle_clock *clock;
  int64_t now_ns;
  int64_t words[8];
  int words_len;
  int64_t read_takes_ns;
  /* The first slow_reads_after reads take no time, and neither do the reads
   * after the first fast_reads_after; the reads between them take
   * read_takes_ns. */
  int slow_reads_after, fast_reads_after;
  int reads, read_status;
  int open_status, load_status;
  int started;       /* number of the core that was started; -1: none */
  bool state0_polls; /* of the last load */
  bool closed;
};

static struct play the_play, *const play = &the_play;

static uint64_t clock_ns(void *context, clockid_t clock) {
  assert_int_equal(clock, CLOCK_MONOTONIC);
  (void)context;
  return (uint64_t)the_play.now_ns;
}

static ssize_t read_file(void *context, const char *path, char *buffer,
                         size_t size) {
  (void)context;
  const struct machine *files = &the_play.fake->machine;
  return files->read_file(files->context, path, buffer, size);
}

static int open_pinned(struct programs *programs, char why[WHY_SIZE]) {
  programs->pinned = true;
  snprintf(why, WHY_SIZE, "no pin");
  return play->open_status;
}

static int load(struct programs *programs, bool state0_polls,
                char why[WHY_SIZE]) {
  programs->pinned = false;
  snprintf(why, WHY_SIZE, "no rights");
  play->state0_polls = state0_polls;
  return play->load_status;
}

static int read_words(const struct programs *programs, int64_t *words,
                      int cores) {
  (void)programs;
  play->reads++;
  bool slow = play->reads > play->slow_reads_after &&
              play->reads <= play->fast_reads_after;
  play->now_ns += slow ? play->read_takes_ns : 1000;
  if (play->read_status != 0)
    return play->read_status;
  memcpy(words, play->words, sizeof(play->words));
  return cores == play->words_len ? 0 : -EINVAL;
}

static int start(const struct programs *programs, int core) {
  (void)programs;
  the_play.started = core;
  return 0;
}

static void close_clock(struct programs *programs) {
  (void)programs;
  the_play.closed = true;
}

static const struct clock_calls calls = {.open = open_pinned,
                                         .load = load,
                                         .read = read_words,
                                         .start = start,
                                         .close = close_clock};

static void setup(void) {
  *play = (struct play){.words_len = 4,
                        .now_ns = 1000 * SECOND,
                        .open_status = -ENOENT,
                        .started = -1};
  play->fake = fake_machine_new(4);
  fake_machine_file(play->fake, "/sys/devices/system/cpu/possible", "0-3\n");
  play->machine = (struct machine){.context = play,
                                   .clock_ns = clock_ns,
                                   .read_file = read_file,
                                   .clocks = &calls};
}

static void teardown(void) {
  idle_clock_close(play->clock);
  fake_machine_free(play->fake);
}

static int open_clock(struct play *play, bool may_load) {
  char why[WHY_SIZE];
  struct core_set possible;
  assert_int_equal(machine_read_core_set(&play->machine, &possible,
                                         "/sys/devices/system/cpu/possible"),
                   0);
  return idle_clock_open(&play->clock, &play->machine, &possible, may_load,
                         why);
}

/* Reads all cores. Stores the reading of one core and returns its status. */
static struct reading {
  int64_t time_ns, bracket_ns;
  uint64_t halted_ns;
} reading;

static int clock_core(struct play *play, int core, struct reading *reading) {
  reading->time_ns = play->clock->time_ns;
  reading->bracket_ns = play->clock->bracket_ns;
  return idle_clock_core(play->clock, core, &reading->halted_ns);
}

static int read_core(struct play *play, int core, struct reading *reading) {
  assert_int_equal(idle_clock_read(play->clock), 0);
  return clock_core(play, core, reading);
}

TEST(a_core_that_is_awake_has_been_halted_for_its_word) {
  open_clock(play, true);
  play->words[1] = 7 * SECOND;
  assert_int_equal(read_core(play, 1, &reading), 0);
  assert_int_equal(reading.halted_ns, 7 * SECOND);
  assert_int_equal(reading.time_ns, play->now_ns);
}

TEST(a_halt_under_way_counts_to_the_end_of_the_read) {
  open_clock(play, true);
  play->words[2] = 7 * SECOND - 990 * SECOND; /* halted since 990 s */
  assert_int_equal(read_core(play, 2, &reading), 0);
  assert_int_equal(reading.halted_ns, 7 * SECOND + play->now_ns - 990 * SECOND);
}

/* In its namespace, this process sees another time than the clock. */
TEST(in_a_time_namespace_a_halt_under_way_counts_to_the_end_of_the_read) {
  static const int64_t offsets_s[] = {100000, -300, 0};
  for (int i = 0; i < 3; i++) {
    int64_t offset_ns = offsets_s[i] * SECOND + 500000000;
    char text[96];
    snprintf(text, sizeof text,
             "monotonic  %10lld 500000000\nboottime            0         0\n",
             (long long)offsets_s[i]);
    fake_machine_file(play->fake, "/proc/self/timens_offsets", text);
    play->now_ns = 1000 * SECOND + offset_ns;
    open_clock(play, true);
    play->words[2] = 7 * SECOND - 990 * SECOND;
    assert_int_equal(read_core(play, 2, &reading), 0);
    assert_int_equal(reading.time_ns, play->now_ns);
    assert_int_equal(reading.halted_ns, 17 * SECOND + 1000);
    play->words[2] = 17 * SECOND; /* it has woken */
    assert_int_equal(read_core(play, 2, &reading), 0);
    if (i < 2)
      idle_clock_close(play->clock);
  }
}

TEST(halted_time_never_steps_back) {
  struct reading before, after;
  open_clock(play, true);
  /* The core was halted when its word was read, but had woken when the clock
   * was read. */
  play->words[0] = -990 * SECOND;
  assert_int_equal(read_core(play, 0, &before), 0);
  play->words[0] = (int64_t)before.halted_ns - 900;
  assert_int_equal(read_core(play, 0, &after), 0);
  assert_int_equal(after.halted_ns, before.halted_ns);
  play->words[0] = (int64_t)before.halted_ns + 900;
  assert_int_equal(read_core(play, 0, &after), 0);
  assert_int_equal(after.halted_ns, before.halted_ns + 900);
}

TEST(a_word_that_steps_back_far_is_no_value_and_begins_anew) {
  open_clock(play, true);
  play->words[0] = 50 * SECOND;
  assert_int_equal(read_core(play, 0, &reading), 0);
  play->words[0] = 5 * SECOND;
  assert_int_equal(read_core(play, 0, &reading), -ERANGE);
  assert_int_equal(read_core(play, 0, &reading), 0);
  assert_int_equal(reading.halted_ns, 5 * SECOND);
}

TEST(words_that_no_clock_can_hold_are_no_value) {
  const int64_t words[] = {INT64_MAX, INT64_MIN + 1, 1001 * SECOND,
                           -1001 * SECOND};
  open_clock(play, true);
  for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
    play->words[0] = words[i];
    assert_int_equal(read_core(play, 0, &reading), -ERANGE);
  }
}

TEST(a_read_that_took_too_long_is_repeated) {
  open_clock(play, true);
  play->words[0] = 1;
  play->read_takes_ns = 3000000;
  play->fast_reads_after = 2;
  assert_int_equal(read_core(play, 0, &reading), 0);
  assert_int_equal(play->reads, 3);
  assert_int_equal(reading.bracket_ns, 1000);
}

TEST(a_read_over_1_ms_has_its_length_as_bracket) {
  open_clock(play, true);
  play->words[0] = 1;
  play->read_takes_ns = 3000000;
  play->fast_reads_after = 100;
  assert_int_equal(read_core(play, 0, &reading), 0);
  assert_int_equal(reading.bracket_ns, 3000000);
  play->fast_reads_after = 0; /* the window that begins is as uncertain */
  assert_int_equal(read_core(play, 0, &reading), 0);
  assert_int_equal(reading.bracket_ns, 3000000);
  assert_int_equal(read_core(play, 0, &reading), 0);
  assert_int_equal(reading.bracket_ns, 1000);
}

TEST(reads_that_all_take_too_long_give_no_value) {
  open_clock(play, true);
  play->words[0] = 1;
  play->read_takes_ns = 101000000;
  play->fast_reads_after = 100;
  assert_int_equal(idle_clock_read(play->clock), -EAGAIN);
  assert_int_equal(clock_core(play, 0, &reading), -ENODATA);
}

TEST(a_core_on_which_the_clock_has_not_run_is_started_and_has_no_value) {
  open_clock(play, true);
  assert_int_equal(read_core(play, 3, &reading), -ENODATA);
  assert_int_equal(play->started, 3);
  play->words[3] = 1;
  play->started = -1;
  assert_int_equal(read_core(play, 3, &reading), 0);
  assert_int_equal(reading.halted_ns, 1);
  assert_int_equal(play->started, -1);
}

TEST(a_core_that_is_not_possible_has_no_value) {
  open_clock(play, true);
  assert_int_equal(read_core(play, 4, &reading), -ENODATA);
  assert_int_equal(play->started, -1);
}

TEST(words_are_those_of_possible_cores_only) {
  fake_machine_file(play->fake, "/sys/devices/system/cpu/possible", "0,2,9\n");
  open_clock(play, true);
  play->words_len = 3;
  play->words[2] = 42;
  assert_int_equal(read_core(play, 9, &reading), 0);
  assert_int_equal(reading.halted_ns, 42);
}

TEST(another_number_of_words_than_cores_ends_the_clock) {
  open_clock(play, true);
  play->words_len = 3;
  assert_int_equal(idle_clock_read(play->clock), -EINVAL);
}

static void add_idle_driver(struct play *play, int core, const char *state0) {
  static const char *const files[] = {"time", "usage"};
  const char *folder = "/sys/devices/system/cpu/cpu%d/cpuidle/state0/%s";
  fake_machine_filef(play->fake, state0, folder, core, "name");
  for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
    fake_machine_filef(play->fake, "1", folder, core, files[i]);
}

TEST(the_pinned_clock_is_taken_before_one_is_loaded) {
  play->open_status = 0;
  assert_int_equal(open_clock(play, true), 0);
  assert_true(play->clock->programs.pinned);
}

TEST(without_a_pin_nothing_is_loaded_unless_asked) {
  assert_int_equal(open_clock(play, false), -ENOENT);
  assert_int_equal(open_clock(play, true), 0);
  assert_false(play->clock->programs.pinned);
}

TEST(a_pin_that_is_not_trusted_is_not_replaced) {
  play->open_status = -EPERM;
  assert_int_equal(open_clock(play, true), -EPERM);
}

TEST(state_0_polls_if_it_says_so_or_there_is_no_idle_driver) {
  open_clock(play, true);
  assert_true(play->state0_polls);
  idle_clock_close(play->clock);
  add_idle_driver(play, 2, "POLL");
  open_clock(play, true);
  assert_true(play->state0_polls);
  idle_clock_close(play->clock);
  add_idle_driver(play, 2, "WFI");
  open_clock(play, true);
  assert_false(play->state0_polls);
}

const struct unit_fixtures unit_fixtures = {.before_each = setup,
                                            .after_each = teardown};
