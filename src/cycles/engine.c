/* Reads all cores once per sample, and keeps track of which cores exist. */
#include "engine_private.h"

#include "base/array.h"
#include "cpuidle.h"
#include "loadavg.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* CLOCK_BOOTTIME - CLOCK_MONOTONIC grows by the time spent suspended. A change
 * smaller than SUSPEND_MIN_NS may merely mean that the clocks were read at
 * slightly different times. */
#define SUSPEND_MIN_NS INT64_C(10000000)

/* If a window is late and the core's own clock advanced by less than this share
 * of what it advanced in an earlier window, the core is considered to have been
 * paused. */
#define PAUSE_PROGRESS 0.5

/* Columns of /proc/stat advance in ticks: a shorter window, in which no tick
 * may fall, does not tell how fast a core's own clock advances. */
#define PROGRESS_MIN_NS 200e6

/* ---------------------------------------------------------------------------
 * Cores that come online or go offline, and isolated cores
 */

/* How often what seldom changes is read again. */
#define LOOK_INTERVAL_NS (60 * NS_PER_S)

/* Adds a core unless it is already known. Returns false if out of memory. */
static bool add_core(struct engine *engine, int number) {
  size_t len = engine->cores_len, at = 0;
  while (at < len && engine->cores[at].number < number)
    at++;
  if (at < len && engine->cores[at].number == number)
    return true;
  if (!array_resize(&engine->cores, len + 1, sizeof(*engine->cores)))
    return false;
  struct core *cores = engine->cores;
  memmove(cores + at + 1, cores + at, (len - at) * sizeof(*cores));
  cores[at] = (struct core){.number = number,
                            .source = SOURCE_NONE,
                            .total_end_kind = SOURCE_NONE,
                            .total = {.epoch = 1, .stat_epoch = 1},
                            .progress_share = 1,
                            .polls = true,
                            .source_index = -1,
                            .announced = NEVER_ANNOUNCED};
  engine->cores_len++;
  return true;
}

/* Reads which cores are isolated, and has the states of idle drivers counted
 * again. Called every LOOK_INTERVAL_NS, because both may change at any time: a
 * cgroup partition isolates cores, and an idle driver can be loaded. */
static void look_again(struct engine *engine) {
  topology_read_isolated(&engine->topology, engine->options.machine);
  core_set_union(&engine->topology.isolated, &engine->options.also_isolated);
  for (size_t i = 0; i < engine->cores_len; i++)
    engine->cores[i].driver.states_max = CPUIDLE_STATES_MAX;
  engine->idle_loop_ns = IDLE_LOOP_NS * (idle_is_traced(engine) ? 3 : 1);
  engine->look_at_ns = engine->time_ns + LOOK_INTERVAL_NS;
}

/* The directory that describes a core exists while it is online. LXCFS numbers
 * its directories anew at any time. */
static uint64_t identity_of(const struct engine *engine,
                            const struct core *core) {
  const struct machine *machine = engine->options.machine;
  char path[64];
  snprintf(path, sizeof(path), CPU_FOLDER "/cpu%d/topology", core->number);
  return engine->lxcfs_cores ? 0 : machine->identity(machine->context, path);
}

/* Adds to *changed the cores that have gone offline since the last call, even
 * if they are online again. The kernel creates a core's directory when the core
 * comes online, so it is then another directory. */
static void find_changed(struct engine *engine, struct core_set *changed) {
  for (size_t i = 0; i < engine->cores_len; i++) {
    struct core *core = &engine->cores[i];
    uint64_t identity = identity_of(engine, core);
    if (core->identity != 0 && identity != core->identity)
      core_set_add(changed, core->number);
    core->identity = identity;
  }
}

/* Adds new cores, closes cores that have gone offline, and restarts cores that
 * were offline between two samples. */
static int apply_online(struct engine *engine, const struct core_set *changed) {
  const struct core_set *online = &engine->topology.online;
  sources_find_cores(engine->sources, engine->sources_len,
                     engine->options.machine);
  core_set_for_each(core, online) {
    if (core_set_has(&engine->wanted, core) && !add_core(engine, core))
      return -ENOMEM;
  }
  for (size_t i = 0; i < engine->cores_len; i++) {
    struct core *core = &engine->cores[i];
    bool is_online = core_set_has(online, core->number);
    if (core->online != is_online || core_set_has(changed, core->number)) {
      engine->counts.windows_discarded += core->online;
      engine->counts.reopens += is_online;
      core_restart(core);
    }
    core->online = is_online;
    if (core->identity == 0) /* any other change must not be overlooked */
      core->identity = identity_of(engine, core);
  }
  look_again(engine);
  return 0;
}

