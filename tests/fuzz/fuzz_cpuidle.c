/* Fuzz target: the files of an idle driver. The pieces of the input (pieces.h)
 * are the name, time and usage of the first state, then those of the next
 * state, and so on.
 */
#include "cycles/cpuidle.h"

#include "pieces.h"

#include <stdbool.h>
#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static ssize_t read_piece(void *context, const char *path, char *buffer,
                          size_t size) {
  static const char *const names[] = {"name", "time", "usage"};
  int core, state;
  char what[16];
  if (sscanf(path, "/sys/devices/system/cpu/cpu%d/cpuidle/state%d/%15s", &core,
             &state, what) != 3)
    abort();
  int file = 0;
  while (strcmp(names[file], what) != 0)
    file++;
  return pieces_read(context, 3 * state + file, buffer, size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct pieces pieces;
  struct cpuidle cpuidle;
  pieces_cut(&pieces, data, size);
  const struct machine machine = {.context = &pieces, .read_file = read_piece};
  int len = cpuidle_read(&cpuidle, &machine, 0);
  if (len != cpuidle.states_len || len < 0 || len > CPUIDLE_STATES_MAX)
    abort();
  for (int i = 0; i < len; i++) {
    const char *name = cpuidle.state[i].name;
    size_t fit = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-_."
                              "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
    if (fit == 0 || name[fit] != '\0')
      abort();
  }
  cpuidle_halted_ns(&cpuidle);
  free(pieces.text);
  return 0;
}
