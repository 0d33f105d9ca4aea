/* Simulates a core on which a job runs for a fifth of each of its periods, and
 * load averages over a minute that take a new load at fixed intervals: whether
 * the job runs at that moment, or how long it ran since the last moment. Prints
 * by how much these averages differ at most, in an hour, from the average that
 * is told of each begin and end of the job. Fails if those of percore differ by
 * more than 1 % of the core. */
#include "cycles/loadavg.h"

#include <math.h>
#include <stdio.h>

#define MILLISECOND INT64_C(1000000)
#define SECOND (1000 * MILLISECOND)
#define WARM_NS (600 * SECOND)
#define END_NS (4200 * SECOND)
#define AVERAGE_S 60
#define PHASES 16

/* How averages take their loads. On a kernel with 250 ticks per second, a tick
 * is 4 ms. */
static const struct method {
  const char *name;
  int64_t interval_ns;
  bool integrates;
} methods[] = {{"5 s + tick", 5004 * MILLISECOND, false},
               {"5 s", 5 * SECOND, false},
               {"60/13 s", (int64_t)LOADAVG_INTERVAL_NS, false},
               {"percore", (int64_t)LOADAVG_INTERVAL_NS, true}};
enum { METHODS = sizeof(methods) / sizeof(methods[0]) };

struct job {
  int64_t period_ns, runs_ns, phase_ns;
};

static bool runs(const struct job *job, int64_t now_ns) {
  return (now_ns + job->phase_ns) % job->period_ns < job->runs_ns;
}

/* Returns the time until the job begins or ends. */
static int64_t left_ns(const struct job *job, int64_t now_ns) {
  int64_t at_ns = (now_ns + job->phase_ns) % job->period_ns;
  return (at_ns < job->runs_ns ? job->runs_ns : job->period_ns) - at_ns;
}

/* Adds the job's time up to `end_ns` to the exact average, and returns it. */
static int64_t advance(const struct job *job, int64_t now_ns, int64_t end_ns,
                       struct loadavg *exact) {
  int64_t ran_ns = 0;
  while (now_ns < end_ns) {
    int64_t step_ns = left_ns(job, now_ns);
    if (step_ns > end_ns - now_ns)
      step_ns = end_ns - now_ns;
    bool running = runs(job, now_ns);
    ran_ns += running ? step_ns : 0;
    loadavg_update(exact, running, (double)step_ns / SECOND, AVERAGE_S);
    now_ns += step_ns;
  }
  return ran_ns;
}

static double greatest_error(const struct method *method,
                             const struct job *job) {
  struct loadavg average, exact;
  double greatest = 0, interval_s = (double)method->interval_ns / SECOND;
  loadavg_start(&average, (double)job->runs_ns / (double)job->period_ns);
  exact = average;
  for (int64_t now_ns = 0; now_ns < END_NS; now_ns += method->interval_ns) {
    int64_t end_ns = now_ns + method->interval_ns;
    int64_t ran_ns = advance(job, now_ns, end_ns, &exact);
    double load = method->integrates
                      ? (double)ran_ns / (double)method->interval_ns
                      : runs(job, end_ns);
    loadavg_update(&average, load, interval_s, AVERAGE_S);
    if (end_ns > WARM_NS)
      greatest =
          fmax(greatest, fabs(loadavg_get(&average) - loadavg_get(&exact)));
  }
  return greatest;
}

/* Returns the greatest error of jobs with this period, whenever they begin. */
static double greatest_of_phases(const struct method *method,
                                 int64_t period_ns) {
  double greatest = 0;
  for (int phase = 0; phase < PHASES; phase++) {
    struct job job = {.period_ns = period_ns,
                      .runs_ns = period_ns / 5,
                      .phase_ns = period_ns * phase / PHASES};
    greatest = fmax(greatest, greatest_error(method, &job));
  }
  return greatest;
}

int main(void) {
  static const int shown_ms[] = {500,  1000, 2000, 2500,
                                 4600, 5000, 7500, 10000};
  double worst[METHODS] = {0};
  printf("greatest error of a load average over a minute, of a job that takes "
         "20 %% of a core:\nperiod (s)");
  for (int m = 0; m < METHODS; m++)
    printf("%12s", methods[m].name);
  for (size_t i = 0; i < sizeof(shown_ms) / sizeof(shown_ms[0]); i++) {
    printf("\n%10.1f", shown_ms[i] / 1e3);
    for (int m = 0; m < METHODS; m++)
      printf("%10.1f %%",
             100 * greatest_of_phases(&methods[m], shown_ms[i] * MILLISECOND));
  }
  printf("\n0.5 to 10 ");
  for (int m = 0; m < METHODS; m++) {
    for (int period_ms = 500; period_ms <= 10000; period_ms += 100)
      worst[m] = fmax(worst[m],
                      greatest_of_phases(&methods[m], period_ms * MILLISECOND));
    printf("%10.1f %%", 100 * worst[m]);
  }
  printf("\n");
  return worst[METHODS - 1] <= 0.01 ? 0 : 1;
}
