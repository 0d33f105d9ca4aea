/* Simulates machines, drawn at random with everything that may go wrong on
 * them, for a million windows. The truth must be within the bounds of each
 * load, a right counter is never condemned, and soon after the last fault each
 * core has a load.
 *
 * A machine and its life depend on one seed only, which a failure prints. To
 * play the same life again, set PERCORE_TEST_SEED to it; the next lives have
 * the following seeds. PERCORE_TEST_WINDOWS sets the number of windows. */
#include "calls.h"
#include "unit.h"

#include "board/load.h"
#include "cycles/engine_private.h"
#include "cycles/schedule.h"
#include "cycles/totals.h"
#include "play.h"

#include <sched.h>
#include <time.h>

#ifdef __SANITIZE_ADDRESS__ /* five times slower */
#define WINDOWS 200000
#else
#define WINDOWS 1000000
#endif
/* The largest share of windows in which the truth may be out of bounds. */
#define VIOLATIONS_MAX 1e-5
#define LIFE_SECONDS 5000.0
#define LIFE_SAMPLES 5000
#define CORES_MAX_PLAYED 4

/* The largest number of samples after a fault that may produce no load. */
#define RECOVERY_SAMPLES 5

/* No proof can be run on a simulated machine, so there must be no core on which
 * one could be run. */
int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *mask) {
  (void)pid;
  memset(mask, 0, size);
  return 0;
}

static uint64_t random_state;

static uint64_t random_next(void) { /* xorshift64* */
  random_state ^= random_state >> 12;
  random_state ^= random_state << 25;
  random_state ^= random_state >> 27;
  return random_state * UINT64_C(2685821657736338717);
}

static double uniform(double from, double to) {
  return from + (to - from) * (double)(random_next() >> 11) / 0x1p53;
}

static bool once_in(double times) { return uniform(0, times) < 1; }

/* ---------------------------------------------------------------------------
 * A machine
 */

enum counter { NO_COUNTER, MPERF, REF_CYCLES, CNT_CYCLES, CLOCK, COUNTERS };

static const char *const counter_names[COUNTERS] = {
    "no counter", "mperf", "ref-cycles", "cnt_cycles", "a pinned clock"};

struct traits {
  enum counter counter;
  bool library;     /* percore_load_update takes the samples */
  bool is_virtual;  /* the hypervisor takes time */
  bool hides_steal; /* and does not report it */
  bool steal_apart; /* idle time excludes it */
  bool polls;       /* the idle loop may poll */
  bool misses;      /* softirqs on an idle core count as idle */
  bool at_ticks;    /* idle time is sampled at the tick: nohz=off */
  bool is_periodic; /* so it is, because the kernel has no other tick */
  /* What may happen. */
  bool slow;       /* slow reads */
  bool halts;      /* cores halt often */
  bool bounces;    /* cores go offline and come back */
  bool no_uevents; /* and the kernel announces none of it */
  bool counters_fail, columns_fail, stands_still, suspends, pauses;
};

/* The truth, at the instants between which nothing changed. */
#define MOMENTS 16384
struct moment {
  uint64_t time_ns;
  double ran_ns[CORES_MAX_PLAYED];
};

/* What the test knows of a core. */
struct model {
  int calm;              /* number of samples since the last fault */
  uint64_t misread_ns;   /* when its idle time was last misread */
  uint64_t idle_used_ns; /* when its load last came from idle time */
  double misread;        /* the error of the idle column in this sample */
  uint64_t before_ns;    /* the end of its totals before the last sample */
  struct core_totals interval, shown; /* the begins of longer windows */
  uint64_t interval_ns, shown_ns;
};

struct life {
  uint64_t seed;
  struct traits traits;
  struct play play;
  struct percore_load *load; /* NULL: the engine is used by itself */
  int cores;
  double interval_s;
  struct schedule schedule; /* of the samples, unless percore_load takes them */
  uint64_t sampled_ns;
  bool is_long; /* enough time has passed since the last sample for a load */
  double played_s;
  bool no_columns; /* /proc/stat cannot be read, lacks rows or stands still */
  uint64_t windows, violations;
  struct model model[CORES_MAX_PLAYED];
  struct moment moment[MOMENTS]; /* a ring buffer */
  uint64_t moments;
};

