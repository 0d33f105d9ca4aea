#include "core.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CPUIDLE "/sys/devices/system/cpu/cpu%d/cpuidle/state%d/%s"
#define CORES 8192 /* a kernel has at most this many */

/* ---------------------------------------------------------------------------
 * cpuidle
 */

static bool read_cpuidle(int core, int state, const char *what, char *text,
                         size_t size) {
  char path[128];
  snprintf(path, sizeof(path), CPUIDLE, core, state, what);
  FILE *file = fopen(path, "re");
  if (file == NULL)
    return false;
  bool read = fgets(text, (int)size, file) != NULL;
  fclose(file);
  text[read ? strcspn(text, "\n") : 0] = '\0';
  return read;
}

int64_t wake_core_usage(int core) {
  char text[32];
  int64_t usage = -1;
  for (int state = 0; state < WAKE_STATES_MAX &&
                      read_cpuidle(core, state, "usage", text, sizeof(text));
       state++)
    usage = (usage < 0 ? 0 : usage) + strtoll(text, NULL, 10);
  return usage;
}

int wake_core_states(int core, struct wake_points *points,
                     int states[WAKE_STATES_MAX]) {
  char name[WAKE_STATE_NAME_SIZE];
  int len = 0;
  while (len < WAKE_STATES_MAX - 1 &&
         read_cpuidle(core, len, "name", name, sizeof(name)))
    states[len++] = wake_points_state(points, name, strlen(name));
  if (len == 0)
    states[len++] = wake_points_state(points, "idle", 4);
  return len;
}

/* ---------------------------------------------------------------------------
 * Running on a core
 */

static int run_pinned(int core, size_t size, cpu_set_t *before, cpu_set_t *only,
                      int (*run)(void *), void *context,
                      char why[WAKE_WHY_SIZE]) {
  CPU_ZERO_S(size, only);
  CPU_SET_S((size_t)core, size, only);
  if (sched_getaffinity(0, size, before) != 0 ||
      sched_setaffinity(0, size, only) != 0) {
    int error = errno;
    snprintf(why, WAKE_WHY_SIZE,
             "cannot run on core %d: %s; choose one of "
             "/sys/devices/system/cpu/online",
             core,
             error == EINVAL ? "it does not exist, is offline, or is not among "
                               "the cores of this process"
                             : strerror(error));
    return -error;
  }
  int status = run(context);
  sched_setaffinity(0, size, before);
  return status;
}

int wake_core_run(int core, int (*run)(void *context), void *context,
                  char why[WAKE_WHY_SIZE]) {
  cpu_set_t *before = CPU_ALLOC(CORES), *only = CPU_ALLOC(CORES);
  int status = -ENOMEM;
  if (before != NULL && only != NULL)
    status = run_pinned(core, CPU_ALLOC_SIZE(CORES), before, only, run, context,
                        why);
  else
    snprintf(why, WAKE_WHY_SIZE, "out of memory");
  CPU_FREE(before);
  CPU_FREE(only);
  return status;
}
