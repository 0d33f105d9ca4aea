#include "idle_clock.h"

#include "cpuidle.h"
#include "interrupts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CORES_POSSIBLE "/sys/devices/system/cpu/possible"

/* How often to try to read the words within a narrow enough bracket. */
#define READ_TRIES 5

/* How often to check whether a core halted without advancing its word. */
#define WATCH_INTERVAL_NS UINT64_C(5000000000)

/* The driver counts a halt at its end, so the first counted halt may have begun
 * before the first reading. The second cannot have. */
#define WAKES_TO_BE_SURE 2

#define UNSEEN_SIZE 256

struct core_clock {
  bool known; /* the members below */
  int64_t word;
  uint64_t halted_ns;
  uint64_t watch_at_ns; /* 0: `wakes` is unknown */
  uint64_t wakes;       /* when the word was first seen unmoved */
};

struct idle_clock {
  const struct machine *machine;
  bool pinned;
  int possible_len;
  int16_t places[CORES_MAX]; /* index of each possible core in words[] */
  struct core_set possible;
  int64_t offset_ns;        /* of this time namespace */
  uint64_t time_ns;         /* of the last read; 0: none */
  int64_t words[CORES_MAX]; /* of possible cores, in rising numbers */
  char unseen[UNSEEN_SIZE];
  char *text; /* of a file with a column for each core */
  size_t text_size;
  uint64_t softirqs_ns; /* time_ns when `text` became /proc/softirqs */
  struct core_clock cores[CORES_MAX];
};

/* ---------------------------------------------------------------------------
 * Opening
 */

/* State 0 polls on x86. Elsewhere it polls if the idle driver says so, or if
 * there is no idle driver: then only polling is reported as state 0.
 */
static bool state0_polls(const struct machine *machine) {
  struct core_set possible;
  struct cpuidle cpuidle;
  if (machine_read_core_set(machine, CORES_POSSIBLE, &possible) != 0)
    return true;
  core_set_for_each(core, &possible) {
    if (cpuidle_read(&cpuidle, machine, core) > 0)
      return cpuidle.state[0].poll;
  }
  return true;
}

/* The local APIC's interrupt has a tracepoint of its own, and arm64 runs that
 * of its counter like an interrupt of a device. */
static bool timer_is_known(const struct machine *machine) {
  static const char *const known[] = {"lapic", "arch_sys_timer"};
  char name[64];
  if (machine->read_file(
          machine->context,
          "/sys/devices/system/clockevents/clockevent0/current_device", name,
          sizeof(name)) <= 0)
    return false;
  for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
    if (strncmp(name, known[i], strlen(known[i])) == 0)
      return true;
  return false;
}

struct idle_clock_traits idle_clock_traits(const struct machine *machine) {
  return (struct idle_clock_traits){.state0_polls = state0_polls(machine),
                                    .timer_is_known = timer_is_known(machine)};
}

static void find_unseen(struct idle_clock *clock) {
  const struct machine *machine = clock->machine;
  machine->idle_clock_missing(machine->context, clock->unseen, UNSEEN_SIZE);
  size_t length = strlen(clock->unseen);
  if (length + 2 >= UNSEEN_SIZE ||
      machine_read_long(machine, "/proc/interrupts", &clock->text,
                        &clock->text_size) < 0)
    return;
  char *list = clock->unseen + length + (length > 0 ? 1 : 0);
  interrupts_without_tracepoint(clock->text, list,
                                (size_t)(clock->unseen + UNSEEN_SIZE - list));
  if (length > 0 && list[0] != '\0')
    list[-1] = ' ';
}

static int find_cores(struct idle_clock *clock, char *why, size_t why_size) {
  int status =
      machine_read_core_set(clock->machine, CORES_POSSIBLE, &clock->possible);
  core_set_for_each(core, &clock->possible) {
    clock->places[core] = (int16_t)clock->possible_len++;
  }
  if (status == 0 && clock->possible_len > 0)
    return 0;
  snprintf(why, why_size, CORES_POSSIBLE ": %s",
           strerror(status != 0 ? -status : EINVAL));
  return status != 0 ? status : -EINVAL;
}

static int open_or_load(struct idle_clock *clock, bool load, char *why,
                        size_t why_size) {
  const struct machine *machine = clock->machine;
  if (machine->idle_clock_open == NULL) {
    snprintf(why, why_size, "this machine has no idle clock");
    return -ENOSYS;
  }
  int status = machine->idle_clock_open(machine->context, why, why_size);
  clock->pinned = status == 0;
  if (status != -ENOENT || !load)
    return status;
  return machine->idle_clock_load(machine->context, idle_clock_traits(machine),
                                  why, why_size);
}

int idle_clock_open(struct idle_clock **result, const struct machine *machine,
                    bool load, char *why, size_t why_size) {
  struct idle_clock *clock = calloc(1, sizeof(*clock));
  if (clock == NULL) {
    snprintf(why, why_size, "out of memory");
    return -ENOMEM;
  }
  clock->machine = machine;
  clock->offset_ns = machine_time_offset_ns(machine);
  int status = find_cores(clock, why, why_size);
  if (status == 0)
    status = open_or_load(clock, load, why, why_size);
  if (status != 0) {
    free(clock);
    return status;
  }
  find_unseen(clock);
  *result = clock;
  return 0;
}

void idle_clock_close(struct idle_clock *clock) {
  if (clock == NULL)
    return;
  clock->machine->idle_clock_close(clock->machine->context);
  free(clock->text);
  free(clock);
}