static void describe(const struct life *life) {
  const struct traits *traits = &life->traits;
  const struct {
    bool holds;
    const char *name;
  } words[] = {
      {traits->library, "percore_load"},
      {traits->is_virtual, "virtual"},
      {traits->hides_steal, "no steal reported"},
      {traits->steal_apart, "idle_stealtime"},
      {traits->polls, "polls"},
      {traits->misses, "softirq is idle"},
      {traits->at_ticks, traits->is_periodic ? "periodic tick" : "nohz=off"},
      {traits->slow, "slow reads"},
      {traits->halts, "halts"},
      {traits->bounces,
       traits->no_uevents ? "hotplug without uevents" : "hotplug"},
      {traits->counters_fail, "counters fail"},
      {traits->columns_fail, "columns fail"},
      {traits->stands_still, "columns stand still"},
      {traits->suspends, "suspends"},
      {traits->pauses, "pauses"},
  };
  print_error("PERCORE_TEST_SEED=%llu: %d cores, %g s, %s",
              (unsigned long long)life->seed, life->cores, life->interval_s,
              counter_names[traits->counter]);
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
    if (words[i].holds)
      print_error(", %s", words[i].name);
  print_error("\n");
}

static void remember(void *context) {
  struct life *life = context;
  struct moment *moment = &life->moment[life->moments++ % MOMENTS];
  moment->time_ns = life->play.fake->monotonic_ns;
  for (int i = 0; i < life->cores; i++)
    moment->ran_ns[i] = life->play.fake->cores[i].ran_ns;
}

/* Returns how long a core has run until `time_ns`; NAN if that is forgotten. */
static double ran_ns(const struct life *life, int core, uint64_t time_ns) {
  uint64_t first = life->moments > MOMENTS ? life->moments - MOMENTS : 0;
  uint64_t last = life->moments - 1;
  if (time_ns < life->moment[first % MOMENTS].time_ns ||
      time_ns > life->moment[last % MOMENTS].time_ns)
    return NAN;
  while (last - first > 1) {
    uint64_t middle = first + (last - first) / 2;
    if (life->moment[middle % MOMENTS].time_ns <= time_ns)
      first = middle;
    else
      last = middle;
  }
  const struct moment *from = &life->moment[first % MOMENTS];
  const struct moment *to = &life->moment[last % MOMENTS];
  if (to->time_ns == from->time_ns)
    return to->ran_ns[core];
  double share =
      (double)(time_ns - from->time_ns) / (double)(to->time_ns - from->time_ns);
  return from->ran_ns[core] + share * (to->ran_ns[core] - from->ran_ns[core]);
}

/* ---------------------------------------------------------------------------
 * Loads
 */

static double take(double *rest) {
  double share = once_in(4) ? *rest : uniform(0, *rest);
  *rest -= share;
  return share;
}

/* Draws what a core does from now on. */
static void change_load(const struct traits *traits, struct fake_core *core) {
  double rest = 1;
  double work = once_in(4) ? 0 : take(&rest);
  double hidden = traits->hides_steal && once_in(2) ? take(&rest) : 0;
  bool steals = traits->is_virtual && !traits->hides_steal;
  core->steal = steals && once_in(3) ? take(&rest) : 0;
  core->woken = steals && once_in(3) ? take(&rest) : 0;
  core->polled = traits->polls && once_in(2) ? take(&rest) : 0;
  core->polled_irq =
      core->polled > 0 && once_in(3) ? uniform(0, fmin(work, 1)) : 0;
  double missed = traits->misses && once_in(2) ? uniform(0, work) : 0;
  core->load = work + core->polled;
  core->idle =
      rest + core->polled + (traits->steal_apart ? 0 : core->woken) + missed;
  core->iowait = uniform(0, 1);
  /* Not even work that evades the tick leaves nothing to the columns, because
   * it sleeps at each tick. */
  double columns = work + hidden - missed;
  core->halts_per_s = traits->halts && once_in(2) && rest > 0
                          ? uniform(0, fmin(work - missed, 0.3) / 8e-6)
                          : 0;
  core->loop_ns = uniform(0, 8e3);
  core->entry_ns = fmin(core->loop_ns, uniform(0, 2e3));
  /* If the tick counts too much, the columns do not show a pause. The idle loop
   * is in the idle column, so a tick there counts no work. */
  double most =
      traits->pauses ? columns - core->halts_per_s * core->loop_ns / 1e9 : 1;
  core->seen = fmin(once_in(3) ? uniform(0.02, 1) : columns, most);
  core->idle_in_pause = rest > 0 && once_in(2);
  if (traits->at_ticks) {
    core->seen = uniform(0, 1 - core->steal - core->woken);
    core->idle = 1 - core->seen - core->steal - core->woken;
  }
}

