#include "cpuidle.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define PATH_SIZE 128
static char *state_path(char path[PATH_SIZE], int core, int state,
                        const char *file) {
  snprintf(path, PATH_SIZE, "/sys/devices/system/cpu/cpu%d/cpuidle/state%d/%s",
           core, state, file);
  return path;
}

/* Replaces every character with '_' except letters, digits, '-', '_' and '.',
 * because the name of a metric may not contain any other characters. Idle
 * drivers use names such as "haltpoll idle". Cuts the name at a newline. */
static void clean_name(char *name) {
  name[strcspn(name, "\n")] = '\0';
  for (; *name != '\0'; name++)
    if (!isalnum((unsigned char)*name) && strchr("-_.", *name) == NULL)
      *name = '_';
}

static bool read_state(struct cpuidle_state *state,
                       const struct machine *machine, int core, int number) {
  char path[PATH_SIZE];
  uint64_t time_us;
  if (machine->read_file(machine->context,
                         state_path(path, core, number, "name"), state->name,
                         sizeof(state->name)) <= 0 ||
      machine_read_u64(machine, state_path(path, core, number, "time"),
                       &time_us) != 0 ||
      machine_read_u64(machine, state_path(path, core, number, "usage"),
                       &state->entries) != 0)
    return false;
  clean_name(state->name);
  state->poll = strcmp(state->name, "POLL") == 0;
  return state->name[0] != '\0' &&
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
                        int core, bool *is_poll) {
  char path[PATH_SIZE], name[8];
  uint64_t time_us;
  if (!*is_poll &&
      (machine->read_file(machine->context, state_path(path, core, 0, "name"),
                          name, sizeof(name)) <= 0 ||
       strcmp(name, "POLL\n") != 0))
    return -ENOENT;
  *is_poll = true;
  int status =
      machine_read_u64(machine, state_path(path, core, 0, "time"), &time_us);
  return status == 0 &&
                 __builtin_mul_overflow(time_us, UINT64_C(1000), polled_ns)
             ? -ERANGE
             : status;
}

bool cpuidle_never_halts(const struct machine *machine) {
  char line[4096] = "", *rest = line;
  machine->read_file(machine->context, "/proc/cmdline", line, sizeof(line));
  for (char *word; (word = strsep(&rest, " \n")) != NULL;)
    if (strcmp(word, "idle=poll") == 0 || strcmp(word, "nohlt") == 0)
      return true;
  return false;
}
