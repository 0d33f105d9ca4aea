#include "proof.h"

#include "base/affinity.h"
#include "base/clock.h"
#include "base/thread.h"
#include "cpuidle.h"
#include "procstat.h"
#include "totals.h"

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPIN_NS UINT64_C(20000000)
#define SPIN_TRIES 5
#define IDLE_NS UINT64_C(45000000)
#define IDLE_TRIES 6
#define IDLE_MIN_NS 30e6
#define TICK_TRIES 8
#define TICKS 20
/* So many attempts with exact columns prove them: those of a kernel that counts
 * at ticks would be near 0 or 1 in each attempt. */
#define EXACT_TRIES 2
#define TICK_PROBE_MIN_NS UINT64_C(100000000)

/* ---------------------------------------------------------------------------
 * Judgement
 */

enum proof_half proof_judge_spin(double load, double cpu_share) {
  if (!(cpu_share >= 0.95) || isnan(load))
    return PROOF_HALF_NOT_RUN;
  return load >= SOURCE_RATE_MIN * cpu_share && load <= SOURCE_RATE_MAX
             ? PROOF_HALF_PASSED
             : PROOF_HALF_FAILED;
}

enum proof_half proof_judge_idle(double load, double idle_ns, double wall_ns) {
  if (!(idle_ns >= IDLE_MIN_NS) || !(wall_ns > 0) || isnan(load))
    return PROOF_HALF_NOT_RUN;
  double idle_share = fmin(idle_ns / wall_ns, 1);
  return load <= 1 - idle_share / 2 ? PROOF_HALF_PASSED : PROOF_HALF_FAILED;
}

enum proof proof_judge_counter(enum proof_half spin, enum proof_half idle) {
  if (spin == PROOF_HALF_FAILED || idle == PROOF_HALF_FAILED)
    return PROOF_REFUTED;
  return spin == PROOF_HALF_PASSED && idle == PROOF_HALF_PASSED
             ? PROOF_PROVEN
             : PROOF_UNPROVEN;
}

bool proof_columns_are_exact(double truth, double columns, double load) {
  return truth >= 0.6 && truth <= 0.95 && fabs(columns - truth) <= 0.06 &&
         fabs(load - truth) <= 0.06;
}

enum proof proof_judge_tick(double truth, double columns, double load) {
  if (!(truth >= 0.6))
    return PROOF_PENDING;
  if (load <= 0.5)
    return PROOF_TICK_SAMPLED;
  return columns < 0.5 && load < 1 ? PROOF_PROVEN : PROOF_PENDING;
}

/* ---------------------------------------------------------------------------
 * The thread
 */

struct probe {
  const struct machine *machine;
  int core;
  struct source source;    /* a copy: the engine may change the original */
  struct perf_group group; /* not open when proving idle time */
  const atomic_bool *cancel;
  double load;  /* the load that the source measured; explains the verdict */
  double truth; /* the true load in the last attempt to evade the tick */
  bool was_preempted; /* other work ran on the core during the attempt */
  int exact;          /* attempts in which the columns agreed with the truth */
  bool was_away; /* the source could not be read, or the core went offline */
  pthread_t thread;
  atomic_bool ended;
  enum proof proof;
  char why[WHY_SIZE];
};

static void sleep_until(uint64_t deadline_ns) {
  struct timespec time = timespec_of_ns(deadline_ns);
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) == EINTR)
    ;
}

/* A gap between two readings of the clock that is longer than this is not an
 * interrupt: another task has run, or the hypervisor has taken the core. */
#define PREEMPTED_NS UINT64_C(1000000)

/* Returns false as soon as the thread has been preempted: the core is not free,
 * so to go on would only take time from other work. */
static bool spin_until(uint64_t deadline_ns) {
  uint64_t last_ns = clock_now_ns(CLOCK_MONOTONIC), now_ns;
  for (; last_ns < deadline_ns; last_ns = now_ns) {
    now_ns = clock_now_ns(CLOCK_MONOTONIC);
    if (now_ns - last_ns > PREEMPTED_NS)
      return false;
  }
  return true;
}

static bool cancelled(const struct probe *probe) {
  return atomic_load_explicit(probe->cancel, memory_order_relaxed);
}

