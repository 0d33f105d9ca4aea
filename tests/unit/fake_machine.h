/* fake_machine: a computer simulated in memory, for the tests of cycles/.
 *
 * Perf counters, /proc/stat and cpuidle reflect the true loads of its cores. A
 * test can make each of these sources wrong, fail or vanish separately. Time
 * passes only when a test advances it. */
#ifndef PERCORE_FAKE_MACHINE_H
#define PERCORE_FAKE_MACHINE_H

#include "base/core_set.h"
#include "cycles/journal.h"
#include "cycles/machine.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAKE_MS UINT64_C(1000000)
#define FAKE_SECOND UINT64_C(1000000000)

/* Types and events of the PMUs that functions such as fake_machine_msr add. */
enum {
  FAKE_MSR_TYPE = 14,
  FAKE_MSR_TSC = 0x00,
  FAKE_MSR_APERF = 0x01,
  FAKE_MSR_MPERF = 0x02,
};

/* What a core does while time passes. Shares are parts of wall time, from 0 to
 * 1; NAN means that a share follows from `load`. */
struct fake_core {
  bool online;
  int returns;   /* how often it has come online */
  double load;   /* the true load: share of time not halted */
  double seen;   /* the share in the busy columns of /proc/stat; NAN: load */
  double iowait; /* the part of idle time that is counted as iowait */
  double steal;  /* time that the hypervisor takes while the core runs */
  /* Time that the hypervisor takes while the core wakes up. It counts as halted
   * time. It appears in the column steal and, unless steal_apart is set, also
   * in the column idle. */
  double woken;
  double idle;      /* idle + iowait of /proc/stat; NAN: 1 - load - steal */
  double guest;     /* the part of `seen` spent in guests of this host */
  double running;   /* share of time in which perf groups are on the PMU */
  bool pinned_lost; /* reads of pinned groups return end of file */
  int read_error;   /* errno with which perf_read fails; 0: none */
  bool frozen;      /* perf groups can be read but do not count */
  double irq;       /* share in the column irq, not included in `seen` */
  double softirq;   /* share in the column softirq, not included in `seen` */
  double polled;    /* the part of `idle` in which the core polled */
  /* Interrupts that come while the core polls: part of `load`, not of `idle`,
   * and counted in the time of the state POLL. */
  double polled_irq;
  bool idle_in_pause; /* a pause of the machine counts as idle time */
  bool clock_ran;     /* the idle clock has run on this core */
  int64_t clock_word;
  double column_ns[10];
  double halted_ns, polled_ns;
  double ran_ns; /* the truth: time neither halted nor stolen */
  uint64_t halts;
  /* More halts, each of which ends with an interrupt. The idle column counts
   * loop_ns of each as idle, and the idle clock entry_ns as halted, although
   * they are part of `load`. */
  double halts_per_s, loop_ns, entry_ns, halts_part;
};

enum fake_per { FAKE_PER_WALL, FAKE_PER_UNHALTED, FAKE_PER_HALTED };

/* A perf event that can be opened. If several events match, the event that was
 * added last is used. */
struct fake_counter {
  uint32_t type;
  uint64_t config;
  int core; /* -1: all cores */
  enum fake_per per;
  double hz;
  uint64_t start; /* value when opened; a value near 2^64 makes it wrap */
  int open_error; /* errno with which opening fails; 0: it succeeds */
  int opens;      /* how often the event was opened */
};

/* The idle clock. Its words are computed from the halted_ns of the cores. */
struct fake_idle_clock {
  bool open;
  bool pinned;      /* root has pinned the clock; otherwise it can be loaded */
  int load_error;   /* errno with which loading fails; 0: it succeeds */
  int loads, reads; /* how often the clock was loaded, and read */
  bool detached;    /* the words no longer change */
  int read_error;   /* errno with which every read fails; 0: none */
  uint64_t read_ns; /* how long a read takes */
  int tracers;      /* other BPF programs that run when a core becomes idle */
};

struct fake_file;
struct fake_descriptor;

struct fake_machine {
  struct machine machine; /* passed to the code under test */

  uint64_t monotonic_ns;
  int64_t boottime_offset_ns; /* BOOTTIME - MONOTONIC */
  int64_t realtime_offset_ns; /* REALTIME - MONOTONIC */
  uint64_t clock_step_ns;     /* time that passes in each call of clock_ns() */
  uint64_t stat_read_ns;      /* time that a read of /proc/stat takes */
  int stat_slow_reads;        /* how many reads take stat_read_ns; -1: all */
  double stat_read_before;    /* the part of it before the rows are read */
  int stat_reads;             /* how often /proc/stat was read */
  uint64_t perf_read_ns;      /* time that passes right after a perf_read() */

  int cores_len; /* possible cores; the length of cores[] */
  struct fake_core *cores;
  bool procstat; /* generate /proc/stat from the cores' columns */
  bool lxcfs;    /* LXCFS provides /proc/stat and, unless lxcfs_stat_only, the
                  list of cores */
  bool lxcfs_stat_only;
  /* The idle columns exclude stolen time. If you set this, also add the member
   * idle_stealtime to the BTF. */
  bool steal_apart;
  struct core_set stat_hidden; /* cores without a row in /proc/stat */
  bool stat_still; /* /proc/stat stays what it was at its last read */
  char *stat_text; /* what it was */
  int procs_running, procs_blocked;
  double interrupts;  /* of all cores, in /proc/stat */
  double switches;    /* of contexts, likewise */
  int cpuidle_states; /* 0: no cpuidle folder; otherwise state 0 is POLL */
  int cpuidle_reads;  /* how often a file of cpuidle was read */
  int cpuidle_misses; /* how often a file of a state that does not exist was */
  /* A poll takes this long, and is counted when it ends; 0: it is counted as it
   * goes on. */
  uint64_t poll_ns;

