/* poller: how useful are threads that poll, of programs that do not call
 * percore_poll? Some programs tell how many cycles each of their threads has
 * worked, and how many it has polled. The way of an answer:
 *
 *   find.c     finds the programs by the names of their threads, and the
 * sockets on which they listen ask.c      asks all of them in each interval, in
 * a thread of its own answer.c   reads the answer: JSON and, of Open vSwitch, a
 * text in it join.c     joins the cycles with the CPU time of the thread, and
 * counts in the region `pollers` as the thread would itself
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
#include "percore.h"

#include <dirent.h>
#include <sys/types.h>

#define POLLERS_REGION "pollers"

enum poller_dialect { POLLER_DPDK, POLLER_OVS, POLLER_SPDK, POLLER_DIALECTS };

/* Pointers must stay valid until pollers_close. */
struct pollers_options {
  bool wanted[POLLER_DIALECTS];          /* which programs are looked for */
  struct names sockets[POLLER_DIALECTS]; /* paths; asked whoever listens */
  struct names ignored;                  /* names of programs, not asked */
  const char *runtime_dir; /* as in percore_create; NULL: the default */
  uint64_t interval_ns;
  struct journal journal;
};

/* A thread of which a program has told cycles. */
struct poller_thread {
  uint64_t id; /* the core; of DPDK the lcore */
  int core;    /* the only one on which it may run; -1: unknown, or several */
  int tid;     /* 0: not found; the descriptors are then closed */
  int stat, schedstat;
  /* In the last answer, and when that came; 0: never. */
  uint64_t busy, total, told_ns, told_tsc;
  double share; /* of busy in total, since the answer before; NAN: unknown */
  bool polled;  /* total has grown since then */
  struct poller_cpu_time {
    uint64_t ran_ns, slices, at_ns,
        at_tsc; /* schedstat, and when it was read */
  } cpu;
  bool is_attached;
  percore_slot_t slot;
};

struct poller_server {
  struct poller_server *next;
  enum poller_dialect dialect;
  bool is_given;               /* by an option: whoever listens at the path */
  pid_t pid;                   /* 0: unknown */
  char name[32];               /* of the process */
  char path[108];              /* of the socket; "": not found */
  int fd;                      /* -1: not connected */
  bool greets, is_waited_for;  /* it tells its version before the answer */
  int misses;                  /* in a row */
  uint64_t due_ns, inspect_ns; /* CLOCK_MONOTONIC: when it is next */
  size_t told;                 /* how many threads have told cycles */
  bool is_percent;             /* in whole percents */
  struct poller_thread *threads;
  size_t len;
  const char *said; /* what is read of it, or why not; then "; what to do" */
};

enum { POLLER_LOOKS = 8, POLLER_ANSWER_SIZE = 1 << 20 };

struct pollers {
  struct pollers_options options;
  struct sampling_thread sampling;
  struct poller_server *servers;
  struct percore_region *region; /* NULL: there was nothing to count yet */
  DIR *proc;
  unsigned looks;
  /* The newest process at each of the last looks, and where it is in /proc. */
  struct {
    int pid;
    long at;
  } seen[POLLER_LOOKS];
  char answer[POLLER_ANSWER_SIZE]; /* that is being read */
};

/* Starts a thread that looks for programs and asks them. *pollers is NULL if
 * none is wanted. Returns 0 or -errno. */
int pollers_start(struct pollers **pollers,
                  const struct pollers_options *options);

/* Ends the thread, and the region. Accepts NULL. */
void pollers_close(struct pollers *pollers);

/* For a caller without the thread. Return NULL if out of memory. pollers_ask
 * takes 200 ms at most. */
struct pollers *pollers_open(const struct pollers_options *options);
void pollers_find(struct pollers *pollers);
void pollers_ask(struct pollers *pollers);

/* ---------------------------------------------------------------------------
 * For the files above
 */

/* find.c */
void poller_add(struct pollers *pollers, enum poller_dialect dialect, pid_t pid,
                const char *path);
/* Finds the socket, and connects without waiting. Return NULL, or why not. */
const char *poller_inspect(struct pollers *pollers,
                           struct poller_server *server);
const char *poller_connect(struct poller_server *server, int type);

/* answer.c: true if the text is a whole document. It may have read only a part
 * yet. */
bool poller_answer_is_complete(const char *text, size_t length);
/* Takes the cycles of all threads from a document. Returns how many they are.
 */
size_t poller_answer_take(struct poller_server *server, const char *text);
/* Returns the only core on which DPDK says that an lcore may run, or -1. */
int poller_answer_core(const char *text);

/* join.c */
void poller_thread_tell(struct poller_server *server, uint64_t id,
                        uint64_t busy, uint64_t total);
/* Counts what it has done since the last call. */
void poller_thread_count(struct pollers *pollers, struct poller_server *server,
                         struct poller_thread *thread);
void poller_thread_forget(struct pollers *pollers,
                          struct poller_thread *thread);

#endif