static void change_loads(struct life *life) {
  for (int i = 0; i < life->cores; i++)
    if (once_in(3))
      change_load(&life->traits, &life->play.fake->cores[i]);
}

static uint64_t monotonic_ns(const struct life *life) {
  return life->play.fake->monotonic_ns;
}

static uint64_t realtime_ns(const struct life *life) {
  return monotonic_ns(life) + (uint64_t)life->play.fake->realtime_offset_ns;
}

static void pass(struct life *life, uint64_t ns) {
  fake_machine_run(life->play.fake, ns);
  life->played_s += (double)ns / 1e9;
}

/* ---------------------------------------------------------------------------
 * Faults
 */

static void fault(struct life *life, int core) { life->model[core].calm = 0; }

static void fault_all(struct life *life) {
  for (int i = 0; i < life->cores; i++)
    fault(life, i);
}

/* Makes the sum of idle and iowait wrong in one sample, as if both columns had
 * changed between the kernel's reads. No bounds include that. */
static void misread(struct life *life, int core) {
  static const double most_ns[] = {50e6, 1e9, 100e9};
  double ns = uniform(0, most_ns[random_next() % 3]);
  life->model[core].misread = once_in(2) ? ns : -ns;
  fault(life, core);
}

static void go_or_come(struct life *life, int core) {
  struct fake_machine *fake = life->play.fake;
  bool online = fake->cores[core].online;
  if (core == 0) /* on most machines core 0 cannot go offline */
    return;
  fake_machine_online(fake, core, !online);
  if (online && once_in(2)) { /* the core returns before the next sample */
    pass(life, (uint64_t)(life->interval_s * uniform(0, 1) * 1e9));
    fake_machine_online(fake, core, true);
  }
  fault(life, core);
}

static void counters_fail(struct life *life, int core) {
  struct fake_machine *fake = life->play.fake;
  struct fake_core *it = &fake->cores[core];
  static const int errors[] = {0, 0, ENODEV, EOPNOTSUPP, EMFILE, EIO};
  switch (random_next() % 5) {
  case 0:
    for (size_t i = 0; i < fake->counters_len; i++)
      fake->counters[i].open_error = errors[random_next() % 6];
    fault_all(life);
    break;
  case 1:
    it->read_error = it->read_error == 0 ? EIO : 0;
    break;
  case 2:
    it->frozen = !it->frozen;
    break;
  case 3:
    it->running = once_in(3) ? 0 : uniform(0.1, 1);
    break;
  default:
    it->pinned_lost = !it->pinned_lost;
  }
  fault(life, core);
}

static void columns_fail(struct life *life, int core) {
  struct fake_machine *fake = life->play.fake;
  switch (random_next() % 4) {
  case 0:
    fake_machine_fail(fake, "/proc/stat", EIO);
    life->no_columns = true;
    break;
  case 1:
    core_set_add(&fake->stat_hidden, core);
    life->no_columns = true;
    break;
  case 2: /* the columns are reset */
    for (int i = 0; i < 10; i++)
      if (fake->cores[core].column_ns[i] > 1000e9)
        fake->cores[core].column_ns[i] -= uniform(200e9, 1000e9);
    break;
  default:
    if (once_in(100))
      misread(life, core);
    return;
  }
  fault_all(life);
}

static void columns_recover(struct life *life) {
  struct fake_machine *fake = life->play.fake;
  core_set_clear(&fake->stat_hidden);
  fake_machine_remove(fake, "/proc/stat");
  life->no_columns = fake->stat_still = false;
}

/* Pauses the machine for a random time, unless a core has had a fault recently.
 */
static void stand_still(struct life *life) {
  for (int i = 0; i < life->cores; i++)
    if (life->model[i].calm <= RECOVERY_SAMPLES)
      return;
  double most_s = once_in(2) ? 2.3 : fmax(life->interval_s * 100, 2.3);
  fake_machine_pause(life->play.fake, (uint64_t)(uniform(0.01, most_s) * 1e9));
  fault_all(life);
}

/* Notes a fault if counters do not count or columns are missing, because
 * loads are then unknown. */