/* True if the thread still runs on its core. When a core goes offline, the
 * kernel moves its threads to other cores permanently. */
static bool is_there(const struct probe *probe) {
  return sched_getcpu() == probe->core;
}

/* ---------------------------------------------------------------------------
 * Counters: spin, then sleep
 */

/* Returns the load since an earlier reading; NAN if the source cannot be read.
 */
static double load_since(const struct probe *probe,
                         const struct perf_reading *from) {
  struct perf_reading to;
  struct core_totals growth;
  if (perf_group_read(&probe->group, &to) != 0 ||
      source_window(&probe->source, from, &to, &growth) != 0)
    return NAN;
  return growth.unhalted / growth.wall;
}

/* Sets between which rates the counter runs. While the thread spun, the core
 * was unhalted for at least cpu_share. */
static void set_rate(struct source *source, double load, double cpu_share,
                     double spun_ns) {
  double error = 2 * COUNTER_SKEW_NS / spun_ns;
  source->rate_low = fmax(load - error, SOURCE_RATE_MIN);
  source->rate_high = fmin(load / cpu_share + error, SOURCE_RATE_MAX);
}

static enum proof_half spin_half(struct probe *probe) {
  enum proof_half half = PROOF_HALF_NOT_RUN;
  for (int i = 0;
       i < SPIN_TRIES && half != PROOF_HALF_PASSED && !cancelled(probe); i++) {
    probe->was_away = affinity_pin(probe->core) != 0;
    if (probe->was_away)
      break;
    struct perf_reading from;
    bool has_begun = perf_group_read(&probe->group, &from) == 0;
    uint64_t begin_ns = clock_now_ns(CLOCK_MONOTONIC);
    uint64_t cpu_begin_ns = clock_now_ns(CLOCK_THREAD_CPUTIME_ID);
    bool free = spin_until(begin_ns + SPIN_NS);
    double cpu_ns =
        (double)(clock_now_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_begin_ns);
    double spun_ns = (double)(clock_now_ns(CLOCK_MONOTONIC) - begin_ns);
    double seen = has_begun ? load_since(probe, &from) : NAN;
    probe->was_away = isnan(seen) || !is_there(probe);
    enum proof_half this_half = probe->was_away || !free
                                    ? PROOF_HALF_NOT_RUN
                                    : proof_judge_spin(seen, cpu_ns / spun_ns);
    if (this_half == PROOF_HALF_NOT_RUN)
      continue;
    half = this_half;
    probe->load = seen;
    set_rate(&probe->source, seen, cpu_ns / spun_ns, spun_ns);
  }
  return half;
}

/* Reads /proc/stat. Returns 0 or -errno; -ENOENT if it has no row for the
 * core. */
static int read_row(const struct probe *probe, struct procstat *stat) {
  int status = procstat_read(stat, probe->machine);
  if (status == 0 && !core_set_has(&stat->cores, probe->core))
    status = -ENOENT;
  return status;
}

/* Returns the core's idle time since boot in nanoseconds, from its idle driver
 * or, without a driver, from /proc/stat; -1 if unknown. */
static double known_idle_ns(const struct probe *probe, struct procstat *stat) {
  struct cpuidle cpuidle;
  if (cpuidle_read(&cpuidle, probe->machine, probe->core) > 0)
    return (double)cpuidle_halted_ns(&cpuidle);
  if (read_row(probe, stat) != 0)
    return -1;
  return (double)procstat_idle_ns(&stat->rows[probe->core]);
}

static enum proof_half idle_half(struct probe *probe) {
  enum proof_half half = PROOF_HALF_NOT_RUN;
  struct procstat stat = {0};
  for (int i = 0;
       i < IDLE_TRIES && half == PROOF_HALF_NOT_RUN && !cancelled(probe); i++) {
    struct perf_reading from;
    bool has_begun = perf_group_read(&probe->group, &from) == 0;
    double idle_before_ns = known_idle_ns(probe, &stat);
    uint64_t begin_ns = clock_now_ns(CLOCK_MONOTONIC);
    sleep_until(begin_ns + IDLE_NS);
    double slept_ns = (double)(clock_now_ns(CLOCK_MONOTONIC) - begin_ns);
    double idle_ns = known_idle_ns(probe, &stat) - idle_before_ns;
    probe->load = has_begun ? load_since(probe, &from) : NAN;
    if (idle_before_ns < 0)
      break;
    probe->was_away = isnan(probe->load) || !is_there(probe);
    if (!probe->was_away)
      half = proof_judge_idle(probe->load, idle_ns, slept_ns);
  }
  procstat_free(&stat);
  return half;
}

