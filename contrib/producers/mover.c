/* mover: a program that moves flows to the core that has room. A flow is a
 * thread here; gateways move sessions between their workers in the same way.
 *
 *   cc -D_GNU_SOURCE mover.c $(pkg-config --cflags --libs percore) -pthread
 *   ./a.out 4          # four flows, moved once a second
 *
 * It takes the loads from the board, which collectd with percore or `percore
 * load --publish` writes, and otherwise measures itself. placed.service, beside
 * this file, places a service once, at its start. */
#include <percore_load.h>

#include <err.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { FLOWS_MAX = 64 };

/* A flow moves only if another core has this much more room, so that flows do
 * not change places for nothing. */
static const double WORTH_IT = 0.2;

struct flow {
  pthread_t thread;
  int core; /* -1: not placed yet */
};

static volatile sig_atomic_t stop;

static void on_signal(int number) {
  (void)number;
  stop = 1;
}

/* Simulates work: busy for 1 ms of every 5 ms. */
static void *run(void *unused) {
  (void)unused;
  while (!stop) {
    struct timespec begin, now;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do
      clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - begin.tv_sec) * 1000000000 + now.tv_nsec -
               begin.tv_nsec <
           1000000);
    usleep(4000);
  }
  return NULL;
}

static void place(struct flow *flow, struct percore_load *load) {
  int core;
  cpu_set_t cores;
  if (percore_load_best(load, NULL, &core, 1) != 1 || core == flow->core ||
      core >= CPU_SETSIZE)
    return;
  struct percore_load_details details = {.size = sizeof(details)};
  double there = percore_load_get(load, core, &details);
  double here = percore_load_get(load, flow->core, NULL);
  if (flow->core >= 0 && here >= 0 && there + WORTH_IT > here)
    return;
  CPU_ZERO(&cores);
  CPU_SET((size_t)core, &cores);
  if (pthread_setaffinity_np(flow->thread, sizeof(cores), &cores) != 0)
    return;
  printf("flow %lu: core %d, load %.2f, by %s\n", (unsigned long)flow->thread,
         core, there, details.from_board ? "the board" : details.source);
  fflush(stdout);
  flow->core = core;
}

int main(int argc, char **argv) {
  static struct flow flows[FLOWS_MAX];
  int len = argc > 1 ? atoi(argv[1]) : 1;
  const char *duration = getenv("DURATION");
  struct percore_load *load;
  if (len < 1 || len > FLOWS_MAX)
    errx(2, "give a number of flows from 1 to %d", FLOWS_MAX);
  signal(SIGINT, on_signal);
  signal(SIGTERM, on_signal);
  signal(SIGALRM, on_signal);
  if (duration != NULL)
    alarm((unsigned)atoi(duration));
  const struct percore_load_options board = {.size = sizeof(board),
                                             .from_board = 1};
  if (percore_load_open(&load, &board) != 0 &&
      percore_load_open(&load, NULL) != 0)
    err(1, "percore_load_open");
  for (int i = 0; i < len; i++) {
    flows[i].core = -1;
    if (pthread_create(&flows[i].thread, NULL, run, NULL) != 0)
      errx(1, "cannot create a thread");
  }
  while (!stop) {
    percore_load_update(load);
    for (int i = 0; i < len; i++)
      place(&flows[i], load);
    sleep(1);
  }
  for (int i = 0; i < len; i++)
    pthread_join(flows[i].thread, NULL);
  percore_load_close(load);
  return 0;
}