static void note_what_lasts(struct life *life) {
  if (life->no_columns)
    fault_all(life);
  for (int i = 0; i < life->cores; i++) {
    const struct fake_core *core = &life->play.fake->cores[i];
    if (core->frozen || core->running == 0)
      fault(life, i);
  }
}

/* Makes the next reads slow, or quick again. */
static void change_reads(struct life *life) {
  struct fake_machine *fake = life->play.fake;
  static const double most_ns[] = {100e3, 3e6, 100e6};
  fake->stat_slow_reads = once_in(3) ? 0 : -1;
  fake->stat_read_ns = (uint64_t)uniform(0, most_ns[random_next() % 3]);
  fake->clock.read_ns =
      once_in(3) ? 0 : (uint64_t)uniform(0, most_ns[random_next() % 3]);
}

static void go_wrong(struct life *life) {
  const struct traits *traits = &life->traits;
  int core = (int)(random_next() % (uint64_t)life->cores);
  if (once_in(4))
    columns_recover(life);
  if (traits->bounces && once_in(40))
    go_or_come(life, core);
  if (traits->counters_fail && once_in(40))
    counters_fail(life, core);
  if (traits->columns_fail && once_in(20))
    columns_fail(life, core);
  if (traits->stands_still && once_in(40))
    life->no_columns = life->play.fake->stat_still = true;
  if (traits->suspends && once_in(200)) {
    fake_machine_suspend(life->play.fake, (uint64_t)(uniform(1, 1000) * 1e9));
    fault_all(life);
  }
  if (traits->slow && once_in(10))
    change_reads(life);
  life->play.fake->stat_read_before = uniform(0, 1);
  note_what_lasts(life);
  if (traits->pauses && once_in(100))
    stand_still(life);
}

/* ---------------------------------------------------------------------------
 * The property
 */

struct window {
  const char *name;
  uint64_t from_ns, to_ns; /* CLOCK_MONOTONIC */
  double load, low, high;
  double slack; /* share of it that may belong to its neighbours */
};

/* True if nothing shows that the kernel's idle time is not what it seems, and
 * the window contains it. Such loads are marked as unproven. */
static bool is_excused(const struct life *life, const struct model *model,
                       const struct window *window) {
  const struct traits *traits = &life->traits;
  return (traits->is_periodic || traits->hides_steal) &&
         window->from_ns < model->idle_used_ns;
}

/* True if a misread may still show. */
static bool is_misread(const struct life *life, const struct model *model,
                       const struct window *window) {
  uint64_t last_ns = (uint64_t)(RECOVERY_SAMPLES * life->interval_s * 1e9);
  return model->misread_ns > 0 &&
         window->from_ns < model->misread_ns + last_ns + 1000000000;
}

static void check(struct life *life, int core, const struct window *window) {
  const struct model *model = &life->model[core];
  double span_ns = (double)(window->to_ns - window->from_ns);
  double ran = (ran_ns(life, core, window->to_ns) -
                ran_ns(life, core, window->from_ns)) /
               span_ns;
  assert_true(0 <= window->low && window->low <= window->load &&
              window->load <= window->high && window->high <= 1);
  if (isnan(ran) || is_excused(life, model, window) ||
      is_misread(life, model, window))
    return;
  life->windows++;
  double slack = window->slack + 2 / span_ns + 1e-9;
  if (ran >= window->low - slack && ran <= window->high + slack)
    return;
  if (life->violations++ == 0)
    describe(life);
  if (life->violations == 1 || getenv("PERCORE_TEST_VERBOSE") != NULL)
    print_error("after %.3f s core %d (%s, %s): load %.6f, bounds %.6f to "
                "%.6f; the core ran %.6f of %.6f s\n",
                life->played_s, core,
                source_name(play_core(&life->play, core)->source), window->name,
                window->load, window->low, window->high, ran, span_ns / 1e9);
}

/* The time for which a counter was enabled and CLOCK_MONOTONIC may differ by
 * this much, as the two clocks are read one after the other. */
#define SLACK_NS 200e3
#define SLACK_SHARE 0.002