static void prove_counter(struct probe *probe) {
  enum proof_half spin = spin_half(probe);
  enum proof_half idle =
      spin == PROOF_HALF_FAILED ? PROOF_HALF_NOT_RUN : idle_half(probe);
  probe->proof =
      cancelled(probe) ? PROOF_PENDING : proof_judge_counter(spin, idle);
  if (spin == PROOF_HALF_FAILED)
    snprintf(probe->why, WHY_SIZE,
             "it read %.3f on core %d while a thread was spinning there",
             probe->load, probe->core);
  else if (idle == PROOF_HALF_FAILED)
    snprintf(
        probe->why, WHY_SIZE,
        "it read %.3f on core %d while the core was idle: it does not stop "
        "when the core halts",
        probe->load, probe->core);
  else if (probe->proof == PROOF_UNPROVEN && probe->was_away)
    snprintf(
        probe->why, WHY_SIZE,
        "it could not be read on core %d, or the core went offline, during "
        "the proof",
        probe->core);
  else if (probe->proof == PROOF_UNPROVEN)
    snprintf(probe->why, WHY_SIZE,
             "core %d was never %s for long enough to prove it", probe->core,
             spin == PROOF_HALF_NOT_RUN ? "free" : "idle");
}

/* ---------------------------------------------------------------------------
 * The tick
 */

/* Works between ticks and sleeps when they fire. Ticks fire at multiples of
 * their period on CLOCK_MONOTONIC, unless the kernel shifts them from core to
 * core (skew_tick=1); phase_ns is the shift that this attempt assumes. Returns
 * the share of time in which the thread worked. If the thread loses half a tick
 * to other work, sets probe->was_preempted and returns early. Also returns
 * early when the proof is cancelled. */
static double evade_ticks(struct probe *probe, uint64_t tick_ns,
                          uint64_t phase_ns) {
  uint64_t length_ns = TICKS * tick_ns;
  if (length_ns < TICK_PROBE_MIN_NS)
    length_ns = TICK_PROBE_MIN_NS;
  uint64_t worked_ns = 0;
  uint64_t begin_ns = clock_now_ns(CLOCK_MONOTONIC), end_ns = begin_ns;
  while (end_ns - begin_ns < length_ns && !probe->was_preempted &&
         !cancelled(probe)) {
    uint64_t tick = ((end_ns - phase_ns) / tick_ns + 1) * tick_ns + phase_ns;
    sleep_until(tick + tick_ns / 25);
    uint64_t woke_ns = clock_now_ns(CLOCK_MONOTONIC);
    uint64_t cpu_ns = clock_now_ns(CLOCK_THREAD_CPUTIME_ID);
    bool free = spin_until(tick + tick_ns - tick_ns / 10);
    end_ns = clock_now_ns(CLOCK_MONOTONIC);
    if (end_ns < woke_ns)
      continue;
    uint64_t got_ns = clock_now_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_ns;
    worked_ns += got_ns;
    probe->was_preempted = woke_ns > tick + tick_ns / 2 ||
                           end_ns > tick + 3 * tick_ns / 2 ||
                           (!free && got_ns < (end_ns - woke_ns) / 2);
  }
  return (double)worked_ns / (double)(end_ns - begin_ns);
}

/* Makes one attempt to evade the tick. Returns 0 with the verdict in
 * probe->proof, or -errno. */
