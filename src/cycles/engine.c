#include "engine_private.h"

#include "loadavg.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* CLOCK_BOOTTIME - CLOCK_MONOTONIC grows by the time spent suspended; less than
 * this is the scatter of reading three clocks. */
#define SUSPEND_MIN_NS INT64_C(10000000)

/* In a window that comes late, cores whose own clocks moved by less than this
 * share of it were not running: neither was this machine. */
#define PAUSE_PROGRESS 0.5

/* How often isolated cores are looked up. */
#define ISOLATED_INTERVAL_NS (UINT64_C(60) * 1000000000)

struct core_context engine_core_context(struct engine *engine) {
  struct core_context context = {
      .machine = engine->options.machine,
      .journal = &engine->options.journal,
      .candidates = engine->candidates,
      .candidates_len = engine->candidates_len,
      .stat = engine->stat_valid ? &engine->stat : NULL,
      .steal_apart = engine->kernel_has[KERNEL_IDLE_STEALTIME],
      .now_ns = engine->time_ns,
      .counts = &engine->counts,
      .sharing_said = &engine->sharing_said,
      .ipc_said = &engine->ipc_said,
      .ipc = engine->options.ipc && engine->options.hardware,
      .room = &engine->room,
  };
  memcpy(context.ipc_events, engine->ipc_events, sizeof(context.ipc_events));
  return context;
}

/* ---------------------------------------------------------------------------
 * Cores
 */

static bool is_wanted(const struct engine *engine, int core) {
  return engine->options.cores == NULL || core_set_has(&engine->wanted, core);
}

/* Makes room for a core that was never seen before. */
static int add_core(struct engine *engine, int number) {
  size_t len = engine->cores_len, at = 0;
  while (at < len && engine->states[at].core < number)
    at++;
  if (at < len && engine->states[at].core == number)
    return 0;
  struct engine_core *states =
      realloc(engine->states, (len + 1) * sizeof(*states));
  if (states == NULL)
    return -ENOMEM;
  engine->states = states;
  struct core *cores = realloc(engine->cores, (len + 1) * sizeof(*cores));
  if (cores == NULL)
    return -ENOMEM;
  engine->cores = cores;
  memmove(states + at + 1, states + at, (len - at) * sizeof(*states));
  memmove(cores + at + 1, cores + at, (len - at) * sizeof(*cores));
  states[at] = (struct engine_core){.core = number, .source = SOURCE_NONE};
  cores[at] = (struct core){.candidate = -1, .announced = -1};
  engine->cores_len++;
  return 0;
}

/* Partitions may be made and dissolved at any time. */
static void look_for_isolated(struct engine *engine) {
  topology_read_isolated(&engine->topology, engine->options.machine);
  core_set_union(&engine->topology.isolated, &engine->options.also_isolated);
  for (size_t i = 0; i < engine->cores_len; i++)
    engine->states[i].isolated =
        core_set_has(&engine->topology.isolated, engine->states[i].core);
  engine->isolated_at_ns = engine->time_ns + ISOLATED_INTERVAL_NS;
}

/* What changed between two looks: a core that is new begins, one that is gone
 * is closed, and one that was away in between is closed and begins anew. */
static int apply_online(struct engine *engine, const struct core_set *changed) {
  const struct core_set *online = &engine->topology.online;
  candidates_find_cores(engine->candidates, engine->candidates_len,
                        engine->options.machine);
  core_set_for_each(core, online) {
    int status = is_wanted(engine, core) ? add_core(engine, core) : 0;
    if (status != 0)
      return status;
  }
  for (size_t i = 0; i < engine->cores_len; i++) {
    struct engine_core *state = &engine->states[i];
    bool is_online = core_set_has(online, state->core);
    if (state->online != is_online || core_set_has(changed, state->core)) {
      if (state->online)
        engine->counts.windows_discarded++;
      core_restart(&engine->cores[i], state, engine->options.machine);
      engine->counts.reopens += is_online ? 1 : 0;
    }
    state->online = is_online;
  }
  look_for_isolated(engine);
  return 0;
}

int engine_look_for_hotplug(struct engine *engine) {
  const struct machine *machine = engine->options.machine;
  struct core_set changed, online;
  core_set_clear(&changed);
  if (machine->changed_cores != NULL &&
      machine->changed_cores(machine->context, &changed) == -ENOBUFS)
    memset(&changed, 0xff, sizeof(changed));
  int status =
      machine_read_core_set(machine, "/sys/devices/system/cpu/online", &online);
  bool same = status == 0 && core_set_equal(&online, &engine->topology.online);
  if (same && core_set_next(&changed, -1) < 0)
    return 0;
  if (status != 0 || core_set_next(&online, -1) < 0) {
    /* topology_refresh knows another way; without that all stays as it was. */
    if (topology_refresh(&engine->topology, machine) != 0)
      return 0;
  } else if ((status = topology_refresh(&engine->topology, machine)) != 0) {
    return status;
  }
  return apply_online(engine, &changed);
}

