/* Tests probes on a core that the tests play: its clocks advance only when the
 * probe reads them or sleeps. The functions below replace those of the C
 * library. */
#include "unit.h"

#include "cycles/proof.h"
#include "cycles/totals.h"

#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MS UINT64_C(1000000)
#define CORE 3
#define CLOCK_STEP_NS 10000 /* between two readings of the clock */

enum columns {
  DYNAMIC, /* idle time is exact, and busy time is sampled at the tick */
  SAMPLED, /* both are sampled */
  EXACT,   /* neither is */
};

static struct {
  uint64_t now_ns;
  double cpu_ns, ran_ns, halted_ns;
  double busy_ticks, idle_ticks;
  uint64_t tick_ns, skew_ns;
  double
      cpu_share; /* of the time in which the probe spins; the rest is stolen */
  uint64_t alone_ns; /* for how long no other task runs; 0: for ever */
  uint64_t since_ns; /* when one ran last */
  bool never_halts;  /* other tasks run while the probe sleeps */
  double seen;       /* DYNAMIC: the share of work that ticks see anyhow */
  enum columns columns;
  double rate;         /* of the counter */
  double counts_halts; /* the share of halted time that it counts */
  int read_error, pin_error, getres_error, open_error; /* errno; 0: none */
  int sleeps_to_end; /* how often the probe sleeps until the core goes offline,
                        or the proof is cancelled */
  bool is_offline, cancels;
  bool has_driver, has_row;
  atomic_bool cancel;
  bool plays;
} core;

static void pass(uint64_t ns, bool runs, bool is_probe) {
  uint64_t from = core.now_ns - core.skew_ns, to = from + ns;
  double ticks = (double)(to / core.tick_ns - from / core.tick_ns);
  core.now_ns += ns;
  *(runs ? &core.busy_ticks : &core.idle_ticks) += ticks;
  *(runs ? &core.ran_ns : &core.halted_ns) +=
      (double)ns * (runs ? core.cpu_share : 1);
  core.cpu_ns += is_probe ? (double)ns * core.cpu_share : 0;
}

static void spin(void) {
  pass(CLOCK_STEP_NS, true, true);
  if (core.alone_ns > 0 && core.now_ns - core.since_ns > core.alone_ns) {
    pass(3 * MS, true, false);
    core.since_ns = core.now_ns;
  }
}

