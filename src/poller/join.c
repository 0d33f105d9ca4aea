/* join.c: useful = busy / total * CPU time / wall time.
 *
 * The cycles of a program are wall time: they go on while another task has the
 * core. So their quotient is the part of its CPU time in which the thread was
 * busy, right on average. A running thread's schedstat is up to a tick old, and
 * on cores without a tick (nohz_full) a second, unless `stat` is read first. If
 * the thread was switched in no more often than before, and lacks less than a
 * tick, it has run all the time. */
#include "poller.h"

#include "base/array.h"
#include "base/clock.h"
#include "cycles/core_set.h"
#include "region/memory.h"

#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define TICK_NS 10e6 /* at 100 Hz */
#define MOST                                                                   \
  1.5             /* growth of total in ticks of percore_tsc; answers are late \
                   */
#define IDLE 0.01 /* the CPU time of a thread that does not poll, at most */
enum { EXTRA_SLOTS = 64, THREADS_MAX = 1024 };

/* ---------------------------------------------------------------------------
 * CPU time
 */

static bool read_cpu_time(struct poller_thread *thread,
                          struct poller_cpu_time *time) {
  char text[512];
  ssize_t length = pread(thread->stat, text, sizeof(text), 0);
  if (length > 0)
    length = pread(thread->schedstat, text, sizeof(text) - 1, 0);
  text[length > 0 ? length : 0] = '\0';
  time->at_ns = clock_now_ns(CLOCK_MONOTONIC);
  time->at_tsc = percore_tsc();
  return sscanf(text, "%" SCNu64 " %*u %" SCNu64, &time->ran_ns,
                &time->slices) == 2;
}

static void open_thread(struct poller_thread *thread, int tasks, int tid) {
  char path[32];
  snprintf(path, sizeof(path), "%d/stat", tid);
  thread->stat = openat(tasks, path, O_RDONLY | O_CLOEXEC);
  snprintf(path, sizeof(path), "%d/schedstat", tid);
  thread->schedstat = openat(tasks, path, O_RDONLY | O_CLOEXEC);
  thread->tid = tid;
}

static void close_thread(struct poller_thread *thread) {
  if (thread->tid != 0) {
    close(thread->stat);
    close(thread->schedstat);
  }
  thread->tid = 0;
}

static bool is_bound(int tid, int core) {
  struct core_set cores = {{0}};
  return sched_getaffinity(tid, sizeof(cores), (void *)&cores) == 0 &&
         core_set_count(&cores) == 1 && core_set_has(&cores, core);
}

/* Finds the thread among those of the process: programs name them as they like,
 * but the one that polls is bound to the core, and has used most of it. */
static void find_thread(const struct poller_server *server,
                        struct poller_thread *thread) {
  char path[32];
  uint64_t most_ns = 0;
  snprintf(path, sizeof(path), "/proc/%d/task", (int)server->pid);
  DIR *tasks = opendir(path);
  for (struct dirent *entry;
       tasks != NULL && (entry = readdir(tasks)) != NULL;) {
    struct poller_thread tried = *thread;
    int tid = atoi(entry->d_name);
    bool is_other = tid <= 0 || !is_bound(tid, thread->core);
    for (size_t i = 0; i < server->len; i++)
      is_other |=
          server->threads[i].tid == tid && &server->threads[i] != thread;
    if (is_other)
      continue;
    open_thread(&tried, dirfd(tasks), tid);
    if (read_cpu_time(&tried, &tried.cpu) && tried.cpu.ran_ns >= most_ns) {
      most_ns = tried.cpu.ran_ns;
      close_thread(thread);
      *thread = tried;
    } else
      close_thread(&tried);
  }
  if (tasks != NULL)
    closedir(tasks);
}

/* ---------------------------------------------------------------------------
 * Cycles
 */

/* Returns the thread with this number, or NULL if out of memory. */
static struct poller_thread *thread_of(struct poller_server *server,
                                       uint64_t id) {
  for (size_t i = 0; i < server->len; i++)
    if (server->threads[i].id == id)
      return &server->threads[i];
  if (server->len == THREADS_MAX ||
      !array_grow(&server->threads, server->len, server->len + 1,
                  sizeof(*server->threads)))
    return NULL;
  struct poller_thread *thread = &server->threads[server->len++];
  thread->id = id;
  thread->core =
      server->dialect != POLLER_DPDK && id < CORES_MAX ? (int)id : -1;
  return thread;
}