bool idle_clock_is_pinned(const struct idle_clock *clock) {
  return clock->pinned;
}

const char *idle_clock_unseen(const struct idle_clock *clock) {
  return clock->unseen;
}

/* ---------------------------------------------------------------------------
 * Reading
 */

static uint64_t now(const struct idle_clock *clock) {
  return clock->machine->clock_ns(clock->machine->context, CLOCK_MONOTONIC);
}

/* Reads all words, and then the time. */
static int read_words(struct idle_clock *clock) {
  const struct machine *machine = clock->machine;
  for (int i = 0; i < READ_TRIES; i++) {
    uint64_t before_ns = now(clock);
    int len = machine->idle_clock_read(machine->context, clock->words);
    uint64_t after_ns = now(clock);
    if (len < 0)
      return len;
    /* If the number of words has changed, it is unknown which core a word
     * belongs to. */
    if (len != clock->possible_len)
      return -EINVAL;
    clock->time_ns = after_ns;
    if (after_ns - before_ns <= IDLE_CLOCK_BRACKET_NS)
      return 0;
  }
  return -EAGAIN;
}

/* Each softirq would have ended the halt in which the word says that the core
 * is. (A core that is awake runs softirqs, too.) */
static bool count_softirqs(struct idle_clock *clock, int core,
                           uint64_t *softirqs) {
  if (clock->words[clock->places[core]] >= 0)
    return false;
  if (clock->softirqs_ns != clock->time_ns &&
      machine_read_long(clock->machine, "/proc/softirqs", &clock->text,
                        &clock->text_size) < 0)
    return false;
  clock->softirqs_ns = clock->time_ns;
  return interrupts_add_softirqs(clock->text, clock->places[core], softirqs);
}

/* Counts what does not happen while the core stays as its word says: its halts,
 * or, without an idle driver, what wakes it. Returns false if neither is known.
 */
static bool count_wakes(struct idle_clock *clock, int core, uint64_t *wakes) {
  struct cpuidle cpuidle;
  *wakes = 0;
  if (cpuidle_read(&cpuidle, clock->machine, core) == 0)
    return count_softirqs(clock, core, wakes);
  for (int i = 0; i < cpuidle.states_len; i++)
    if (!cpuidle.state[i].poll)
      *wakes += cpuidle.state[i].entries;
  return true;
}

/* Whether the core has halted or woken although its word did not move. The word
 * of a core that halts or works for long does not move either. */
static bool moved_unseen(struct idle_clock *clock, int core) {
  struct core_clock *state = &clock->cores[core];
  const int64_t *word = &clock->words[clock->places[core]];
  uint64_t wakes;
  if (*word != state->word) {
    state->watch_at_ns = 0;
    return false;
  }
  if (clock->time_ns < state->watch_at_ns || !count_wakes(clock, core, &wakes))
    return false;
  /* A newly loaded idle driver counts from 0. */
  if (state->watch_at_ns == 0 || wakes < state->wakes)
    state->wakes = wakes;
  state->watch_at_ns = clock->time_ns + WATCH_INTERVAL_NS;
  if (wakes - state->wakes < WAKES_TO_BE_SURE)
    return false;
  /* The word may have moved after it was read and before `wakes` was. */
  return read_words(clock) == 0 && *word == state->word;
}

int idle_clock_read(struct idle_clock *clock) {
  int status = read_words(clock);
  core_set_for_each(core, &clock->possible) {
    if (status == 0 && clock->cores[core].known && moved_unseen(clock, core))
      status = -ENOLINK;
  }
  if (status != 0)
    clock->time_ns = 0;
  return status;
}

/* Computes the halted time at clock->time_ns. */
static int halted_at(const struct idle_clock *clock, int64_t word,
                     uint64_t *halted_ns) {
  int64_t now_ns = (int64_t)clock->time_ns - clock->offset_ns;
  int64_t halted = word;
  /* Impossible words may wrap here, and are then out of range. */
  if (word < 0)
    halted = (int64_t)((uint64_t)word + (uint64_t)now_ns);
  if (halted < -(int64_t)IDLE_CLOCK_BRACKET_NS || halted > now_ns)
    return -ERANGE;
  *halted_ns = halted > 0 ? (uint64_t)halted : 0;
  return 0;
}

int idle_clock_core(struct idle_clock *clock, int core,
                    struct idle_clock_reading *reading) {
  const struct machine *machine = clock->machine;
  struct core_clock *state = &clock->cores[core];
  if (!core_set_has(&clock->possible, core) || clock->time_ns == 0)
    return -ENODATA;
  const int64_t *word = &clock->words[clock->places[core]];
  if (*word == 0) {
    machine->idle_clock_start(machine->context, core);
    return -ENODATA;
  }
  uint64_t halted_ns;
  int status = halted_at(clock, *word, &halted_ns);
  if (status == 0 && state->known && halted_ns < state->halted_ns) {
    /* A core that woke while the words were being read seemed halted until
     * after the read. */
    if (state->halted_ns - halted_ns > 2 * IDLE_CLOCK_BRACKET_NS)
      status = -ERANGE;
    halted_ns = state->halted_ns;
  }
  if (status != 0) {
    state->known = false;
    return status;
  }
  state->known = true;
  state->word = *word;
  state->halted_ns = halted_ns;
  *reading = (struct idle_clock_reading){clock->time_ns, halted_ns};
  return 0;
}
