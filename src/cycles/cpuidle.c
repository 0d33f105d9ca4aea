#include "cpuidle.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static ssize_t read_state_file(const struct machine *machine, int core,
                               int state, const char *file, char *text,
                               size_t size) {
  char path[128];
  snprintf(path, sizeof(path),
           "/sys/devices/system/cpu/cpu%d/cpuidle/state%d/%s", core, state,
           file);
  return machine->read_file(machine->context, path, text, size);
}

static bool read_state_number(const struct machine *machine, int core,
                              int state, const char *file, uint64_t *value) {
  char path[128];
  snprintf(path, sizeof(path),
           "/sys/devices/system/cpu/cpu%d/cpuidle/state%d/%s", core, state,
           file);
  return machine_read_u64(machine, path, value) == 0;
}

/* Drivers use arbitrary characters in names ("haltpoll idle", "C1-HSW"), but
 * the name of a metric may contain only letters, digits, '-', '_' and '.'. */
static void clean_name(char *name) {
  name[strcspn(name, "\n")] = '\0';
  for (; *name != '\0'; name++)
    if (!isalnum((unsigned char)*name) && strchr("-_.", *name) == NULL)
      *name = '_';
}

static bool read_state(struct cpuidle_state *state,
                       const struct machine *machine, int core, int number) {
  char name[sizeof(state->name)];
  uint64_t time_us;
  if (read_state_file(machine, core, number, "name", name, sizeof(name)) <= 0)
    return false;
  if (!read_state_number(machine, core, number, "time", &time_us) ||
      !read_state_number(machine, core, number, "usage", &state->entries))
    return false;
  clean_name(name);
  if (*name == '\0')
    return false;
  memcpy(state->name, name, sizeof(name));
  state->poll = strcmp(name, "POLL") == 0;
  if (__builtin_mul_overflow(time_us, UINT64_C(1000), &state->time_ns))
    return false;
  return true;
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
