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
#include "base/descriptors.h"
#include "base/process.h"
#include "cycles/core_set.h"
#include "region/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define TICK_NS 10e6 /* at 100 Hz */
#define MOST                                                                   \
  1.5 /* growth of total per tick of percore_tsc; answers are late             \
       */
enum { EXTRA_SLOTS = 64 };

/* ---------------------------------------------------------------------------
 * CPU time
 */

static bool is_bound(int tid, int core) {
  struct core_set cores = {{0}};
  return sched_getaffinity(tid, sizeof(cores), (void *)&cores) == 0 &&
         core_set_count(&cores) == 1 && core_set_has(&cores, core);
}

/* Finds the thread among those of the process: programs name them as they like,
 * but the one that polls is bound to the core, and has used most of it. */
static int find_tid(const struct poller_server *server, int core) {
  char path[32], text[128];
  uint64_t most_ns = 0, ran_ns;
  int found = 0;
  snprintf(path, sizeof(path), "/proc/%d/task", (int)server->pid);
  DIR *tasks = opendir(path);
  for (struct dirent *entry;
       tasks != NULL && (entry = readdir(tasks)) != NULL;) {
    int tid = atoi(entry->d_name);
    bool is_other = tid == 0 || !is_bound(tid, core);
    for (size_t i = 0; i < server->len; i++)
      is_other |= server->threads[i].tid == tid;
    if (is_other)
      continue;
    process_read(text, sizeof(text), path, entry->d_name, "schedstat");
    if (sscanf(text, "%" SCNu64, &ran_ns) == 1 && ran_ns >= most_ns) {
      most_ns = ran_ns;
      found = tid;
    }
  }
  if (tasks != NULL)
    closedir(tasks);
  return found;
}

/* Returns a descriptor; -1: it cannot be read. */
static int open_task(pid_t pid, int tid, const char *name) {
  char path[64];
  snprintf(path, sizeof(path), "/proc/%d/task/%d/%s", (int)pid, tid, name);
  return descriptors_available() > 0
             ? descriptors_move(open(path, O_RDONLY | O_CLOEXEC))
             : -1;
}

static bool read_cpu_time(struct poller_thread *thread) {
  struct poller_cpu_time *cpu = &thread->cpu;
  char text[512];
  ssize_t length = pread(thread->stat, text, sizeof(text), 0);
  if (length > 0)
    length = pread(thread->schedstat, text, sizeof(text) - 1, 0);
  text[length > 0 ? length : 0] = '\0';
  cpu->at_ns = clock_now_ns(CLOCK_MONOTONIC);
  cpu->at_tsc = percore_tsc();
  return sscanf(text, "%" SCNu64 " %" SCNu64 " %" SCNu64, &cpu->ran_ns,
                &cpu->waited_ns, &cpu->slices) == 3;
}

/* ---------------------------------------------------------------------------
 * Cycles
 */

/* Returns the thread with this number, or NULL if there are too many. */
static struct poller_thread *get_thread(struct poller_server *server,
                                        uint64_t id) {
  bool is_core = server->dialect != POLLER_DPDK && id < CORES_MAX;
  size_t i = 0;
  while (i < server->len && server->threads[i].id != id)
    i++;
  if (i == POLLER_THREADS_MAX)
    return NULL;
  if (i == server->len)
    server->threads[server->len++] =
        (struct poller_thread){.id = id, .core = is_core ? (int)id : -1};
  return &server->threads[i];
}

/* A program may set each of its counters back alone. The difference is then
 * larger than the time that has passed, and the share is unknown, as it is
 * before the second answer. */
void poller_thread_tell(struct poller_server *server, uint64_t id,
                        uint64_t busy, uint64_t total) {
  struct poller_thread *thread = get_thread(server, id);
  if (thread == NULL)
    return;
  bool is_first = thread->told_tsc == 0 && !server->is_percent;
  if (server->is_percent)
    thread->busy = thread->total = 0; /* as these are of the last seconds */
  uint64_t now_tsc = percore_tsc();
  double most = MOST * (double)(now_tsc - thread->told_tsc);
  double busy_grown = (double)(busy - thread->busy);
  double total_grown = (double)(total - thread->total);
  bool is_known = !is_first && total_grown <= most && busy_grown <= total_grown;
  thread->share = is_known ? busy_grown / total_grown : NAN;
  thread->busy = busy;
  thread->total = total;
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

bool poller_thread_find(struct poller_server *server,
                        struct poller_thread *thread) {
  if (thread->tid == 0 && thread->core >= 0 &&
      (thread->tid = find_tid(server, thread->core)) != 0) {
    thread->stat = open_task(server->pid, thread->tid, "stat");
    thread->schedstat = open_task(server->pid, thread->tid, "schedstat");
    thread->cpu.at_ns = 0;
  }
  return thread->tid != 0;
}

void poller_thread_count(struct poller_server *server,
                         struct poller_thread *thread) {
  struct poller_cpu_time last = thread->cpu;
  if (!thread->is_told || thread->tid == 0 || !read_cpu_time(thread))
    poller_thread_forget(thread);
  else if (last.at_ns != 0)
    poller_thread_join(server, thread, &last);
}

void poller_thread_forget(struct poller_thread *thread) {
  detach(thread);
  if (thread->tid != 0) {
    close(thread->stat);
    close(thread->schedstat);
  }
  thread->tid = 0;
  thread->told_tsc = 0;
}
