/* Tests the sampling thread on a machine whose clock advances by 2 ms each time
 * it is read. The thread sleeps until a time of the real clock, which has
 * already passed every deadline. */
#include "unit.h"

#include "cycles/sampler.h"
#include "fake_machine.h"

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>

#define INTERVAL_NS (FAKE_SECOND / 2)
#define LOOK_NS (2 * FAKE_MS)

static struct fake_machine *fake;
static uint64_t (*fake_clock)(void *context, clockid_t clock);
static atomic_long looks;
/* When the clock has passed this time, reading it waits until the test raises
 * the limit. */
static atomic_ullong limit_ns;

static _Thread_local long own_looks;

static uint64_t counted_clock(void *context, clockid_t clock) {
  atomic_fetch_add(&looks, 1);
  own_looks++;
  uint64_t ns = fake_clock(context, clock);
  while (clock == CLOCK_REALTIME && ns > atomic_load(&limit_ns))
    sched_yield();
  return ns;
}

static void setup(void) {
  fake = fake_machine_new(2);
  fake->monotonic_ns = FAKE_SECOND;
  fake->clock_step_ns = LOOK_NS;
  fake_machine_load(fake, 0.5);
  fake_clock = fake->machine.clock_ns;
  fake->machine.clock_ns = counted_clock;
  atomic_store(&looks, 0);
  atomic_store(&limit_ns, UINT64_MAX);
}

static void teardown(void) { fake_machine_free(fake); }

static struct sampler *start_with(bool from_start) {
  struct sampler *sampler = NULL;
  const struct sampler_options options = {
      .engine = {.machine = &fake->machine, .source = SOURCE_AUTO},
      .interval_ns = INTERVAL_NS,
      .from_start = from_start,
  };
  assert_int_equal(sampler_start(&sampler, &options), 0);
  return sampler;
}

static struct sampler *start(void) { return start_with(false); }

static struct snapshot *wait_for_one(struct sampler *sampler) {
  struct snapshot *snapshot = sampler_wait(sampler, 20 * FAKE_SECOND);
  assert_non_null(snapshot);
  return snapshot;
}

TEST(snapshots_come_at_each_multiple_of_the_interval) {
  /* The thread takes the next snapshot only when the test has the last. */
  const uint64_t ahead_ns = INTERVAL_NS + INTERVAL_NS / 2;
  atomic_store(&limit_ns, fake->monotonic_ns +
                              (uint64_t)fake->realtime_offset_ns + ahead_ns);
  struct sampler *sampler = start();
  uint64_t last_ns = 0;
  for (int i = 0; i < 10; i++) {
    struct snapshot *snapshot = wait_for_one(sampler);
    atomic_store(&limit_ns, snapshot->time_ns + ahead_ns);
    assert_int_equal(snapshot->interval_ns, INTERVAL_NS);
    assert_true(snapshot->time_ns > last_ns);
    /* If a snapshot is more than 1 % of the interval (5 ms) late, its stamp may
     * be its true time. */
    assert_true(snapshot->time_ns % INTERVAL_NS < 20 * LOOK_NS);
    if (last_ns != 0)
      assert_int_equal(snapshot->time_ns / INTERVAL_NS,
                       last_ns / INTERVAL_NS + 1);
    last_ns = snapshot->time_ns;
    snapshot_free(snapshot);
  }
  atomic_store(&limit_ns, UINT64_MAX);
  sampler_stop(sampler);
}

TEST(snapshots_contain_loads_and_the_cost_of_sampling) {
  struct sampler *sampler = start();
  snapshot_free(wait_for_one(sampler));
  struct snapshot *snapshot = wait_for_one(sampler);
  assert_int_equal(snapshot->cores_len, 2);
  assert_near(snapshot->cores[0].load, 0.5, 0.05);
  assert_int_equal(snapshot->cores[0].proof, PROOF_UNPROVEN);
  assert_true(snapshot->self.sample_cost_s > 0);
  assert_true(snapshot->self.lateness_s >= 0);
  assert_true(snapshot->self.lateness_s < 1);
  assert_true(snapshot->self.sampler_cpu >= 0);
  snapshot_free(snapshot);
  assert_true(sampler_has_source(sampler));
  sampler_stop(sampler);
}

TEST(a_late_consumer_gets_the_newest_snapshot) {
  const uint64_t begin_ns = fake->machine.clock_ns(fake, CLOCK_REALTIME);
  struct sampler *sampler = start();
  while (atomic_load(&looks) < (long)(50 * INTERVAL_NS / LOOK_NS))
    sched_yield();
  struct snapshot *snapshot = wait_for_one(sampler);
  assert_true(snapshot->time_ns > begin_ns + 40 * INTERVAL_NS);
  snapshot_free(snapshot);
  sampler_stop(sampler);
}

/* The thread that runs a proof reads the clock only once before it reads
 * /proc/stat, so own_looks distinguishes it from the other threads. */
static atomic_int proofs;
static atomic_bool proof_may_end;
static ssize_t (*fake_read_file)(void *, const char *, char *, size_t);

static ssize_t read_but_hold_up_proofs(void *context, const char *path,
                                       char *buffer, size_t size) {
  if (own_looks > 1 || strcmp(path, "/proc/stat") != 0)
    return fake_read_file(context, path, buffer, size);
  if (atomic_fetch_add(&proofs, 1) > 0)
    while (!atomic_load(&proof_may_end))
      sched_yield();
  return -EIO;
}