/* Checks the window from the given totals to the present ones. */
static void check_totals(struct life *life, int core, const char *name,
                         const struct core_totals *from, uint64_t from_ns) {
  const struct core *state = play_core(&life->play, core);
  const struct core_totals *to = &state->total;
  struct bounds bounds = bounds_of(from, to);
  double span_ns = to->wall - from->wall + to->unknown - from->unknown;
  uint64_t to_ns = state->total_end_ns;
  if (from_ns == 0)
    from_ns = to_ns - (uint64_t)(span_ns + 0.5);
  double off_ns = fabs((double)(to_ns - from_ns) - span_ns);
  struct window window = {
      name,       from_ns,     to_ns,           engine_load(from, to),
      bounds.low, bounds.high, off_ns / span_ns};
  if (isnan(window.load))
    return;
  if (off_ns > SLACK_NS + SLACK_SHARE * span_ns) {
    describe(life);
    fail_msg(
        "after %.3f s core %d has a window from %.9f to %.9f, whose length "
        "is %.9f s",
        life->played_s, core, (double)from_ns / 1e9, (double)to_ns / 1e9,
        span_ns / 1e9);
  }
  check(life, core, &window);
}

/* Checks what percore_load shows of a core, if it is new. */
static void check_shown(struct life *life, int core) {
  struct model *model = &life->model[core];
  const struct core *state = play_core(&life->play, core);
  const struct percore_load *load = life->load;
  if (load == NULL || load_figure(load, core, BOARD_COLUMN(time_ns)) !=
                          (double)engine_time_ns(life->play.engine))
    return;
  struct window window = {"shown",
                          model->shown_ns,
                          state->total_end_ns,
                          percore_load_get(load, core, NULL),
                          load_details(load, core).low,
                          load_details(load, core).high,
                          SLACK_SHARE};
  if (window.load >= 0 && model->shown.epoch == state->total.epoch &&
      model->shown_ns > 0)
    check(life, core, &window);
  model->shown = state->total;
  model->shown_ns = state->total_end_ns;
}

static void check_core(struct life *life, int core, enum source_kind before) {
  const struct play *play = &life->play;
  const struct core *state = play_core(play, core);
  struct model *model = &life->model[core];
  if (state == NULL || !state->online)
    return;
  const double figures[] = {state->total.wall, state->total.unhalted,
                            state->total.stolen, state->total.stat_idle,
                            state->total.stat_steal};
  for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++)
    assert_true(isfinite(figures[i]));
  if (state->sample.filled || state->source == SOURCE_IDLE)
    model->idle_used_ns = state->total_end_ns;
  check_totals(life, core, "sample", &play->before[core], model->before_ns);
  if (state->total.epoch != model->interval.epoch || once_in(20)) {
    check_totals(life, core, "interval", &model->interval, model->interval_ns);
    model->interval = state->total;
    model->interval_ns = state->total_end_ns;
  }
  check_shown(life, core);
  if (state->condemned != 0) {
    describe(life);
    fail_msg("after %.3f s a right counter is condemned on core %d",
             life->played_s, core);
  }
  /* Work of a single core that leaves nothing to the tick looks as if the
   * columns stood still, until its idle time is a tick. In such a sample, the
   * core does not recover from a fault either. */
  if (isnan(play_load(play, core)) && life->interval_s >= 0.02 &&
      life->is_long && model->calm > RECOVERY_SAMPLES &&
      state->source == before && !play->engine->stat_still) {
    describe(life);
    fail_msg("after %.3f s core %d (%s) has no load, and nothing went wrong "
             "lately",
             life->played_s, core, source_name(state->source));
  }
}

/* ---------------------------------------------------------------------------
 * A life
 */

static void note_sources(struct life *life,
                         enum source_kind before[CORES_MAX_PLAYED]) {
  for (int i = 0; i < life->cores; i++) {
    const struct core *state = play_core(&life->play, i);
    before[i] = play_source(&life->play, i);
    life->model[i].before_ns = state != NULL ? state->total_end_ns : 0;
    if (state != NULL)
      life->play.before[i] = state->total;
  }
}

/* Lets the interval pass, in which loads may change at any time. */
static void pass_interval(struct life *life) {
  uint64_t left_ns = life->load != NULL
                         ? (uint64_t)(life->interval_s * 1e9)
                         : schedule_wait_ns(&life->schedule, monotonic_ns(life),
                                            realtime_ns(life));
  while (once_in(3)) {
    uint64_t part_ns = (uint64_t)uniform(0, (double)left_ns);
    pass(life, part_ns);
    left_ns -= part_ns;
    change_loads(life);
  }
  pass(life, left_ns);
}

static int take_sample(struct life *life) {
  if (life->load != NULL)
    return percore_load_update(life->load) >= 0 ? 0 : -errno;
  struct schedule_due due =
      schedule_take(&life->schedule, monotonic_ns(life), realtime_ns(life));
  life->is_long &= !due.late; /* it may seem to be a pause */
  return engine_sample(life->play.engine, due.late);
}

