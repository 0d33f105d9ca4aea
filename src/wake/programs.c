#include "programs.h"

#include "base/bpf.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define TIMER_ABS 1 /* flags of bpf_timer_start, missing from older headers */
#define TIMER_CPU_PIN 2

static const char *const tracepoints[WAKE_LINKS] = {
    "hrtimer_start", "hrtimer_expire_entry", "irq_handler_entry",
    "local_timer_entry", "cpu_idle"};
#define LINK_START 0
#define LINK_LOCAL_TIMER 3 /* exists only on x86 */

/* ---------------------------------------------------------------------------
 * Loading
 */

/* Linux refuses BPF timers with PREEMPT_RT by this number, which the verifier
 * explains as "bpf_timer cannot be used for PREEMPT_RT". */
const char *wake_programs_refusal(int error, bool has_timer) {
  if (has_timer && error == EOPNOTSUPP)
    return "kernels with PREEMPT_RT have no BPF timers; percore wake measures "
           "with --method thread";
  if (error == EPERM || error == EACCES)
    return "a seccomp filter or the kernel's lockdown forbids them";
  return has_timer ? "they need Linux 5.15, and a kernel without PREEMPT_RT; "
                     "percore wake measures with --method thread"
                   : "they need Linux 5.15";
}

#ifdef PERCORE_BPF
#include "wake/wake.lskel.h"
#include "wake/wake_timer.lskel.h"

/* The programs of an object in the order of `tracepoints`. */
#define PROGRAMS(bpf)                                                          \
  {                                                                            \
    (bpf)->progs.wake_start.prog_fd, (bpf)->progs.wake_expire.prog_fd,         \
        (bpf)->progs.wake_interrupt.prog_fd,                                   \
        (bpf)->progs.wake_interrupt.prog_fd, (bpf)->progs.wake_idle.prog_fd    \
  }

/* Returns the descriptor of the map, or -1 with errno. */
static int load(struct wake_programs *programs, bool has_timer) {
  *programs = (struct wake_programs){.begin = -1};
  memset(programs->links, -1, sizeof(programs->links));
  if (!has_timer) {
    struct wake_bpf *bpf = programs->bpf = wake_bpf__open_and_load();
    if (bpf == NULL)
      return -1;
    memcpy(programs->programs, (int[])PROGRAMS(bpf),
           sizeof(programs->programs));
    return bpf->maps.wake_probes.map_fd;
  }
  struct wake_timer_bpf *timer = programs->timer =
      wake_timer_bpf__open_and_load();
  if (timer == NULL)
    return -1;
  memcpy(programs->programs, (int[])PROGRAMS(timer),
         sizeof(programs->programs));
  programs->begin = timer->progs.wake_begin.prog_fd;
  return timer->maps.wake_probes.map_fd;
}

static void unload(struct wake_programs *programs) {
  if (programs->bpf != NULL)
    wake_bpf__destroy(programs->bpf);
  if (programs->timer != NULL)
    wake_timer_bpf__destroy(programs->timer);
}
#else
static int load(struct wake_programs *programs, bool has_timer) {
  (void)programs, (void)has_timer;
  return -1;
}
static void unload(struct wake_programs *programs) { (void)programs; }
#endif

int wake_programs_load(struct wake_programs *programs, bool has_timer,
                       char why[WHY_SIZE]) {
  const char *missing = bpf_missing_capability();
  *programs = (struct wake_programs){.probe = NULL};
#ifndef PERCORE_BPF
  return why_fails(why, -ENOTSUP,
                   "this percore was built without BPF; build it with clang, "
                   "bpftool and libbpf-dev");
#endif
  if (missing != NULL)
    return why_fails(why, -EPERM,
                     "loading its programs needs CAP_BPF and CAP_PERFMON: %s; "
                     "grant both, or run as root",
                     missing);
  errno = EINVAL;
  int map = load(programs, has_timer);
  if (map < 0)
    return why_fails(why, -errno, "the kernel refuses the BPF programs: %s; %s",
                     strerror(errno), wake_programs_refusal(errno, has_timer));
  void *probe = mmap(NULL, sizeof(*programs->probe), PROT_READ | PROT_WRITE,
                     MAP_SHARED, map, 0);
  if (probe == MAP_FAILED) {
    int status =
        why_fails(why, -errno, "cannot map the memory of the BPF programs: %s",
                  strerror(errno));
    wake_programs_free(programs);
    return status;
  }
  programs->probe = probe;
  return 0;
}

/* ---------------------------------------------------------------------------
 * Running
 */

int wake_programs_attach(struct wake_programs *programs, bool finds_timer,
                         char why[WHY_SIZE]) {
  for (int i = finds_timer ? LINK_START : LINK_START + 1; i < WAKE_LINKS; i++) {
    programs->links[i] = bpf_attach(tracepoints[i], programs->programs[i]);
    if (programs->links[i] < 0 && i != LINK_LOCAL_TIMER)
      return why_fails(why, programs->links[i],
                       "cannot attach to the tracepoint %s: %s", tracepoints[i],
                       strerror(-programs->links[i]));
  }
  return 0;
}

static void close_link(struct wake_programs *programs, int link) {
  if (programs->links[link] >= 0)
    close(programs->links[link]);
  programs->links[link] = -1;
}

void wake_programs_timer_is_found(struct wake_programs *programs) {
  close_link(programs, LINK_START);
}

void wake_programs_detach(struct wake_programs *programs) {
  for (int i = 0; i < WAKE_LINKS; i++)
    close_link(programs, i);
}

/* Kernels before 6.7 cannot pin the timer, which nevertheless stays on the core
 * where it was started. Kernels before 6.4 accept only relative times. So try
 * the newest flags first. */
int wake_programs_start_timer(struct wake_programs *programs) {
  static const uint32_t flags[] = {TIMER_ABS | TIMER_CPU_PIN, TIMER_ABS, 0};
  int status = -EINVAL;
  for (size_t i = 0; status == -EINVAL && i < sizeof(flags) / sizeof(flags[0]);
       i++) {
    programs->probe->timer_flags = flags[i];
    union bpf_attr attr = {0};
    attr.test.prog_fd = (uint32_t)programs->begin;
    status = bpf_call(BPF_PROG_TEST_RUN, &attr);
    if (status >= 0)
      status = (int)attr.test.retval;
  }
  return status;
}

void wake_programs_free(struct wake_programs *programs) {
  wake_programs_detach(programs);
  if (programs->probe != NULL)
    munmap(programs->probe, sizeof(*programs->probe));
  unload(programs);
}
