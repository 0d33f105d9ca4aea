#include "softirq_clock.h"

#include "engine_private.h"
#include "kernel_clock.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORDS (SOFTIRQ_CONTEXTS * SOFTIRQ_VECTORS)

#define RETRY_FIRST_NS (10 * NS_PER_S)
#define RETRY_MAX_NS (600 * NS_PER_S)

/* The sums of one core. */
struct sums {
  int64_t time_ns; /* CLOCK_MONOTONIC; 0: unknown, and all sums are 0 */
  int64_t hard_ns;
  int64_t softirq_ns[WORDS];
};

struct softirq_clock {
  const struct engine *engine;
  struct kernel_clock kernel;
  bool loaded;
  struct backoff backoff;
  bool vector[SOFTIRQ_VECTORS]; /* whether it has run on any core */
  /* One per possible core, in ascending order. Pages that are never written
   * take no memory. */
  struct softirq_words words[CORES_MAX + 1];
  struct sums sums[CORES_MAX];
};

const char *softirq_vector_name(int vector) {
  static const char *const names[SOFTIRQ_VECTORS] = {
      "hi",       "timer",   "net_tx", "net_rx",  "block",
      "irq_poll", "tasklet", "sched",  "hrtimer", "rcu",
  };
  return names[vector];
}

/* ---------------------------------------------------------------------------
 * Opening
 */

struct softirq_clock *softirq_clock_open(const struct engine *engine) {
  struct softirq_clock *clock = calloc(1, sizeof(*clock));
  if (clock == NULL)
    return NULL;
  clock->engine = engine;
  kernel_clock_init(&clock->kernel, engine->options.machine,
                    &engine->topology.possible);
  return clock;
}

static void unload(struct softirq_clock *clock) {
  if (clock->loaded)
    clock->kernel.machine->clocks->close(&clock->kernel.programs);
  clock->loaded = false;
  memset(clock->sums, 0, (size_t)clock->kernel.cores * sizeof(*clock->sums));
}

void softirq_clock_close(struct softirq_clock *clock) {
  if (clock == NULL)
    return;
  unload(clock);
  free(clock);
}

/* True if the kernel is built with PREEMPT_RT: a task may then run in the
 * middle of a softirq. */
static bool preempts_softirqs(const struct machine *machine) {
  uint64_t realtime;
  return machine_read_u64(machine, &realtime, "/sys/kernel/realtime") == 0 &&
         realtime != 0;
}

static int load(struct softirq_clock *clock, char why[WHY_SIZE]) {
  const struct machine *machine = clock->kernel.machine;
  const char *reason = NULL;
  if (!clock->engine->options.hardware)
    reason = "SysRoot may belong to another kernel; set HostPerf true if it "
             "belongs to this one";
  else if (preempts_softirqs(machine))
    reason = "tasks preempt softirqs on this kernel (PREEMPT_RT)";
  else if (topology_any_isolated(&clock->engine->topology))
    reason = "loading its programs would interrupt isolated cores";
  if (reason == NULL)
    return machine->clocks->open(&clock->kernel.programs, CLOCK_SOFTIRQ,
                                 &(bool){false}, why);
  return why_fails(why, -ENOTSUP, "%s", reason);
}

static void put_off(struct softirq_clock *clock, const char *why) {
  const struct engine_options *options = &clock->engine->options;
  if (clock->backoff.wait_ns == 0)
    journal_say(&options->journal, JOURNAL_WARNING,
                "time in softirqs is not known: %s", why);
  backoff_extend(&clock->backoff, clock->engine->time_ns, RETRY_FIRST_NS,
                 RETRY_MAX_NS);
}

static void try_to_load(struct softirq_clock *clock) {
  char why[WHY_SIZE] = "";
  if (clock->engine->time_ns < clock->backoff.until_ns)
    return;
  clock->loaded = load(clock, why) == 0;
  if (!clock->loaded)
    put_off(clock, why);
}

/* ---------------------------------------------------------------------------
 * Reading
 */