static void sample(struct life *life) {
  struct play *play = &life->play;
  enum source_kind before[CORES_MAX_PLAYED];
  note_sources(life, before);
  change_loads(life);
  pass_interval(life);
  go_wrong(life);
  double passed_s = (double)(monotonic_ns(life) - life->sampled_ns) / 1e9;
  life->is_long = life->traits.slow ? passed_s >= 0.25 && life->interval_s > 1
                                    : passed_s >= 0.02;
  for (int i = 0; i < life->cores; i++)
    play->fake->cores[i].column_ns[3] += life->model[i].misread;
  int status = take_sample(life);
  life->sampled_ns = monotonic_ns(life);
  /* Without steal columns, none moves while nearly all of the time is stolen.
   */
  bool no_columns = life->no_columns || play->engine->stat_still;
  if (status != 0 && !no_columns) {
    describe(life);
    fail_msg("after %.3f s: %s", life->played_s, strerror(-status));
  }
  for (int i = 0; i < life->cores; i++) {
    struct model *model = &life->model[i];
    if (model->misread != 0)
      model->misread_ns = play->fake->monotonic_ns;
    play->fake->cores[i].column_ns[3] -= model->misread;
    model->misread = 0;
    check_core(life, i, before[i]);
    model->calm += life->is_long && !play->engine->stat_still;
  }
}

static void draw(struct traits *traits) {
  *traits = (struct traits){
      .counter = random_next() % COUNTERS,
      .library = once_in(4),
      .is_virtual = once_in(2),
      .steal_apart = once_in(2),
      .polls = once_in(3),
      .misses = once_in(6),
      .at_ticks = once_in(6),
      .is_periodic = once_in(3),
      .slow = once_in(4),
      .bounces = once_in(3),
      .no_uevents = once_in(2),
      .counters_fail = once_in(3),
      .columns_fail = once_in(3),
      .stands_still = once_in(4),
      .suspends = once_in(4),
      .pauses = once_in(4),
      .halts = once_in(3),
  };
  traits->pauses &= traits->counter != MPERF; /* which is of a real machine */
  traits->is_virtual |= traits->pauses || traits->counter == REF_CYCLES;
  traits->is_virtual &= traits->counter != MPERF;
  traits->is_periodic &= traits->at_ticks;
  traits->hides_steal =
      traits->is_virtual && traits->counter != CLOCK && once_in(3);
  traits->misses &= !traits->at_ticks;
  traits->halts &= !traits->at_ticks;
}

#define PMU "/sys/bus/event_source/devices/armv8_pmuv3_0"

/* On arm64, /proc/cpuinfo does not tell whether a machine is virtual. */
static void add_cnt_cycles(struct fake_machine *fake) {
  fake_machine_file(fake, "/proc/cpuinfo",
                    "processor\t: 0\nFeatures\t: fp asimd evtstrm\n");
  fake_machine_file(fake, PMU "/type", "8\n");
  fake_machine_file(fake, PMU "/events/cnt_cycles", "event=0x4004\n");
  fake_machine_counter(fake, 8, 0x4004, FAKE_PER_UNHALTED, 1e9);
  fake->machine.system_counter_hz = 1e9;
}

static void start_machine(struct life *life) {
  const struct traits *traits = &life->traits;
  struct play *play = &life->play;
  struct fake_machine *fake;
  play_start(play, life->cores);
  play->options.journal = (struct journal){0};
  fake = play->fake;
  if (traits->is_virtual)
    fake_machine_hypervisor(fake);
  if (traits->counter == MPERF || traits->counter == REF_CYCLES)
    fake_machine_msr(fake, PLAY_TSC_HZ, traits->counter == MPERF);
  if (traits->counter == REF_CYCLES)
    fake_machine_ref_cycles(fake, PLAY_TSC_HZ);
  if (traits->counter == CNT_CYCLES)
    add_cnt_cycles(fake);
  if (traits->counter == CLOCK)
    fake_machine_pin_clock(fake);
  if (traits->at_ticks && !traits->is_periodic)
    fake_machine_file(fake, "/proc/cmdline", "quiet nohz=off\n");
  if (traits->steal_apart || traits->misses)
    fake_machine_btf(fake, !traits->misses       ? "idle_stealtime"
                           : traits->steal_apart ? "idle_stealtime idle_dyntick"
                                                 : "idle_dyntick");
  fake->steal_apart = traits->steal_apart;
  fake->cpuidle_states = traits->polls ? 3 : 0;
  fake->poll_ns = once_in(2) ? 0 : (uint64_t)uniform(1e3, 500e3);
  fake->hotplug_events = !traits->no_uevents;
  for (int i = 0; i < life->cores; i++)
    for (int column = 0; column < 10; column++)
      if (column != 7 || (traits->is_virtual && !traits->hides_steal))
        fake->cores[i].column_ns[column] = uniform(1e15, 2e15);
  for (int i = 0; i < life->cores; i++)
    change_load(traits, &fake->cores[i]);
  fake->passed = remember;
  fake->passed_context = life;
  remember(life);
}

