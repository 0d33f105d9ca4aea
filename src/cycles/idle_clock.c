#include "idle_clock.h"

#include "base/clock.h"
#include "cpuidle.h"

#include <errno.h>
#include <stdlib.h>

/* How many times to try a read that takes too long. */
#define READ_TRIES 3

/* ---------------------------------------------------------------------------
 * Opening
 */

bool idle_clock_state0_polls(const struct machine *machine,
                             const struct core_set *cores) {
  struct cpuidle cpuidle;
  core_set_for_each(core, cores) {
    if (cpuidle_read(&cpuidle, machine, core) > 0)
      return cpuidle.state[0].poll;
  }
  return true;
}

int idle_clock_open(struct idle_clock **result, const struct machine *machine,
                    const struct core_set *possible, bool load,
                    char why[WHY_SIZE]) {
  struct idle_clock *clock = calloc(1, sizeof(*clock));
  char text[128];
  if (clock == NULL)
    return why_fails(why, -ENOMEM, "out of memory");
  clock->machine = machine;
  clock->possible = *possible;
  core_set_for_each(core, possible) {
    clock->places[core] = (int16_t)clock->cores++;
  }
  if (machine_read(machine, text, sizeof(text), "/proc/self/timens_offsets") >
      0)
    clock->offset_ns = clock_offset_ns(text);
  int status = machine->clocks->open(&clock->programs, why);
  if (status == -ENOENT && load)
    status = machine->clocks->load(
        &clock->programs, idle_clock_state0_polls(machine, possible), why);
  if (status != 0) {
    free(clock);
    return status;
  }
  *result = clock;
  return 0;
}

void idle_clock_close(struct idle_clock *clock) {
  if (clock == NULL)
    return;
  clock->machine->clocks->close(&clock->programs);
  free(clock);
}

/* ---------------------------------------------------------------------------
 * Reading
 */

int idle_clock_read(struct idle_clock *clock) {
  const struct machine *machine = clock->machine;
  clock->time_ns = 0;
  for (int i = 0; i < READ_TRIES; i++) {
    int64_t before_ns = (int64_t)machine_now_ns(machine, CLOCK_MONOTONIC);
    int status =
        machine->clocks->read(&clock->programs, clock->words, clock->cores);
    int64_t after_ns = (int64_t)machine_now_ns(machine, CLOCK_MONOTONIC);
    if (status != 0)
      return status;
    int64_t bracket_ns = after_ns - before_ns;
    if (bracket_ns > IDLE_CLOCK_BRACKET_NS &&
        (i + 1 < READ_TRIES || bracket_ns > IDLE_CLOCK_BRACKET_MAX_NS))
      continue;
    clock->time_ns = after_ns;
    clock->bracket_ns = bracket_ns > clock->last_bracket_ns
                            ? bracket_ns
                            : clock->last_bracket_ns;
    clock->last_bracket_ns = bracket_ns;
    return 0;
  }
  return -EAGAIN;
}

/* Sets *halted_ns to the sum that a word represents at the last read. The new
 * sum can be a little less than the former one if a halt ended while the words
 * were being read; it then stays as it was. Returns false if no clock can have
 * written the word. */
static bool advance(const struct idle_clock *clock, int64_t word,
                    int64_t *halted_ns) {
  int64_t error_ns = IDLE_CLOCK_BRACKET_NS;
  int64_t at_ns = clock->time_ns - clock->offset_ns;
  if (error_ns < clock->bracket_ns)
    error_ns = clock->bracket_ns;
  /* The addition may wrap if the word is impossible; the sum is then out of
   * range. */
  if (word < 0)
    word = (int64_t)((uint64_t)word + (uint64_t)at_ns);
  if (word < -error_ns || word > at_ns ||
      *halted_ns - (word > 0 ? word : 0) > 2 * error_ns)
    return false;
  if (word > *halted_ns)
    *halted_ns = word;
  return true;
}

int idle_clock_core(struct idle_clock *clock, int core, uint64_t *halted_ns) {
  int64_t *sum_ns = &clock->halted_ns[core];
  if (!core_set_has(&clock->possible, core) || clock->time_ns == 0)
    return -ENODATA;
  int64_t word = clock->words[clock->places[core]];
  if (word == 0) {
    clock->machine->clocks->start(&clock->programs, core);
    return -ENODATA;
  }
  if (!advance(clock, word, sum_ns)) {
    *sum_ns = 0;
    return -ERANGE;
  }
  *halted_ns = (uint64_t)*sum_ns;
  return 0;
}
