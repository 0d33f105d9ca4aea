/* join.c: useful = busy / total * CPU time / wall time.
 *
 * The cycles of a program are wall time: they go on while another task has the
 * core. So their quotient is the part of its CPU time in which the thread was
 * busy, right on average. The percents of Open vSwitch are shares of the whole
 * time, including that in which the thread slept. A running thread's schedstat
 * is up to a tick old, and on cores without a tick (nohz_full) a second, unless
 * `stat` is read first. If the thread was switched in no more often than
 * before, and lacks less than a tick, it has run all the time. */
#include "poller.h"

#include "base/clock.h"
#include "base/core_set.h"
#include "region/memory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TICK_NS 10e6 /* at 100 Hz */
/* Growth of total per tick of percore_tsc; answers are late. */
#define MOST 1.5
/* Programs read busy after total, while both grow: how much of total, and how
 * many nanoseconds, busy may be larger. */
#define LATE 1e-3
#define LATE_NS 1e4
enum { EXTRA_SLOTS = 64 };

/* ---------------------------------------------------------------------------
 * Threads of the operating system
 */

/* Reads a file of a thread. No descriptor is kept for one. */
static bool read_task(const struct poller_server *server, int tid,
                      const char *name, char *text, size_t size) {
  char path[48];
  snprintf(path, sizeof(path), "%d/%s", tid, name);
  int fd = openat(server->tasks, path, O_RDONLY | O_CLOEXEC);
  ssize_t length = read(fd, text, size - 1);
  close(fd);
  text[length > 0 ? length : 0] = '\0';
  return length > 0;
}

static bool read_cpu_time(const struct poller_server *server,
                          struct poller_thread *thread) {
  struct poller_cpu_time *cpu = &thread->cpu;
  const uint64_t before_ns = cpu->ran_ns;
  char text[512];
  if (!read_task(server, thread->tid, "stat", text, sizeof(text)) ||
      !read_task(server, thread->tid, "schedstat", text, sizeof(text)) ||
      sscanf(text, "%" SCNu64 " %" SCNu64 " %" SCNu64, &cpu->ran_ns,
             &cpu->waited_ns, &cpu->slices) != 3)
    return false;
  cpu->at_ns = clock_now_ns(CLOCK_MONOTONIC);
  cpu->at_tsc = percore_tsc();
  return cpu->ran_ns >= before_ns;
}

/* Returns the only core on which a thread may run, or -1. */
static int core_of(int tid) {
  struct core_set cores = {{0}};
  bool is_bound = sched_getaffinity(tid, sizeof(cores), (void *)&cores) == 0 &&
                  core_set_count(&cores) == 1;
  return is_bound ? core_set_next(&cores, -1) : -1;
}

static bool is_sought(const struct poller_thread *thread) {
  return thread->is_told && thread->core >= 0 &&
         (thread->tid == 0 || thread->is_odd);
}

/* Notes a thread that may be one of those that are sought, and how long it has
 * run since the look before; 0 at the first. */
static void look_at(struct poller_server *server, int tid, int core) {
  struct poller_seen *seen = &server->seen[tid % POLLER_SEEN];
  struct poller_thread *sought = NULL;
  bool is_joined = false;
  char text[128];
  for (size_t i = 0; i < server->len; i++) {
    struct poller_thread *thread = &server->threads[i];
    is_joined |= thread->tid == tid && !is_sought(thread);
    if (thread->core == core && is_sought(thread))
      sought = thread;
  }
  if (sought == NULL || is_joined ||
      !read_task(server, tid, "schedstat", text, sizeof(text)))
    return;
  uint64_t ran_ns = strtoull(text, NULL, 10);
  uint64_t grown_ns = seen->tid == tid ? ran_ns - seen->ran_ns : 0;
  *seen = (struct poller_seen){tid, ran_ns};
  if (sought->found++ == 0 || grown_ns > sought->most_ns) {
    sought->most_ns = grown_ns;
    sought->most_tid = tid;
  }
}

/* Programs name their threads as they like, but the one that polls is bound to
 * its core, and of several it has run most since the look before. Goes once
 * through the threads of the process for all that are sought. */