static void prove(struct life *life) {
  static const enum source_kind kinds[] = {[MPERF] = SOURCE_MPERF,
                                           [REF_CYCLES] = SOURCE_REF_CYCLES,
                                           [CNT_CYCLES] = SOURCE_EVENT};
  enum counter counter = life->traits.counter;
  if (counter != NO_COUNTER && counter != CLOCK)
    play_proof(&life->play, kinds[counter],
               counter == CNT_CYCLES || !once_in(4) ? PROOF_PROVEN
                                                    : PROOF_UNPROVEN);
  if (engine_source(life->play.engine, SOURCE_IDLE)->proof != PROOF_PENDING)
    return; /* it needs none */
  play_proof(&life->play, SOURCE_IDLE,
             once_in(3)              ? PROOF_UNPROVEN
             : life->traits.at_ticks ? PROOF_TICK_SAMPLED
                                     : PROOF_PROVEN);
}

static void start(struct life *life) {
  static const double intervals[] = {0.013, 0.1, 1.154, 1.154, 4.6, 10};
  draw(&life->traits);
  life->cores = 1 + (int)(random_next() % CORES_MAX_PLAYED);
  life->interval_s = intervals[random_next() % 6];
  if (life->traits.library)
    life->interval_s = fmax(life->interval_s, 0.1);
  start_machine(life);
  if (!life->traits.library) {
    play_open(&life->play);
    schedule_start(&life->schedule, (uint64_t)(life->interval_s * 1e9), 0, true,
                   monotonic_ns(life), realtime_ns(life));
  } else {
    const struct percore_load_options options = {.shortest_window = 0.05,
                                                 .bounds = 1};
    assert_int_equal(
        load_open(&life->load, &life->play.fake->machine, &options), 0);
    life->play.engine = life->load->engine;
  }
  prove(life);
}

/* Plays the life of a machine: LIFE_SECONDS or LIFE_SAMPLES, whichever is
 * shorter. */
static const struct life *live(uint64_t seed) {
  static struct life life;
  life = (struct life){.seed = seed};
  random_state = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15);
  for (int i = 0; i < 10; i++)
    random_next();
  start(&life);
  double length_s = fmin(LIFE_SECONDS, life.interval_s * LIFE_SAMPLES);
  while (life.played_s < length_s)
    sample(&life);
  if (life.load != NULL) {
    percore_load_close(life.load);
    life.play.engine = NULL;
  }
  play_end(&life.play);
  return &life;
}

static uint64_t number_in(const char *variable, uint64_t otherwise) {
  const char *given = getenv(variable);
  return given != NULL ? strtoull(given, NULL, 0) : otherwise;
}

TEST(in_a_million_windows_the_truth_is_within_the_bounds) {
  uint64_t seed =
      number_in("PERCORE_TEST_SEED", (uint64_t)time(NULL) * 1000003);
  uint64_t wanted = number_in("PERCORE_TEST_WINDOWS", WINDOWS);
  uint64_t windows = 0, violations = 0, lives = 0;
  double played_s = 0;
  print_message("PERCORE_TEST_SEED=%llu\n", (unsigned long long)seed);
  for (; windows < wanted; lives++) {
    const struct life *life = live(seed + lives);
    windows += life->windows;
    violations += life->violations;
    played_s += life->played_s;
  }
  print_message("%llu machines, %.0f s simulated, %llu windows, %llu out of "
                "bounds\n",
                (unsigned long long)lives, played_s,
                (unsigned long long)windows, (unsigned long long)violations);
  assert_true((double)violations <= VIOLATIONS_MAX * (double)windows);
}
