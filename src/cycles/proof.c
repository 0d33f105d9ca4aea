#include "proof.h"

#include "cpuidle.h"
#include "procstat.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
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
#define TICK_PROBE_MIN_NS UINT64_C(100000000)

/* ---------------------------------------------------------------------------
 * Judgement
 */

enum proof_half proof_judge_spin(double load, double cpu_share) {
  if (!(cpu_share >= 0.95))
    return PROOF_HALF_NOT_RUN;
  return load >= 0.97 && load <= 1.02 ? PROOF_HALF_PASSED : PROOF_HALF_FAILED;
}

enum proof_half proof_judge_idle(double load, double idle_ns, double wall_ns) {
  if (!(idle_ns >= IDLE_MIN_NS) || !(wall_ns > 0))
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

enum proof proof_judge_tick(double truth, double columns, double load) {
  if (!(truth >= 0.6))
    return PROOF_PENDING;
  if (load <= 0.5)
    return PROOF_TICK_SAMPLED;
  return columns < 0.5 ? PROOF_PROVEN : PROOF_PENDING;
}

/* ---------------------------------------------------------------------------
 * The thread
 */

struct probe {
  const struct machine *machine;
  int core;
  const struct proof_source *source; /* NULL: the tick probe */
  const atomic_bool *cancel;
  char *why;
  size_t why_size;
  enum proof proof;
};

static uint64_t now_ns(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
}

static void sleep_until(uint64_t deadline_ns) {
  struct timespec time = {.tv_sec = (time_t)(deadline_ns / 1000000000),
                          .tv_nsec = (long)(deadline_ns % 1000000000)};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) == EINTR)
    ;
}

static void spin_until(uint64_t deadline_ns) {
  while (now_ns(CLOCK_MONOTONIC) < deadline_ns)
    ;
}

static bool cancelled(const struct probe *probe) {
  return probe->cancel != NULL &&
         atomic_load_explicit(probe->cancel, memory_order_relaxed);
}

static int pin(int core) {
  /* glibc's cpu_set_t ends at 1024 cores. */
  cpu_set_t *set = CPU_ALLOC(CORES_MAX);
  size_t size = CPU_ALLOC_SIZE(CORES_MAX);
  if (set == NULL)
    return -ENOMEM;
  CPU_ZERO_S(size, set);
  CPU_SET_S((size_t)core, size, set);
  int status = sched_setaffinity(0, size, set) == 0 ? 0 : -errno;
  CPU_FREE(set);
  return status;
}

static enum proof run_in_thread(struct probe *probe, void *(*run)(void *)) {
  pthread_t thread;
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  int status = pthread_create(&thread, NULL, run, probe);
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  if (status != 0) {
    snprintf(probe->why, probe->why_size, "no thread for the proof: %s",
             strerror(status));
    return PROOF_UNPROVEN;
  }
  pthread_join(thread, NULL);
  return probe->proof;
}

/* ---------------------------------------------------------------------------
 * Counters: spin, then sleep
 */

/* Load between two reads of the source, NAN if it cannot be read. */
static double source_load(const struct probe *probe, double *unhalted_ns,
                          double *wall_ns) {
  double unhalted_before = *unhalted_ns, wall_before = *wall_ns;
  if (probe->source->read(probe->source->context, unhalted_ns, wall_ns) != 0)
    return NAN;
  return (*unhalted_ns - unhalted_before) / (*wall_ns - wall_before);
}

static enum proof_half spin_half(const struct probe *probe, double *load) {
  enum proof_half half = PROOF_HALF_NOT_RUN;
  for (int i = 0; i < SPIN_TRIES && !cancelled(probe); i++) {
    double unhalted_ns = 0, wall_ns = 0;
    source_load(probe, &unhalted_ns, &wall_ns);
    uint64_t begin_ns = now_ns(CLOCK_MONOTONIC);
    uint64_t cpu_begin_ns = now_ns(CLOCK_THREAD_CPUTIME_ID);
    spin_until(begin_ns + SPIN_NS);
    double cpu_ns = (double)(now_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_begin_ns);
    double spun_ns = (double)(now_ns(CLOCK_MONOTONIC) - begin_ns);
    double seen = source_load(probe, &unhalted_ns, &wall_ns);
    enum proof_half this_half = proof_judge_spin(seen, cpu_ns / spun_ns);
    if (this_half == PROOF_HALF_NOT_RUN)
      continue;
    *load = seen;
    half = this_half;
    if (half == PROOF_HALF_PASSED)
      break;
  }
  return half;
}

