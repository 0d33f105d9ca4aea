/* idle_clock.pml: a model of a core's word of the idle clock (idle_clock.bpf.c),
 * while interrupts come at any time, between any two instructions, and the core
 * wakes with an interrupt or without one (MWAIT).
 *
 * Shows: at any time, a reader finds all the time during which the core was
 * halted, and no time after the program of the first interrupt or of the exit.
 *
 * The model fails without any one of what WITHOUT_ names (test_models.py). */
#define BEGIN 10 /* of time: more than any word */
#define END 13
#define HALTS 2
#define INTERRUPTS 2
#define STARTED 1

byte now = BEGIN;
short word = STARTED;
bool asleep, masked, interrupted;
bool counts; /* this time may count as halted: from an entry to the end of a halt */
byte at_least, at_most;

inline begin_halt(time, was) {
  time = now;
  was = word;
  if
#ifdef WITHOUT_CHECK_OF_ENTRY
  :: true -> word = was - time
#else
  :: was >= 0 -> word = was - time
  :: else
#endif
  fi
}

inline end_halt(time, was) {
  was = word;
  if
  :: was < 0 ->
#ifdef WITHOUT_TIME_FIRST
    was = word;
    time = now;
#else
    time = now;
#ifndef WITHOUT_SECOND_READ
    was = word;
#endif
#endif
    if
    :: was < 0 -> word = was + time
    :: else
    fi
  :: else
  fi
}

proctype core() provided (!interrupted) {
  byte halts, time;
  short was;
  do
  :: halts < HALTS ->
    halts++;
    atomic {
      masked = true;
      counts = true
    }
    begin_halt(time, was);
    time = 0;
    if /* the kernel may choose a deeper state without leaving idle */
    :: begin_halt(time, was)
    :: true
    fi;
    atomic {
      asleep = true;
      masked = false
    }
    if
    :: !asleep
    :: asleep = false /* MWAIT */
    fi;
    end_halt(time, was);
    d_step {
      counts = false;
      time = 0;
      was = 0
    }
  :: else -> break
  od
}

proctype interrupt() {
  byte interrupts, time;
  short was;
  do
  :: interrupts < INTERRUPTS ->
    atomic {
      !masked;
      interrupts++;
      interrupted = true;
      asleep = false
    }
#ifndef WITHOUT_INTERRUPT
    end_halt(time, was);
#endif
    d_step {
      counts = false; /* the handler and softirqs */
      time = 0;
      was = 0
    }
    interrupted = false
  :: break
  od
}

proctype clock() {
  do
  :: atomic {
      now < END;
      at_least = at_least + (asleep -> 1 : 0);
      at_most = at_most + (counts -> 1 : 0);
      now++
    }
  :: break
  od
}

/* Reads once, at any time. */
proctype reader() {
  short halted;
  atomic {
    halted = (word < 0 -> word + now : word) - STARTED;
    assert(at_least <= halted && halted <= at_most)
  }
}

init {
  atomic {
    run core();
    run interrupt();
    run clock();
    run reader()
  }
}
