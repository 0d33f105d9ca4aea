#include "unit.h"

#include "base/clock.h"
#include "cycles/proof.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MS 1e6

TEST(a_spin_counts_from_95_percent_of_the_core) {
  assert_int_equal(proof_judge_spin(1, 0.95), PROOF_HALF_PASSED);
  assert_int_equal(proof_judge_spin(1, 0.9499), PROOF_HALF_NOT_RUN);
  assert_int_equal(proof_judge_spin(0, 0.9499), PROOF_HALF_NOT_RUN);
  assert_int_equal(proof_judge_spin(1, NAN), PROOF_HALF_NOT_RUN);
}

TEST(a_spinning_core_must_read_97_to_102_percent) {
  static const struct {
    double load;
    enum proof_half half;
  } spins[] = {{0.97, PROOF_HALF_PASSED},    {1, PROOF_HALF_PASSED},
               {1.02, PROOF_HALF_PASSED},    {0.9699, PROOF_HALF_FAILED},
               {1.0201, PROOF_HALF_FAILED},  {0, PROOF_HALF_FAILED},
               {1.74, PROOF_HALF_FAILED},    {-1, PROOF_HALF_FAILED},
               {INFINITY, PROOF_HALF_FAILED}};
  for (size_t i = 0; i < sizeof spins / sizeof spins[0]; i++)
    assert_int_equal(proof_judge_spin(spins[i].load, 1), spins[i].half);
}

/* A counter does not count time that the hypervisor stole, and the kernel does
 * not count it as CPU time of the thread. */
TEST(a_spinning_core_is_judged_by_the_share_that_ran) {
  assert_int_equal(proof_judge_spin(0.95, 0.95), PROOF_HALF_PASSED);
  assert_int_equal(proof_judge_spin(0.925, 0.95), PROOF_HALF_PASSED);
  assert_int_equal(proof_judge_spin(0.92, 0.95), PROOF_HALF_FAILED);
}

/* If the source could not be read, that half of the proof (spin or idle) counts
 * as not run. */
TEST(an_unknown_reading_proves_nothing) {
  assert_int_equal(proof_judge_spin(NAN, 1), PROOF_HALF_NOT_RUN);
  assert_int_equal(proof_judge_idle(NAN, 40 * MS, 45 * MS), PROOF_HALF_NOT_RUN);
}

TEST(idling_counts_from_30_ms) {
  assert_int_equal(proof_judge_idle(0.01, 30 * MS, 31 * MS), PROOF_HALF_PASSED);
  assert_int_equal(proof_judge_idle(0.01, 29.9 * MS, 31 * MS),
                   PROOF_HALF_NOT_RUN);
  assert_int_equal(proof_judge_idle(1, 29.9 * MS, 31 * MS), PROOF_HALF_NOT_RUN);
  assert_int_equal(proof_judge_idle(0.01, NAN, 31 * MS), PROOF_HALF_NOT_RUN);
  assert_int_equal(proof_judge_idle(0.01, 40 * MS, 0), PROOF_HALF_NOT_RUN);
}

/* A counter may continue while the core is idle: CPU_CYCLES of a Cortex-A57
 * continues in WFI, and MPERF of a physical core continues while a virtual core
 * is halted. */
TEST(a_counter_that_continues_while_idle_fails) {
  assert_int_equal(proof_judge_idle(1, 44 * MS, 45 * MS), PROOF_HALF_FAILED);
  assert_int_equal(proof_judge_idle(0.9, 44 * MS, 45 * MS), PROOF_HALF_FAILED);
}

TEST(the_load_must_fall_by_at_least_half_of_the_idle_share) {
  assert_int_equal(proof_judge_idle(0.6, 40 * MS, 50 * MS), PROOF_HALF_PASSED);
  assert_int_equal(proof_judge_idle(0.61, 40 * MS, 50 * MS), PROOF_HALF_FAILED);
  assert_int_equal(proof_judge_idle(0.5, 60 * MS, 50 * MS), PROOF_HALF_PASSED);
  assert_int_equal(proof_judge_idle(0.51, 60 * MS, 50 * MS), PROOF_HALF_FAILED);
}

