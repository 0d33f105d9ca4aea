/* Simulates schedulers that place jobs on 64 cores. They see the loads as a
 * board shows them: those of its last interval. A job needs a core for a random
 * time, alone; n jobs on a core get a n-th of it each. Prints, for each rule of
 * choice, the number of jobs on the busiest core (over a second) and the
 * slowdown of jobs (time taken / time needed), each as mean and as 99th
 * percentile. Fails if percore's rule is worse than random, or by more than 10
 * % worse than the best. */
#include "board/choose.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CORES 64
#define LOAD 0.6
#define WARM_S 100.
#define DURATION_S 10000.
#define LOOK_S 1.
#define JOBS_MAX 4096 /* on one core */
#define SAMPLES_MAX (1 << 20)
#define SCHEDULERS_MAX 100
#define FIGURES 4

enum rule { RANDOM, IN_TURNS, LEAST_LOADED, TWO_CHOICES, OURS, RULES };
static const char *const rules[RULES] = {
    "random", "round robin", "least loaded", "two choices", "percore"};

struct job {
  double end; /* in the virtual time of its core */
  double begin, length;
};

/* The virtual time of a core is how much of it each of its jobs got. */
struct core {
  double virtual_time, since, next;
  double busy, demand; /* in the board's interval; of LOOK_S */
  int len;
  struct job jobs[JOBS_MAX];
};

struct samples {
  size_t len;
  float list[SAMPLES_MAX];
};

static struct core cores[CORES];
static struct samples busiest, slowdown;
static double board[CORES];
static uint64_t state;

static double uniform(void) {
  uint64_t x = state += UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return (double)((x ^ x >> 31) >> 11) * 0x1p-53;
}

static int below(int n) { return (int)(uniform() * n); }
static double exponential(void) { return -log(1 - uniform()); }

/* A Pareto distribution, alpha 1.5, from 1/3 s to 1000/3 s: the mean is 1 s. */
static double heavy_tailed(void) {
  const double low = 1 / 3., high = 1000 / 3., alpha = 1.5;
  double rest = 1 - pow(low / high, alpha);
  return low * pow(1 - uniform() * rest, -1 / alpha);
}

/* ---------------------------------------------------------------------------
 * Cores
 */

static void advance(struct core *core, double now) {
  double passed = now - core->since;
  core->since = now;
  if (core->len == 0)
    return;
  core->virtual_time += passed / core->len;
  core->busy += passed;
  core->demand += passed * core->len;
}

static int first_job(const struct core *core) {
  int first = 0;
  for (int i = 1; i < core->len; i++)
    if (core->jobs[i].end < core->jobs[first].end)
      first = i;
  return first;
}

static void plan(struct core *core) {
  core->next = INFINITY;
  if (core->len > 0)
    core->next =
        core->since + core->len * fmax(0, core->jobs[first_job(core)].end -
                                              core->virtual_time);
}

static void note(struct samples *samples, double now, double value) {
  if (now > WARM_S && samples->len < SAMPLES_MAX)
    samples->list[samples->len++] = (float)value;
}

static void end_job(struct core *core, double now) {
  advance(core, now);
  int first = first_job(core);
  const struct job *job = &core->jobs[first];
  note(&slowdown, now, (now - job->begin) / job->length);
  core->jobs[first] = core->jobs[--core->len];
  plan(core);
}

static void begin_job(struct core *core, double now, double length) {
  advance(core, now);
  if (core->len < JOBS_MAX)
    core->jobs[core->len++] =
        (struct job){core->virtual_time + length, now, length};
  plan(core);
}

/* ---------------------------------------------------------------------------
 * Schedulers
 */

struct scheduler {
  struct chooser *chooser;
  int turn;
};

static int least_loaded(void) {
  int least = 0, ties = 0;
  for (int i = 0; i < CORES; i++) {
    if (board[i] < board[least])
      ties = 0;
    if (board[i] < board[least] ||
        (board[i] <= board[least] && below(++ties) == 0))
      least = i;
  }
  return least;
}

static int choose(enum rule rule, struct scheduler *scheduler) {
  double room[CORES];
  int one = below(CORES), other = below(CORES);
  switch (rule) {
  case RANDOM:
    return one;
  case IN_TURNS:
    return scheduler->turn++ % CORES;
  case LEAST_LOADED:
    return least_loaded();
  case TWO_CHOICES:
    return board[other] < board[one] ? other : one;
  default:
    for (int i = 0; i < CORES; i++)
      room[i] = 1 - board[i];
    return chooser_pick(scheduler->chooser, room, 1);
  }
}

/* ---------------------------------------------------------------------------
 * A run
 */

