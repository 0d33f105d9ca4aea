#include "engine_private.h"
#include "proof.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>

/* A proof that did not prove its source is repeated after this delay, which
 * doubles each time up to the maximum. */
#define PROOF_RETRY_FIRST_NS (10 * NS_PER_S)
#define PROOF_RETRY_MAX_NS (3600 * NS_PER_S)

/* A proof that has been due for this long, without a core that had room for it,
 * is not waited for. */
#define NO_ROOM_NS (60 * NS_PER_S)

/* A proof is repeated only on a core that was idle for this share of its last
 * window: elsewhere it would take time from other work and prove nothing. */
#define PROOF_ROOM 0.7

/* Returns the share of time in which a core was idle since sources were last
 * judged; -1 if unknown. */
static double idle_share(const struct core *core) {
  const struct core_totals *from = &core->before, *to = &core->total;
  double wall_ns = to->stat_wall - from->stat_wall;
  return core->online && from->stat_epoch == to->stat_epoch && wall_ns > 0
             ? (to->stat_idle - from->stat_idle) / wall_ns
             : -1;
}

/* Returns the core on which to prove a source: the core on which it was
 * condemned, or the idlest one; if that is not known yet, the last one. A core
 * qualifies if it can use the source and a test thread may run there briefly:
 * it is online, allowed to this process, and not isolated. Returns -1 if there
 * is no such core. *idle receives its idle_share. */
static int proof_core(const struct engine *engine, const struct source *source,
                      double *idle) {
  cpu_set_t *mask = CPU_ALLOC(CORES_MAX);
  size_t size = CPU_ALLOC_SIZE(CORES_MAX), next = 0;
  bool known = mask != NULL && sched_getaffinity(0, size, mask) == 0;
  struct core_set cores = source->cores;
  int best = -1;
  double best_share = -2;
  core_set_intersect(&cores, &engine->topology.online);
  core_set_subtract(&cores, &engine->topology.isolated);
  core_set_for_each(number, &cores) {
    while (next < engine->cores_len && engine->cores[next].number < number)
      next++;
    if (!known || !CPU_ISSET_S((size_t)number, size, mask))
      continue;
    bool measured =
        next < engine->cores_len && engine->cores[next].number == number;
    double this_idle = measured ? idle_share(&engine->cores[next]) : -1;
    double share = number == source->condemned_core ? 2 : this_idle;
    if (share < best_share)
      continue;
    best = number;
    best_share = share;
    *idle = this_idle;
  }
  CPU_FREE(mask);
  return best;
}

void engine_set_proof(struct engine *engine, struct source *source,
                      enum proof proof) {
  unsigned bit = 1U << (source - engine->sources);
  source->proof = proof;
  if (proof != PROOF_PROVEN)
    return;
  source->condemned_core = -1;
  source->reason[0] = '\0';
  for (size_t i = 0; i < engine->cores_len; i++)
    engine->cores[i].condemned &= ~bit;
}

/* Records the result of a proof, and reports it if it is new. An inconclusive
 * proof does not change an earlier verdict. */
static void conclude(struct engine *engine, struct source *source,
                     enum proof proof, const char *why) {
  const char *name = source_name(source->kind);
  bool news = source->proof != proof;
  bool verdict = source->proof == PROOF_REFUTED ||
                 source->proof == PROOF_TICK_SAMPLED ||
                 source->condemned_core >= 0;
  if (verdict && (proof == PROOF_UNPROVEN || proof == PROOF_PENDING))
    return;
  engine_set_proof(engine, source, proof);
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

/* Delays the source's next proof, which is run unless this one proved it. */
static void set_next_try(const struct engine *engine, struct source *source) {
  backoff_extend(&source->proof_backoff,
                 machine_now_ns(engine->options.machine, CLOCK_MONOTONIC),
                 PROOF_RETRY_FIRST_NS, PROOF_RETRY_MAX_NS);
}

/* Begins a proof. If it cannot begin, the source is recorded as unproven. */
static void begin(struct engine *engine, struct source *source) {
  const struct engine_options *options = &engine->options;
  char why[WHY_SIZE] = MACHINE_NOT_OURS;
  double idle;
  int core = proof_core(engine, source, &idle);
  if (options->hardware && core < 0) {
    snprintf(why, sizeof(why),
             "this process is not allowed to run on any core on which the "
             "source could be proven");
  } else if (options->hardware) {
    int status = probe_start(&engine->probe, options->machine, core, source,
                             options->cancel != NULL ? options->cancel
                                                     : &engine->closing);
    if (status == 0) {
      engine->proven = source;
      return;
    }
    perf_explain(why, sizeof(why), status);
    /* An event that does not exist will not appear later. Other errors may
     * pass: rights can be granted, cores can come online, and guests can
     * end. */
    source->available = status != -ENOENT && status != -EINVAL;
  }
  conclude(engine, source, PROOF_UNPROVEN, why);
  set_next_try(engine, source);
}

/* The result is out of date, and ignored, if the source's proof or the rate
 * of its TSC has changed since the proof began. */
void engine_prove_end(struct engine *engine) {
  if (engine->probe == NULL)
    return;
  struct source *source = engine->proven, copy;
  char why[WHY_SIZE];
  enum proof proof = probe_end(engine->probe, &copy, why);
  engine->probe = NULL;
  if (source->available && source->proof == copy.proof &&
      source->tsc_per_ns == copy.tsc_per_ns) {
    source->rate_low = copy.rate_low;
    source->rate_high = copy.rate_high;
    conclude(engine, source, proof, why);
  }
  set_next_try(engine, source);
}

/* True if a proof could tell more than the last one did. */
static bool has_room(const struct engine *engine, const struct source *source) {
  double idle = -1;
  proof_core(engine, source, &idle);
  return idle < 0 || idle >= PROOF_ROOM;
}

bool engine_has_no_room(const struct engine *engine,
                        const struct source *source) {
  return source->proof == PROOF_UNPROVEN &&
         source->proof_backoff.until_ns > 0 &&
         engine->time_ns >= source->proof_backoff.until_ns + NO_ROOM_NS &&
         !has_room(engine, source);
}

static bool is_due(const struct engine *engine, const struct source *source) {
  if (!source->available)
    return false;
  if (source->proof == PROOF_PENDING)
    return true;
  return (source->proof != PROOF_PROVEN || source->condemned_core >= 0) &&
         source->kind != SOURCE_BPF && engine->options.hardware &&
         engine->time_ns >= source->proof_backoff.until_ns &&
         has_room(engine, source);
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
  if (engine->probe != NULL && probe_ended(engine->probe))
    engine_prove_end(engine);
  int due = next_due(engine);
  if (engine->probe == NULL && due >= 0)
    begin(engine, &engine->sources[due]);
}
