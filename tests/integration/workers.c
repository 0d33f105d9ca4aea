/* workers: threads that share a core and report what they do.
 *
 * Usage: workers REGION CORE SECONDS WORK_US:SLEEP_US[:KIND]...
 *
 * Each argument is a thread. It works for WORK_US in rounds of at most 1 ms,
 * then sleeps for SLEEP_US, until the seconds are over. KIND is one of:
 *   inside   the work and the sleep are one round
 *   silent   likewise, and percore is not told of the sleep
 *   empty    polls all the time and finds nothing
 *   rival    tells percore nothing, and has real-time priority
 * Prints the time (seconds since the epoch) and the CPU time of all threads but
 * the rivals again and again, then `end`. Then waits until its input ends. */
#include "percore_config.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "../unit/calls.h"
#include "percore_tune.h"

enum { MAX_THREADS = 8, MAX_ROUND_US = 1000, PRINT_NS = 20000000 };

enum kind { ROUNDS, INSIDE, SILENT, EMPTY, RIVAL };
static const char *const kinds[] = {
    "", ":inside", ":silent", ":empty", ":rival",
};

struct thread {
  pthread_t thread;
  uint64_t work_us, sleep_us;
  enum kind kind;
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

static void pause_us(uint64_t us) {
  struct timespec pause = {.tv_sec = (time_t)(us / 1000000),
                           .tv_nsec = (long)(us % 1000000) * 1000};
  nanosleep(&pause, NULL);
}

static void work_and_sleep(const struct thread *thread, percore_slot_t slot) {
  uint64_t left_us = thread->work_us;
  for (; left_us > MAX_ROUND_US && thread->kind == ROUNDS;
       left_us -= MAX_ROUND_US) {
    work(MAX_ROUND_US);
    percore_poll(slot, 1, 0);
  }
  work(left_us);
  if (thread->kind == ROUNDS)
    percore_poll(slot, 1, 0);
  if (thread->sleep_us > 0) {
    if (thread->kind != SILENT)
      percore_sleep(slot);
    pause_us(thread->sleep_us);
    if (thread->kind != SILENT)
      percore_wake(slot);
  }
  if (thread->kind != ROUNDS)
    percore_poll(slot, 1, 0);
}

static void *run(void *argument) {
  struct thread *thread = argument;
  percore_slot_t slot;
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET((size_t)core, &cpus);
  pthread_setaffinity_np(pthread_self(), sizeof(cpus), &cpus);
  prctl(PR_SET_TIMERSLACK, 1);
  if (thread->kind == RIVAL) {
    while (seconds_of(CLOCK_REALTIME) < end_s) {
      work(thread->work_us);
      pause_us(thread->sleep_us);
    }
    return NULL;
  }
  attach_thread(region, "worker", -1, &slot);
  while (seconds_of(CLOCK_REALTIME) < end_s)
    if (thread->kind == EMPTY)
      percore_poll(slot, 0, 0);
    else
      work_and_sleep(thread, slot);
  percore_detach(slot);
  return NULL;
}

/* Returns 0 or an error number. */
static int start(struct thread *thread, const char *argument) {
  pthread_attr_t attributes;
  char *rest;
  thread->work_us = strtoull(argument, &rest, 10);
  thread->sleep_us = *rest == ':' ? strtoull(rest + 1, &rest, 10) : 0;
  for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
    if (strcmp(rest, kinds[k]) == 0)
      thread->kind = (enum kind)k;
  pthread_attr_init(&attributes);
  if (thread->kind == RIVAL) {
    pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED);
    pthread_attr_setschedpolicy(&attributes, SCHED_FIFO);
    pthread_attr_setschedparam(&attributes,
                               &(struct sched_param){.sched_priority = 1});
  }
  int error = pthread_create(&thread->thread, &attributes, run, thread);
  pthread_attr_destroy(&attributes);
  return error;
}

static void print_times(struct thread *threads, int count) {
  double cpu_s = 0;
  for (int i = 0; i < count; i++) {
    clockid_t clock;
    if (threads[i].kind != RIVAL &&
        pthread_getcpuclockid(threads[i].thread, &clock) == 0)
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
      create_region(&region, argv[1], tables, 1, NULL) != 0)
    return 1;
  core = atoi(argv[2]);
  end_s = seconds_of(CLOCK_REALTIME) + atof(argv[3]);
  for (int i = 0; i < count; i++)
    if ((errno = start(&threads[i], argv[4 + i])) != 0) {
      perror("pthread_create");
      return 1;
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