/* Each counter may be set back alone. What then has grown by more than the
 * clock is unknown. */
void poller_thread_tell(struct poller_server *server, uint64_t id,
                        uint64_t busy, uint64_t total) {
  struct poller_thread *thread = thread_of(server, id);
  if (thread == NULL)
    return;
  uint64_t now_tsc = percore_tsc();
  bool is_growth = server->is_percent;
  double most = MOST * (double)(now_tsc - thread->told_tsc);
  uint64_t busy_grown = busy - (is_growth ? 0 : thread->busy);
  uint64_t total_grown = total - (is_growth ? 0 : thread->total);
  bool is_known =
      busy_grown <= total_grown &&
      (is_growth || (thread->told_ns != 0 && (double)total_grown <= most));
  thread->polled = total_grown > 0;
  thread->share = !is_known        ? NAN
                  : thread->polled ? (double)busy_grown / (double)total_grown
                                   : 0;
  thread->busy = busy;
  thread->total = total;
  thread->told_ns = clock_now_ns(CLOCK_MONOTONIC);
  thread->told_tsc = now_tsc;
  server->told++;
}

/* ---------------------------------------------------------------------------
 * The region
 */

static void make_region(struct pollers *pollers) {
  const struct percore_options options = {.size = sizeof(options),
                                          .runtime_dir =
                                              pollers->options.runtime_dir,
                                          .extra_slots = EXTRA_SLOTS,
                                          .cores = region_possible_cores(),
                                          .quiet = 1};
  struct percore_region_status status = {.size = sizeof(status)};
  if (percore_create(&pollers->region, POLLERS_REGION, NULL, 0, &options) == 0)
    return;
  percore_status(pollers->region, &status);
  journal_say(&pollers->options.journal, JOURNAL_WARNING, "%s", status.reason);
}

static void attach(struct pollers *pollers, const struct poller_server *server,
                   struct poller_thread *thread, uint64_t since_tsc) {
  char name[40];
  snprintf(name, sizeof(name), "%.20s/%" PRIu64, server->name, thread->id);
  if (pollers->region == NULL)
    make_region(pollers);
  thread->is_attached =
      percore_attach(pollers->region, name, thread->core, &thread->slot) == 0;
  struct percore_slot_head *head = thread->slot.head;
  percore_cell_set_(&head->origin_tsc, 0, since_tsc - head->total_cycles);
}

static void detach(struct pollers *pollers, struct poller_thread *thread) {
  if (thread->is_attached)
    percore_detach(pollers->region, thread->slot);
  thread->is_attached = false;
}

/* While nothing is known of a thread, it is not attached, so that it does not
 * seem to be stuck. Time in which it did not run counts as asleep. */
void poller_thread_count(struct pollers *pollers, struct poller_server *server,
                         struct poller_thread *thread) {
  struct poller_cpu_time last = thread->cpu;
  if (thread->tid == 0) {
    find_thread(server, thread);
    return;
  }
  if (!read_cpu_time(thread, &thread->cpu)) {
    poller_thread_forget(pollers, thread);
    return;
  }
  double wall_ns = (double)(thread->cpu.at_ns - last.at_ns);
  double ran_ns = (double)(thread->cpu.ran_ns - last.ran_ns);
  if (thread->cpu.slices == last.slices && wall_ns - ran_ns < TICK_NS)
    ran_ns = wall_ns;
  double ran = fmin(ran_ns / wall_ns, 1);
  if (isnan(thread->share) || (!thread->polled && ran > IDLE)) {
    detach(pollers, thread);
    return;
  }
  if (!thread->is_attached)
    attach(pollers, server, thread, last.at_tsc);
  struct percore_slot_head *head = thread->slot.head;
  uint64_t total = thread->cpu.at_tsc - last.at_tsc;
  percore_begin(thread->slot);
  percore_own_add_(&head->busy_cycles,
                   (uint64_t)(thread->share * ran * (double)total));
  percore_own_add_(&head->sleep_cycles, (uint64_t)((1 - ran) * (double)total));
  percore_own_add_(&head->total_cycles, total);
  percore_end(thread->slot);
}

void poller_thread_forget(struct pollers *pollers,
                          struct poller_thread *thread) {
  detach(pollers, thread);
  close_thread(thread);
  thread->told_ns = 0;
}
