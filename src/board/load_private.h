/* load_private: shared by load.c and best.c. */
#ifndef PERCORE_BOARD_LOAD_PRIVATE_H
#define PERCORE_BOARD_LOAD_PRIVATE_H

#include "choose.h"
#include "load.h"
#include "read.h"

#include "cycles/core.h"
#include "cycles/engine.h"

#include <pthread.h>

/* The figures of one core as the percore_load_get functions return them. They
 * are written under the mutex. Any thread may read them, with
 * memory_order_relaxed. */
struct published {
  _Atomic double load, low, high; /* -1: unknown */
  _Atomic double sibling_load;    /* of the busiest sibling; -1: unknown */
  _Atomic double frequency_hz;    /* -1: unknown */
  _Atomic double length_s;        /* length of the window */
  _Atomic uint64_t ended_ns;      /* CLOCK_MONOTONIC at the end of the window */
  _Atomic int source;
  _Atomic int proof;
};

struct load_core {
  struct published published;
  /* The board's row, under the mutex. With counters, all but the node and
   * whether the core is isolated is unknown. */
  struct board_core row;
  /* The totals and the time at which the core's next window begins. */
  struct core_totals start;
  uint64_t start_ns;
};

struct percore_load {
  pthread_mutex_t mutex; /* serialises updates */
  struct machine *machine;
  bool owns_machine;
  /* Where the loads come from: one of the two, or the board, and counters when
   * it is dead. */
  struct board_reader *board;
  struct engine *engine;
  atomic_bool is_board;
  bool may_be_board, may_count;  /* which of the two may be taken */
  struct engine_options options; /* of the engine */
  struct core_set wanted;        /* options.cores, unless that is NULL */
  uint64_t age_max_ns;           /* of the board */
  uint64_t shortest_ns;          /* shortest window; 0: depends on the source */
  uint64_t due_ns;               /* when the window will be long enough */
  struct load_core *cores;       /* indexed by core number */
  int cores_len;
  uint64_t measured; /* how often loads were published */
  /* Of percore_load_best. */
  struct chooser *chooser;
  uint64_t learned; /* `measured` when the chooser last learned */
};

#endif
