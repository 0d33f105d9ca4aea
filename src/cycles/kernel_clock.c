#include "kernel_clock.h"

#include "base/clock.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

/* How many times to try a read that takes too long. */
#define READ_TRIES 3

void kernel_clock_init(struct kernel_clock *clock,
                       const struct machine *machine,
                       const struct core_set *possible) {
  *clock = (struct kernel_clock){
      .machine = machine,
      .possible = *possible,
  };
  core_set_for_each(core, possible) {
    clock->places[core] = (int16_t)clock->cores++;
  }
  char text[128];
  int64_t s, ns;
  if (machine_read(machine, text, sizeof(text), "/proc/self/timens_offsets") >
          0 &&
      sscanf(text, "monotonic %" SCNd64 " %" SCNd64, &s, &ns) == 2)
    clock->offset_ns = s * (int64_t)NS_PER_S + ns;
}

int kernel_clock_read(struct kernel_clock *clock, void *words) {
  const struct machine *machine = clock->machine;
  clock->time_ns = 0;
  for (int i = 0; i < READ_TRIES; i++) {
    int64_t before_ns = (int64_t)machine_now_ns(machine, CLOCK_MONOTONIC);
    int status = machine->clocks->read(&clock->programs, words, clock->cores);
    int64_t after_ns = (int64_t)machine_now_ns(machine, CLOCK_MONOTONIC);
    if (status != 0)
      return status;
    int64_t bracket_ns = after_ns - before_ns;
    if (bracket_ns > KERNEL_CLOCK_BRACKET_NS &&
        (i + 1 < READ_TRIES || bracket_ns > KERNEL_CLOCK_BRACKET_MAX_NS))
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

bool kernel_clock_advance(const struct kernel_clock *clock, int64_t at_ns,
                          int64_t word, int64_t *sum_ns) {
  int64_t former_ns = *sum_ns, error_ns = KERNEL_CLOCK_BRACKET_NS;
  at_ns -= clock->offset_ns;
  if (error_ns < clock->bracket_ns)
    error_ns = clock->bracket_ns;
  /* The addition may wrap if the word is impossible; the sum is then out of
   * range. */
  if (word < 0)
    word = (int64_t)((uint64_t)word + (uint64_t)at_ns);
  if (word < -error_ns || word > at_ns ||
      former_ns - (word > 0 ? word : 0) > 2 * error_ns)
    return false;
  if (word > former_ns)
    *sum_ns = word;
  return true;
}
