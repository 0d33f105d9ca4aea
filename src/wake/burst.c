#include "burst.h"

#include "core.h"
#include "programs.h"

#include "base/clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NO_CORE UINT32_MAX
#define DISTANCE_MIN_NS 1000 /* as in percore wake */
#define DISTANCE_MAX_NS 4000000
#define POLL_NS (NS_PER_S / 50)
#define LATE_NS (NS_PER_S / 10) /* how long to wait for late probes */
#define LEAVE_NS (NS_PER_S / 1000)

_Static_assert(WAKE_BURST_PROBES_MAX < WAKE_EVENTS, "events would be lost");

struct wake_burst {
  struct wake_burst_options options;
  struct wake_programs programs;
  uint64_t until_ns;
};

static uint64_t now_ns(void) { return clock_now_ns(CLOCK_MONOTONIC); }

int wake_burst_open(struct wake_burst **result,
                    const struct wake_burst_options *options,
                    char why[WAKE_WHY_SIZE]) {
  *result = NULL;
  if (access("/sys/devices/system/cpu/cpu0/cpuidle", F_OK) != 0) {
    snprintf(why, WAKE_WHY_SIZE,
             "cpuidle has no driver here, so there is no count of idle states "
             "to check the figures against; percore wake shows unchecked "
             "figures");
    return -ENODEV;
  }
  struct wake_burst *burst = calloc(1, sizeof(*burst));
  if (burst == NULL) {
    snprintf(why, WAKE_WHY_SIZE, "out of memory");
    return -ENOMEM;
  }
  burst->options = *options;
  int status = wake_programs_load(&burst->programs, true, why);
  if (status != 0) {
    free(burst);
    return status;
  }
  struct wake_probe *probe = burst->programs.probe;
  probe->core = NO_CORE;
  probe->distance_min = DISTANCE_MIN_NS;
  probe->distance_max = DISTANCE_MAX_NS;
  probe->armed_max = options->probes;
  *result = burst;
  return 0;
}

void wake_burst_close(struct wake_burst *burst) {
  if (burst == NULL)
    return;
  wake_programs_free(&burst->programs);
  free(burst);
}

int wake_burst_begin(struct wake_burst *burst, uint64_t duration_ns,
                     char why[WAKE_WHY_SIZE]) {
  burst->until_ns = now_ns() + duration_ns;
  bool has_timer = burst->programs.probe->steps.timer != 0;
  int status = wake_programs_attach(&burst->programs, !has_timer, why);
  if (status != 0)
    wake_burst_end(burst);
  return status;
}

void wake_burst_end(struct wake_burst *burst) {
  wake_programs_detach(&burst->programs);
}

/* Clears the results of the last probes, but keeps the address of the timer,
 * which remains the same in every burst. */
static void reset(struct wake_probe *probe) {
  probe->steps = (struct wake_steps){.timer = probe->steps.timer};
  probe->head = probe->armed = 0;
  probe->is_paused = 0;
}

static int start_timer(void *context) {
  struct wake_burst *burst = context;
  return wake_programs_start_timer(&burst->programs);
}

static bool wait(const struct wake_burst *burst, uint64_t ns) {
  return burst->options.wait(burst->options.context, ns);
}

static bool goes_on(void *context) { return wait(context, 0); }

static int start(struct wake_burst *burst, int core, char why[WAKE_WHY_SIZE]) {
  why[0] = '\0';
  int status = wake_core_run(core, start_timer, goes_on, burst, why);
  if (status != 0 && why[0] == '\0')
    snprintf(why, WAKE_WHY_SIZE, "cannot start a BPF timer on core %d: %s",
             core, strerror(-status));
  if (burst->programs.probe->steps.timer != 0)
    wake_programs_timer_is_found(&burst->programs);
  return status;
}

static bool is_done(const struct wake_burst *burst) {
  const volatile struct wake_probe *probe = burst->programs.probe;
  return probe->armed >= burst->options.probes && !probe->steps.is_armed &&
         !probe->steps.is_pending;
}

/* Waits until all probes are done or the time is up. Returns 0, or -EINTR if
 * `wait` returned false. First sleeps for as long as the probes take on
 * average, because this thread would disturb the core if it woke up there
 * earlier. The timer may still be armed when this function returns; after
 * leave_core, it is not armed again. */
static int wait_for_probes(const struct wake_burst *burst) {
  uint64_t begin = now_ns(), probes = burst->options.probes;
  uint64_t until = begin + probes * DISTANCE_MAX_NS + LATE_NS;
  if (until > burst->until_ns)
    until = burst->until_ns;
  uint64_t left = until > begin ? until - begin : 0;
  uint64_t likely = probes * (DISTANCE_MIN_NS + DISTANCE_MAX_NS) / 2;
  bool going = wait(burst, likely < left ? likely : left);
  while (going && !is_done(burst) && now_ns() < until)
    going = wait(burst, POLL_NS);
  return going ? 0 : -EINTR;
}

/* Ends the measurement of the core. Then waits for 1 ms, because programs that
 * still run there need a few microseconds to end. */
static void leave_core(const struct wake_burst *burst) {
  __atomic_store_n(&burst->programs.probe->core, NO_CORE, __ATOMIC_SEQ_CST);
  wait(burst, LEAVE_NS);
}

int wake_burst_probe(struct wake_burst *burst, int core,
                     struct wake_burst_result *result,
                     char why[WAKE_WHY_SIZE]) {
  struct wake_probe *probe = burst->programs.probe;
  if (now_ns() >= burst->until_ns)
    return -ETIME;
  reset(probe);
  int64_t before = wake_core_usage(core);
  __atomic_store_n(&probe->core, (uint32_t)core, __ATOMIC_SEQ_CST);
  int status = start(burst, core, why);
  if (status == 0)
    status = wait_for_probes(burst);
  int64_t after = wake_core_usage(core);
  if (status == 0 && !wake_core_is_online(core)) {
    snprintf(why, WAKE_WHY_SIZE, "it went offline");
    status = -ENODEV;
  }
  leave_core(burst);
  *result =
      (struct wake_burst_result){.armed = probe->armed,
                                 .events = probe->events,
                                 .events_len = probe->head,
                                 .idles = probe->steps.idles,
                                 .usage = before < 0 ? -1 : after - before};
  return status;
}