int clock_gettime(clockid_t clock, struct timespec *time) {
  if (!core.plays)
    return (int)syscall(SYS_clock_gettime, clock, time);
  if (clock == CLOCK_MONOTONIC)
    spin();
  uint64_t ns = clock == CLOCK_MONOTONIC ? core.now_ns : (uint64_t)core.cpu_ns;
  *time = (struct timespec){(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
  return 0;
}

int clock_getres(clockid_t clock, struct timespec *resolution) {
  (void)clock;
  *resolution = (struct timespec){.tv_nsec = (long)core.tick_ns};
  errno = core.getres_error;
  return core.getres_error == 0 ? 0 : -1;
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *until,
                    struct timespec *left) {
  (void)clock, (void)left;
  assert_int_equal(flags, TIMER_ABSTIME);
  uint64_t until_ns =
      (uint64_t)until->tv_sec * 1000000000 + (uint64_t)until->tv_nsec;
  if (until_ns > core.now_ns)
    pass(until_ns - core.now_ns, core.never_halts, false);
  core.since_ns = core.now_ns;
  if (core.sleeps_to_end > 0 && --core.sleeps_to_end == 0) {
    core.is_offline = !core.cancels;
    core.cancel = core.cancels;
  }
  return 0;
}

int sched_getcpu(void) { return core.is_offline ? CORE + 1 : CORE; }

int sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *set) {
  (void)pid;
  assert_true(CPU_ISSET_S(CORE, size, set));
  errno = core.pin_error;
  return core.pin_error == 0 ? 0 : -1;
}

static uint64_t clock_ns(void *context, clockid_t clock) {
  (void)context, (void)clock;
  return core.now_ns;
}

static ssize_t read_file(void *context, const char *path, char *buffer,
                         size_t size) {
  (void)context;
  const char *file = strrchr(path, '/') + 1;
  double busy_ns = core.ran_ns, idle_ns = core.halted_ns;
  if (core.columns == DYNAMIC || core.columns == SAMPLED)
    busy_ns = core.busy_ticks * (double)core.tick_ns + core.seen * core.ran_ns;
  if (core.columns == SAMPLED)
    idle_ns = core.idle_ticks * (double)core.tick_ns;
  if (strcmp(path, "/proc/stat") == 0)
    return snprintf(buffer, size, "cpu%d %.0f 0 0 %.0f 0 0 0 0 0 0\n",
                    core.has_row ? CORE : CORE + 1, busy_ns / 10e6,
                    idle_ns / 10e6);
  if (!core.has_driver || strstr(path, "cpu3/cpuidle/state0/") == NULL)
    return -ENOENT;
  return snprintf(buffer, size, "%s%.0f\n",
                  strcmp(file, "name") == 0 ? "C" : "", core.halted_ns / 1e3);
}

static int perf_open(void *context, struct perf_event_attr *attr, int number,
                     int group) {
  (void)context, (void)attr, (void)group;
  assert_int_equal(number, CORE);
  return -core.open_error;
}

static ssize_t perf_read(void *context, int fd, void *buffer, size_t size) {
  (void)context, (void)fd;
  double counted = core.ran_ns + core.counts_halts * core.halted_ns;
  const uint64_t words[] = {1, core.now_ns, core.now_ns,
                            (uint64_t)(counted * core.rate)};
  assert_true(size >= sizeof words);
  memcpy(buffer, words, sizeof words);
  return core.read_error == 0 ? (ssize_t)sizeof words : -core.read_error;
}

static void perf_close(void *context, int fd) { (void)context, (void)fd; }

static const struct machine machine = {.clock_ns = clock_ns,
                                       .read_file = read_file,
                                       .perf_open = perf_open,
                                       .perf_read = perf_read,
                                       .perf_close = perf_close};

static const struct source counter = {.kind = SOURCE_EVENT,
                                      .events_len = 1,
                                      .tsc = -1,
                                      .aperf = -1,
                                      .base_frequency_hz = 1e9};
static const struct source idle = {.kind = SOURCE_IDLE};

static struct source proven;
static uint64_t took_ns;
static char why[WHY_SIZE];

static void setup(void) {
  memset(&core, 0, sizeof core);
  core.now_ns = core.since_ns = 1000000 * MS;
  core.halted_ns = 500000 * MS;
  core.tick_ns = 4 * MS;
  core.cpu_share = core.rate = 1;
  core.has_row = true;
}

static enum proof prove(const struct source *source) {
  struct probe *probe;
  uint64_t begin_ns = core.now_ns;
  core.plays = true;
  assert_int_equal(probe_start(&probe, &machine, CORE, source, &core.cancel),
                   0);
  enum proof proof = probe_end(probe, &proven, why);
  core.plays = false;
  took_ns = core.now_ns - begin_ns;
  return proof;
}

static void assert_verdict(const struct source *source, enum proof proof,
                           const char *reason) {
  assert_int_equal(prove(source), proof);
  if (strstr(why, reason) == NULL)
    fail_msg("'%s' lacks '%s'", why, reason);
}

/* ---------------------------------------------------------------------------
 * Counters
 */

/* What two readings of the clock are of the time for which the probe spins. */
#define STEP (2 * CLOCK_STEP_NS / 20e6)

TEST(a_right_counter_is_proven_and_its_rate_is_known) {
  static const double rates[] = {0.98, 1, 1.01};
  const double error = 2 * COUNTER_SKEW_NS / 20e6;
  for (int i = 0; i < 6; i++) {
    setup();
    core.rate = rates[i % 3];
    core.has_driver = i < 3;
    assert_verdict(&counter, PROOF_PROVEN, "");
    assert_near(proven.rate_low, core.rate - error, STEP);
    assert_near(proven.rate_high, core.rate + error, STEP);
  }
}

TEST(stolen_time_widens_the_rate) {
  core.cpu_share = 0.98;
  assert_verdict(&counter, PROOF_PROVEN, "");
  assert_near(proven.rate_low, 0.978, STEP);
  assert_near(proven.rate_high, 1.002, STEP);
}

TEST(a_counter_that_does_not_stop_is_refuted) {
  core.counts_halts = 1;
  assert_verdict(&counter, PROOF_REFUTED,
                 "it read 1.000 on core 3 while the core was idle");
  core.counts_halts = 0.6;
  assert_verdict(&counter, PROOF_REFUTED, "while the core was idle");
  core.counts_halts = 0.4; /* interrupts, which idle drivers count as idle */
  assert_verdict(&counter, PROOF_PROVEN, "");
}

TEST(a_counter_that_misses_work_is_refuted) {
  core.rate = 0.9;
  assert_verdict(&counter, PROOF_REFUTED,
                 "it read 0.900 on core 3 while a "
                 "thread was spinning");
}

TEST(a_core_that_is_never_free_proves_no_counter) {
  core.alone_ns = 5 * MS;
  assert_verdict(&counter, PROOF_UNPROVEN, "never free");
  setup();
  core.cpu_share = 0.9;
  assert_verdict(&counter, PROOF_UNPROVEN, "never free");
}

TEST(a_core_that_is_never_idle_proves_no_counter) {
  core.never_halts = true;
  assert_verdict(&counter, PROOF_UNPROVEN, "never idle");
}

TEST(without_columns_or_an_idle_driver_no_counter_is_proven) {
  core.has_row = false;
  assert_verdict(&counter, PROOF_UNPROVEN, "never idle");
  core.has_driver = true;
  assert_verdict(&counter, PROOF_PROVEN, "");
}

TEST(a_counter_that_cannot_be_read_is_not_refuted) {
  core.read_error = EIO;
  assert_verdict(&counter, PROOF_UNPROVEN, "could not be read");
}

TEST(a_core_that_goes_offline_neither_proves_nor_refutes_a_counter) {
  core.is_offline = true;
  core.rate = 0.9; /* the thread spins elsewhere */
  assert_verdict(&counter, PROOF_UNPROVEN, "went offline");
  setup();
  core.sleeps_to_end = 1;
  assert_verdict(&counter, PROOF_UNPROVEN, "went offline");
}

TEST(a_core_that_cannot_be_used_proves_nothing) {
  core.pin_error = EINVAL;
  assert_verdict(&counter, PROOF_UNPROVEN, "proof on core 3 failed: Invalid");
  assert_verdict(&idle, PROOF_UNPROVEN, "proof on core 3 failed: Invalid");
}

TEST(a_counter_that_cannot_be_opened_is_not_tried) {
  struct probe *probe;
  core.open_error = EACCES;
  assert_int_equal(probe_start(&probe, &machine, CORE, &counter, &core.cancel),
                   -EACCES);
}

/* ---------------------------------------------------------------------------
 * The tick
 */

TEST(idle_time_is_proven_wherever_the_tick_is) {
  static const uint64_t tick_ms[] = {1, 4, 10};
  for (uint64_t i = 0; i < 48; i++) {
    bool is_sampled = i >= 24;
    setup();
    core.tick_ns = tick_ms[i % 3] * MS;
    core.skew_ns = i / 3 % 8 * core.tick_ns / 8;
    core.columns = is_sampled ? SAMPLED : DYNAMIC;
    assert_verdict(&idle, is_sampled ? PROOF_TICK_SAMPLED : PROOF_PROVEN,
                   is_sampled ? "samples idle time at the tick" : "");
  }
}

TEST(idle_time_is_proven_although_the_tick_sees_some_of_the_work) {
  core.seen = 0.2;
  assert_verdict(&idle, PROOF_PROVEN, "");
}

TEST(exact_columns_are_proven_by_two_attempts) {
  core.columns = EXACT;
  assert_verdict(&idle, PROOF_PROVEN, "");
  assert_in_range(took_ns, 200 * MS, 250 * MS);
}

/* Another task runs for 3 of 10 ms. */
TEST(a_core_that_is_free_for_most_of_each_tick_proves_idle_time) {
  core.tick_ns = 10 * MS;
  core.alone_ns = 13 * MS / 2;
  assert_verdict(&idle, PROOF_PROVEN, "");
}

/* It takes no time from the other tasks. */
TEST(on_a_core_that_is_not_free_the_probe_gives_up_at_once) {
  core.alone_ns = MS;
  assert_verdict(&idle, PROOF_UNPROVEN, "other work ran");
  assert_in_range(took_ns, MS, 150 * MS);
}

TEST(other_tasks_that_run_while_the_probe_sleeps_prove_nothing) {
  core.never_halts = true;
  assert_verdict(&idle, PROOF_UNPROVEN, "other work ran");
}

TEST(without_a_row_or_the_period_of_the_tick_nothing_is_proven) {
  core.has_row = false;
  assert_verdict(&idle, PROOF_UNPROVEN, "failed: No such file");
  setup();
  core.getres_error = EPERM;
  assert_verdict(&idle, PROOF_UNPROVEN, "failed: Operation not permitted");
  setup();
  core.sleeps_to_end = 3;
  assert_verdict(&idle, PROOF_UNPROVEN, "failed: No such device");
}

TEST(a_proof_that_is_cancelled_decides_nothing) {
  core.cancels = true;
  core.sleeps_to_end = 2;
  core.columns = SAMPLED;
  assert_verdict(&idle, PROOF_PENDING, "");
  core.cancel = true;
  assert_verdict(&counter, PROOF_PENDING, "");
}

const struct unit_fixtures unit_fixtures = {.before_each = setup};
