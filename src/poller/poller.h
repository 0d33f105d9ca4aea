/* poller: how useful are threads that poll, of programs that do not call
 * percore_poll? Some programs tell how many cycles each of their threads has
 * worked, and how many it has polled. The way of an answer:
 *
 *   find.c     finds sockets where it is told, or at the usual places, and
 *              connects to those that may be believed
 *   ask.c      asks all of them in each interval, in a thread of its own
 *   answer.c   finds the numbers in an answer
 *   join.c     joins the cycles with the CPU time of the thread, and counts in
 *              the region `pollers` as the thread would itself
 *
 * From there on it is a region like any other: collectd's plugin reads it as
 * src/plugin/regions.h draws, percore in src/tool/top.c. This folder does not
 * depend on collectd, nor on the internals of region/: it uses percore.h.
 *
 * A program that hangs, or answers what it should not, delays nothing but its
 * own figures. find.c says who is asked at all. */
#ifndef PERCORE_POLLER_H
#define PERCORE_POLLER_H

#include "base/names.h"
#include "cycles/journal.h"
#include "cycles/sampling_thread.h"
#include "percore_tune.h"

#include <limits.h>
#include <sys/socket.h>

#define POLLERS_REGION "pollers"

/* Pointers must stay valid until pollers_close. */
struct pollers_options {
  bool wanted; /* false: nothing is asked */
  bool usual;  /* at the usual places, if only root and the user of this
                * process can put sockets there */
  struct names sockets; /* patterns (glob(7)), believed as written */
  /* 0: no thread is started. The caller asks once, for about 200 ms at most. */
  uint64_t interval_ns;
  /* Is told of each socket what is read, or why not; then "; what to do". */
  struct journal journal;
};

/* Starts a thread that looks for sockets and asks who listens there. If nothing
 * is wanted, *pollers is NULL. Returns 0 or -errno. */
struct pollers;
int pollers_start(struct pollers **pollers,
                  const struct pollers_options *options);

/* Ends the thread, and the region. Accepts NULL. */
void pollers_close(struct pollers *pollers);

/* ---------------------------------------------------------------------------
 * For the files above, and their tests
 */

enum {
  POLLER_SERVERS_MAX = 64,
  POLLER_THREADS_MAX = 1024,    /* of each */
  POLLER_MISSES = 3,            /* then a program is left alone for a while */
  POLLER_ANSWER_SIZE = 1 << 20, /* longer answers are refused */
  POLLER_SEEN = 4096
};

/* A thread of which a program has told cycles. */
struct poller_thread {
  uint64_t id;   /* the core; of DPDK the lcore */
  int core, tid; /* on which alone it may run, or -1; 0: unknown */
  uint64_t busy, total, told_ns, told_tsc; /* the last answer; 0: none */
  /* Since the answer before; NAN: unknown. The part of total in which it was
   * busy, and the part of the time for which the program has told cycles. */
  double share, claim;
  struct poller_cpu_time {
    uint64_t ran_ns, waited_ns, slices; /* schedstat */
    uint64_t at_ns, at_tsc;             /* when it was read; 0: never */
  } cpu;
  bool is_told; /* the last answer named it and is not too old */
  bool is_odd;  /* it ran less than half of its claim */
  bool is_attached;
  percore_slot_t slot;
  /* Threads of the operating system that may be this one; of them, the one that
   * ran most since the look before. */
  int found, most_tid;
  uint64_t most_ns;
};

struct poller_server {
  struct pollers *pollers;
  char path[PATH_MAX];
  bool is_given, is_found;  /* by an option; by the present look */
  bool is_dpdk, is_percent; /* tells percents instead of cycles */
  int fd, tasks;            /* the connection, /proc/PID/task; -1: closed */
  struct ucred peer;        /* the process that listens; pid 0: unknown */
  char name[32];
  int owed, misses; /* answers; in a row, POLLER_MISSES: it is not read */
  /* CLOCK_MONOTONIC: when it was asked, when it is asked next, and when it may
   * have other news. */
  uint64_t asked_ns, due_ns, say_ns;
  struct poller_thread threads[POLLER_THREADS_MAX];
  size_t len, told; /* threads; cycles in the answers of this round */
  struct poller_seen {
    int tid;
    uint64_t ran_ns;
  } seen[POLLER_SEEN]; /* at the last look, by tid */
  char answer[POLLER_ANSWER_SIZE];
  size_t length;            /* of it, so far */
  char why[512], said[512]; /* it is not read, or ""; told to the journal */
};

struct pollers {
  struct pollers_options options;
  struct sampling_thread sampling;
  uint64_t answer_ns; /* for all answers together */
  struct poller_server *servers[POLLER_SERVERS_MAX];
  size_t len, most;
  struct percore_region *region; /* NULL: there was nothing to count yet */
};

/* find.c: looks for sockets, and frees those that were not found. */
void pollers_find(struct pollers *pollers);
void pollers_sweep(struct pollers *pollers);
/* Connects without waiting. Returns false after poller_refuse. */
bool poller_connect(struct poller_server *server);
bool poller_refuse(struct poller_server *server, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Forgets what is known of the process. */
void poller_forget(struct poller_server *server);

/* ask.c: takes about 200 ms at most. */
void pollers_ask(struct pollers *pollers);

/* answer.c: takes the cycles of threads; of DPDK also the core of an lcore. */
void poller_answer_take(struct poller_server *server, char *text);

/* join.c: takes the cycles of the thread with this number. */
void poller_thread_tell(struct poller_server *server, uint64_t id,
                        uint64_t busy, uint64_t total);
/* Finds the threads of the operating system, and counts what each has done
 * since the last call. */
void poller_join(struct poller_server *server);
/* Counts what the thread has done from `last` to thread->cpu. */
void poller_thread_join(struct poller_server *server,
                        struct poller_thread *thread,
                        const struct poller_cpu_time *last);
/* Forgets what it did before. */
void poller_thread_forget(struct poller_thread *thread);

#endif
