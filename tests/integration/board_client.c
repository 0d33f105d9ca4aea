/* board_client board|own [START]: at the time START (CLOCK_MONOTONIC, s) takes
 * loads from the board, or measures them, and prints, every 20 ms, where
 * they come from and the loads of the first two cores, until stdin ends.
 * board_client cost: prints what reading costs, in ns, and then reads where
 * every system call but write is forbidden. board_client step: prints how long
 * after a step of real load on core 1 its load shows it, in seconds, ten times.
 */
#include "../unit/calls.h"
#include "percore_load.h"
#include "percore_tune.h"

#include <err.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define STEP_MS 20
#define ROUNDS 1000000
#define BURNT 1
#define STEPS 10

static double clock_s(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static double now_s(void) { return clock_s(CLOCK_MONOTONIC); }

static double used_s(void) { return clock_s(CLOCK_THREAD_CPUTIME_ID); }

static void measure_cost(struct percore_load *load) {
  volatile double sum = 0;
  int core;
  double begin_s = used_s();
  for (int i = 0; i < ROUNDS; i++)
    sum += percore_load_get(load, i & 1, NULL);
  double got_s = used_s();
  for (int i = 0; i < ROUNDS; i++)
    percore_load_update(load);
  double updated_s = used_s();
  for (int i = 0; i < ROUNDS; i++)
    percore_load_best(load, NULL, &core, 1);
  double chosen_s = used_s();
  printf("get %.1f update %.1f best %.1f\n", (got_s - begin_s) * 1e9 / ROUNDS,
         (updated_s - got_s) * 1e9 / ROUNDS,
         (chosen_s - updated_s) * 1e9 / ROUNDS);
}

/* The kernel kills this process at any system call but write and exit. */
static void forbid_system_calls(void) {
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  struct sock_fprog program = {.len = 5, .filter = filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    err(1, "prctl");
}

static void read_without_system_calls(struct percore_load *load) {
  static const char done[] = "no system call\n";
  int core;
  fflush(stdout);
  forbid_system_calls();
  for (int i = 0; i < 1000; i++) {
    percore_load_update(load);
    percore_load_best(load, NULL, &core, 1);
  }
  _exit(write(1, done, sizeof(done) - 1) < 0);
}

static pid_t burn(int core) {
  pid_t pid = fork();
  cpu_set_t cpus;
  if (pid != 0)
    return pid;
  CPU_ZERO(&cpus);
  CPU_SET((size_t)core, &cpus);
  sched_setaffinity(0, sizeof(cpus), &cpus);
  for (;;)
    ;
}

static void wait_for_picture(struct percore_load *load) {
  double age = 0, last;
  load_window(load, BURNT, &age);
  do {
    last = age;
    usleep(1000);
    percore_load_update(load);
    load_window(load, BURNT, &age);
  } while (age >= last);
}

static void measure_steps(struct percore_load *load) {
  for (int i = 0; i < STEPS; i++) {
    do
      wait_for_picture(load);
    while (percore_load_get(load, BURNT, NULL) > 0.5);
    double before = percore_load_get(load, BURNT, NULL), begin_s = now_s();
    pid_t pid = burn(BURNT);
    while (percore_load_get(load, BURNT, NULL) < (1 + before) / 2) {
      usleep(1000);
      percore_load_update(load);
    }
    printf("%.4f\n", now_s() - begin_s);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
  }
}

int main(int argc, char **argv) {
  bool cost = argc > 1 && strcmp(argv[1], "cost") == 0;
  bool step = argc > 1 && strcmp(argv[1], "step") == 0;
  struct percore_load_options options = {.size = sizeof(options),
                                         .from_board =
                                             argc > 1 &&
                                             strcmp(argv[1], "own") != 0};
  struct percore_load *load;
  if (argc > 2)
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME,
                    &(struct timespec){.tv_sec = atoi(argv[2])}, NULL);
  if (percore_load_open(&load, &options) != 0)
    err(1, "percore_load_open");
  struct pollfd end = {.fd = 0, .events = POLLIN};
  while (!cost && !step && poll(&end, 1, STEP_MS) == 0) {
    int core = -1, status = percore_load_update(load);
    int found = percore_load_best(load, NULL, &core, 1);
    printf("%.3f %d %.6f %.6f %s %d %d %d\n", now_s(),
           load_details(load, 0).from_board, percore_load_get(load, 0, NULL),
           percore_load_get(load, 1, NULL), load_details(load, 0).source,
           status, found, core);
    fflush(stdout);
  }
  if (step)
    measure_steps(load);
  if (cost) {
    measure_cost(load);
    wait_for_picture(load);
    read_without_system_calls(load);
  }
  percore_load_close(load);
  return 0;
}