int engine_find_hotplug(struct engine *engine, bool must_look) {
  const struct machine *machine = engine->options.machine;
  uint64_t uevents = engine->uevents;
  bool may_change =
      machine_read_u64(machine, &engine->uevents, MACHINE_UEVENTS) != 0 ||
      engine->uevents != uevents;
  if (!may_change && !must_look)
    return 0;
  struct core_set changed = {0}, online;
  if (may_change)
    find_changed(engine, &changed);
  if (!must_look && core_set_next(&changed, -1) < 0)
    return 0;
  /* If the list cannot be read, keep the previous list. */
  if (machine_read_core_set(machine, &online, CPU_FOLDER "/online") != 0 ||
      core_set_next(&online, -1) < 0 ||
      (core_set_equal(&online, &engine->topology.online) &&
       core_set_next(&changed, -1) < 0))
    return 0;
  int status = topology_refresh(&engine->topology, machine);
  return status == 0 ? apply_online(engine, &changed) : status;
}

/* ---------------------------------------------------------------------------
 * Open and close
 */

/* Warns if some of the cores that an option names are not online. */
static void warn_of_absent_cores(const struct engine *engine,
                                 const struct core_set *named,
                                 const char *effect) {
  struct core_set absent = *named;
  core_set_subtract(&absent, &engine->topology.online);
  if (core_set_next(&absent, -1) < 0)
    return;
  char list[256];
  core_set_format(&absent, list, sizeof(list));
  engine_say(engine, JOURNAL_WARNING, "not online: %s; %s", list, effect);
}

/* Warns if the source that the user named is unavailable. */
static void warn_of_named_source(const struct engine *engine) {
  for (int i = 0; i < engine->sources_len; i++) {
    const struct source *source = &engine->sources[i];
    if (engine->options.source == source->kind && !source->available)
      engine_say(engine, JOURNAL_WARNING,
                 "source %s is configured but unavailable: %s",
                 source_name(source->kind), source->reason);
  }
}

int engine_open(struct engine **result, const struct engine_options *options) {
  struct engine *engine = calloc(1, sizeof(*engine));
  if (engine == NULL)
    return -ENOMEM;
  const struct core_set none = {0};
  engine->options = *options;
  core_set_fill(&engine->wanted);
  if (options->cores != NULL)
    engine->wanted = *options->cores;
  int status = topology_read(&engine->topology, options->machine);
  if (status != 0)
    goto failed;
  engine->time_ns = machine_now_ns(options->machine, CLOCK_MONOTONIC);
  engine->judge_at_ns = engine->time_ns + LOADAVG_INTERVAL_NS;
  engine->stat_digest = UINT64_MAX; /* of no sample */
  /* Checking this once is enough: LXCFS is mounted before a container
   * starts. */
  engine->lxcfs =
      options->machine->is_fuse(options->machine->context, "/proc/stat");
  engine->lxcfs_cores =
      options->machine->is_fuse(options->machine->context, CPU_FOLDER);
  engine->never_halts = cpuidle_never_halts(options->machine);
  engine->blind_ns =
      BLIND_INSTRUCTIONS *
      fmax(BLIND_INSTRUCTION_NS, options->machine->instruction_ns);
  look_again(engine);
  engine->sources_len =
      sources_find(engine->sources, &engine->options, &engine->topology);
  idle_find(engine);
  status = apply_online(engine, &none);
  if (status != 0)
    goto failed;
  engine->counts = (struct engine_counts){0};
  bpf_begin(engine);
  if (options->cores != NULL)
    warn_of_absent_cores(engine, options->cores,
                         "cores are measured when they come online");
  warn_of_absent_cores(engine, &options->also_isolated,
                       "correct AlsoIsolated, unless they come online later");
  warn_of_named_source(engine);
  /* Sample now, so that unreadable files are reported immediately. */
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
    core_close(&engine->cores[i]);
  free(engine->cores);
  idle_clock_close(engine->clock);
  procstat_free(&engine->stat);
  topology_free(&engine->topology);
  free(engine);
}

/* ---------------------------------------------------------------------------
 * One sample
 */

/* Reads the clocks. Returns true if the machine has been suspended since the
 * last sample. */
