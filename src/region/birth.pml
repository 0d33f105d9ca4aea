/* birth.pml: a model of a row that is removed and used again for another object,
 * while a worker looks rows up and adds to them, and a reader subtracts births
 * (grace.c, begin_row, region_tile_read, region_tile_read_births).
 *
 * Shows: what the reader reports for an object was added for this object, and
 * nothing that was added is lost.
 *
 * The model fails without any one of what WITHOUT_ names (test_models.py). It
 * holds without the fence of region_begin_change, because the barrier has come
 * before; slots, and rows that nobody uses when they are removed, need the fence. */
#define THREADS 3
#define LOCATIONS 5
#define STORES 4
#include "memory_order.pml"

#define TURNS 3 /* of the worker */
#define WORKER 0
#define WRITER 1
#define READER 2

#define GENERATION 0
#define BIRTH 1
#define CELL 2
#define QUIESCENT 3
#define LOOKUP 4 /* the application's table: the object that has the row, or 0 */

#define OLD 1 /* objects */
#define NEW 2
#define FREE 0 /* generations */
#define OLD_LIVE 1
#define OLD_GONE 2
#define NEW_CHANGING 3
#define NEW_LIVE 4

byte added[3]; /* for each object */
byte ended;

proctype worker() {
  byte turns, object, was;
  do
  :: turns < TURNS ->
    turns++;
    load_acquire(WORKER, LOOKUP, object);
    if
    :: object != 0 ->
      load_relaxed(WORKER, CELL, was);
      atomic {
        added[object]++;
        store_relaxed(WORKER, CELL, was + 1)
      }
    :: else
    fi;
    object = 0;
    was = 0;
#ifdef WITHOUT_QUIESCENT_RELEASE
    store_relaxed(WORKER, QUIESCENT, turns)
#else
    store_release(WORKER, QUIESCENT, turns)
#endif
  :: else -> break
  od;
  ended++
}

inline load_quiescent(into) {
#ifdef WITHOUT_GRACE_ACQUIRE
  load_relaxed(WRITER, QUIESCENT, into)
#else
  load_acquire(WRITER, QUIESCENT, into)
#endif
}

proctype writer() {
  byte before, now, sum;
  store_release(WRITER, GENERATION, OLD_LIVE);
  store_release(WRITER, LOOKUP, OLD);
  /* percore_row_remove */
  store_relaxed(WRITER, LOOKUP, 0);
  store_release(WRITER, GENERATION, OLD_GONE);
#ifndef WITHOUT_BARRIER
  barrier_everywhere(2);
#endif
  load_quiescent(before);
  now = before;
  do
#ifndef WITHOUT_GRACE
  :: now == before -> load_quiescent(now)
  :: now == before -> goto end /* percore_row_add returns EAGAIN */
  :: else -> break
#else
  :: break
#endif
  od;
  /* percore_row_add */
  store_relaxed(WRITER, GENERATION, NEW_CHANGING);
  fence_release(WRITER);
  load_relaxed(WRITER, CELL, sum);
  store_relaxed(WRITER, BIRTH, sum);
#ifdef WITHOUT_END_RELEASE
  store_relaxed(WRITER, GENERATION, NEW_LIVE);
#else
  store_release(WRITER, GENERATION, NEW_LIVE);
#endif
  store_release(WRITER, LOOKUP, NEW);
end:
  ended++
}

proctype reader() {
  byte generation, cell, birth, after;
#ifdef WITHOUT_READ_ACQUIRE
  load_relaxed(READER, GENERATION, generation);
#else
  load_acquire(READER, GENERATION, generation);
#endif
  load_relaxed(READER, CELL, cell);
  load_relaxed(READER, BIRTH, birth);
#ifndef WITHOUT_READ_FENCE
  fence_acquire(READER);
#endif
  load_relaxed(READER, GENERATION, after);
  if
  :: generation == after && generation == OLD_LIVE ->
    assert(birth == 0 && cell <= added[OLD])
  :: generation == after && generation == NEW_LIVE ->
    assert(birth == added[OLD] && cell >= birth && cell - birth <= added[NEW])
  :: else
  fi
}

init {
  atomic {
    run worker();
    run writer();
    run reader()
  }
  ended == 2;
  assert(value[STORE(CELL, newest[CELL])] == added[OLD] + added[NEW])
}
