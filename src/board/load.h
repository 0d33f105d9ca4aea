/* load: the loads of percore_load.h, measured here or read from the board.
 * load.c measures and reads them, best.c chooses cores by them. */
#ifndef PERCORE_BOARD_LOAD_H
#define PERCORE_BOARD_LOAD_H

#include "choose.h"
#include "read.h"

#include "cycles/core.h"
#include "cycles/engine.h"

#include <errno.h>
#include <pthread.h>

struct percore_load {
  pthread_mutex_t mutex; /* serialises updates */
  struct machine *machine;
  struct machine *own_machine;   /* NULL: it is the caller's */
  struct board_reader *board;    /* NULL: this program measures */
  struct engine *engine;         /* NULL: it reads the board */
  int status;                    /* of the last sample or look at the board */
  struct engine_options options; /* of the engine */
  struct core_set wanted;        /* options.cores, unless that is NULL */
  uint64_t shortest_ns;          /* shortest window; 0: depends on the source */
  uint64_t due_ns;               /* when the window will be long enough */
  uint64_t sampled_ns;           /* when the engine was last sampled */
  uint64_t between_ns; /* from the sample before until then; 0: none yet */
  struct core_totals *starts; /* of the window, by core number */
  /* The columns of board.h, each for all cores, because callers mostly look at
   * one figure of all cores. They are written under the mutex. Any thread may
   * read them, with memory_order_relaxed. With counters, there are no averages.
   */
  _Atomic double *figures;
  int cores_len;
  /* Of percore_load_best. */
  struct chooser *chooser;
  bool learned; /* the chooser knows the present loads */
  double *room; /* of each core */
};

static inline int load_failed(int error) {
  errno = error;
  return -1;
}

/* Returns a figure of a core, or that of an unknown core if there is no such
 * core. */
double load_figure(const struct percore_load *load, int core, size_t column);

double load_busiest_sibling(const struct percore_load *load, int core);

/* As percore_load_open, but returns 0 or -errno. Tests supply machines of their
 * own, which must outlive the load; NULL: this machine. */
int load_open(struct percore_load **result, struct machine *machine,
              const struct percore_load_options *options);

#endif
