#include "engine_private.h"

#include "btf.h"
#include "loadavg.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* CLOCK_BOOTTIME - CLOCK_MONOTONIC grows by the time spent suspended. A change
 * smaller than SUSPEND_MIN_NS may merely mean that the clocks were read at
 * slightly different times. */
#define SUSPEND_MIN_NS INT64_C(10000000)

/* If a window is late and the core's own clock advanced by less than this share
 * of the window, the core is considered to have been paused. */
#define PAUSE_PROGRESS 0.5

static const char *const kernel_members[KERNEL_MEMBERS] = {
    [KERNEL_IDLE_STEALTIME] = "idle_stealtime",
    [KERNEL_IDLE_DYNTICK] = "idle_dyntick",
    [KERNEL_PREV_IRQ_TIME] = "prev_irq_time",
};

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
  engine_say(
      engine, JOURNAL_WARNING,
      one ? "core %s is not online; it will be measured when it comes online"
          : "cores %s are not online; they will be measured when they come "
            "online",
      list);
}

/* Warns if the source that the user named is unavailable. */
static void warn_of_named_source(const struct engine *engine) {
  for (int i = 0; i < engine->candidates_len; i++) {
    const struct candidate *candidate = &engine->candidates[i];
    bool named =
        engine->options.source == candidate->source ||
        (engine->options.source == SOURCE_AUTO &&
         candidate->source == SOURCE_EVENT && engine->options.event != NULL);
    if (named && !candidate->available)
      engine_say(engine, JOURNAL_WARNING,
                 "source %s is configured but unavailable: %s",
                 source_name(candidate->source), candidate->reason);
  }
}

static void copy_options(struct engine *engine,
                         const struct engine_options *options) {
  engine->options = *options;
  core_set_fill(&engine->wanted);
  if (options->cores != NULL) {
    engine->wanted = *options->cores;
    engine->options.cores = &engine->wanted;
  }
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
  const struct core_set none = {0};
  copy_options(engine, options);
  status = topology_read(&engine->topology, options->machine);
  if (status != 0)
    goto failed;
  engine->time_ns = engine_clock(engine, CLOCK_MONOTONIC);
  engine->judge_at_ns = engine->time_ns + LOADAVG_INTERVAL_NS;
  /* Checking this once is enough: LXCFS is mounted before a container
   * starts. */
  engine->lxcfs = machine_has_lxcfs(options->machine);
  engine_find_isolated(engine);
  engine->candidates_len =
      candidates_find(engine->candidates, &engine->options, &engine->topology);
  engine_measure_tsc(engine);
  btf_find(options->machine, kernel_members, engine->kernel_has,
           KERNEL_MEMBERS);
  status = engine_apply_online(engine, &none);
  if (status != 0)
    goto failed;
  engine->counts = (struct engine_counts){0};
  engine_read_clock(engine);
  warn_of_absent_cores(engine);
  warn_of_named_source(engine);
  engine->options.event = NULL; /* the string belongs to the caller */
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
  engine_for_each_online(core, engine) {
    engine->counts.windows_discarded++;
    engine->counts.reopens += core->group.events_len > 0;
    core_close(core);
  }
}

/* Call this for a late window. Returns true if the clocks of all cores advanced
 * much less than CLOCK_MONOTONIC, which means that this virtual machine was
 * paused. */
static bool was_paused(const struct engine *engine) {
  bool any = false;
  engine_for_each_online(core, engine) {
    const struct core_sample *sample = &core->sample;
    if (sample->progress_ns < 0)
      continue;
    if (sample->progress_ns >= PAUSE_PROGRESS * sample->monotonic_ns)
      return false;
    any = true;
  }
  return any;
}

/* Discards the current window of every online core. The readings at its end are
 * a valid start of the next window. */
static void drop_window(struct engine *engine) {
  engine_for_each_online(core, engine) {
    core->total.epoch++;
    core->total.stat_epoch++;
    engine->counts.windows_discarded++;
  }
}

int engine_sample(struct engine *engine, bool late) {
  if (was_suspended(engine)) {
    engine_say(engine, JOURNAL_INFO,
               "this machine was suspended; the window is discarded");
    reopen_all(engine);
  }
  int status = engine_find_hotplug(engine);
  if (status != 0)
    return status;
  if (engine->time_ns >= engine->isolated_at_ns)
    engine_find_isolated(engine);
  int stat_status = engine_read_stat(engine);
  engine_read_clock(engine);
  engine_choose_sources(engine);
  engine_for_each_online(core, engine) { core_read(engine, core); }
  if (late && was_paused(engine)) {
    engine_say(engine, JOURNAL_INFO,
               "this machine was paused for a while; the window is discarded");
    drop_window(engine);
    return 0;
  }
  engine_for_each_online(core, engine) { core_commit(engine, core); }
  engine_judge(engine);
  return stat_status != 0 && !engine_has_source(engine) ? stat_status : 0;
}