static void note_vectors(struct softirq_clock *clock) {
  for (int i = 0; i < clock->kernel.cores; i++)
    for (int word = 0; word < WORDS; word++)
      clock->vector[word % SOFTIRQ_VECTORS] |=
          clock->words[i].softirq[word] != 0;
}

/* If every attempt to read takes too long, the figures are unknown in this
 * window, and the next window also covers it. */
void softirq_clock_read(struct softirq_clock *clock) {
  struct kernel_clock *kernel = &clock->kernel;
  if (!clock->loaded)
    try_to_load(clock);
  if (!clock->loaded)
    return;
  int status = kernel_clock_read(kernel, clock->words);
  if (status != 0 && status != -EAGAIN) {
    unload(clock);
    put_off(clock, strerror(-status));
    return;
  }
  if (kernel->last_bracket_ns > KERNEL_CLOCK_BRACKET_NS)
    kernel->time_ns = 0; /* these figures have no bounds */
  clock->backoff.wait_ns = 0;
  note_vectors(clock);
}

/* ---------------------------------------------------------------------------
 * One core
 */

/* Returns false if the words are impossible. */
static bool advance(const struct kernel_clock *kernel,
                    const struct softirq_words *words, struct sums *sums) {
  bool possible = kernel_clock_advance(kernel, kernel->time_ns, words->hard,
                                       &sums->hard_ns);
  for (int i = 0; i < WORDS; i++)
    possible &= kernel_clock_advance(kernel, kernel->time_ns - sums->hard_ns,
                                     words->softirq[i], &sums->softirq_ns[i]);
  sums->time_ns = kernel->time_ns;
  return possible;
}

/* Computes shares of wall time from the growth of sums. Returns false if no
 * time has passed, or if the sums have grown by too much. The words are not all
 * read at the same instant, so their growth may exceed wall time by the
 * duration of the reads. */
static bool to_shares(const struct kernel_clock *kernel,
                      const struct sums *from, const struct sums *to,
                      struct softirq_figures *figures) {
  double hard_ns = (double)(to->hard_ns - from->hard_ns);
  double wall_ns = (double)(to->time_ns - from->time_ns);
  double ns[WORDS], all_ns = hard_ns;
  for (int i = 0; i < WORDS; i++) {
    ns[i] = (double)(to->softirq_ns[i] - from->softirq_ns[i]);
    all_ns += ns[i];
  }
  if (!(wall_ns > 0) ||
      all_ns >
          wall_ns + 2 * (double)(KERNEL_CLOCK_BRACKET_NS + kernel->bracket_ns))
    return false;
  double unit_ns = fmax(wall_ns, all_ns);
  *figures = (struct softirq_figures){.hard = hard_ns / unit_ns};
  for (int i = 0; i < WORDS; i++) {
    figures->softirq += ns[i] / unit_ns;
    figures->context[i / SOFTIRQ_VECTORS] += ns[i] / unit_ns;
    figures->vector[i % SOFTIRQ_VECTORS] += ns[i] / unit_ns;
  }
  return true;
}

static struct softirq_figures unknown(void) {
  struct softirq_figures figures; /* all members are double */
  double each[sizeof(figures) / sizeof(double)];
  for (size_t i = 0; i < sizeof(each) / sizeof(each[0]); i++)
    each[i] = NAN;
  memcpy(&figures, each, sizeof(figures));
  return figures;
}

struct softirq_figures softirq_clock_core(struct softirq_clock *clock,
                                          int core) {
  struct softirq_figures figures = unknown();
  if (clock == NULL || clock->kernel.time_ns == 0 ||
      !core_set_has(&clock->kernel.possible, core))
    return figures;
  int place = clock->kernel.places[core];
  struct sums *sums = &clock->sums[place], from = *sums;
  if (!advance(&clock->kernel, &clock->words[place], sums) ||
      (from.time_ns > 0 && !to_shares(&clock->kernel, &from, sums, &figures)))
    *sums = (struct sums){0};
  for (int i = 0; i < SOFTIRQ_VECTORS; i++)
    if (!clock->vector[i])
      figures.vector[i] = NAN;
  return figures;
}