/* Idle time of the core as its idle driver has it, or /proc/stat where there is
 * no driver; -1 where neither says. */
static double known_idle_ns(const struct probe *probe, struct procstat *stat) {
  struct cpuidle cpuidle;
  if (cpuidle_read(&cpuidle, probe->machine, probe->core) > 0)
    return (double)cpuidle_halted_ns(&cpuidle);
  if (procstat_read(stat, probe->machine) != 0 ||
      !core_set_has(&stat->cores, probe->core))
    return -1;
  return (double)procstat_idle_ns(&stat->rows[probe->core]);
}

static enum proof_half idle_half(const struct probe *probe, double *load) {
  enum proof_half half = PROOF_HALF_NOT_RUN;
  struct procstat stat = {0};
  for (int i = 0; i < IDLE_TRIES && !cancelled(probe); i++) {
    double unhalted_ns = 0, wall_ns = 0;
    source_load(probe, &unhalted_ns, &wall_ns);
    double idle_before_ns = known_idle_ns(probe, &stat);
    uint64_t begin_ns = now_ns(CLOCK_MONOTONIC);
    sleep_until(begin_ns + IDLE_NS);
    double slept_ns = (double)(now_ns(CLOCK_MONOTONIC) - begin_ns);
    double idle_ns = known_idle_ns(probe, &stat) - idle_before_ns;
    double seen = source_load(probe, &unhalted_ns, &wall_ns);
    if (idle_before_ns < 0)
      break;
    enum proof_half this_half = proof_judge_idle(seen, idle_ns, slept_ns);
    if (this_half == PROOF_HALF_NOT_RUN)
      continue;
    *load = seen;
    half = this_half;
    break;
  }
  procstat_free(&stat);
  return half;
}

static void *counter_thread(void *argument) {
  struct probe *probe = argument;
  double spin_load = NAN, idle_load = NAN;
  int status = pin(probe->core);
  if (status != 0) {
    snprintf(probe->why, probe->why_size, "core %d may not be used: %s",
             probe->core, strerror(-status));
    probe->proof = PROOF_UNPROVEN;
    return NULL;
  }
  enum proof_half spin = spin_half(probe, &spin_load);
  enum proof_half idle = spin == PROOF_HALF_FAILED
                             ? PROOF_HALF_NOT_RUN
                             : idle_half(probe, &idle_load);
  probe->proof =
      cancelled(probe) ? PROOF_PENDING : proof_judge_counter(spin, idle);
  if (spin == PROOF_HALF_FAILED)
    snprintf(probe->why, probe->why_size,
             "it read %.3f on core %d while a thread was spinning there",
             spin_load, probe->core);
  else if (idle == PROOF_HALF_FAILED)
    snprintf(probe->why, probe->why_size,
             "it read %.3f on core %d while that was idle: it does not stop "
             "when the core halts",
             idle_load, probe->core);
  else if (probe->proof == PROOF_UNPROVEN)
    snprintf(probe->why, probe->why_size,
             "core %d was never %s for long enough to prove it", probe->core,
             spin == PROOF_HALF_NOT_RUN ? "free" : "idle");
  return NULL;
}

enum proof proof_run_counter(const struct machine *machine, int core,
                             const struct proof_source *source,
                             const atomic_bool *cancel, char *why,
                             size_t why_size) {
  struct probe probe = {machine, core,     source,        cancel,
                        why,     why_size, PROOF_UNPROVEN};
  return run_in_thread(&probe, counter_thread);
}

/* ---------------------------------------------------------------------------
 * The tick
 */

/* Works between ticks and sleeps over them. The tick falls on multiples of its
 * period on CLOCK_MONOTONIC, unless the kernel shifts it from core to core
 * (skew_tick=1): phase_ns is what this try assumes. Returns the share of the
 * time that was worked. */
