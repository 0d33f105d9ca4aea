/* Fuzz target: a series of /proc/stat texts, one per second, which the engine
 * samples and from which it computes figures. Whatever the texts contain, no
 * load may leave the range 0 to 1 and no total may decrease. A piece that
 * begins with '=' is the list of online cores instead. */
#include "cycles/core.h"
#include "cycles/engine.h"
#include "cycles/figures.h"

#include "pieces.h"
#include "unit/fake_machine.h"

#include <math.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool in_range(double load) {
  return isnan(load) || (load >= 0 && load <= 1);
}

static struct core_totals before[CORES_MAX];

static void remember(const struct engine *engine) {
  size_t len;
  const struct core *cores = engine_cores(engine, &len);
  for (size_t i = 0; i < len; i++)
    before[cores[i].number] = cores[i].total;
}

static void check(const struct engine *engine) {
  size_t len;
  const struct core *cores = engine_cores(engine, &len);
  for (size_t i = 0; i < len; i++) {
    const struct core_totals *from = &before[cores[i].number];
    const struct core_totals *to = &cores[i].total;
    if ((i > 0 && cores[i].number <= cores[i - 1].number) ||
        !(to->wall >= from->wall) || !(to->stat_idle >= from->stat_idle) ||
        !(to->stat_busy >= from->stat_busy) || to->epoch < from->epoch ||
        !in_range(engine_load(from, to)))
      abort();
  }
}

static void check_figures(struct figures *figures) {
  struct snapshot *snapshot = figures_interval(figures);
  for (size_t i = 0; i < snapshot->cores_len; i++) {
    const struct core_figures *core = &snapshot->cores[i];
    if (!in_range(core->load) || !in_range(core->load_trough) ||
        !in_range(core->load_peak) || !in_range(core->steal) ||
        !in_range(core->load_average[0]))
      abort();
  }
  for (size_t i = 0; i < snapshot->aggregates_len; i++) {
    const struct aggregate_figures *aggregate = &snapshot->aggregates[i];
    if (!in_range(aggregate->load.mean) || !in_range(aggregate->load.stddev))
      abort();
  }
  snapshot_free(snapshot);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct pieces pieces;
  struct engine *engine;
  struct fake_machine *fake = fake_machine_new(4);
  const struct engine_options options = {.machine = &fake->machine,
                                         .source = SOURCE_AUTO};
  const struct figures_options figures_options = {.cstates = false};
  memset(before, 0, sizeof(before));
  pieces_cut(&pieces, data, size);
  fake_machine_file(fake, "/proc/stat", pieces_get(&pieces, 0));
  if (engine_open(&engine, &options) == 0) {
    struct figures *figures = figures_open(&figures_options, engine);
    for (int i = 1; i < pieces.len; i++) {
      bool online = pieces.piece[i][0] == '=';
      fake_machine_file(
          fake, online ? "/sys/devices/system/cpu/online" : "/proc/stat",
          pieces.piece[i] + online);
      remember(engine);
      fake_machine_run(fake, FAKE_SECOND);
      engine_sample(engine, i % 7 == 0);
      check(engine);
      figures_sample(figures);
      figures_load_average(figures);
      if (i % 3 == 0)
        check_figures(figures);
    }
    check_figures(figures);
    figures_close(figures);
    engine_close(engine);
  }
  fake_machine_free(fake);
  free(pieces.text);
  return 0;
}
