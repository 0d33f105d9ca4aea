/* play: an engine on a fake machine, sampled step by step. */
#ifndef PERCORE_PLAY_H
#define PERCORE_PLAY_H

#include "cycles/core.h"
#include "cycles/engine.h"
#include "fake_machine.h"

/* Tolerance for loads from counters. */
#define PLAY_EXACT 1e-6
/* Tolerance for loads of the source idle over a second: two columns, each
 * truncated to a tick of 10 ms. */
#define PLAY_SECOND_ERROR 0.0201

#define PLAY_TSC_HZ 2.5e9
#define PLAY_CORES_MAX 256

struct play {
  struct fake_machine *fake;
  struct fake_journal journal;
  struct engine_options options; /* change the options before play_open */
  struct engine *engine;
  /* Totals at the last sample, by core. */
  struct core_totals before[PLAY_CORES_MAX];
};

/* Sets up a bare-metal machine without counters. Nothing is open yet. */
void play_start(struct play *play, int cores);
/* Set up the same machine with mperf and the frequency, or a virtual machine
 * with ref-cycles. The load of every core is `load`. */
void play_start_mperf(struct play *play, int cores, double load);
void play_start_ref_cycles(struct play *play, int cores, double load);
/* Adds counters of cycles (3e9 per second) and of instructions (twice as many),
 * and requests IPC. */
void play_add_ipc(struct play *play);
void play_open(struct play *play);
/* Closes everything. Fails the test if a descriptor stays open. */
void play_end(struct play *play);

/* Advance time and take a sample. The figures below are those of the window
 * between this sample and the previous one. */
int play_sample(struct play *play, uint64_t ns);
int play_sample_late(struct play *play, uint64_t ns);
/* Takes one sample per second, each of which must succeed. */
void play_seconds(struct play *play, int seconds);

/* Returns NULL if the engine has not seen this core. */
const struct core *play_core(const struct play *play, int core);
double play_load(const struct play *play, int core);
enum source play_source(const struct play *play, int core);
const struct engine_counts *play_counts(const struct play *play);

/* Sets the proof of a source, as if the proof had been run. */
void play_proof(struct play *play, enum source source, enum proof proof);
/* Sets the proof only for the PMU of this core. */
void play_proof_on(struct play *play, enum source source, int core,
                   enum proof proof);

#endif
