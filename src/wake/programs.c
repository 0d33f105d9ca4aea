#include "programs.h"

#include "base/bpf.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define TIMER_ABS 1 /* flags of bpf_timer_start, missing from older headers */
#define TIMER_CPU_PIN 2
#define LOG_SIZE 8192
#define LOG_ERRORS 4 /* BPF_LOG_STATS: no log of instructions */

static const char *const tracepoints[WAKE_LINKS] = {
    "hrtimer_start", "hrtimer_expire_entry", "irq_handler_entry",
    "local_timer_entry", "cpu_idle"};
#define LINK_START 0
#define LINK_LOCAL_TIMER 3 /* exists only on x86 */

/* ---------------------------------------------------------------------------
 * Loading
 */

const char *wake_programs_refusal(int error, char *log) {
  const char *last = "";
  char *statistics = strstr(log, "verification time ");
  if (statistics != NULL)
    *statistics = '\0';
  for (char *line; (line = strsep(&log, "\n")) != NULL;)
    last = line[0] != '\0' ? line : last;
  if (last[0] != '\0')
    return last;
  return error == EPERM || error == EACCES
             ? "a seccomp filter, a security module or the kernel's lockdown "
               "forbids them"
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

/* Opens and loads an object, with the verifier's errors in `log`, and stores
 * its descriptors. Sets `probes` to that of wake_probes, or to a negative
 * errno, and `smis` to that of wake_smis. */
#define LOAD(bpf, name)                                                        \
  do {                                                                         \
    if (((bpf) = name##__open()) != NULL) {                                    \
      (bpf)->ctx.log_level = LOG_ERRORS;                                       \
      (bpf)->ctx.log_size = LOG_SIZE;                                          \
      (bpf)->ctx.log_buf = (uintptr_t)log;                                     \
      probes = name##__load(bpf);                                              \
    }                                                                          \
    if (probes == 0) {                                                         \
      memcpy(programs->programs, (int[])PROGRAMS(bpf),                         \
             sizeof(programs->programs));                                      \
      probes = (bpf)->maps.wake_probes.map_fd;                                 \
      smis = (bpf)->maps.wake_smis.map_fd;                                     \
    }                                                                          \
  } while (0)

/* Returns the descriptor of the map wake_probes, or a negative errno. */
static int load(struct wake_programs *programs, bool has_timer, int smi_event,
                char *log) {
  const uint32_t first = 0;
  int probes = -ENOMEM, smis = -1;
  if (has_timer)
    LOAD(programs->timer, wake_timer_bpf);
  else
    LOAD(programs->bpf, wake_bpf);
  if (has_timer && probes >= 0)
    programs->begin = programs->timer->progs.wake_begin.prog_fd;
  union bpf_attr attr = {.map_fd = (uint32_t)smis,
                         .key = (uintptr_t)&first,
                         .value = (uintptr_t)&smi_event};
  bpf_call(BPF_MAP_UPDATE_ELEM, &attr); /* fails if the event is negative */
  return probes;
}

static void unload(struct wake_programs *programs) {
  if (programs->bpf != NULL)
    wake_bpf__destroy(programs->bpf);
  if (programs->timer != NULL)
    wake_timer_bpf__destroy(programs->timer);
}
#else
static int load(struct wake_programs *programs, bool has_timer, int smi_event,
                char *log) {
  (void)programs, (void)has_timer, (void)smi_event, (void)log;
  return -ENOTSUP;
}
static void unload(struct wake_programs *programs) { (void)programs; }
#endif

int wake_programs_load(struct wake_programs *programs, bool has_timer,
                       int smi_event, char why[WHY_SIZE]) {
  const char *missing = bpf_missing_capability();
  char log[LOG_SIZE] = "";
  *programs = (struct wake_programs){.begin = -1};
  memset(programs->links, -1, sizeof(programs->links));
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
  int map = load(programs, has_timer, smi_event, log);
  if (map < 0) {
    unload(programs);
    return why_fails(why, map, "the kernel refuses the BPF programs (%s): %s",
                     strerror(-map), wake_programs_refusal(-map, log));
  }
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
