/* Which source each core uses. */
#include "engine_private.h"

#include <stdio.h>

/* Returns the sources that a core may use, as a bit mask. */
static unsigned allowed_sources(const struct engine *engine,
                                const struct core *core) {
  static const unsigned isolated[] = {
      [ISOLATED_CORES_IDLE] = 1U << SOURCE_IDLE,
      [ISOLATED_CORES_BPF] = 1U << SOURCE_BPF | 1U << SOURCE_IDLE,
      [ISOLATED_CORES_HARDWARE] = ~0U,
      [ISOLATED_CORES_SKIP] = 0,
  };
  return core_set_has(&engine->topology.isolated, core->number)
             ? isolated[engine->options.isolated_cores]
             : ~0U;
}

/* ---------------------------------------------------------------------------
 * Messages
 */

static const char *reason_to_leave(const struct engine *engine, int from,
                                   int to) {
  if (to >= 0 && (from < 0 || to < from))
    return "a better source is available";
  const char *why = engine->sources[from].reason;
  return why[0] != '\0' ? why : "it is unavailable there now";
}

static const char *name_at(const struct engine *engine, int source) {
  return source_name(source < 0 ? SOURCE_NONE : engine->sources[source].kind);
}

/* `from` and `to` are indices of sources, or -1. */
static void say_change(const struct engine *engine,
                       const struct core_set *changed, int from, int to) {
  char list[128], line[JOURNAL_LINE];
  const char *cores = core_set_count(changed) == 1 ? "core" : "cores";
  core_set_format(changed, list, sizeof(list));
  if (from == NEVER_ANNOUNCED) {
    engine_say(engine, JOURNAL_INFO, "%s %s: load comes from %s", cores, list,
               name_at(engine, to));
    return;
  }
  snprintf(line, sizeof(line), "%s %s: source %s gives way to %s: %s", cores,
           list, name_at(engine, from), name_at(engine, to),
           reason_to_leave(engine, from, to));
  journal_change(&engine->options.journal,
                 to < 0                  ? JOURNAL_ERROR
                 : from < 0 || to < from ? JOURNAL_NOTICE
                                         : JOURNAL_WARNING,
                 line);
}

/* Reports changes of sources, in one line for all cores with the same change. A
 * core's first source is not a change. */
static void say_changes(struct engine *engine) {
  engine_for_each_online(first, engine) {
    int from = first->announced, to = first->source_index;
    if (from == to || (from == NEVER_ANNOUNCED && to < 0))
      continue;
    struct core_set changed = {0};
    engine_for_each_online(core, engine) {
      if (core->announced != from || core->source_index != to)
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
  if (!condition_begins(engine, CONDITION_NO_SOURCE,
                        !engine_has_source(engine)))
    return;
  for (int i = 0; i < engine->sources_len; i++) {
    const struct source *source = &engine->sources[i];
    engine_say(engine, JOURNAL_ERROR, "no source of loads: %s: %s",
               source_name(source->kind), source->reason);
  }
}

/* ---------------------------------------------------------------------------
 * Choosing
 */

static void choose_for_cores(struct engine *engine) {
  engine_for_each_online(core, engine) {
    core_choose(engine, core, allowed_sources(engine, core));
  }
}

void engine_choose_sources(struct engine *engine) {
  choose_for_cores(engine);
  if (!engine_has_source(engine) && engine->clock == NULL) {
    bpf_consider(engine);
    bpf_begin(engine);
    choose_for_cores(engine);
  }
  say_changes(engine);
  say_no_source(engine);
}
