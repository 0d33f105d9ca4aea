/* slot.pml: a model of a slot that processes take after one another, add to in
 * sections, and leave or die in, while a reader copies its cells
 * (percore_sequence_begin_ and _end_, take_word, region_close_section,
 * region_load_checked). A word says which process holds the slot; a process that
 * finds it free, or its holder dead, exchanges it. At first the holder is dead.
 * What it has stored is visible: the kernel has ended it before it says so.
 *
 * Shows: no count is lost, and a copy that the reader accepts is what the cells
 * were when the section of that number ended.
 *
 * The model fails without any one of what WITHOUT_ names (test_models.py). */
#define THREADS 3
#define LOCATIONS 3
#define STORES 8
#include "memory_order.pml"

#define SECTIONS 2 /* of each worker, at most */
#define READER 2
#define NOBODY 3
#define DEAD 4

#define SEQUENCE 0
#define PACKETS 1
#define BYTES 2

byte owner = DEAD, last = NOBODY, deaths, ended;
bool dead[DEAD + 1];
byte packets_added, bytes_added; /* stores that were made */
byte packets_of[STORES + 2], bytes_of[STORES + 2]; /* at the end of a section */

inline may_die() {
  if
  :: deaths == 0 -> deaths = 1; goto died
  :: true
  fi
}

inline add(cell, added) {
  load_relaxed(me, cell, was);
  atomic {
    store_relaxed(me, cell, was + 1);
    added++
  }
}

inline end_section() {
  atomic {
    packets_of[now + 1] = packets_added;
    bytes_of[now + 1] = bytes_added;
#ifdef WITHOUT_END_RELEASE
    store_relaxed(me, SEQUENCE, now + 1)
#else
    store_release(me, SEQUENCE, now + 1)
#endif
  }
}

inline close_section() {
  load_relaxed(me, SEQUENCE, now);
  if
  :: now % 2 == 1 ->
    atomic {
      packets_of[now + 1] = packets_added;
      bytes_of[now + 1] = bytes_added;
#ifdef WITHOUT_CLOSE_RELEASE
      store_relaxed(me, SEQUENCE, now + 1)
#else
      store_release(me, SEQUENCE, now + 1)
#endif
    }
  :: else
  fi
}

proctype worker(byte me) {
  byte now, was, sections, holder;
  do
  :: atomic {
      (owner == NOBODY || dead[owner]) -> holder = owner
    }
    atomic {
#ifdef WITHOUT_EXCHANGE
      holder = owner;
#endif
      if
      :: owner == holder ->
        owner = me;
        if
        :: last != NOBODY -> hand_over(last, me)
        :: else
        fi;
        break
      :: else
      fi
    }
  od;
  close_section();
  do
  :: sections < SECTIONS ->
    sections++;
    load_relaxed(me, SEQUENCE, now);
    now = now | 1;
    store_relaxed(me, SEQUENCE, now);
#ifndef WITHOUT_BEGIN_FENCE
    fence_release(me);
#endif
    may_die();
    add(PACKETS, packets_added);
    may_die();
    add(BYTES, bytes_added);
    may_die();
    end_section()
  :: break
  od;
  atomic {
    last = me;
    owner = NOBODY;
    ended++;
    goto end
  }
died:
  atomic {
    last = me;
    dead[me] = true;
    ended++
  }
end:
  skip
}

proctype reader() {
  byte before, packets, bytes, after;
#ifdef WITHOUT_READ_ACQUIRE
  load_relaxed(READER, SEQUENCE, before);
#else
  load_acquire(READER, SEQUENCE, before);
#endif
  load_relaxed(READER, PACKETS, packets);
  load_relaxed(READER, BYTES, bytes);
#ifndef WITHOUT_READ_FENCE
  fence_acquire(READER);
#endif
  load_relaxed(READER, SEQUENCE, after);
  if
  :: before % 2 == 0 && after == before ->
    assert(packets == packets_of[before] && bytes == bytes_of[before])
  :: else
  fi
}

init {
  atomic {
    dead[DEAD] = true;
    run worker(0);
    run worker(1);
    run reader()
  }
  ended == 2;
  assert(value[STORE(PACKETS, newest[PACKETS])] == packets_added);
  assert(value[STORE(BYTES, newest[BYTES])] == bytes_added)
}