struct setting {
  bool heavy;
  double age_s;
  int schedulers;
};

static void publish(double now, const struct setting *setting,
                    struct scheduler *schedulers) {
  for (int i = 0; i < CORES; i++) {
    advance(&cores[i], now);
    board[i] = fmin(1, cores[i].busy / setting->age_s);
    cores[i].busy = 0;
  }
  for (int i = 0; i < setting->schedulers; i++)
    chooser_learn(schedulers[i].chooser, board);
}

static void look(double now) {
  double most = 0;
  for (int i = 0; i < CORES; i++) {
    advance(&cores[i], now);
    most = fmax(most, cores[i].demand / LOOK_S);
    cores[i].demand = 0;
  }
  note(&busiest, now, most);
}

static int compare(const void *a, const void *b) {
  float x = *(const float *)a, y = *(const float *)b;
  return (x > y) - (x < y);
}

static void summarize(struct samples *samples, double figures[2]) {
  double sum = 0;
  for (size_t i = 0; i < samples->len; i++)
    sum += (double)samples->list[i];
  qsort(samples->list, samples->len, sizeof(float), compare);
  figures[0] = sum / (double)samples->len;
  figures[1] = (double)samples->list[samples->len * 99 / 100];
}

static void run(enum rule rule, const struct setting *setting,
                double figures[FIGURES]) {
  static struct scheduler schedulers[SCHEDULERS_MAX];
  double arrival = 0, publication = setting->age_s, look_at = LOOK_S, now = 0;
  state = 1;
  memset(cores, 0, sizeof(cores));
  memset(board, 0, sizeof(board));
  busiest.len = slowdown.len = 0;
  for (int i = 0; i < CORES; i++)
    plan(&cores[i]);
  for (int i = 0; i < setting->schedulers; i++)
    schedulers[i] =
        (struct scheduler){chooser_open(CORES, (uint64_t)i), below(CORES)};
  while (now < WARM_S + DURATION_S) {
    struct core *ends = &cores[0];
    for (int i = 1; i < CORES; i++)
      if (cores[i].next < ends->next)
        ends = &cores[i];
    now = fmin(fmin(arrival, publication), fmin(look_at, ends->next));
    if (now == ends->next) {
      end_job(ends, now);
    } else if (now == publication) {
      publish(now, setting, schedulers);
      publication += setting->age_s;
    } else if (now == look_at) {
      look(now);
      look_at += LOOK_S;
    } else {
      struct scheduler *scheduler = &schedulers[below(setting->schedulers)];
      double length = setting->heavy ? heavy_tailed() : exponential();
      begin_job(&cores[choose(rule, scheduler)], now, length);
      arrival = now + exponential() / (LOAD * CORES);
    }
  }
  for (int i = 0; i < setting->schedulers; i++)
    free(schedulers[i].chooser);
  summarize(&busiest, figures);
  summarize(&slowdown, figures + 2);
}

/* Returns whether percore's rule is good enough in this setting. */
static bool compare_rules(const struct setting *setting) {
  double figures[RULES][FIGURES];
  bool good = true;
  for (int rule = 0; rule < RULES; rule++)
    run((enum rule)rule, setting, figures[rule]);
  for (int rule = 0; rule < RULES; rule++) {
    printf("%s\t%g\t%d\t%s", setting->heavy ? "heavy-tailed" : "exponential",
           setting->age_s, setting->schedulers, rules[rule]);
    for (int i = 0; i < FIGURES; i++)
      printf("\t%.2f", figures[rule][i]);
    putchar('\n');
  }
  for (int i = 0; i < FIGURES; i++) {
    double ours = figures[OURS][i], best = INFINITY;
    for (int rule = 0; rule < RULES; rule++)
      best = fmin(best, figures[rule][i]);
    if (ours <= figures[RANDOM][i] && ours <= 1.1 * best)
      continue;
    good = false;
    fprintf(stderr, "age %g, %d schedulers: %.2f, random %.2f, best %.2f\n",
            setting->age_s, setting->schedulers, ours, figures[RANDOM][i],
            best);
  }
  return good;
}

int main(void) {
  static const double ages_s[] = {0.1, 1, 10};
  static const int counts[] = {1, 10, SCHEDULERS_MAX};
  bool good = true;
  puts(
      "jobs\tage\tschedulers\trule\tbusiest mean\tbusiest 99 %\tslowdown mean\t"
      "slowdown 99 %");
  for (int heavy = 0; heavy < 2; heavy++)
    for (int age = 0; age < 3; age++)
      for (int count = 0; count < 3; count++)
        good &= compare_rules(
            &(struct setting){heavy != 0, ages_s[age], counts[count]});
  return good ? 0 : 1;
}