static bool was_suspended(struct engine *engine) {
  const struct machine *machine = engine->options.machine;
  int64_t before_ns = (int64_t)machine_now_ns(machine, CLOCK_MONOTONIC);
  int64_t boot_ns = (int64_t)machine_now_ns(machine, CLOCK_BOOTTIME);
  int64_t after_ns = (int64_t)machine_now_ns(machine, CLOCK_MONOTONIC);
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
  engine_for_each_online(core, engine) {
    engine->counts.windows_discarded++;
    engine->counts.reopens += core->group.events_len > 0;
    core_close(core);
  }
}

/* Call this for a late window. Returns true if the core's own clocks advanced
 * much less than CLOCK_MONOTONIC: this virtual machine was paused. Its idle
 * cores may have been idle for as long. */
static bool was_paused(const struct core *core) {
  const struct core_sample *sample = &core->sample;
  return sample->progress_ns >= 0 &&
         sample->progress_ns <
             PAUSE_PROGRESS * core->progress_share * sample->monotonic_ns;
}

/* Ends the window of each core, or discards it: the readings at its end are a
 * valid start of the next window. */
static void end_windows(struct engine *engine, bool late) {
  struct core_set paused = {0};
  char list[128];
  engine_for_each_online(core, engine) {
    const struct core_sample *sample = &core->sample;
    core->late |= late;
    bool is_late = core->late, is_paused = is_late && was_paused(core);
    core->late &= !(sample->growth.wall > 0);
    if (is_paused) {
      core_set_add(&paused, core->number);
      core_begin_epoch(core);
      core->total.stat_epoch++;
      engine->counts.windows_discarded++;
      continue;
    }
    if (sample->progress_ns >= 0 && sample->monotonic_ns >= PROGRESS_MIN_NS)
      core->progress_share =
          fmin(sample->progress_ns / sample->monotonic_ns, 1);
    if (sample->growth.end_lacks > 0)
      core->sample.growth.lacks =
          sample->progress_ns >= 0 ? sample->monotonic_ns - sample->progress_ns
                                   : sample->growth.wall;
    core_commit(engine, core);
  }
  if (core_set_next(&paused, -1) < 0)
    return;
  core_set_format(&paused, list, sizeof(list));
  engine_say(engine, JOURNAL_INFO,
             "this machine was paused for a while; the window of cores %s is "
             "discarded",
             list);
}

int engine_sample(struct engine *engine, bool late) {
  if (was_suspended(engine)) {
    engine_say(engine, JOURNAL_INFO,
               "this machine was suspended; the window is discarded");
    reopen_all(engine);
  }
  int stat_status = idle_begin(engine);
  /* If /proc/stat is valid, its rows show which cores are online. */
  int status = engine_find_hotplug(engine, !engine->stat_valid);
  if (status != 0)
    return status;
  if (engine->time_ns >= engine->look_at_ns)
    look_again(engine);
  bpf_begin(engine);
  engine_choose_sources(engine);
  engine_for_each_online(core, engine) { core_read(engine, core); }
  end_windows(engine, late);
  engine_judge(engine);
  return stat_status != 0 && !engine_has_source(engine) ? stat_status : 0;
}

/* ---------------------------------------------------------------------------
 * Answers to callers after a sample
 */

const struct core *engine_cores(const struct engine *engine,
                                size_t *cores_len) {
  *cores_len = engine->cores_len;
  return engine->cores;
}

const struct topology *engine_topology(const struct engine *engine) {
  return &engine->topology;
}

uint64_t engine_time_ns(const struct engine *engine) { return engine->time_ns; }

bool engine_tick_sampled(const struct engine *engine) {
  for (int i = 0; i < engine->sources_len; i++)
    if (engine->sources[i].proof == PROOF_TICK_SAMPLED)
      return true;
  return false;
}

bool engine_has_source(const struct engine *engine) {
  bool any_online = false;
  engine_for_each_online(core, engine) {
    if (core->source != SOURCE_NONE)
      return true;
    any_online = true;
  }
  return !any_online;
}

const char *engine_source_reason(const struct engine *engine,
                                 enum source_kind kind) {
  for (int i = 0; i < engine->sources_len; i++) {
    const struct source *source = &engine->sources[i];
    if (source->kind == kind && source->reason[0] != '\0')
      return source->reason;
  }
  return "";
}

bool engine_source_proof(const struct engine *engine, enum source_kind kind,
                         enum proof *proof) {
  for (int i = 0; i < engine->sources_len; i++)
    if (engine->sources[i].kind == kind && engine->sources[i].available) {
      *proof = engine->sources[i].proof;
      return true;
    }
  return false;
}