TEST(two_passed_halves_prove_and_one_failed_half_refutes) {
  static const enum proof verdicts[3][3] = {
      /* The rows are results of the spin half: not run, passed, failed. The
       * columns are the same results of the idle half. */
      [PROOF_HALF_NOT_RUN] = {PROOF_UNPROVEN, PROOF_UNPROVEN, PROOF_REFUTED},
      [PROOF_HALF_PASSED] = {PROOF_UNPROVEN, PROOF_PROVEN, PROOF_REFUTED},
      [PROOF_HALF_FAILED] = {PROOF_REFUTED, PROOF_REFUTED, PROOF_REFUTED},
  };
  for (int spin = 0; spin < 3; spin++)
    for (int idle = 0; idle < 3; idle++)
      assert_int_equal(proof_judge_counter(spin, idle), verdicts[spin][idle]);
}

TEST(idle_time_that_shows_the_hidden_work_is_proven) {
  assert_int_equal(proof_judge_tick(0.86, 0.004, 0.87), PROOF_PROVEN);
  assert_int_equal(proof_judge_tick(0.86, 0.004, 0.51), PROOF_PROVEN);
}

TEST(idle_time_that_does_not_show_the_work_is_tick_sampled) {
  assert_int_equal(proof_judge_tick(0.86, 0.004, 0.01), PROOF_TICK_SAMPLED);
  assert_int_equal(proof_judge_tick(0.86, 0.004, 0.5), PROOF_TICK_SAMPLED);
}

/* The columns counted the work, so the probe failed to evade the tick. Even a
 * kernel that samples at the tick would then appear correct. */
TEST(a_probe_that_the_tick_saw_proves_nothing) {
  assert_int_equal(proof_judge_tick(0.86, 0.9, 0.87), PROOF_PENDING);
  assert_int_equal(proof_judge_tick(0.86, 0.5, 0.87), PROOF_PENDING);
}

/* It slept at each tick, so idle time must have grown. */
TEST(idle_time_that_stood_still_is_not_proven) {
  assert_int_equal(proof_judge_tick(0.86, 0, 1), PROOF_PENDING);
}

TEST(a_probe_that_hardly_ran_proves_nothing) {
  assert_int_equal(proof_judge_tick(0.59, 0, 0), PROOF_PENDING);
  assert_int_equal(proof_judge_tick(0.59, 0, 1), PROOF_PENDING);
  assert_int_equal(proof_judge_tick(0, 0, 0), PROOF_PENDING);
  assert_int_equal(proof_judge_tick(NAN, 0, 0), PROOF_PENDING);
}

/* The kernel of ppc64 and s390x counts at each change between user, kernel and
 * idle (CONFIG_VIRT_CPU_ACCOUNTING_NATIVE). */
TEST(columns_that_agree_with_the_truth_are_exact) {
  assert_true(proof_columns_are_exact(0.85, 0.85, 0.86));
  assert_false(proof_columns_are_exact(0.5, 0.5, 0.5));
  assert_false(proof_columns_are_exact(0.86, 1, 1));
  assert_false(proof_columns_are_exact(0.86, 0.5, 0.86));
  assert_false(proof_columns_are_exact(0.86, 0, 0));
  assert_false(proof_columns_are_exact(0.86, 0.86, 0.5));
  assert_false(proof_columns_are_exact(0.98, 0.99, 0.99));
  assert_false(proof_columns_are_exact(NAN, NAN, NAN));
}

TEST(a_probe_without_figures_proves_nothing) {
  assert_int_equal(proof_judge_tick(0.86, NAN, NAN), PROOF_PENDING);
  assert_int_equal(proof_judge_tick(0.86, NAN, 0.9), PROOF_PENDING);
}

/* ---------------------------------------------------------------------------
 * A probe on a core of this machine
 */

static ssize_t read_nothing(void *context, int fd, void *buffer, size_t size) {
  (void)context;
  (void)fd;
  (void)buffer;
  (void)size;
  return -EIO;
}

static int open_one(void *context, struct perf_event_attr *attr, int core,
                    int group) {
  (void)context;
  (void)attr;
  (void)core;
  (void)group;
  return 0;
}

static void close_one(void *context, int fd) {
  (void)context;
  (void)fd;
}

static atomic_bool cancel;
static int sleeps_left; /* until the proof is cancelled; 0: it never is */

/* Replaces the function of the C library. */
int clock_nanosleep(clockid_t clock, int flags, const struct timespec *until,
                    struct timespec *left) {
  if (sleeps_left > 0)
    cancel = --sleeps_left == 0;
  return syscall(SYS_clock_nanosleep, clock, flags, until, left) == 0 ? 0
                                                                      : errno;
}

