/* useful: runs a worker with a known useful load, and rivals for its core.
 *
 * Usage: useful CORE PERCENT RIVALS SECONDS [fifo]
 *
 * Packets arrive at a constant rate. Each takes 20 us of the worker's CPU time,
 * and together they take PERCENT of wall time. RIVALS processes that never
 * sleep run on the same core. With `fifo` the worker is SCHED_FIFO, and the
 * kernel throttles it in favour of the rivals. Prints, in percent, the share of
 * the core that the worker received, the truth (packets x CPU time per packet /
 * wall time), and the useful load of its slot. */
#include "percore_config.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../unit/calls.h"
#include "percore_reader.h"
#include "percore_tune.h"

enum { MAX_RIVALS = 8, BURST = 4, PACKET_NS = 20000, SAMPLED = 8 };

static _Noreturn void fail(const char *what) {
  perror(what);
  exit(1);
}

static double seconds_of(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static __attribute__((noinline)) void handle_packets(uint64_t n,
                                                     uint64_t steps) {
  uint64_t x = n;
  for (uint64_t i = 0; i < n * steps; i++)
    __asm__ volatile("" : "+r"(x) : : "memory");
}

/* Returns how many steps of handle_packets take one second of CPU time. */
static double measure_steps(void) {
  enum { PACKETS = 1000, STEPS = 20000 };
  double begin = seconds_of(CLOCK_THREAD_CPUTIME_ID);
  handle_packets(PACKETS, STEPS);
  return (double)PACKETS * STEPS /
         (seconds_of(CLOCK_THREAD_CPUTIME_ID) - begin);
}

static void start_rivals(int count, pid_t *rivals) {
  for (int i = 0; i < count; i++) {
    rivals[i] = fork();
    if (rivals[i] < 0)
      fail("fork");
    if (rivals[i] > 0)
      continue;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;)
      ;
  }
}

static void end_rivals(int count, const pid_t *rivals) {
  for (int i = 0; i < count; i++) {
    kill(rivals[i], SIGKILL);
    waitpid(rivals[i], NULL, 0);
  }
}

/* The number of all packets and of rounds with packets, and the CPU time of a
 * sample of these rounds. */
struct rounds {
  uint64_t packets, sampled_packets, samples, busy;
  double sampled_s;
};

/* Returns how many seconds of CPU time one reading of the CPU clock takes. */
static double clock_cost_s(void) {
  enum { CALLS = 1000 };
  double begin = seconds_of(CLOCK_THREAD_CPUTIME_ID);
  for (int i = 0; i < CALLS; i++)
    (void)seconds_of(CLOCK_THREAD_CPUTIME_ID);
  return (seconds_of(CLOCK_THREAD_CPUTIME_ID) - begin) / CALLS;
}

static void sample_packets(uint64_t n, uint64_t steps, struct rounds *rounds) {
  double begin = seconds_of(CLOCK_THREAD_CPUTIME_ID);
  handle_packets(n, steps);
  rounds->sampled_s += seconds_of(CLOCK_THREAD_CPUTIME_ID) - begin;
  rounds->sampled_packets += n;
  rounds->samples++;
}

static void work(percore_slot_t slot, double per_tick, uint64_t steps,
                 uint64_t ticks, struct rounds *rounds) {
  uint64_t begin = percore_tsc(), now = begin;
  while (now - begin < ticks) {
    uint64_t due = (uint64_t)((double)(now - begin) * per_tick);
    uint64_t n = due - rounds->packets;
    n = n < BURST ? n : BURST;
    if (n > 0 && rounds->busy++ % SAMPLED == 0)
      sample_packets(n, steps, rounds);
    else
      handle_packets(n, steps);
    rounds->packets += n;
    now = percore_tsc();
    percore_poll(slot, n, now);
  }
}

static double measure_tsc_hz(void) {
  double begin = seconds_of(CLOCK_MONOTONIC);
  uint64_t ticks = percore_tsc();
  usleep(20000);
  return (double)(percore_tsc() - ticks) /
         (seconds_of(CLOCK_MONOTONIC) - begin);
}

static double shown(struct percore_reader *reader, int slot) {
  uint64_t values[6];
  if (percore_refresh(reader) < 0 ||
      percore_read_row(reader, PERCORE_TABLE_CORE, 0, slot, NULL, 0, values,
                       6) < 0)
    fail("reading the own region");
  return (double)values[1] / (double)values[0];
}

int main(int argc, char **argv) {
  struct percore_region *region;
  struct percore_reader *reader;
  percore_slot_t slot;
  pid_t rivals[MAX_RIVALS];
  if (argc < 5 || atoi(argv[3]) > MAX_RIVALS)
    return 2;
  int core = atoi(argv[1]), count = atoi(argv[3]);
  double truth = atof(argv[2]) / 100, seconds = atof(argv[4]);
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET((size_t)core, &cpus);
  if (sched_setaffinity(0, sizeof(cpus), &cpus) != 0)
    fail("sched_setaffinity");
  double steps_per_s = measure_steps(), tsc_hz = measure_tsc_hz();
  uint64_t steps = (uint64_t)(steps_per_s * PACKET_NS * 1e-9);
  start_rivals(count, rivals);
  if (argc > 5 &&
      sched_setscheduler(0, SCHED_FIFO,
                         &(struct sched_param){.sched_priority = 1}) != 0)
    fail("sched_setscheduler");
  if (create_region(&region, "useful", NULL, 0, NULL) != 0)
    fail("percore_create");
  if (attach_thread(region, "worker", core, &slot) != 0)
    fail("percore_attach");
  double begin = seconds_of(CLOCK_MONOTONIC);
  double begin_cpu = seconds_of(CLOCK_THREAD_CPUTIME_ID);
  struct rounds rounds = {0};
  work(slot, truth / (PACKET_NS * 1e-9) / tsc_hz, steps,
       (uint64_t)(seconds * tsc_hz), &rounds);
  double wall = seconds_of(CLOCK_MONOTONIC) - begin;
  double cpu = seconds_of(CLOCK_THREAD_CPUTIME_ID) - begin_cpu;
  end_rivals(count, rivals);
  percore_open(&reader, "useful", NULL);
  printf("core %.1f truth %.1f useful %.1f\n", cpu / wall * 100,
         (double)rounds.packets / (double)rounds.sampled_packets *
             (rounds.sampled_s - (double)rounds.samples * clock_cost_s()) /
             wall * 100,
         shown(reader, core) * 100);
  percore_close(reader);
  percore_detach(slot);
  return percore_destroy(region);
}
