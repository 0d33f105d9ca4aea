/* figures_play: an engine on a fake machine, and the figures computed from it.
 */
#ifndef PERCORE_FIGURES_PLAY_H
#define PERCORE_FIGURES_PLAY_H

#include "unit.h"

#include "cycles/figures.h"
#include "play.h"

struct figures_play {
  struct play play;
  struct figures_options options;
  struct figures *figures;
  struct snapshot *snapshot; /* of the last figures_play_interval */
};

static inline void figures_play_prepare(struct figures_play *it, int cores,
                                        double load) {
  memset(it, 0, sizeof *it);
  play_start_mperf(&it->play, cores, load);
}

static inline void figures_play_start(struct figures_play *it) {
  play_open(&it->play);
  it->figures = figures_open(&it->options, it->play.engine);
  assert_non_null(it->figures);
  figures_sample(it->figures);
  figures_load_average(it->figures);
  snapshot_free(figures_interval(it->figures));
}

static inline void figures_play_end(struct figures_play *it) {
  snapshot_free(it->snapshot);
  figures_close(it->figures);
  play_end(&it->play);
}

/* Advances time by `ns` and takes one sample. */
static inline void figures_play_sample(struct figures_play *it, uint64_t ns) {
  play_sample(&it->play, ns);
  figures_sample(it->figures);
}

/* Plays `count` whole windows of the load averages, with one sample at the end
 * of each window. */
static inline void figures_play_windows(struct figures_play *it, int count) {
  for (int i = 0; i < count; i++) {
    figures_play_sample(it, LOADAVG_INTERVAL_NS);
    figures_load_average(it->figures);
  }
}

/* Returns a snapshot that is valid until the next call or the end. */
static inline struct snapshot *figures_play_interval(struct figures_play *it) {
  snapshot_free(it->snapshot);
  it->snapshot = figures_interval(it->figures);
  assert_non_null(it->snapshot);
  return it->snapshot;
}

/* Plays an interval of some seconds, with one sample at its end. */
static inline struct snapshot *figures_play_seconds(struct figures_play *it,
                                                    uint64_t seconds) {
  figures_play_sample(it, seconds * FAKE_SECOND);
  return figures_play_interval(it);
}

/* Declares a play like figures_play_prepare, and ends it with the block in
 * which it is declared. */
#define FIGURES_PLAY(cores, load)                                              \
  struct figures_play it __attribute__((cleanup(figures_play_end)));           \
  figures_play_prepare(&it, cores, load)

#endif