static struct machine *linux_machine;

static bool is_still;

/* Reads columns whose idle time grows by ten seconds from read to read, unless
 * the file stands still. */
static ssize_t read_idle(void *context, const char *path, char *buffer,
                         size_t size) {
  static unsigned long long idle;
  int length = 0;
  if (strcmp(path, "/proc/stat") != 0)
    return linux_machine->read_file(context, path, buffer, size);
  idle += is_still ? 0 : 1000;
  for (int core = 0; core < 64; core++)
    length += snprintf(buffer + length, size - (size_t)length,
                       "cpu%d 0 0 0 %llu 0 0 0 0 0 0\n", core, idle);
  return length;
}

/* Tries to prove the source on the core of this thread. */
static enum proof prove(const struct source *source,
                        ssize_t (*perf_read)(void *, int, void *, size_t),
                        char why[WHY_SIZE]) {
  cancel = false;
  struct probe *probe = NULL;
  struct source proven;
  linux_machine = machine_linux("/");
  assert_non_null(linux_machine);
  struct machine machine = *linux_machine;
  machine.perf_open = open_one;
  machine.perf_read = perf_read;
  machine.perf_close = close_one;
  if (sleeps_left > 0 || is_still)
    machine.read_file = read_idle;
  assert_int_equal(
      probe_start(&probe, &machine, sched_getcpu(), source, &cancel), 0);
  enum proof proof = probe_end(probe, &proven, why);
  machine_linux_close(linux_machine);
  return proof;
}

TEST(a_source_that_cannot_be_read_is_not_refuted) {
  const struct source source = {.kind = SOURCE_MPERF, .events_len = 1};
  char why[WHY_SIZE];
  assert_int_equal(prove(&source, read_nothing, why), PROOF_UNPROVEN);
  assert_non_null(strstr(why, "could not be read"));
}

/* Simulates a counter of nanoseconds that continues while the core is halted.
 */
static ssize_t read_clock(void *context, int fd, void *buffer, size_t size) {
  (void)context;
  (void)fd;
  uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);
  const uint64_t words[] = {1, now_ns, now_ns, now_ns};
  assert_true(size >= sizeof words);
  memcpy(buffer, words, sizeof words);
  return (ssize_t)sizeof words;
}

/* The counter may remain unproven instead of refuted, because other work may
 * keep the core busy. */
TEST(a_counter_that_never_stops_is_not_proven) {
  const struct source source = {.kind = SOURCE_EVENT,
                                .events_len = 1,
                                .tsc = -1,
                                .aperf = -1,
                                .base_frequency_hz = 1e9};
  char why[WHY_SIZE];
  enum proof proof = prove(&source, read_clock, why);
  if (proof == PROOF_REFUTED)
    assert_non_null(strstr(why, "does not stop when the core halts"));
  else
    assert_int_equal(proof, PROOF_UNPROVEN);
  assert_null(strstr(why, "could not be read"));
}

static int clock_error; /* errno of clock_getres; 0: it succeeds */

/* Replaces the function of the C library. */
int clock_getres(clockid_t clock, struct timespec *resolution) {
  (void)clock;
  *resolution = (struct timespec){.tv_nsec = clock_error == 0 ? 4000000 : 0};
  errno = clock_error;
  return clock_error == 0 ? 0 : -1;
}

TEST(without_the_period_of_the_tick_nothing_is_proven) {
  const struct source source = {.kind = SOURCE_IDLE};
  char why[WHY_SIZE];
  clock_error = EPERM;
  assert_int_equal(prove(&source, read_nothing, why), PROOF_UNPROVEN);
  clock_error = 0;
  assert_non_null(strstr(why, "failed: Operation not permitted"));
}

TEST(a_file_that_stands_still_is_refuted) {
  const struct source source = {.kind = SOURCE_IDLE};
  char why[WHY_SIZE];
  is_still = true;
  assert_int_equal(prove(&source, read_nothing, why), PROOF_REFUTED);
  is_still = false;
  assert_non_null(strstr(why, "/proc/stat stands still"));
}

TEST(a_proof_that_is_cancelled_refutes_nothing) {
  const struct source source = {.kind = SOURCE_IDLE};
  char why[WHY_SIZE];
  sleeps_left = 2;
  assert_int_not_equal(prove(&source, read_nothing, why), PROOF_TICK_SAMPLED);
  sleeps_left = 0;
}