  bool hotplug_events; /* the number of uevents can be read */
  uint64_t uevents;    /* fake_machine_online increments it */

  struct fake_counter *counters;
  size_t counters_len;
  struct fake_descriptor *descriptors;
  size_t descriptors_len;
  struct fake_idle_clock clock;
  int perf_opens;
  int perf_reads;
  /* The limit on open files (0: no limit), and the number of files that the rest
   * of the process has opened. */
  long limit, others;
  /* Called after time has passed. May be NULL. */
  void (*passed)(void *context);
  void *passed_context;
  /* The attributes that were passed to the last successful perf_open. */
  struct perf_event_attr last_attr;

  struct fake_file *files;
  size_t files_len;
};

/* Makes a machine with cores 0 to cores - 1, online and idle, with the sysfs
 * files and /proc/stat of a plain bare-metal x86 server: one node, no
 * SMT, a steady TSC. No perf event can be opened. */
struct fake_machine *fake_machine_new(int cores);
void fake_machine_free(struct fake_machine *fake);

/* Writes the sysfs files of all cores again, as fake_machine_new wrote them. */
void fake_machine_plain_server(struct fake_machine *fake);

/* Add, make unreadable or remove a file, given its absolute path. Adding a file
 * replaces an old file. After fake_machine_fail, reading the file returns
 * -error. A directory exists while it contains a file. */
void fake_machine_file(struct fake_machine *fake, const char *path,
                       const char *text);
void fake_machine_filef(struct fake_machine *fake, const char *text,
                        const char *path, ...)
    __attribute__((format(printf, 3, 4)));
/* Adds a file with bytes that may include NUL. */
void fake_machine_bytes(struct fake_machine *fake, const char *path,
                        const char *bytes, size_t len);
void fake_machine_fail(struct fake_machine *fake, const char *path, int error);
void fake_machine_remove(struct fake_machine *fake, const char *path);

/* Adds a perf event. The pointer is valid until the next event is added. */
struct fake_counter *fake_machine_counter(struct fake_machine *fake,
                                          uint32_t type, uint64_t config,
                                          enum fake_per per, double hz);
/* Returns the event that is used on this core (-1: on any core), or NULL if
 * the core uses no event. */
struct fake_counter *fake_machine_find_counter(struct fake_machine *fake,
                                               uint32_t type, uint64_t config,
                                               int core);
/* Adds the msr PMU with the event tsc and, if `mperf` is true, also with the
 * events aperf and mperf. */
void fake_machine_msr(struct fake_machine *fake, double tsc_hz, bool mperf);
/* Adds PERF_COUNT_HW_REF_CPU_CYCLES, which counts at hz while a core is not
 * halted. */
void fake_machine_ref_cycles(struct fake_machine *fake, double hz);
/* Adds a kernel BTF file. `members` lists the names of structure members in it,
 * separated by blanks. */
void fake_machine_btf(struct fake_machine *fake, const char *members);
/* Add an idle clock that can be loaded, or one that root has pinned and
 * started. */
void fake_machine_idle_clock(struct fake_machine *fake);
void fake_machine_pin_clock(struct fake_machine *fake);
/* Sets the flag "hypervisor" in /proc/cpuinfo. */
void fake_machine_hypervisor(struct fake_machine *fake);

/* Lets `ns` nanoseconds pass. */
void fake_machine_run(struct fake_machine *fake, uint64_t ns);
/* Pauses the VM for `ns`: all clocks advance, but no column or counter does,
 * except idle time where idle_in_pause is set. */
void fake_machine_pause(struct fake_machine *fake, uint64_t ns);
/* Suspends the machine to RAM for `ns`: BOOTTIME, REALTIME and the TSC advance,
 * and counters freeze. */
void fake_machine_suspend(struct fake_machine *fake, uint64_t ns);
/* Brings a core online or offline. If a core goes offline, the counters that
 * are open on it freeze permanently, and its groups dissolve. */
void fake_machine_online(struct fake_machine *fake, int core, bool online);
/* Sets the load of all cores. */
void fake_machine_load(struct fake_machine *fake, double load);

/* Returns how many descriptors are open on a core (-1: on all cores together).
 */
int fake_machine_descriptors(const struct fake_machine *fake, int core);
/* Returns the core of the descriptor that was opened n-th. */
int fake_machine_descriptor_core(const struct fake_machine *fake, size_t n);
/* Returns how many descriptors the process has open: those of all cores and
 * `others`. */
long fake_machine_used(const struct fake_machine *fake);

/* A journal that keeps its lines for the test. */
struct fake_journal {
  struct journal journal;
  struct {
    enum journal_level level;
    char text[256];
  } line[512];
  size_t lines_len;
};
void fake_journal_open(struct fake_journal *journal);
/* Returns how many lines contain all of the given words. NULL ends the list. */
int fake_journal_count(const struct fake_journal *journal, ...)
    __attribute__((sentinel));

#endif