/* ---------------------------------------------------------------------------
 * Open and close
 */

static void warn_of_absent_cores(const struct engine *engine) {
  if (engine->options.cores == NULL)
    return;
  struct core_set absent = engine->wanted;
  core_set_subtract(&absent, &engine->topology.online);
  if (core_set_next(&absent, -1) < 0)
    return;
  char list[256];
  core_set_format(&absent, list, sizeof(list));
  bool one = core_set_count(&absent) == 1;
  journal_say(
      &engine->options.journal, JOURNAL_WARNING,
      one ? "core %s is not online here; it will be measured when it comes"
          : "cores %s are not online here; they will be measured when "
            "they come",
      list);
}

/* A source that was asked for by name and cannot be had is not passed over in
 * silence. */
static void warn_of_named_source(const struct engine *engine) {
  for (int i = 0; i < engine->candidates_len; i++) {
    const struct candidate *candidate = &engine->candidates[i];
    bool named =
        engine->options.source == candidate->source ||
        (engine->options.source == SOURCE_AUTO &&
         candidate->source == SOURCE_EVENT && engine->options.event != NULL);
    if (named && !candidate->available)
      journal_say(&engine->options.journal, JOURNAL_WARNING,
                  "source %s is configured but unavailable: %s",
                  source_name(candidate->source), candidate->reason);
  }
}

static void find_ipc_events(struct engine *engine) {
  static const uint64_t configs[2] = {PERF_COUNT_HW_CPU_CYCLES,
                                      PERF_COUNT_HW_INSTRUCTIONS};
  for (int i = 0; i < 2; i++)
    engine->ipc_events[i] = (struct perf_event){.type = PERF_TYPE_HARDWARE,
                                                .config = configs[i],
                                                .exclude_guest = true};
}

static int copy_options(struct engine *engine,
                        const struct engine_options *options) {
  engine->options = *options;
  if (options->cores != NULL) {
    engine->wanted = *options->cores;
    engine->options.cores = &engine->wanted;
  }
  if (options->event == NULL)
    return 0;
  engine->event = strdup(options->event);
  engine->options.event = engine->event;
  return engine->event != NULL ? 0 : -ENOMEM;
}

static int check_options(const struct engine_options *options) {
  if (options->source != SOURCE_EVENT || options->event != NULL)
    return 0;
  journal_say(&options->journal, JOURNAL_ERROR,
              "Source \"event\" needs an Event, such as "
              "\"armv8_pmuv3_0/cnt_cycles/\"");
  return -EINVAL;
}

int engine_open(struct engine **result, const struct engine_options *options) {
  int status = check_options(options);
  if (status != 0)
    return status;
  struct engine *engine = calloc(1, sizeof(*engine));
  if (engine == NULL)
    return -ENOMEM;
  struct core_set none;
  core_set_clear(&none);
  status = copy_options(engine, options);
  if (status == 0)
    status = topology_read(&engine->topology, options->machine);
  if (status != 0)
    goto failed;
  engine->time_ns = engine_clock(engine, CLOCK_MONOTONIC);
  engine->judge_at_ns = engine->time_ns + LOADAVG_INTERVAL_NS;
  engine_find_lxcfs(engine);
  look_for_isolated(engine);
  engine->candidates_len =
      candidates_find(engine->candidates, &engine->options, &engine->topology);
  engine_find_accounting(engine);
  find_ipc_events(engine);
  status = apply_online(engine, &none);
  if (status != 0)
    goto failed;
  engine->counts = (struct engine_counts){0};
  warn_of_absent_cores(engine);
  warn_of_named_source(engine);
  /* The first reading, so that what cannot be read is known now. */
  status = engine_sample(engine, false);
  if (status == -ENOMEM)
    goto failed;
  *result = engine;
  return 0;
failed:
  engine_close(engine);
  return status;
}

void engine_close(struct engine *engine) {
  if (engine == NULL)
    return;
  atomic_store(&engine->closing, true);
  engine_prove_end(engine);
  for (size_t i = 0; i < engine->cores_len; i++)
    core_close(&engine->cores[i], &engine->states[i], engine->options.machine);
  free(engine->cores);
  free(engine->states);
  free(engine->event);
  procstat_free(&engine->stat);
  topology_free(&engine->topology);
  free(engine);
}

/* ---------------------------------------------------------------------------
 * One sample
 */

