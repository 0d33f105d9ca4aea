#include "engine_private.h"
#include "proof.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An inconclusive proof is repeated after this delay, which doubles each time
 * up to the maximum. */
#define PROOF_RETRY_FIRST_NS (60 * NS_PER_S)
#define PROOF_RETRY_MAX_NS (900 * NS_PER_S)

/* Returns a core that can use the source and on which a test thread may run
 * briefly: online, allowed to this process, and not isolated. Successive values
 * of `tries` select different cores. Returns -1 if there is no such core. */
static int proof_core(const struct engine *engine, const struct source *source,
                      int tries) {
  cpu_set_t *mask = CPU_ALLOC(CORES_MAX);
  size_t size = CPU_ALLOC_SIZE(CORES_MAX);
  struct core_set allowed = {0};
  if (mask != NULL && sched_getaffinity(0, size, mask) == 0)
    for (int core = 0; core < CORES_MAX; core++)
      if (CPU_ISSET_S((size_t)core, size, mask))
        core_set_add(&allowed, core);
  CPU_FREE(mask);
  core_set_intersect(&allowed, &engine->topology.online);
  core_set_subtract(&allowed, &engine->topology.isolated);
  core_set_intersect(&allowed, &source->cores);
  int count = core_set_count(&allowed);
  if (count == 0)
    return -1;
  int core = -1;
  for (int skip = tries % count; skip >= 0; skip--)
    core = core_set_next(&allowed, core);
  return core;
}

/* A running proof. It works on a copy of the source, because the engine may
 * change the source while the proof runs. */
struct proof_run {
  struct source *proven;
  struct source copy;
  struct perf_group group;
  struct probe *probe;
};

/* Records the result of a proof, and reports it if it is new. */
static void conclude(struct engine *engine, struct source *source,
                     enum proof proof, const char *why) {
  const char *name = source_name(source->kind);
  bool news = source->proof != proof;
  source->proof = proof;
  snprintf(source->reason, sizeof(source->reason), "%s", why);
  if (!source->available)
    engine_say(engine,
               engine->options.source == source->kind ? JOURNAL_WARNING
                                                      : JOURNAL_INFO,
               "source %s is unavailable: %s", name, why);
  else if (news && proof == PROOF_PROVEN)
    engine_say(engine, JOURNAL_INFO, "source %s is proven", name);
  else if (news && proof != PROOF_PENDING)
    engine_say(engine,
               proof == PROOF_UNPROVEN ? JOURNAL_NOTICE : JOURNAL_WARNING,
               "source %s is %s: %s", name, proof_name(proof), why);
}

/* Delays the source's next proof, which is run only if this proof was
 * inconclusive. */
static void set_next_try(const struct engine *engine, struct source *source) {
  backoff_extend(&source->proof_backoff, engine_clock(engine, CLOCK_MONOTONIC),
                 PROOF_RETRY_FIRST_NS, PROOF_RETRY_MAX_NS);
}

/* Opens the counter and starts the probe. On failure returns false with the
 * reason in why[]. */
static bool start_probe(struct engine *engine, struct proof_run *run, char *why,
                        size_t why_size) {
  struct source *source = run->proven;
  const struct machine *machine = engine->options.machine;
  int core = proof_core(engine, source, source->proof_tries++);
  bool idle = source->kind == SOURCE_IDLE;
  int status = 0;
  if (!engine->options.hardware) {
    snprintf(why, why_size,
             "SysRoot may belong to another kernel; set HostPerf true if it "
             "belongs to this one");
    return false;
  }
  if (core < 0) {
    snprintf(
        why, why_size,
        "this process is not allowed to run on any core on which the source "
        "could be proven");
    return false;
  }
  if (!idle)
    status = source_open(source, &run->group, machine, core, false);
  if (status != 0) {
    perf_explain(why, why_size, status);
    /* An event that does not exist will not appear later. Other errors may
     * pass: rights can be granted, cores can come online, and guests can
     * end. */
    source->available = status != -ENOENT && status != -EINVAL;
    return false;
  }
  status = probe_start(&run->probe, machine, core, &run->copy,
                       idle ? NULL : &run->group,
                       engine->options.cancel != NULL ? engine->options.cancel
                                                      : &engine->closing);
  if (status == 0)
    return true;
  snprintf(why, why_size, "cannot start the thread that proves it: %s",
           strerror(-status));
  perf_group_close(&run->group);
  return false;
}

/* Begins a proof. If it cannot begin, the source is recorded as unproven. */
static void begin(struct engine *engine, struct source *source) {
  char why[PROOF_WHY_MAX] = "out of memory";
  struct proof_run *run = calloc(1, sizeof(*run));
  if (run != NULL) {
    run->proven = source;
    run->copy = *source;
    if (start_probe(engine, run, why, sizeof(why))) {
      engine->proof_run = run;
      return;
    }
    free(run);
  }
  conclude(engine, source, PROOF_UNPROVEN, why);
  set_next_try(engine, source);
}

/* The result is out of date, and ignored, if the source's proof or the rate
 * of its TSC has changed since the proof began. */
void engine_prove_end(struct engine *engine) {
  struct proof_run *run = engine->proof_run;
  if (run == NULL)
    return;
  struct source *source = run->proven;
  char why[PROOF_WHY_MAX];
  enum proof proof = probe_end(run->probe, why);
  perf_group_close(&run->group);
  if (source->available && source->proof == run->copy.proof &&
      source->tsc_per_ns == run->copy.tsc_per_ns)
    conclude(engine, source, proof, why);
  set_next_try(engine, source);
  engine->proof_run = NULL;
  free(run);
}

static bool is_due(const struct engine *engine, const struct source *source) {
  if (!source->available)
    return false;
  if (source->proof == PROOF_PENDING)
    return true;
  return source->proof == PROOF_UNPROVEN && engine->options.hardware &&
         engine->time_ns >= source->proof_backoff.until_ns;
}

/* Returns the index of the first source whose proof is due, or -1. */
static int next_due(const struct engine *engine) {
  for (int i = 0; i < engine->sources_len; i++)
    if (is_due(engine, &engine->sources[i]))
      return i;
  return -1;
}

bool engine_proof_due(const struct engine *engine) {
  return next_due(engine) >= 0;
}

void engine_prove(struct engine *engine) {
  engine_prove_end(engine);
  for (int i = 0; i < engine->sources_len; i++) {
    if (is_due(engine, &engine->sources[i]))
      begin(engine, &engine->sources[i]);
    engine_prove_end(engine);
  }
}

void engine_prove_aside(struct engine *engine) {
  if (engine->proof_run != NULL && probe_ended(engine->proof_run->probe))
    engine_prove_end(engine);
  int due = next_due(engine);
  if (engine->proof_run == NULL && due >= 0)
    begin(engine, &engine->sources[due]);
}
