/* play: runs an engine on a fake machine, one sample after another. */
#ifndef PERCORE_PLAY_H
#define PERCORE_PLAY_H

#include "cycles/core.h"
#include "cycles/engine.h"
#include "cycles/totals.h"
#include "fake_machine.h"

/* Tolerance for loads that are measured with counters. */
#define PLAY_EXACT 1e-6
/* Tolerance for loads that the source "idle" measures over one second: each of
 * its two columns is truncated to a tick of 10 ms. */
#define PLAY_SECOND_ERROR 0.0201

#define PLAY_TSC_HZ 2.5e9
/* Of arm64 machines: the PMU that play_start_cnt_cycles adds. */
#define PLAY_SYSTEM_COUNTER_HZ 1e9
#define PLAY_PMU_TYPE 8
#define PLAY_CNT_CYCLES 0x4004
#define PLAY_CORES_MAX 256

struct play {
  struct fake_machine *fake;
  struct fake_journal journal;
  struct engine_options options; /* takes effect in play_open */
  struct engine *engine;
  /* The totals of each core, indexed by core number, before the last sample. */
  struct core_totals before[PLAY_CORES_MAX];
};

/* Sets up a bare-metal machine without counters. Does not open the engine. */
void play_start(struct play *play, int cores);
/* Set up a machine like play_start, with mperf and the option frequency, or a
 * virtual machine with ref-cycles. The load of every core is `load`. */
void play_start_mperf(struct play *play, int cores, double load);
void play_start_ref_cycles(struct play *play, int cores, double load);
/* Sets up an arm64 machine, whose PMU covers all cores and has cnt_cycles. The
 * caller sets the result of its proof, before which it is not used. */
void play_start_cnt_cycles(struct play *play, int cores, double load);
/* Adds another PMU, which covers these cores. */
void play_add_cnt_cycles(struct play *play, const char *pmu, int type,
                         const char *cpus);
void play_open(struct play *play);
/* Closes the engine and frees the machine. Fails the test if a descriptor is
 * still open. */
void play_end(struct play *play);

/* Declare `play`, start it, and end it with the block in which it is declared.
 */
#define PLAY_WITH(start)                                                       \
  struct play play __attribute__((cleanup(play_end)));                         \
  start
#define PLAY(cores) PLAY_WITH(play_start(&play, cores))
#define PLAY_MPERF(cores, load) PLAY_WITH(play_start_mperf(&play, cores, load))
#define PLAY_REF_CYCLES(cores, load)                                           \
  PLAY_WITH(play_start_ref_cycles(&play, cores, load))
#define PLAY_ARM64(cores, load)                                                \
  PLAY_WITH(play_start_cnt_cycles(&play, cores, load))

/* Advance time by `ns` and take a sample. Return the status of engine_sample.
 * Then play_load returns the load in the window that ended with this sample. */
int play_sample(struct play *play, uint64_t ns);
int play_sample_late(struct play *play, uint64_t ns);
/* Takes `seconds` samples, one per second, and asserts that each succeeds. */
void play_seconds(struct play *play, int seconds);
/* Calls play_open and play_seconds. */
void play_open_for(struct play *play, int seconds);

/* Returns the engine's state of a core, or NULL if the engine has not seen it.
 */
const struct core *play_core(const struct play *play, int core);
double play_load(const struct play *play, int core);
/* Returns the load less the time that may have been stolen. */
double play_low(const struct play *play, int core);
struct bounds play_bounds(const struct play *play, int core);
enum source_kind play_source(const struct play *play, int core);
const struct engine_counts *play_counts(const struct play *play);

/* Sets the result of a source's proof, as if the proof had been run. */
void play_proof(struct play *play, enum source_kind source, enum proof proof);
/* Sets the result of a source's proof, but only for the PMU of this core. */
void play_proof_on(struct play *play, enum source_kind source, int core,
                   enum proof proof);

/* Returns how many lines of the journal contain all of the given words. */
#define play_said(play, ...)                                                   \
  fake_journal_count(&(play)->journal, __VA_ARGS__, NULL)

/* Asserts which source measures a core, and the core's load. */
#define assert_measured(play, core, source, load, within)                      \
  do {                                                                         \
    assert_int_equal(play_source(play, core), source);                         \
    assert_near(play_load(play, core), load, within);                          \
  } while (0)

/* Plays 1000 seconds of a quiet core, which runs for 0 to 0.4 % of each, and
 * asserts that the truth is within the bounds. Returns how far the bounds are
 * apart, in rising order. */
void play_quiet_widths(struct play *play, double widths[1000]);

#endif