/* Whether the machine has slept since the last sample. */
static bool was_suspended(struct engine *engine) {
  int64_t before_ns = (int64_t)engine_clock(engine, CLOCK_MONOTONIC);
  int64_t boot_ns = (int64_t)engine_clock(engine, CLOCK_BOOTTIME);
  int64_t after_ns = (int64_t)engine_clock(engine, CLOCK_MONOTONIC);
  int64_t bracket_ns = after_ns - before_ns;
  int64_t offset_ns = boot_ns - before_ns - bracket_ns / 2;
  bool suspended = engine->has_offset &&
                   offset_ns - engine->offset_ns >
                       bracket_ns + engine->bracket_ns + SUSPEND_MIN_NS;
  engine->has_offset = true;
  engine->offset_ns = offset_ns;
  engine->bracket_ns = bracket_ns;
  engine->time_ns = (uint64_t)after_ns;
  return suspended;
}

static void reopen_all(struct engine *engine) {
  for (size_t i = 0; i < engine->cores_len; i++) {
    if (!engine->states[i].online)
      continue;
    enum source source = engine->states[i].source;
    core_close(&engine->cores[i], &engine->states[i], engine->options.machine);
    engine->counts.windows_discarded++;
    engine->counts.reopens += source >= 0 && source != SOURCE_IDLE ? 1 : 0;
  }
}

/* Late, and no core's own clocks kept up: it was this machine that stood
 * still (a virtual machine was paused), and the window says nothing. */
static bool was_paused(const struct engine *engine) {
  bool any = false;
  for (size_t i = 0; i < engine->cores_len; i++) {
    const struct core_step *step = &engine->cores[i].step;
    if (!engine->states[i].online || step->progress_ns < 0)
      continue;
    if (step->progress_ns >= PAUSE_PROGRESS * step->progress_wall_ns)
      return false;
    any = true;
  }
  return any;
}

/* The readings themselves are a sound new base. */
static void drop_window(struct engine *engine) {
  for (size_t i = 0; i < engine->cores_len; i++) {
    if (!engine->states[i].online)
      continue;
    engine->states[i].total.epoch++;
    engine->states[i].total.stat_epoch++;
    engine->counts.windows_discarded++;
  }
}

int engine_sample(struct engine *engine, bool late) {
  if (was_suspended(engine)) {
    journal_say(&engine->options.journal, JOURNAL_INFO,
                "this machine was suspended; the window is dropped");
    reopen_all(engine);
  }
  int status = engine_look_for_hotplug(engine);
  if (status != 0)
    return status;
  if (engine->time_ns >= engine->isolated_at_ns)
    look_for_isolated(engine);
  int stat_status = engine_read_stat(engine);
  engine_choose_sources(engine);
  struct core_context context = engine_core_context(engine);
  for (size_t i = 0; i < engine->cores_len; i++)
    if (engine->states[i].online)
      core_read(&engine->cores[i], &engine->states[i], &context);
  if (late && was_paused(engine)) {
    journal_say(&engine->options.journal, JOURNAL_INFO,
                "this machine stood still for a while; the window is dropped");
    drop_window(engine);
    return 0;
  }
  for (size_t i = 0; i < engine->cores_len; i++)
    if (engine->states[i].online)
      core_commit(&engine->cores[i], &engine->states[i], &context);
  engine_judge(engine);
  return stat_status != 0 && !engine_has_source(engine) ? stat_status : 0;
}

/* ---------------------------------------------------------------------------
 * Looking
 */

const struct engine_core *engine_cores(const struct engine *engine,
                                       size_t *cores_len) {
  *cores_len = engine->cores_len;
  return engine->states;
}

const struct engine_options *engine_options(const struct engine *engine) {
  return &engine->options;
}

const struct machine *engine_machine(const struct engine *engine) {
  return engine->options.machine;
}

const struct topology *engine_topology(const struct engine *engine) {
  return &engine->topology;
}

const struct procstat *engine_procstat(const struct engine *engine) {
  return engine->stat_valid ? &engine->stat : NULL;
}

const struct engine_counts *engine_counts(const struct engine *engine) {
  return &engine->counts;
}

uint64_t engine_time_ns(const struct engine *engine) { return engine->time_ns; }

bool engine_tick_sampled(const struct engine *engine) {
  for (int i = 0; i < engine->candidates_len; i++)
    if (engine->candidates[i].proof == PROOF_TICK_SAMPLED)
      return true;
  return false;
}

bool engine_has_source(const struct engine *engine) {
  bool any_online = false;
  for (size_t i = 0; i < engine->cores_len; i++) {
    if (!engine->states[i].online)
      continue;
    if (engine->states[i].source != SOURCE_NONE)
      return true;
    any_online = true;
  }
  return !any_online;
}

const char *engine_source_reason(const struct engine *engine,
                                 enum source source) {
  const char *trouble = "";
  for (int i = 0; i < engine->candidates_len; i++) {
    const struct candidate *candidate = &engine->candidates[i];
    if (candidate->source != source)
      continue;
    if (candidate->reason[0] != '\0')
      return candidate->reason;
    trouble = candidate->trouble;
  }
  return trouble;
}
