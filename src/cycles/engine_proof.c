#include "engine_private.h"
#include "proof.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

/* Proofs that could not be run are tried again after so long, and later. */
#define PROOF_RETRY_FIRST_NS (UINT64_C(60) * 1000000000)
#define PROOF_RETRY_MAX_NS (UINT64_C(900) * 1000000000)

/* A core on which a thread of ours may run for a moment: online, allowed to
 * this process, neither isolated nor without tick. -1: there is none. */
static int proof_core(const struct engine *engine,
                      const struct candidate *candidate, int tries) {
  cpu_set_t *mask = CPU_ALLOC(CORES_MAX);
  size_t size = CPU_ALLOC_SIZE(CORES_MAX);
  struct core_set allowed;
  core_set_clear(&allowed);
  if (mask != NULL && sched_getaffinity(0, size, mask) == 0)
    for (int core = 0; core < CORES_MAX; core++)
      if (CPU_ISSET_S((size_t)core, size, mask))
        core_set_add(&allowed, core);
  CPU_FREE(mask);
  core_set_intersect(&allowed, &engine->topology.online);
  core_set_subtract(&allowed, &engine->topology.isolated);
  if (!candidate->any_core)
    core_set_intersect(&allowed, &candidate->cores);
  int count = core_set_count(&allowed);
  if (count == 0)
    return -1;
  int core = -1;
  for (int skip = tries % count; skip >= 0; skip--)
    core = core_set_next(&allowed, core);
  return core;
}

struct proof_reader {
  const struct engine *engine;
  const struct candidate *candidate;
  struct perf_group group;
  bool started;
  struct perf_reading last;
  double unhalted_ns, wall_ns;
};

static int read_for_proof(void *context, double *unhalted_ns, double *wall_ns) {
  struct proof_reader *reader = context;
  struct perf_reading reading;
  int status = perf_group_read(&reader->group, reader->engine->options.machine,
                               &reading);
  if (status != 0)
    return status;
  if (reader->started) {
    struct candidate_window window;
    status =
        candidate_window(reader->candidate, &reader->last, &reading, &window);
    if (status != 0)
      return status;
    reader->unhalted_ns += window.load * window.progress_ns;
    reader->wall_ns += window.progress_ns;
  }
  reader->started = true;
  reader->last = reading;
  *unhalted_ns = reader->unhalted_ns;
  *wall_ns = reader->wall_ns;
  return 0;
}

static enum proof prove_counter(struct engine *engine,
                                struct candidate *candidate, int core,
                                char *why, size_t why_size) {
  struct proof_reader reader = {.engine = engine, .candidate = candidate};
  int status = candidate_open(candidate, &reader.group, engine->options.machine,
                              core, false);
  if (status != 0) {
    candidate_explain(why, why_size, status);
    /* Rights may be given and descriptors freed; a counter that does not exist
     * will not appear. */
    candidate->available = status == -EACCES || status == -EPERM ||
                           status == -EMFILE || status == -ENFILE;
    return PROOF_UNPROVEN;
  }
  struct proof_source source = {read_for_proof, &reader};
  enum proof proof = proof_run_counter(engine->options.machine, core, &source,
                                       engine->options.cancel, why, why_size);
  perf_group_close(&reader.group, engine->options.machine);
  return proof;
}

static void conclude(struct engine *engine, struct candidate *candidate,
                     enum proof proof, const char *why) {
  bool news = candidate->proof != proof;
  candidate->proof = proof;
  if (!candidate->available) {
    journal_say(&engine->options.journal,
                engine->options.source == candidate->source ? JOURNAL_WARNING
                                                            : JOURNAL_INFO,
                "source %s is not to be had: %s",
                source_name(candidate->source), why);
    snprintf(candidate->reason, sizeof(candidate->reason), "%s", why);
    return;
  }
  snprintf(candidate->reason, sizeof(candidate->reason), "%s", why);
  if (!news || proof == PROOF_PENDING)
    return;
  if (proof == PROOF_PROVEN)
    journal_say(&engine->options.journal, JOURNAL_INFO, "source %s is proven",
                source_name(candidate->source));
  else
    journal_say(&engine->options.journal,
                proof == PROOF_UNPROVEN ? JOURNAL_NOTICE : JOURNAL_WARNING,
                "source %s is %s: %s", source_name(candidate->source),
                proof_name(proof), why);
}

static void prove(struct engine *engine, int index) {
  struct candidate *candidate = &engine->candidates[index];
  char why[CANDIDATE_REASON_MAX] = "";
  enum proof proof;
  int core = proof_core(engine, candidate, engine->prove_tries[index]++);
  if (!engine->options.hardware) {
    proof = PROOF_UNPROVEN;
    snprintf(why, sizeof(why),
             "figures of another SysRoot cannot be put to "
             "the proof");
  } else if (core < 0) {
    proof = PROOF_UNPROVEN;
    snprintf(why, sizeof(why),
             "there is no core that this process may use for "
             "the proof");
  } else if (candidate->source == SOURCE_IDLE) {
    proof = proof_run_tick(engine->options.machine, core,
                           engine->options.cancel, why, sizeof(why));
  } else {
    proof = prove_counter(engine, candidate, core, why, sizeof(why));
  }
  conclude(engine, candidate, proof, why);
  uint64_t *wait_ns = &engine->prove_wait_ns[index];
  *wait_ns = *wait_ns == 0 ? PROOF_RETRY_FIRST_NS : *wait_ns * 2;
  if (*wait_ns > PROOF_RETRY_MAX_NS)
    *wait_ns = PROOF_RETRY_MAX_NS;
  engine->prove_at_ns[index] = engine_clock(engine, CLOCK_MONOTONIC) + *wait_ns;
}

static bool is_due(const struct engine *engine, int index) {
  const struct candidate *candidate = &engine->candidates[index];
  if (!candidate->available)
    return false;
  if (candidate->proof == PROOF_PENDING)
    return true;
  return candidate->proof == PROOF_UNPROVEN && engine->options.hardware &&
         engine->time_ns >= engine->prove_at_ns[index];
}

bool engine_proof_due(const struct engine *engine) {
  for (int i = 0; i < engine->candidates_len; i++)
    if (is_due(engine, i))
      return true;
  return false;
}

void engine_prove(struct engine *engine) {
  for (int i = 0; i < engine->candidates_len; i++)
    if (is_due(engine, i))
      prove(engine, i);
}
