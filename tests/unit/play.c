#include "play.h"

#include "unit.h"

#include "cycles/engine_private.h"

void play_start(struct play *play, int cores) {
  memset(play, 0, sizeof *play);
  play->fake = fake_machine_new(cores);
  fake_journal_open(&play->journal);
  play->options = (struct engine_options){.machine = &play->fake->machine,
                                          .hardware = true,
                                          .bounds = true,
                                          .source = SOURCE_AUTO,
                                          .journal = play->journal.journal};
}

void play_start_mperf(struct play *play, int cores, double load) {
  play_start(play, cores);
  play->options.frequency = true;
  fake_machine_msr(play->fake, PLAY_TSC_HZ, true);
  fake_machine_load(play->fake, load);
}

void play_start_ref_cycles(struct play *play, int cores, double load) {
  play_start(play, cores);
  fake_machine_hypervisor(play->fake);
  fake_machine_msr(play->fake, PLAY_TSC_HZ, false);
  fake_machine_ref_cycles(play->fake, PLAY_TSC_HZ);
  fake_machine_load(play->fake, load);
}

void play_add_cnt_cycles(struct play *play, const char *pmu, int type,
                         const char *cpus) {
  static const char folder[] = "/sys/bus/event_source/devices";
  struct fake_machine *fake = play->fake;
  char number[16];
  snprintf(number, sizeof number, "%d\n", type);
  fake_machine_file(fake, "/proc/cpuinfo",
                    "processor\t: 0\nFeatures\t: fp asimd evtstrm\n");
  fake_machine_filef(fake, number, "%s/%s/type", folder, pmu);
  fake_machine_filef(fake, cpus, "%s/%s/cpus", folder, pmu);
  fake_machine_filef(fake, "event=0x4004\n", "%s/%s/events/cnt_cycles", folder,
                     pmu);
  fake_machine_counter(fake, (uint32_t)type, PLAY_CNT_CYCLES, FAKE_PER_UNHALTED,
                       PLAY_SYSTEM_COUNTER_HZ);
  fake->machine.system_counter_hz = PLAY_SYSTEM_COUNTER_HZ;
}

void play_start_cnt_cycles(struct play *play, int cores, double load) {
  char cpus[16];
  play_start(play, cores);
  snprintf(cpus, sizeof cpus, "0-%d\n", cores - 1);
  play_add_cnt_cycles(play, "armv8_pmuv3_0", PLAY_PMU_TYPE, cpus);
  fake_machine_load(play->fake, load);
}

void play_open(struct play *play) {
  assert_int_equal(engine_open(&play->engine, &play->options), 0);
}

void play_end(struct play *play) {
  engine_close(play->engine);
  assert_int_equal(fake_machine_descriptors(play->fake, -1), 0);
  fake_machine_free(play->fake);
}

static int sample(struct play *play, uint64_t ns, bool late) {
  size_t len;
  const struct core *cores = engine_cores(play->engine, &len);
  for (size_t i = 0; i < len; i++)
    play->before[cores[i].number] = cores[i].total;
  fake_machine_run(play->fake, ns);
  return engine_sample(play->engine, late);
}

int play_sample(struct play *play, uint64_t ns) {
  return sample(play, ns, false);
}

int play_sample_late(struct play *play, uint64_t ns) {
  return sample(play, ns, true);
}

void play_seconds(struct play *play, int seconds) {
  for (int i = 0; i < seconds; i++)
    assert_int_equal(play_sample(play, FAKE_SECOND), 0);
}

void play_open_for(struct play *play, int seconds) {
  play_open(play);
  play_seconds(play, seconds);
}

const struct core *play_core(const struct play *play, int core) {
  size_t len;
  const struct core *cores = engine_cores(play->engine, &len);
  for (size_t i = 0; i < len; i++)
    if (cores[i].number == core)
      return &cores[i];
  return NULL;
}

double play_load(const struct play *play, int core) {
  const struct core *state = play_core(play, core);
  assert_non_null(state);
  return engine_load(&play->before[core], &state->total);
}

double play_low(const struct play *play, int core) {
  const struct core_totals *from = &play->before[core];
  const struct core_totals *to = &play_core(play, core)->total;
  return fmax(engine_load(from, to) -
                  (to->stolen - from->stolen) / (to->wall - from->wall),
              0);
}

struct bounds play_bounds(const struct play *play, int core) {
  return bounds_of(&play->before[core], &play_core(play, core)->total);
}

enum source_kind play_source(const struct play *play, int core) {
  const struct core *state = play_core(play, core);
  return state == NULL ? SOURCE_NONE : state->source;
}

const struct engine_counts *play_counts(const struct play *play) {
  return &play->engine->counts;
}

/* Sets the result of a source's proof for the PMU of one core (-1: for all
 * PMUs). */
static void set_proof(struct play *play, enum source_kind kind, int core,
                      enum proof proof) {
  int found = 0;
  for (int i = 0; i < play->engine->sources_len; i++) {
    struct source *source = &play->engine->sources[i];
    if (source->kind != kind ||
        (core >= 0 && !core_set_has(&source->cores, core)))
      continue;
    engine_set_proof(play->engine, source, proof);
    found++;
  }
  assert_true(found > 0);
}

void play_proof(struct play *play, enum source_kind kind, enum proof proof) {
  set_proof(play, kind, -1, proof);
}

void play_proof_on(struct play *play, enum source_kind kind, int core,
                   enum proof proof) {
  set_proof(play, kind, core, proof);
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

void play_quiet_widths(struct play *play, double widths[1000]) {
  uint32_t random = 1;
  play_open_for(play, 2);
  for (int second = 0; second < 1000; second++) {
    random = random * 1664525 + 1013904223;
    play->fake->cores[0].load = 0.004 * random / UINT32_MAX;
    play_seconds(play, 1);
    struct bounds bounds = play_bounds(play, 0);
    assert_true(bounds.low <= play->fake->cores[0].load);
    assert_true(bounds.high >= play->fake->cores[0].load);
    widths[second] = bounds.high - bounds.low;
  }
  qsort(widths, 1000, sizeof widths[0], compare);
}
