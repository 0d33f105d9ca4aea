#include "cpuidle.h"

#include "base/metric_name.h"

#include <errno.h>
#include <string.h>

#define STATE CPU_FOLDER "/cpu%d/cpuidle/state%d/"

static bool read_state(struct cpuidle_state *state,
                       const struct machine *machine, int core, int number) {
  uint64_t time_us;
  if (machine_read(machine, state->name, sizeof(state->name), STATE "name",
                   core, number) <= 0 ||
      machine_read_u64(machine, &time_us, STATE "time", core, number) != 0 ||
      machine_read_u64(machine, &state->entries, STATE "usage", core, number) !=
          0)
    return false;
  metric_name_clean(state->name);
  state->poll = strcmp(state->name, "POLL") == 0;
  return state->name[0] != '\0' && state->entries <= INT64_MAX &&
         !__builtin_mul_overflow(time_us, UINT64_C(1000), &state->time_ns);
}

int cpuidle_read(struct cpuidle *cpuidle, const struct machine *machine,
                 int core) {
  cpuidle->states_len = 0;
  while (cpuidle->states_len < CPUIDLE_STATES_MAX &&
         read_state(&cpuidle->state[cpuidle->states_len], machine, core,
                    cpuidle->states_len))
    cpuidle->states_len++;
  return cpuidle->states_len;
}

uint64_t cpuidle_halted_ns(const struct cpuidle *cpuidle) {
  uint64_t sum = 0;
  for (int i = 0; i < cpuidle->states_len; i++)
    if (!cpuidle->state[i].poll)
      sum += cpuidle->state[i].time_ns;
  return sum;
}

int cpuidle_read_polled(uint64_t *polled_ns, const struct machine *machine,
                        int core, struct idle_driver *driver) {
  char name[8];
  uint64_t time_us;
  if (!driver->polls && driver->states_max > 0) {
    ssize_t length =
        machine_read(machine, name, sizeof(name), STATE "name", core, 0);
    driver->polls = length > 0 && strcmp(name, "POLL\n") == 0;
    if (length == -ENOENT)
      driver->states_max = 0;
  }
  if (!driver->polls)
    return -ENOENT;
  int status = machine_read_u64(machine, &time_us, STATE "time", core, 0);
  return status == 0 &&
                 __builtin_mul_overflow(time_us, UINT64_C(1000), polled_ns)
             ? -ERANGE
             : status;
}

int cpuidle_read_entries(uint64_t *entries, const struct machine *machine,
                         int core, struct idle_driver *driver) {
  uint64_t of_state;
  int state = 0;
  *entries = 0;
  for (; state < driver->states_max &&
         machine_read_u64(machine, &of_state, STATE "usage", core, state) == 0;
       state++)
    *entries += of_state;
  driver->states_max = state;
  return state > 0 ? 0 : -ENOENT;
}

bool cpuidle_never_halts(const struct machine *machine) {
  return machine_booted_with(machine, "idle=poll") ||
         machine_booted_with(machine, "nohlt");
}
