/* poller: how useful are threads that poll, of programs that do not call
 * percore_poll? Some programs tell how many cycles each of their threads has
 * worked, and how many it has polled. The way of an answer:
 *
 *   find.c     finds the programs, by the names of their threads, and the
 *              sockets on which they listen
 *   ask.c      asks all of them in each interval, in a thread of its own
 *   answer.c   reads the answer: JSON and, of Open vSwitch, a text in it
 *   join.c     joins the cycles with the CPU time of the thread, and counts in
 *              the region `pollers` as the thread would itself
 *
 * From there on it is a region like any other: collectd's plugin reads it as
 * src/plugin/regions.h draws, percore in src/tool/top.c. This folder does not
 * depend on collectd, nor on the internals of region/: it uses percore.h.
 *
 * A program that hangs, or answers what it should not, delays nothing but its
 * own figures. find.c says whose programs are asked at all. */
#ifndef PERCORE_POLLER_H
#define PERCORE_POLLER_H

#include "base/names.h"
#include "cycles/journal.h"
#include "cycles/sampling_thread.h"
#include "percore_tune.h"

#include <dirent.h>
#include <sys/types.h>

#define POLLERS_REGION "pollers"

enum poller_dialect { POLLER_DPDK, POLLER_OVS, POLLER_SPDK, POLLER_DIALECTS };

/* Pointers must stay valid until pollers_close. */
struct pollers_options {
  bool wanted[POLLER_DIALECTS];          /* which programs are looked for */
  struct names sockets[POLLER_DIALECTS]; /* paths; asked whoever listens */
  struct names ignored;                  /* names of programs, not asked */
  uint64_t interval_ns;
  /* Is told of each program what is read, or why not; then "; what to do". */
  struct journal journal;
};

/* Starts a thread that looks for programs and asks them, at least once. If none
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
  POLLER_THREADS_MAX = 1024, /* of each */
  POLLER_LOOKS = 8,
  POLLER_LOOKS_TO_ALL = 480,   /* four hours */
  POLLER_ANSWER_SIZE = 1 << 20 /* longer answers are refused */
};

/* A thread of which a program has told cycles. */
struct poller_thread {
  uint64_t id; /* the core; of DPDK the lcore */
  int core;    /* the only one on which it may run; -1: unknown, or several */
  int stat, schedstat, tid;       /* descriptors, if tid is not 0 */
  uint64_t busy, total, told_tsc; /* the last answer; 0: none */
  double share; /* of busy in total, since the answer before; NAN: unknown */
  struct poller_cpu_time {
    uint64_t ran_ns, waited_ns, slices; /* schedstat */
    uint64_t at_ns, at_tsc;             /* when it was read */
  } cpu;
  bool is_told; /* the last answer named it and is not too old */
  bool is_attached;
  percore_slot_t slot;
};

struct poller_server {
  struct pollers *pollers;
  enum poller_dialect dialect;
  pid_t pid;                /* 0: unknown */
  bool is_given;            /* by an option: whoever listens at the path */
  bool is_asked;            /* waits for an answer */
  bool is_percent;          /* tells percents instead of cycles */
  char name[32], path[109]; /* of the process, of the socket */
  unsigned passed_by;       /* sockets that may be its own, tried before */
  int fd;                   /* -1: not connected */
  int misses;               /* in a row */
  /* CLOCK_MONOTONIC: when it was asked; when it is asked and inspected next,
   * and when it may have other news. */
  uint64_t asked_ns, due_ns, inspect_ns, say_ns;
  struct poller_thread threads[POLLER_THREADS_MAX];
  size_t len, told; /* threads; cycles in the answers */
  size_t asked_on;  /* threads whose core was asked for, of DPDK */
  char answer[POLLER_ANSWER_SIZE];
  size_t length;    /* of it, so far */
  const char *said; /* what was told to the journal last */
};

struct pollers {
  struct pollers_options options;
  struct sampling_thread sampling;
  uint64_t answer_ns; /* for all answers together */
  struct poller_server *servers[POLLER_SERVERS_MAX];
  size_t len, strangers;         /* so far, whose users may not be asked */
  struct percore_region *region; /* NULL: there was nothing to count yet */
  DIR *proc;
  unsigned looks;
  /* The newest process at an earlier look, and its place in /proc. */
  struct poller_place {
    int pid;
    long at;
  } older, newer;
};

/* find.c: look for new programs; find the socket of one, and connect without
 * waiting. Return NULL, or why not. */
void pollers_find(struct pollers *pollers);
const char *poller_connect(struct poller_server *server, uint64_t now_ns);

/* ask.c: takes about 200 ms at most. */
void pollers_ask(struct pollers *pollers);

/* answer.c: is this a whole document, or only its beginning? */
bool poller_answer_is_whole(const char *text, size_t length);
/* Takes the cycles of threads from it; of DPDK also the core of an lcore. */
void poller_answer_take(struct poller_server *server, const char *text);

/* join.c: takes the cycles of the thread with this number. */
void poller_thread_tell(struct poller_server *server, uint64_t id,
                        uint64_t busy, uint64_t total);
/* Finds the thread of the operating system. False: none is bound to the core.
 */
bool poller_thread_find(struct poller_server *server,
                        struct poller_thread *thread);
/* Counts what it has done since the last call, or from `last` to thread->cpu.
 */
void poller_thread_count(struct poller_server *server,
                         struct poller_thread *thread);
void poller_thread_join(struct poller_server *server,
                        struct poller_thread *thread,
                        const struct poller_cpu_time *last);
/* Forgets what it did before. */
void poller_thread_forget(struct poller_thread *thread);

#endif
