#include "core.h"

#include "base/clock.h"
#include "base/portable.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* How long to wait for a thread to run on its core: longer than throttled
 * real-time tasks can keep other threads off a core. */
#define PATIENCE_S 2
#define LOOK_NS (NS_PER_S / 20)

/* Room for 8192 cores, the most that Linux supports. */
typedef cpu_set_t cores_t[8192 / CPU_SETSIZE];

/* ---------------------------------------------------------------------------
 * What sysfs says about a core
 */

/* Reads the first line of a file of a core: "online" or, if state is not
 * negative, the file `name` of an idle state. Returns false if the file cannot
 * be read. */
static bool read_line(int core, int state, const char *name, char *text,
                      size_t size) {
  char path[128], folder[32] = "";
  if (state >= 0)
    snprintf(folder, sizeof(folder), "cpuidle/state%d/", state);
  snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/%s%s", core,
           folder, name);
  FILE *file = fopen(path, "re");
  if (file == NULL)
    return false;
  bool read = fgets(text, (int)size, file) != NULL;
  fclose(file);
  text[read ? strcspn(text, "\n") : 0] = '\0';
  return read;
}

bool wake_core_is_online(int core) {
  char text[8];
  /* This file does not exist for cores that cannot go offline. */
  return !read_line(core, -1, "online", text, sizeof(text)) || text[0] != '0';
}

int64_t wake_core_usage(int core) {
  char text[32];
  int64_t usage = -1;
  for (int state = 0; state < WAKE_STATES_MAX &&
                      read_line(core, state, "usage", text, sizeof(text));
       state++)
    usage = (usage < 0 ? 0 : usage) + strtoll(text, NULL, 10);
  return usage;
}

void wake_core_states(int core, struct wake_points *points) {
  int len = 0;
  for (; len < WAKE_STATES_MAX; len++) {
    char *name = points->states[len];
    if (!read_line(core, len, "name", name, WAKE_STATE_NAME_SIZE))
      break;
    while ((name = strpbrk(name, ",\"")) != NULL)
      *name = '_'; /* so that a name is a value in a CSV file */
  }
  if (len == 0)
    strcpy(points->states[len++], "idle");
  points->states_len = len;
}

/* ---------------------------------------------------------------------------
 * Running on a core
 */

struct errand {
  int (*run)(void *context);
  void *context;
  struct semaphore is_pinned, is_over;
  atomic_bool is_late;
  int status;
};

static void *run_errand(void *argument) {
  struct errand *errand = argument;
  semaphore_wait(&errand->is_pinned, UINT64_MAX);
  if (!atomic_load(&errand->is_late))
    errand->status = errand->run(errand->context);
  semaphore_post(&errand->is_over);
  return NULL;
}

/* Starts a thread that runs only on this core and handles none of the host
 * program's signals. Returns 0 or a negative errno. */
static int start_pinned(pthread_t *thread, int core, struct errand *errand) {
  sigset_t all, old;
  cores_t cores;
  CPU_ZERO_S(sizeof(cores), cores);
  CPU_SET_S((size_t)core, sizeof(cores), cores);
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  int status = pthread_create(thread, NULL, run_errand, errand);
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  if (status != 0)
    return -status;
  status = pthread_setaffinity_np(*thread, sizeof(cores), cores);
  atomic_store(&errand->is_late, status != 0);
  semaphore_post(&errand->is_pinned);
  if (status != 0)
    pthread_join(*thread, NULL);
  return -status;
}

/* Joins the thread, and returns the status of its errand. If the thread cannot
 * run on the core in time, lets it end on another core, and returns -ETIMEDOUT,
 * or -EINTR if goes_on returned false. */
static int await(pthread_t thread, int core, struct errand *errand,
                 bool (*goes_on)(void *context)) {
  uint64_t now = clock_now_ns(CLOCK_MONOTONIC);
  const uint64_t until = now + PATIENCE_S * NS_PER_S;
  bool going = true;
  for (; going && now < until; now += LOOK_NS) {
    if (semaphore_wait(&errand->is_over, now + LOOK_NS)) {
      pthread_join(thread, NULL);
      return errand->status;
    }
    going = goes_on(errand->context);
  }
  atomic_store(&errand->is_late, true);
  wake_core_leave(core, thread);
  pthread_join(thread, NULL);
  return going ? -ETIMEDOUT : -EINTR;
}

int wake_core_run(int core, int (*run)(void *context),
                  bool (*goes_on)(void *context), void *context,
                  char why[WHY_SIZE]) {
  struct errand errand = {.run = run, .context = context};
  pthread_t thread;
  int status = start_pinned(&thread, core, &errand);
  if (status != 0)
    return why_fails(why, status,
                     "cannot run on core %d: %s; choose a core listed in "
                     "/sys/devices/system/cpu/online",
                     core,
                     status == -EINVAL
                         ? "it does not exist, is offline, or is not among "
                           "the cores of this process"
                         : strerror(-status));
  status = await(thread, core, &errand, goes_on);
  if (status == -ETIMEDOUT)
    snprintf(
        why, WHY_SIZE,
        "other programs have kept core %d busy for %d s; choose an idle core",
        core, PATIENCE_S);
  return status;
}

void wake_core_leave(int core, pthread_t thread) {
  cores_t cores;
  memset(cores, 0xff, sizeof(cores));
  CPU_CLR_S((size_t)core, sizeof(cores), cores);
  pthread_setaffinity_np(thread, sizeof(cores), cores);
}