static double evade_ticks(const struct probe *probe, uint64_t tick_ns,
                          uint64_t phase_ns) {
  uint64_t length_ns = TICKS * tick_ns;
  if (length_ns < TICK_PROBE_MIN_NS)
    length_ns = TICK_PROBE_MIN_NS;
  uint64_t worked_ns = 0;
  uint64_t begin_ns = now_ns(CLOCK_MONOTONIC), end_ns = begin_ns;
  while (end_ns - begin_ns < length_ns && !cancelled(probe)) {
    uint64_t tick = ((end_ns - phase_ns) / tick_ns + 1) * tick_ns + phase_ns;
    sleep_until(tick + tick_ns / 25);
    uint64_t woke_ns = now_ns(CLOCK_MONOTONIC);
    uint64_t cpu_ns = now_ns(CLOCK_THREAD_CPUTIME_ID);
    spin_until(tick + tick_ns - tick_ns / 10);
    end_ns = now_ns(CLOCK_MONOTONIC);
    if (end_ns < woke_ns)
      continue;
    worked_ns += now_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_ns;
  }
  return (double)worked_ns / (double)(end_ns - begin_ns);
}

struct tick_reading {
  double time_ns, busy_ns, idle_ns;
};

static int read_tick(const struct probe *probe, struct procstat *stat,
                     struct tick_reading *reading) {
  int status = procstat_read(stat, probe->machine);
  if (status != 0)
    return status;
  if (!core_set_has(&stat->cores, probe->core))
    return -ENOENT;
  const struct procstat_row *row = &stat->rows[probe->core];
  *reading = (struct tick_reading){
      (double)stat->time_ns, (double)procstat_busy_ns(row),
      (double)(procstat_idle_ns(row) + row->ns[PROCSTAT_STEAL])};
  return 0;
}

static void *tick_thread(void *argument) {
  struct probe *probe = argument;
  struct procstat stat = {0};
  struct timespec resolution;
  int status = pin(probe->core);
  /* The coarse clock moves once per tick. */
  if (status == 0 && clock_getres(CLOCK_MONOTONIC_COARSE, &resolution) != 0)
    status = -errno;
  uint64_t tick_ns = status == 0 ? (uint64_t)resolution.tv_nsec : 0;
  probe->proof = PROOF_PENDING;
  double truth = 0, load = 0;
  for (int i = 0; i < TICK_TRIES && status == 0 && !cancelled(probe) &&
                  probe->proof == PROOF_PENDING;
       i++) {
    struct tick_reading from, to;
    if ((status = read_tick(probe, &stat, &from)) != 0)
      break;
    truth = evade_ticks(probe, tick_ns, tick_ns * (uint64_t)i / TICK_TRIES);
    if ((status = read_tick(probe, &stat, &to)) != 0)
      break;
    double wall_ns = to.time_ns - from.time_ns;
    load = 1 - (to.idle_ns - from.idle_ns) / wall_ns;
    probe->proof =
        proof_judge_tick(truth, (to.busy_ns - from.busy_ns) / wall_ns, load);
  }
  procstat_free(&stat);
  if (status != 0)
    snprintf(probe->why, probe->why_size, "the proof on core %d failed: %s",
             probe->core, strerror(-status));
  else if (probe->proof == PROOF_TICK_SAMPLED)
    snprintf(probe->why, probe->why_size,
             "it read %.2f on core %d while a thread that sleeps over the tick "
             "had %.2f of it: the kernel samples idle time by the tick",
             load, probe->core, truth);
  else if (probe->proof == PROOF_PENDING)
    snprintf(probe->why, probe->why_size,
             "core %d was never free enough to prove it", probe->core);
  if (probe->proof == PROOF_PENDING && !cancelled(probe))
    probe->proof = PROOF_UNPROVEN;
  return NULL;
}

enum proof proof_run_tick(const struct machine *machine, int core,
                          const atomic_bool *cancel, char *why,
                          size_t why_size) {
  struct probe probe = {machine, core,     NULL,          cancel,
                        why,     why_size, PROOF_UNPROVEN};
  return run_in_thread(&probe, tick_thread);
}
