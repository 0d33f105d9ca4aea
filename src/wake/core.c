#include "core.h"

#include "base/clock.h"

#include <ctype.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define CPU "%s/sys/devices/system/cpu/cpu%d/"
#define MSR "/sys/bus/event_source/devices/msr/"

/* How long to wait for a thread to run on its core: longer than throttled
 * real-time tasks can keep other threads off a core. */
#define PATIENCE_S 2
#define LOOK_NS (NS_PER_S / 20)

/* Room for 8192 cores, the most that Linux supports. */
typedef cpu_set_t cores_t[8192 / CPU_SETSIZE];

/* ---------------------------------------------------------------------------
 * What the kernel says about a core
 */

/* Reads the first line of a file. Returns false if it cannot be read. */
__attribute__((format(printf, 3, 4))) static bool
read_line(char *text, size_t size, const char *format, ...) {
  char path[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(path, sizeof(path), format, arguments);
  va_end(arguments);
  FILE *file = fopen(path, "re");
  bool read = file != NULL && fgets(text, (int)size, file) != NULL;
  if (file != NULL)
    fclose(file);
  text[read ? strcspn(text, "\n") : 0] = '\0';
  return read;
}

bool wake_core_is_online(int core) {
  char text[8];
  /* This file does not exist for cores that cannot go offline. */
  return !read_line(text, sizeof(text), CPU "online", "", core) ||
         text[0] != '0';
}

static double read_number(const char *root, int core, int state,
                          const char *name) {
  char text[32];
  return read_line(text, sizeof(text), CPU "cpuidle/state%d/%s", root, core,
                   state, name)
             ? strtod(text, NULL)
             : NAN;
}

void wake_core_counts(const char *root, int core, struct wake_states *states) {
  *states = (struct wake_states){0};
  for (int i = 0; i < WAKE_STATES_MAX; i++) {
    double entries = read_number(root, core, i, "usage");
    if (isnan(entries))
      break;
    states->list[i].entries = (uint64_t)entries;
    states->list[i].time_us =
        (uint64_t)fmax(read_number(root, core, i, "time"), 0);
    states->len++;
  }
}

void wake_core_states(const char *root, int core, struct wake_states *states) {
  wake_core_counts(root, core, states);
  for (int i = 0; i < states->len; i++) {
    struct wake_state *state = &states->list[i];
    char *name = state->name;
    read_line(name, sizeof(state->name), CPU "cpuidle/state%d/name", root, core,
              i);
    for (; *name != '\0'; name++) /* a metric, and a value in a CSV file */
      if (!isalnum((unsigned char)*name) && strchr("-_.", *name) == NULL)
        *name = '_';
    state->latency_us = read_number(root, core, i, "latency");
    state->residency_us = read_number(root, core, i, "residency");
    state->is_disabled = read_number(root, core, i, "disable") > 0;
  }
  if (states->len == 0)
    states->list[states->len++] = (struct wake_state){
        .name = "idle", .latency_us = NAN, .residency_us = NAN};
}

int64_t wake_states_since(struct wake_states *states,
                          const struct wake_states *before) {
  int64_t sum = 0;
  if (states->len != before->len || states->len == 0)
    return -1;
  for (int i = 0; i < states->len; i++) {
    states->list[i].entries -= before->list[i].entries;
    states->list[i].time_us -= before->list[i].time_us;
    sum += (int64_t)states->list[i].entries;
  }
  return sum < 0 ? -1 : sum;
}

int wake_core_open_smis(int core) {
  char type[16], event[32];
  struct perf_event_attr attr = {.size = sizeof(attr)};
  unsigned code;
  if (!read_line(type, sizeof(type), MSR "type") ||
      !read_line(event, sizeof(event), MSR "events/smi") ||
      sscanf(event, "event=%x", &code) != 1)
    return -ENOENT;
  attr.type = (uint32_t)strtoul(type, NULL, 10);
  attr.config = code;
  int fd = (int)syscall(SYS_perf_event_open, &attr, -1, core, -1,
                        PERF_FLAG_FD_CLOEXEC);
  return fd >= 0 ? fd : -errno;
}

/* ---------------------------------------------------------------------------
 * Running on a core
 */

struct errand {
  int (*run)(void *context);
  void *context;
  atomic_bool is_late;
  int status;
};

static void *run_errand(void *argument) {
  struct errand *errand = argument;
  if (!atomic_load(&errand->is_late))
    errand->status = errand->run(errand->context);
  return NULL;
}

/* Starts a thread that runs only on this core and handles none of the host
 * program's signals. Returns 0 or a negative errno. */
static int start_pinned(pthread_t *thread, int core, struct errand *errand) {
  pthread_attr_t attributes;
  sigset_t all;
  cores_t cores;
  CPU_ZERO_S(sizeof(cores), cores);
  CPU_SET_S((size_t)core, sizeof(cores), cores);
  sigfillset(&all);
  pthread_attr_init(&attributes);
  int status = pthread_attr_setaffinity_np(&attributes, sizeof(cores), cores);
  pthread_attr_setsigmask_np(&attributes, &all);
  if (status == 0)
    status = pthread_create(thread, &attributes, run_errand, errand);
  pthread_attr_destroy(&attributes);
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
    const struct timespec look = timespec_of_ns(now + LOOK_NS);
    if (pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &look) == 0)
      return errand->status;
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
