/* collect: measures how fast cores wake, one core at a time. The BPF programs
 * are loaded once; between wake_collect_attach and wake_collect_detach, any
 * number of cores can be measured. */
#ifndef PERCORE_WAKE_COLLECT_H
#define PERCORE_WAKE_COLLECT_H

#include "wake.h"

enum wake_method {
  WAKE_BPF_TIMER, /* arms a BPF timer; no task runs on the core */
  WAKE_THREAD,    /* a thread pinned to the core waits for the timer */
  WAKE_METHODS,
  WAKE_ANY = WAKE_METHODS /* a BPF timer or, if the kernel has none, a thread */
};

extern const char *const wake_method_names[WAKE_METHODS]; /* "bpf-timer" */

/* Returns the method of this name, or WAKE_ANY if the name is NULL or unknown.
 */
enum wake_method wake_method_of(const char *name);

struct wake_collect_options {
  enum wake_method method;
  /* LTime is at random from the pause and 1 us to the pause and this distance
   * after an event is armed. */
  uint64_t pause_ns;
  uint64_t distance_ns;
  uint64_t armed_max; /* events of each core; 0: no limit */
  int smis; /* descriptor of a perf event that counts system management
               interrupts of the one core that is measured; negative: none */
  /* Asked while a core is too busy to start on; if it returns false,
   * wake_collect_begin gives up. May be NULL. */
  bool (*goes_on)(void *context);
  void *context;
};

struct wake_collect;

/* Loads the programs, which needs CAP_BPF and CAP_PERFMON. If it succeeds,
 * `why` is empty, or says that a thread is used and why there is no BPF timer.
 */
int wake_collect_open(struct wake_collect **collect,
                      const struct wake_collect_options *options,
                      char why[WHY_SIZE]);

/* Detaches, and frees everything. NULL is ignored. */
void wake_collect_close(struct wake_collect *collect);

/* Attaches the programs to their tracepoints, which interrupts every core about
 * 15 times for each tracepoint. After an error, detach or close. */
int wake_collect_attach(struct wake_collect *collect, char why[WHY_SIZE]);
void wake_collect_detach(struct wake_collect *collect);

/* Begins to measure a core. A thread runs there for a moment to start the
 * timer. Returns -EINTR if goes_on returned false. Call wake_collect_end
 * afterwards, even after an error. */
int wake_collect_begin(struct wake_collect *collect, int core,
                       char why[WHY_SIZE]);

/* Adds the events since the last call to the datapoints. Call it at least ten
 * times a second, or once after at most WAKE_EVENTS_KEPT events, and once after
 * wake_collect_end. Returns 0 or -ENOMEM. */
#define WAKE_EVENTS_KEPT 2000
int wake_collect_poll(struct wake_collect *collect, struct wake_points *points);

/* True if all armed_max events are over. */
bool wake_collect_is_done(const struct wake_collect *collect);

struct wake_collect_status {
  int core;
  const char *method;
  double seconds;      /* since wake_collect_begin */
  uint64_t armed;      /* events */
  uint64_t datapoints; /* that wake_collect_poll has added */
  /* After the last wake_collect_poll, `armed` is the sum of the datapoints and
   * of these. */
  uint64_t drops[WAKE_DROPS];
  bool is_gone;   /* the core has gone offline, or the timer or the thread has
                     been moved to another core: nothing is armed any more */
  uint64_t idles; /* how many idle states the programs saw the core enter */
  int64_t usage;  /* number of idle states that cpuidle counted; -1: unknown */
  int64_t smis;   /* system management interrupts; -1: not counted here */
  struct wake_states states; /* with their counts since wake_collect_begin */
};

/* Says what has happened since wake_collect_begin, until wake_collect_end. The
 * result is valid until the next call. */
const struct wake_collect_status *
wake_collect_status(struct wake_collect *collect);

/* Whether the programs saw as many idle states as cpuidle: if not, events were
 * missed. Writes the two numbers, or why they cannot be compared. */
enum wake_check { WAKE_AGREES, WAKE_DIFFERS, WAKE_UNCHECKED };
extern const char *const wake_check_names[]; /* "agrees" */
int wake_collect_check(const struct wake_collect_status *status,
                       char why[WHY_SIZE]);

/* False if there are no datapoints, or if so few of the events have become
 * datapoints that they say little about the core. */
bool wake_collect_has_result(const struct wake_collect_status *status);

/* Ends the measurement of the core. The timer may still be armed afterwards,
 * but is not armed again. */
void wake_collect_end(struct wake_collect *collect);

#endif
