/* The idle clock of a fake machine. */
#include "fake_machine.h"

#include <errno.h>
#include <stdio.h>

/* The machine that last got a clock. */
static struct fake_machine *fake;

static int open_pinned(struct programs *programs, char why[WHY_SIZE]) {
  programs->pinned = true;
  snprintf(why, WHY_SIZE, "no clock is pinned");
  if (!fake->clock.pinned)
    return -ENOENT;
  fake->clock.open = true;
  return 0;
}

static int load(struct programs *programs, bool state0_polls,
                char why[WHY_SIZE]) {
  (void)state0_polls;
  programs->pinned = false;
  snprintf(why, WHY_SIZE, "it needs CAP_BPF");
  if (fake->clock.load_error != 0)
    return -fake->clock.load_error;
  fake->clock.open = true;
  fake->clock.loads++;
  for (int i = 0; i < fake->cores_len; i++)
    fake->cores[i].clock_ran = false;
  return 0;
}

/* Returns the word that the idle clock stores for a core. A core whose load is
 * less than 1 is treated as halted at the moment. */
static int64_t word_of(int core) {
  const struct fake_core *it = &fake->cores[core];
  if (!it->clock_ran)
    return 0;
  int64_t halted = 1 + (int64_t)it->halted_ns;
  return it->load < 1 ? halted - (int64_t)fake->monotonic_ns : halted;
}

static int read_words(const struct programs *programs, int64_t *word,
                      int cores) {
  (void)programs;
  fake->clock.reads++;
  if (fake->clock.read_ns > 0)
    fake_machine_run(fake, fake->clock.read_ns);
  if (fake->clock.read_error != 0)
    return -fake->clock.read_error;
  for (int i = 0; i < fake->cores_len; i++) {
    if (!fake->clock.detached)
      fake->cores[i].clock_word = word_of(i);
    word[i] = fake->cores[i].clock_word;
  }
  return cores == fake->cores_len ? 0 : -EINVAL;
}

static int start(const struct programs *programs, int core) {
  (void)programs;
  if (fake->clock.pinned)
    return -EOPNOTSUPP;
  fake->cores[core].clock_ran = true;
  return 0;
}

static int tracers(void) { return fake->clock.tracers; }

static void close_clock(struct programs *programs) {
  (void)programs;
  fake->clock.open = false;
}

void fake_machine_idle_clock(struct fake_machine *machine) {
  static const struct clock_calls calls = {.open = open_pinned,
                                           .load = load,
                                           .read = read_words,
                                           .start = start,
                                           .close = close_clock,
                                           .tracers = tracers};
  fake = machine;
  fake->machine.clocks = &calls;
}

void fake_machine_pin_clock(struct fake_machine *machine) {
  fake_machine_idle_clock(machine);
  fake->clock.pinned = true;
  for (int i = 0; i < fake->cores_len; i++)
    fake->cores[i].clock_ran = true;
}
