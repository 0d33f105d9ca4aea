/* load_private: shared by load.c and best.c. */
#ifndef PERCORE_BOARD_LOAD_PRIVATE_H
#define PERCORE_BOARD_LOAD_PRIVATE_H

#include "choose.h"
#include "load.h"
#include "read.h"

#include "cycles/core.h"

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
  /* What percore_load_best also needs, under the mutex; NAN: unknown. */
  double useful, node, average[FIGURES_PERIODS_MAX];
  bool is_isolated;
  /* The totals and the time at which the core's next window begins. */
  struct core_totals start;
  uint64_t start_ns;
};

struct percore_load {
  pthread_mutex_t mutex;       /* serialises updates */
  struct machine *machine;     /* closed with the load; may be NULL */
  const struct machine *clock; /* the machine whose clock is used */
  /* Where the loads come from: one of the two, or the board, and counters when
   * it is dead. */
  struct board_reader *board;
  struct engine *engine;
  atomic_bool is_board;
  bool may_count;         /* counters may replace the board */
  struct core_set wanted; /* with has_wanted: the only cores to show */
  bool has_wanted;
  bool frequency;          /* wanted of counters, too */
  uint64_t shortest_ns;    /* shortest window; 0: depends on the source */
  uint64_t due_ns;         /* when the window will be long enough */
  struct load_core *cores; /* indexed by core number */
  int cores_len;
  uint64_t measured; /* how often loads were published */
  /* Of percore_load_best. */
  struct chooser *chooser;
  uint64_t learned; /* `measured` when the chooser last learned */
};

#endif