static int try_tick(struct probe *probe, struct procstat *stat,
                    uint64_t tick_ns, uint64_t phase_ns) {
  int status = read_row(probe, stat);
  if (status != 0)
    return status;
  uint64_t from_ns = stat->time_ns;
  struct procstat_row from = stat->rows[probe->core];
  probe->truth = evade_ticks(probe, tick_ns, phase_ns);
  if (!is_there(probe))
    return -ENODEV;
  if (probe->was_preempted || cancelled(probe))
    return 0;
  status = read_row(probe, stat);
  if (status != 0)
    return status;
  const struct procstat_row *to = &stat->rows[probe->core];
  double wall_ns = (double)(stat->time_ns - from_ns);
  double busy_ns =
      (double)procstat_busy_ns(to) - (double)procstat_busy_ns(&from);
  double idle_ns =
      (double)procstat_idle_ns(to) - (double)procstat_idle_ns(&from);
  probe->load = 1 - idle_ns / wall_ns;
  probe->proof = proof_judge_tick(probe->truth, busy_ns / wall_ns, probe->load);
  probe->exact +=
      proof_columns_are_exact(probe->truth, busy_ns / wall_ns, probe->load);
  if (probe->exact >= EXACT_TRIES && probe->proof == PROOF_PENDING)
    probe->proof = PROOF_PROVEN;
  return 0;
}

/* Returns 0 or -errno. */
static int prove_tick(struct probe *probe) {
  struct procstat stat = {0};
  struct timespec tick; /* the coarse clock advances once per tick */
  int status = clock_getres(CLOCK_MONOTONIC_COARSE, &tick) == 0 ? 0 : -errno;
  for (uint64_t i = 0;
       i < TICK_TRIES && status == 0 && probe->proof == PROOF_PENDING &&
       !probe->was_preempted && !cancelled(probe);
       i++)
    status = try_tick(probe, &stat, (uint64_t)tick.tv_nsec,
                      (uint64_t)tick.tv_nsec * i / TICK_TRIES);
  procstat_free(&stat);
  if (status != 0 || cancelled(probe))
    return status;
  if (probe->proof == PROOF_TICK_SAMPLED)
    snprintf(
        probe->why, WHY_SIZE,
        "it read %.2f on core %d while a thread that sleeps through each "
        "tick used %.2f of the core: the kernel samples idle time at the tick",
        probe->load, probe->core, probe->truth);
  if (probe->proof != PROOF_PENDING)
    return 0;
  probe->proof = PROOF_UNPROVEN;
  snprintf(probe->why, WHY_SIZE,
           "other work ran on core %d during the whole proof; it is repeated "
           "when the core is idle",
           probe->core);
  return 0;
}

/* ---------------------------------------------------------------------------
 * Beginning and end
 */

static void *run_proof(void *argument) {
  struct probe *probe = argument;
  int status = affinity_pin(probe->core);
  if (status == 0 && probe->source.kind == SOURCE_IDLE)
    status = prove_tick(probe);
  else if (status == 0)
    prove_counter(probe);
  if (status != 0) {
    probe->proof = PROOF_UNPROVEN;
    snprintf(probe->why, WHY_SIZE, "the proof on core %d failed: %s",
             probe->core, strerror(-status));
  }
  atomic_store_explicit(&probe->ended, true, memory_order_release);
  return NULL;
}

int probe_start(struct probe **result, const struct machine *machine, int core,
                const struct source *source, const atomic_bool *cancel) {
  struct probe *probe = calloc(1, sizeof(*probe));
  int status = 0;
  if (probe == NULL)
    return -ENOMEM;
  probe->machine = machine;
  probe->core = core;
  probe->source = *source;
  probe->cancel = cancel;
  if (source->kind != SOURCE_IDLE)
    status = source_open(source, &probe->group, machine, core, false);
  if (status == 0)
    status = thread_start(&probe->thread, run_proof, probe);
  if (status == 0) {
    *result = probe;
    return 0;
  }
  perf_group_close(&probe->group);
  free(probe);
  return status;
}

bool probe_ended(const struct probe *probe) {
  return atomic_load_explicit(&probe->ended, memory_order_acquire);
}

enum proof probe_end(struct probe *probe, struct source *source,
                     char why[WHY_SIZE]) {
  pthread_join(probe->thread, NULL);
  enum proof proof = probe->proof;
  *source = probe->source;
  memcpy(why, probe->why, WHY_SIZE);
  perf_group_close(&probe->group);
  free(probe);
  return proof;
}
