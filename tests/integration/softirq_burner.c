/* softirq_burner CORE PERIOD_US SPIN_US: occupies a core with softirq of a
 * known length until it is ended, and prints every 50 ms:
 *
 *   CLOCK_MONOTONIC of the line, ns of softirq so far, how often it fired
 */
#include <errno.h>
#include <linux/bpf.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "softirq_burner.lskel.h"

/* As in softirq_burner.bpf.c. */
struct burner {
  uint64_t timer[2];
  uint64_t period_ns, spin_ns;
  uint64_t next_ns;
};

struct burner_log {
  uint64_t spun_ns, fires;
};

static int bpf(enum bpf_cmd command, union bpf_attr *attr) {
  return (int)syscall(SYS_bpf, command, attr, sizeof(*attr));
}

static int set(int map, const void *value) {
  const uint32_t zero = 0;
  union bpf_attr attr = {.map_fd = (uint32_t)map};
  attr.key = (uintptr_t)&zero;
  attr.value = (uintptr_t)value;
  return bpf(BPF_MAP_UPDATE_ELEM, &attr);
}

static int get(int map, void *value) {
  const uint32_t zero = 0;
  union bpf_attr attr = {.map_fd = (uint32_t)map};
  attr.key = (uintptr_t)&zero;
  attr.value = (uintptr_t)value;
  return bpf(BPF_MAP_LOOKUP_ELEM, &attr);
}

/* The program arms the timer on the core where it runs. */
static int start_on(int core, int program) {
  cpu_set_t one, before;
  char packet[64] = {0};
  union bpf_attr attr = {0};
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  attr.test.prog_fd = (uint32_t)program;
  attr.test.data_in = (uintptr_t)packet;
  attr.test.data_size_in = sizeof(packet);
  attr.test.repeat = 1;
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

int main(int argc, char **argv) {
  if (argc != 4)
    return 2;
  struct burner burner = {
      .period_ns = strtoull(argv[2], NULL, 10) * 1000,
      .spin_ns = strtoull(argv[3], NULL, 10) * 1000,
  };
  struct softirq_burner_bpf *loaded = softirq_burner_bpf__open_and_load();
  if (loaded == NULL || set(loaded->maps.burners.map_fd, &burner) != 0 ||
      start_on(atoi(argv[1]), loaded->progs.start.prog_fd) != 0) {
    fprintf(stderr, "softirq_burner: %s\n", strerror(errno));
    return 1;
  }
  for (;;) {
    const struct timespec pause = {0, 50000000};
    struct burner_log log;
    struct timespec now;
    if (get(loaded->maps.logs.map_fd, &log) != 0)
      return 1;
    clock_gettime(CLOCK_MONOTONIC, &now);
    printf("%llu %llu %llu\n",
           (unsigned long long)now.tv_sec * 1000000000 +
               (unsigned long long)now.tv_nsec,
           (unsigned long long)log.spun_ns, (unsigned long long)log.fires);
    if (fflush(stdout) != 0)
      return 0;
    nanosleep(&pause, NULL);
  }
}