TEST(no_snapshot_waits_for_a_repeated_proof) {
  own_looks = 2;              /* this thread does not run a proof */
  fake_machine_load(fake, 0); /* a proof is repeated on an idle core */
  fake_read_file = fake->machine.read_file;
  fake->machine.read_file = read_but_hold_up_proofs;
  struct sampler *sampler = NULL;
  const struct sampler_options options = {
      .engine = {.machine = &fake->machine,
                 .hardware = true,
                 .source = SOURCE_AUTO},
      .interval_ns = INTERVAL_NS,
  };
  assert_int_equal(sampler_start(&sampler, &options), 0);
  while (atomic_load(&proofs) < 2)
    snapshot_free(wait_for_one(sampler));
  uint64_t last_ns = 0;
  for (int i = 0; i < 48; i++) {
    struct snapshot *snapshot = wait_for_one(sampler);
    assert_true(snapshot->time_ns > last_ns);
    last_ns = snapshot->time_ns;
    snapshot_free(snapshot);
  }
  assert_int_equal(atomic_load(&proofs), 2);
  atomic_store(&proof_may_end, true);
  sampler_stop(sampler);
}

TEST(stopping_frees_snapshots_that_were_not_taken) {
  struct sampler *sampler = start();
  while (atomic_load(&looks) < (long)(4 * INTERVAL_NS / LOOK_NS))
    sched_yield();
  sampler_stop(sampler);
  sampler_stop(NULL);
}

TEST(without_a_snapshot_waiting_ends_in_time) {
  /* The clock of the machine does not advance, so the thread takes no snapshot.
   */
  fake->clock_step_ns = 0;
  struct sampler *sampler = start();
  assert_null(sampler_wait(sampler, 0));
  sampler_stop(sampler);
}

TEST(a_machine_without_cores_starts_no_thread) {
  struct fake_machine *empty = fake_machine_new(0);
  struct sampler *sampler = NULL;
  empty->procstat = false;
  const struct sampler_options options = {
      .engine = {.machine = &empty->machine, .source = SOURCE_AUTO},
      .interval_ns = INTERVAL_NS};
  assert_int_equal(sampler_start(&sampler, &options), -ENOENT);
  fake_machine_free(empty);
}

/* Each core is halted in the first half of an interval, and runs in the second.
 */
static void alternate(void *context) {
  struct fake_machine *fake = context;
  uint64_t ns = fake->monotonic_ns + (uint64_t)fake->realtime_offset_ns;
  fake_machine_load(fake, ns % INTERVAL_NS >= INTERVAL_NS / 2);
}

TEST(a_snapshot_has_the_least_and_the_greatest_load_of_its_samples) {
  fake->passed = alternate;
  fake->passed_context = fake;
  struct sampler *sampler = NULL;
  const struct sampler_options options = {
      .engine = {.machine = &fake->machine, .source = SOURCE_AUTO},
      .interval_ns = INTERVAL_NS,
      .sample_interval_ns = INTERVAL_NS / 10,
  };
  assert_int_equal(sampler_start(&sampler, &options), 0);
  snapshot_free(wait_for_one(sampler));
  struct snapshot *snapshot = wait_for_one(sampler);
  assert_near(snapshot->cores[0].load_trough, 0, 0.1);
  assert_near(snapshot->cores[0].load_peak, 1, 0.1);
  snapshot_free(snapshot);
  sampler_stop(sampler);
}

static _Thread_local int callocs; /* until one fails; 0: none does */

void *__real_calloc(size_t len, size_t size);
void *__wrap_calloc(size_t len, size_t size);
void *__wrap_calloc(size_t len, size_t size) {
  bool fails = callocs > 0 && --callocs == 0;
  return fails ? NULL : __real_calloc(len, size);
}

TEST(without_memory_no_sampler_is_started) {
  const struct sampler_options options = {
      .engine = {.machine = &fake->machine, .source = SOURCE_AUTO},
      .interval_ns = INTERVAL_NS};
  int status = -ENOMEM;
  for (int n = 1; status != 0; n++) {
    struct sampler *sampler = NULL;
    callocs = n;
    status = sampler_start(&sampler, &options);
    assert_int_equal(status, callocs == 0 ? -ENOMEM : 0);
    callocs = 0;
    sampler_stop(sampler);
  }
}

TEST(the_signal_mask_of_the_caller_does_not_change) {
  sigset_t before, after;
  pthread_sigmask(SIG_SETMASK, NULL, &before);
  struct sampler *sampler = start();
  pthread_sigmask(SIG_SETMASK, NULL, &after);
  for (int number = 1; number < 65; number++)
    assert_int_equal(sigismember(&before, number), sigismember(&after, number));
  sampler_stop(sampler);
}

TEST(from_the_start_on_every_snapshot_covers_one_interval_as_measured) {
  struct sampler *sampler = start_with(true);
  for (int i = 0; i < 3; i++) {
    struct snapshot *snapshot = wait_for_one(sampler);
    assert_in_range(snapshot->covered_ns, INTERVAL_NS - 20 * LOOK_NS,
                    INTERVAL_NS + 20 * LOOK_NS);
    snapshot_free(snapshot);
  }
  sampler_stop(sampler);
}

const struct unit_fixtures unit_fixtures = {.before_each = setup,
                                            .after_each = teardown};
