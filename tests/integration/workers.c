/* workers: threads that share a core and report what they do.
 *
 * Usage: workers REGION CORE SECONDS WORK_US:SLEEP_US[:inside]...
 *
 * Each argument is a thread. It works for WORK_US in rounds of at most 1 ms,
 * then sleeps for SLEEP_US. With `inside`, the work and the sleep are one
 * round. Prints when the threads began and ended (seconds since the epoch), and
 * their CPU time in percent of that time. Then waits until its input ends. */
#include "percore_config.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "percore.h"

enum { MAX_THREADS = 8, MAX_ROUND_US = 1000, PRINT_NS = 20000000 };

struct thread {
  pthread_t thread;
  uint64_t work_us, sleep_us;
  bool inside;
};

static struct percore_region *region;
static int core;
static double end_s;

static double seconds_of(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void work(uint64_t us) {
  double end = seconds_of(CLOCK_THREAD_CPUTIME_ID) + (double)us * 1e-6;
  while (seconds_of(CLOCK_THREAD_CPUTIME_ID) < end)
    ;
}

static void pause_us(percore_slot_t slot, uint64_t us) {
  struct timespec pause = {.tv_sec = (time_t)(us / 1000000),
                           .tv_nsec = (long)(us % 1000000) * 1000};
  if (us == 0)
    return;
  percore_sleep(slot);
  nanosleep(&pause, NULL);
  percore_wake(slot);
}

static void *run(void *argument) {
  struct thread *thread = argument;
  percore_slot_t slot;
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET((size_t)core, &cpus);
  pthread_setaffinity_np(pthread_self(), sizeof(cpus), &cpus);
  percore_attach(region, "worker", -1, &slot);
  while (seconds_of(CLOCK_REALTIME) < end_s) {
    uint64_t left_us = thread->work_us;
    for (; left_us > MAX_ROUND_US && !thread->inside; left_us -= MAX_ROUND_US) {
      work(MAX_ROUND_US);
      percore_poll(slot, 1);
    }
    work(left_us);
    if (!thread->inside)
      percore_poll(slot, 1);
    pause_us(slot, thread->sleep_us);
    if (thread->inside)
      percore_poll(slot, 1);
  }
  percore_detach(region, slot);
  return NULL;
}

static void print_times(struct thread *threads, int count) {
  double cpu_s = 0;
  for (int i = 0; i < count; i++) {
    clockid_t clock;
    if (pthread_getcpuclockid(threads[i].thread, &clock) == 0)
      cpu_s += seconds_of(clock);
  }
  printf("%.3f %.4f\n", seconds_of(CLOCK_REALTIME), cpu_s);
  fflush(stdout);
}

int main(int argc, char **argv) {
  static const struct percore_field fields[] = {{.name = "unused"}};
  static const struct percore_table tables[] = {
      {.name = "unused", .fields = fields, .field_count = 1}};
  struct thread threads[MAX_THREADS] = {0};
  struct timespec pause = {.tv_nsec = PRINT_NS};
  int count = argc - 4;
  if (count < 1 || count > MAX_THREADS ||
      percore_create(&region, argv[1], tables, 1, NULL) != 0)
    return 1;
  core = atoi(argv[2]);
  end_s = seconds_of(CLOCK_REALTIME) + atof(argv[3]);
  for (int i = 0; i < count; i++) {
    char *rest;
    threads[i].work_us = strtoull(argv[4 + i], &rest, 10);
    threads[i].sleep_us = *rest == ':' ? strtoull(rest + 1, &rest, 10) : 0;
    threads[i].inside = strcmp(rest, ":inside") == 0;
    pthread_create(&threads[i].thread, NULL, run, &threads[i]);
  }
  while (seconds_of(CLOCK_REALTIME) < end_s) {
    print_times(threads, count);
    nanosleep(&pause, NULL);
  }
  for (int i = 0; i < count; i++)
    pthread_join(threads[i].thread, NULL);
  puts("end");
  fflush(stdout);
  (void)getchar();
  return percore_destroy(region) == 0 ? 0 : 1;
}
