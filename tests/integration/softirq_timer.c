#include "softirq_timer.h"

#include <errno.h>
#include <linux/bpf.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/integration/softirq_timer.lskel.h"

/* Must be the same struct as in softirq_timer.bpf.c. */
struct burner {
  uint64_t timer[2];
  uint64_t period_ns, spin_ns;
  uint64_t next_ns;
};

static int bpf(enum bpf_cmd command, union bpf_attr *attr) {
  return (int)syscall(SYS_bpf, command, attr, sizeof(*attr));
}

/* Sets or gets the only value of a map. Returns 0, or -1 with errno. */
static int access_map(enum bpf_cmd command, int map, const void *value) {
  const uint32_t zero = 0;
  union bpf_attr attr;
  memset(&attr, 0, sizeof(attr));
  attr.map_fd = (uint32_t)map;
  attr.key = (uintptr_t)&zero;
  attr.value = (uintptr_t)value;
  return bpf(command, &attr);
}

/* Runs the program once on the core. The program starts the timer there.
 * Returns 0, or -1 with errno. */
static int start_on(int core, int program) {
  cpu_set_t one, before;
  char packet[64] = {0};
  union bpf_attr attr;
  memset(&attr, 0, sizeof(attr));
  attr.test.prog_fd = (uint32_t)program;
  attr.test.data_in = (uintptr_t)packet;
  attr.test.data_size_in = sizeof(packet);
  attr.test.repeat = 1;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  if (sched_getaffinity(0, sizeof(before), &before) != 0 ||
      sched_setaffinity(0, sizeof(one), &one) != 0)
    return -1;
  int status = bpf(BPF_PROG_TEST_RUN, &attr);
  sched_setaffinity(0, sizeof(before), &before);
  if (status == 0 && attr.test.retval != 0) {
    errno = -(int)attr.test.retval;
    return -1;
  }
  return status;
}

struct softirq_timer_bpf *softirq_timer_start(int core, uint64_t period_ns,
                                              uint64_t spin_ns) {
  const struct burner burner = {.period_ns = period_ns, .spin_ns = spin_ns};
  struct softirq_timer_bpf *timer = softirq_timer_bpf__open_and_load();
  if (timer == NULL)
    return NULL;
  if (access_map(BPF_MAP_UPDATE_ELEM, timer->maps.burners.map_fd, &burner) ==
          0 &&
      start_on(core, timer->progs.start.prog_fd) == 0)
    return timer;
  int error = errno;
  softirq_timer_bpf__destroy(timer);
  errno = error;
  return NULL;
}

void softirq_timer_stop(struct softirq_timer_bpf *timer) {
  softirq_timer_bpf__destroy(timer);
}

int softirq_timer_read(const struct softirq_timer_bpf *timer,
                       struct softirq_log *log) {
  return access_map(BPF_MAP_LOOKUP_ELEM, timer->maps.logs.map_fd, log);
}

int softirq_timer_nothing(const struct softirq_timer_bpf *timer) {
  return timer->progs.nothing.prog_fd;
}
