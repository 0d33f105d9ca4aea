/* memory_order.pml: the memory that C11 promises, for models of what threads
 * share. It is weaker than that of x86 and of arm64, except that no load returns
 * what is stored later because of it.
 *
 * Each location keeps all its stores. A thread may load any store that is not
 * older than the last one that it has seen there; a store carries along what its
 * thread had seen, up to its last release. Define THREADS, LOCATIONS and STORES,
 * the greatest number of stores to a location, before you include this file.
 * `me` is a thread, and each location is 0 at first. */
#define OF(thread, location) ((thread) * LOCATIONS + (location))
#define STORE(location, number) ((location) * (STORES + 1) + (number))

byte value[LOCATIONS * (STORES + 1)];
byte newest[LOCATIONS];
byte carried[LOCATIONS * (STORES + 1) * LOCATIONS];
byte seen[THREADS * LOCATIONS];
byte to_acquire[THREADS * LOCATIONS]; /* seen after an acquire fence */
byte released[THREADS * LOCATIONS];   /* seen before the last release fence */

byte pick, each, other; /* 0 between steps */

#define JOIN(array, at, number)                                                \
  array[at] = (array[at] > (number) -> array[at] : (number))

inline choose_and_load(me, location, into) {
  pick = seen[OF(me, location)];
  do
  :: pick < newest[location] -> pick++
  :: break
  od;
  seen[OF(me, location)] = pick;
  into = value[STORE(location, pick)];
  for (each : 0 .. LOCATIONS - 1) {
    JOIN(to_acquire, OF(me, each), carried[OF(STORE(location, pick), each)])
  }
}

inline load_relaxed(me, location, into) {
  atomic {
    choose_and_load(me, location, into);
    pick = 0;
    each = 0
  }
}

inline load_acquire(me, location, into) {
  atomic {
    choose_and_load(me, location, into);
    for (each : 0 .. LOCATIONS - 1) {
      JOIN(seen, OF(me, each), carried[OF(STORE(location, pick), each)])
    }
    pick = 0;
    each = 0
  }
}

inline store(me, location, number, releases) {
  d_step {
    newest[location]++;
    assert(newest[location] <= STORES);
    pick = newest[location];
    value[STORE(location, pick)] = number;
    seen[OF(me, location)] = pick;
    for (each : 0 .. LOCATIONS - 1) {
      carried[OF(STORE(location, pick), each)] =
          (releases -> seen[OF(me, each)] : released[OF(me, each)])
    }
    carried[OF(STORE(location, pick), location)] = pick;
    pick = 0;
    each = 0
  }
}

#define store_relaxed(me, location, number) store(me, location, number, false)
#define store_release(me, location, number) store(me, location, number, true)

inline fence_acquire(me) {
  d_step {
    for (each : 0 .. LOCATIONS - 1) {
      JOIN(seen, OF(me, each), to_acquire[OF(me, each)])
    }
    each = 0
  }
}

inline fence_release(me) {
  d_step {
    for (each : 0 .. LOCATIONS - 1) {
      released[OF(me, each)] = seen[OF(me, each)]
    }
    each = 0
  }
}

/* Unlocks a mutex in the one thread, or ends it, and locks it in the other. */
inline hand_over(from, to) {
  d_step {
    for (each : 0 .. LOCATIONS - 1) {
      JOIN(seen, OF(to, each), seen[OF(from, each)])
    }
    each = 0
  }
}

/* A full barrier in the first `threads` threads: membarrier(2). */
inline barrier_everywhere(threads) {
  d_step {
    for (each : 0 .. LOCATIONS - 1) {
      for (other : 0 .. threads - 1) {
        JOIN(seen, OF(0, each), seen[OF(other, each)]);
        JOIN(seen, OF(0, each), to_acquire[OF(other, each)])
      }
      for (other : 0 .. threads - 1) {
        seen[OF(other, each)] = seen[OF(0, each)];
        released[OF(other, each)] = seen[OF(0, each)]
      }
    }
    each = 0;
    other = 0
  }
}