static void find_threads(struct poller_server *server) {
  const struct dirent *task;
  bool any = false;
  for (size_t i = 0; i < server->len; i++) {
    server->threads[i].found = 0;
    any |= is_sought(&server->threads[i]);
  }
  int fd =
      any ? openat(server->tasks, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
  DIR *tasks = fdopendir(fd);
  for (int n = 0; tasks != NULL && n < POLLER_THREADS_MAX &&
                  (task = readdir(tasks)) != NULL;
       n++)
    if (atoi(task->d_name) > 0)
      look_at(server, atoi(task->d_name), core_of(atoi(task->d_name)));
  for (size_t i = 0; i < server->len; i++) {
    struct poller_thread *thread = &server->threads[i];
    if (thread->found > 0 && thread->tid != thread->most_tid &&
        (thread->found == 1 || thread->most_ns > 0)) {
      thread->tid = thread->most_tid;
      thread->cpu = (struct poller_cpu_time){0};
    }
  }
  if (tasks != NULL)
    closedir(tasks);
}

/* ---------------------------------------------------------------------------
 * Cycles
 */

/* A program may set each of its counters back alone. The difference is then
 * larger than the time that has passed, and the share is unknown, as it is
 * before the second answer. */
void poller_thread_tell(struct poller_server *server, uint64_t id,
                        uint64_t busy, uint64_t total) {
  struct poller_thread *thread = server->threads;
  while (thread < server->threads + server->len && thread->id != id)
    thread++;
  if (thread == server->threads + POLLER_THREADS_MAX)
    return;
  if (thread == server->threads + server->len) {
    int core = !server->is_dpdk && id < CORES_MAX ? (int)id : -1;
    *thread = (struct poller_thread){.id = id, .core = core};
    server->len++;
  }
  bool is_first = thread->told_tsc == 0 && !server->is_percent;
  if (server->is_percent)
    thread->busy = thread->total = 0; /* as these are of the last seconds */
  uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC), now_tsc = percore_tsc();
  double passed = (double)(now_tsc - thread->told_tsc);
  double busy_grown = (double)(busy - thread->busy);
  double total_grown = (double)(total - thread->total);
  double late = LATE * total_grown +
                LATE_NS * passed / (double)(now_ns - thread->told_ns);
  bool is_known = !is_first && total_grown > 0 &&
                  total_grown <= MOST * passed &&
                  busy_grown <= total_grown + late;
  thread->share = is_known ? fmin(busy_grown / total_grown, 1) : NAN;
  thread->claim = server->is_percent ? thread->share : total_grown / passed;
  thread->busy = busy;
  thread->total = total;
  thread->told_ns = now_ns;
  thread->told_tsc = now_tsc;
  thread->is_told = true;
  server->told++;
}

/* ---------------------------------------------------------------------------
 * The region
 */

static void make_region(struct pollers *pollers) {
  const struct percore_options options = {
      .extra_slots = EXTRA_SLOTS, .cores = region_possible_cores(), .quiet = 1};
  struct percore_region_status status;
  pollers->region = percore_create(POLLERS_REGION, NULL, 0, &options);
  if (errno == 0)
    return;
  percore_status(pollers->region, &status);
  journal_say(&pollers->options.journal, JOURNAL_WARNING, "%s", status.reason);
}

static void attach(struct poller_server *server, struct poller_thread *thread,
                   uint64_t since_tsc) {
  struct pollers *pollers = server->pollers;
  char name[64];
  snprintf(name, sizeof(name), "%s/%" PRIu64, server->name, thread->id);
  if (pollers->region == NULL)
    make_region(pollers);
  thread->slot = percore_attach(pollers->region, name, thread->core);
  thread->is_attached = errno == 0;
  struct percore_slot_head *head = thread->slot.seat->head;
  percore_own_set_(&head->origin_tsc, since_tsc - head->total_cycles);
}

static void detach(struct poller_thread *thread) {
  if (thread->is_attached)
    percore_detach(thread->slot);
  thread->is_attached = false;
}

/* While nothing is known of a thread, it is not attached, so that it does not
 * seem to be stuck. */
void poller_thread_join(struct poller_server *server,
                        struct poller_thread *thread,
                        const struct poller_cpu_time *last) {
  const struct poller_cpu_time *cpu = &thread->cpu;
  uint64_t total = cpu->at_tsc - last->at_tsc;
  double ticks = (double)total, wall_ns = (double)(cpu->at_ns - last->at_ns);
  double ran_ns = (double)(cpu->ran_ns - last->ran_ns);
  double waited_ns = (double)(cpu->waited_ns - last->waited_ns);
  if (cpu->slices == last->slices && wall_ns - ran_ns < TICK_NS)
    ran_ns = wall_ns;
  double ran = fmin(ran_ns / wall_ns, 1);
  double absent = fmin(waited_ns / wall_ns, 1 - ran);
  double share = server->is_percent ? fmin(thread->share / (ran + absent), 1)
                                    : thread->share;
  thread->is_odd = ran + absent < thread->claim / 2;
  if (isnan(thread->share)) {
    detach(thread);
    return;
  }
  if (!thread->is_attached)
    attach(server, thread, last->at_tsc);
  struct percore_slot_head *head = thread->slot.seat->head;
  percore_sequence_begin_(&head->sequence);
  percore_own_add_(&head->busy_cycles, (uint64_t)(share * ran * ticks));
  percore_own_add_(&head->absent_cycles, (uint64_t)(absent * ticks));
  percore_own_add_(&head->sleep_cycles, (uint64_t)((1 - ran - absent) * ticks));
  percore_own_add_(&head->total_cycles, total);
  percore_own_add_(&head->checked_cpu_ns, (uint64_t)(ran * wall_ns));
  percore_own_set_(&head->checked_sleep, head->sleep_cycles);
  percore_own_set_(&head->checked_tsc, cpu->at_tsc);
  percore_sequence_end_(&head->sequence);
}

void poller_thread_forget(struct poller_thread *thread) {
  detach(thread);
  thread->tid = 0;
  thread->told_tsc = 0;
}

void poller_join(struct poller_server *server) {
  find_threads(server);
  for (size_t i = 0; i < server->len; i++) {
    struct poller_thread *thread = &server->threads[i];
    struct poller_cpu_time last = thread->cpu;
    if (!thread->is_told)
      poller_thread_forget(thread);
    else if (thread->tid == 0 || !read_cpu_time(server, thread)) {
      detach(thread);
      thread->tid = 0;
    } else if (last.at_ns != 0)
      poller_thread_join(server, thread, &last);
  }
}
