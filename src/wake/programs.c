#include "programs.h"

#include "base/bpf.h"

#include <errno.h>
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

/* Opens and loads an object, and stores its descriptors. */
#define LOAD(bpf, name)                                                        \
  do {                                                                         \
    errno = 0;                                                                 \
    (bpf) = name##__open_and_load();                                           \
    if ((bpf) != NULL) {                                                       \
      memcpy(programs->programs, (int[])PROGRAMS(bpf),                         \
             sizeof(programs->programs));                                      \
      probes = (bpf)->maps.wake_probes.map_fd;                                 \
    }                                                                          \
  } while (0)

/* Returns the descriptor of the map wake_probes, or a negative errno. */
static int load(struct wake_programs *programs, bool has_timer,
                char why[WHY_SIZE]) {
  const char *missing = bpf_missing_capability();
  int probes = -1;
  if (missing != NULL)
    return why_fails(why, -EPERM,
                     "loading its programs needs CAP_BPF and CAP_PERFMON: %s; "
                     "grant both, or run as root",
                     missing);
  if (has_timer)
    LOAD(programs->timer, wake_timer_bpf);
  else
    LOAD(programs->bpf, wake_bpf);
  if (probes < 0)
    return bpf_refused(errno,
                       "they need Linux 5.15, and the BPF timer a kernel "
                       "without PREEMPT_RT",
                       why);
  if (has_timer)
    programs->begin = programs->timer->progs.wake_begin.prog_fd;
  return probes;
}

static void unload(struct wake_programs *programs) {
  if (programs->bpf != NULL)
    wake_bpf__destroy(programs->bpf);
  if (programs->timer != NULL)
    wake_timer_bpf__destroy(programs->timer);
}
#else
static int load(struct wake_programs *programs, bool has_timer,
                char why[WHY_SIZE]) {
  (void)programs, (void)has_timer;
  return why_fails(why, -ENOTSUP,
                   "this percore was built without BPF; build it with clang, "
                   "bpftool and libbpf-dev");
}
static void unload(struct wake_programs *programs) { (void)programs; }
#endif

int wake_programs_load(struct wake_programs *programs, bool has_timer,
                       char why[WHY_SIZE]) {
  *programs = (struct wake_programs){.begin = -1};
  memset(programs->links, -1, sizeof(programs->links));
  int map = load(programs, has_timer, why);
  if (map < 0)
    return map;
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
    programs->links[i] = bpf_attach(tracepoints[i], programs->programs[i], why);
    if (programs->links[i] < 0 && i != LINK_LOCAL_TIMER)
      return programs->links[i];
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
