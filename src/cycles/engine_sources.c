#include "engine_private.h"

/* Returns the sources that a core may use, as a bit mask. For isolated cores,
 * this depends on the option IsolatedCores. */
static unsigned allowed_sources(const struct engine *engine,
                                const struct core *core) {
  if (!core->isolated)
    return ~0U;
  switch (engine->options.isolated_cores) {
  case ISOLATED_CORES_HARDWARE:
    return ~0U;
  case ISOLATED_CORES_SKIP:
    return 0;
  case ISOLATED_CORES_BPF:
    return 1U << SOURCE_BPF | 1U << SOURCE_IDLE;
  case ISOLATED_CORES_IDLE:
    break;
  }
  return 1U << SOURCE_IDLE;
}

/* ---------------------------------------------------------------------------
 * Messages
 */

static const char *reason_to_leave(const struct engine *engine, int from,
                                   int to) {
  if (to >= 0 && to < from)
    return "a better source is available";
  const char *why = candidate_why(&engine->candidates[from]);
  return why[0] != '\0' ? why : "it is unavailable there now";
}

static const char *candidate_name(const struct engine *engine, int candidate) {
  return source_name(candidate < 0 ? SOURCE_NONE
                                   : engine->candidates[candidate].source);
}

/* `from` and `to` are indices of candidates, or -1. */
static void say_change(const struct engine *engine,
                       const struct core_set *changed, int from, int to) {
  char list[128];
  const char *cores = core_set_count(changed) == 1 ? "core" : "cores";
  core_set_format(changed, list, sizeof(list));
  if (from < 0)
    engine_say(engine, JOURNAL_INFO, "%s %s: load comes from %s", cores, list,
               candidate_name(engine, to));
  else
    engine_say(engine, JOURNAL_WARNING, "%s %s: source %s gives way to %s: %s",
               cores, list, candidate_name(engine, from),
               candidate_name(engine, to), reason_to_leave(engine, from, to));
}

/* Reports changes of sources, in one line for all cores with the same change.
 */
static void say_changes(struct engine *engine) {
  engine_for_each_online(first, engine) {
    int from = first->announced, to = first->candidate;
    struct core_set changed = {0};
    if (from == to)
      continue;
    engine_for_each_online(core, engine) {
      if (core->announced != from || core->candidate != to)
        continue;
      core_set_add(&changed, core->number);
      core->announced = to;
      engine->counts.source_changes += from >= 0;
    }
    say_change(engine, &changed, from, to);
  }
}

/* If no core has a source, reports what is wrong with each source. */
static void say_no_source(struct engine *engine) {
  if (!engine_begins(engine, CONDITION_NO_SOURCE, !engine_has_source(engine)))
    return;
  for (int i = 0; i < engine->candidates_len; i++) {
    const struct candidate *candidate = &engine->candidates[i];
    engine_say(engine, JOURNAL_ERROR, "no source of loads: %s: %s",
               source_name(candidate->source), candidate_why(candidate));
  }
}

static const struct candidate *proven_counter(const struct engine *engine) {
  for (int i = 0; i < engine->candidates_len; i++) {
    const struct candidate *candidate = &engine->candidates[i];
    if (candidate->available && candidate->proof == PROOF_PROVEN &&
        source_is_counter(candidate->source))
      return candidate;
  }
  return NULL;
}

/* Recommends a counter for isolated cores that use the idle source: isolated
 * cores often run many softirqs, some of which the idle source may miss. */
static void say_isolated(struct engine *engine) {
  const struct candidate *better = proven_counter(engine);
  struct core_set isolated = engine->topology.isolated;
  core_set_intersect(&isolated, &engine->topology.online);
  core_set_intersect(&isolated, &engine->wanted);
  if (better == NULL || engine->options.isolated_cores != ISOLATED_CORES_IDLE ||
      core_set_next(&isolated, -1) < 0 ||
      !engine_begins(engine, CONDITION_ISOLATED_ON_IDLE, true))
    return;
  char list[128];
  core_set_format(&isolated, list, sizeof(list));
  engine_say(engine, JOURNAL_INFO,
             "isolated cores %s are measured by the source idle, which does "
             "not disturb them but may miss softirqs; IsolatedCores "
             "\"hardware\" uses %s there, at the cost of one interrupt per "
             "sample and core (21 to 25 us if the core is halted)",
             list, source_name(better->source));
}

/* ---------------------------------------------------------------------------
 * Descriptors
 */

/* Returns how many more counters are needed so that every core can use the best
 * source of this machine. */
static long counters_wanted(const struct engine *engine) {
  int most = 0;
  for (int i = 0; i < engine->candidates_len; i++)
    if (engine->candidates[i].available &&
        engine->candidates[i].proof != PROOF_REFUTED &&
        engine->candidates[i].events_len > most)
      most = engine->candidates[i].events_len;
  if (engine->options.ipc)
    most += 2;
  long wanted = 0;
  engine_for_each_online(core, engine) {
    if (allowed_sources(engine, core) == ~0U)
      wanted += most - core->group.events_len - core->ipc_group.events_len;
  }
  return wanted;
}

static void say_short_of_descriptors(struct engine *engine) {
  const struct perf_room *room = &engine->room;
  if (room->computed &&
      engine_begins(engine, CONDITION_SHORT_OF_DESCRIPTORS, room->missing > 0))
    engine_say(engine, JOURNAL_WARNING,
               "some cores have no hardware counter, because too few "
               "descriptors would be left for the rest of this process; raise "
               "its limit on open files by %ld (LimitNOFILE= under systemd)",
               room->missing);
}

void engine_choose_sources(struct engine *engine) {
  engine->room = (struct perf_room){.wanted = counters_wanted(engine)};
  engine_for_each_online(core, engine) {
    core_choose(engine, core, allowed_sources(engine, core));
  }
  say_changes(engine);
  say_no_source(engine);
  say_short_of_descriptors(engine);
  say_isolated(engine);
}
