/* region_instance: one socket name, `<region>[@<instance>].sock`, and what is
 * known about its producers. Only region_watch uses these functions. */
#ifndef PERCORE_PLUGIN_REGION_INSTANCE_H
#define PERCORE_PLUGIN_REGION_INSTANCE_H

#include "region_table.h"
#include "region_watch.h"
#include "region_workers.h"

#include <errno.h>

/* How long instances without a producer, and unused names of rows, are kept. */
#define REGION_FORGET_NS UINT64_C(600000000000)

enum region_health { REGION_UNKNOWN, REGION_WELL, REGION_STALE, REGION_DEAD };

struct region_instance {
  struct region_instance *next;
  struct region_watch *watch;
  char region[128];
  char name[64];   /* "": the region has no instances */
  char label[194]; /* for messages: gtpu, or gtpu@east */
  const struct region_config *config;
  struct region_reader *reader;
  uid_t uid; /* uid of the process that listened when the name was first seen;
                -1: unknown */
  struct region_allowance_entry *allowance;
  uint64_t attaches_refused, adds_refused; /* totals at the last reading */
  uint64_t producer;
  struct region_instance_table *tables;
  uint32_t table_count;
  struct region_workers workers;
  bool began_lately; /* no process served the name just before the producer
                        started, and the producer's workers have not been read
                        yet */
  uint64_t ending_since_ns; /* CLOCK_MONOTONIC: when the producer was found to
                               have ended; 0: it has not */
  uint32_t next_table;      /* the next table to read */
  uint64_t turn;            /* the last round in which the instance was read */
  enum region_health health;
  bool listed;    /* the socket is in the runtime directory */
  bool restarted; /* the name has a different producer than in the previous
                     round */
  bool silent;    /* a process listens but does not answer */
  uint64_t silent_since_ns;
  uint64_t absent_boottime_ns; /* CLOCK_BOOTTIME: when a scan last found that no
                                  process served the name */
  uint64_t served_ns; /* CLOCK_MONOTONIC: when the name was last served */
  bool drop_told;
  int complaint; /* errno of the last logged reason why the instance is not
                    read; 0: none */
};

/* One sum for each table of a region or, if ReportPerInstance is set, of an
 * instance. */
struct region_sums {
  struct region_sum **list;
  size_t len;
  bool grew; /* a sum was added since MaxValues was last shared out */
};

/* Sockets on which no process listened: hashes of name, inode and change time,
 * in ascending order. */
struct region_refused {
  uint64_t *marks;
  size_t len, capacity;
};

struct region_watch {
  struct region_watch_options options;
  struct region_instance *instances;
  size_t instances_len;
  struct region_refused refused; /* at the last scan of the directory */
  struct region_sums sums;
  struct region_useful useful;
  struct machine *machine; /* NULL: no useful load so far */
  struct topology topology;
  uint64_t topology_ns;
  uint64_t round;
  struct region_allowances allowances;
  uint64_t attaches_refused,
      adds_refused; /* reported by producers, since start */
  uint64_t rows_torn, cells_back, rows_unseen;
  struct region_outlet outlet;
  size_t values_useful;           /* number of useful loads in the last round */
  struct region_moment last, now; /* the previous round, and this one */
  struct region_snapshot *snapshot; /* of this round */
  /* When unused rows were last freed. Rows that have not been live since then
   * are freed REGION_FORGET_NS later. */
  uint64_t mark_round, mark_ns;
  bool any_met; /* a region was found since start */
  bool crowd_told, user_told, absent_told, descriptors_told, directory_told;
};

static inline bool region_watch_is_wanted(const struct region_watch *watch) {
  return watch->options.is_wanted(watch->options.argument);
}

static inline uint64_t region_watch_now_ns(const struct region_watch *watch) {
  const struct region_watch_options *options = &watch->options;
  return options->now_ns != NULL ? options->now_ns(options->argument) : 0;
}

/* Begins to read the region of a new producer. */
void region_instance_came(struct region_instance *instance);

/* Reads the workers and begins to read the tables. If `ended` is set, the
 * producer has ended, so the tables are read for the last time. */
void region_instance_begin(struct region_instance *instance, bool ended);

/* True if a table is being read or must still be read. */
bool region_instance_is_amid(const struct region_instance *instance);

/* Reads pieces of the tables in rotation until `until_ns` on the watch's clock,
 * but reads at least one piece, which takes a few milliseconds. */
void region_instance_read(struct region_instance *instance, uint64_t until_ns);

/* True unless the producer has ended and some of its counts must still be read.
 */
bool region_instance_is_drained(const struct region_instance *instance);

static inline bool
region_instance_is_alive(const struct region_instance *instance) {
  return region_reader_presence(instance->reader) == REGION_ALIVE;
}

/* True if the reader has connected, but the producer has not answered yet. */
static inline bool
region_instance_is_unanswered(const struct region_instance *instance) {
  return region_reader_errno(instance->reader) == ETIMEDOUT;
}

/* Concludes a round for an instance: reports whether the instance is silent,
 * stale or gone (region_health.c). */
void region_health_conclude(struct region_instance *instance);

/* Returns advice for the end of a message that this process was refused access
 * to a socket or directory. The advice names the group whose members have
 * access; it is "" if membership would not help. Queries the name service, so
 * use it only in messages that are logged once. */
#define REGION_REMEDY_SIZE 256
const char *region_health_group_remedy(const char *path,
                                       char text[REGION_REMEDY_SIZE]);

/* Shares MaxValues among all sums (region_choice.c). Sorts the sums; those that
 * want few values come first. */
void region_share_room(struct region_watch *watch);

/* Chooses the rows of the sum that Top shows. */
void region_choose(struct region_sum *sum);

void region_instance_free_tables(struct region_instance *instance);

/* ---------------------------------------------------------------------------
 * Which instances exist: sockets in the runtime directory that a process serves
 * or served recently (region_list.c).
 */

/* Scans the runtime directory and adds new instances, sorted by name. */
void region_list_look(struct region_watch *watch);

/* Frees instances that have not been served for ten minutes. */
void region_list_forget(struct region_watch *watch);

void region_list_free(struct region_watch *watch);

#endif
