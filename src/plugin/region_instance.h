/* How regions are read: what belongs to what, which thread uses it, and the
 * words that the files region_* use. The way of a count, from a cell to a
 * PUTVAL:
 *
 *   a producer adds to a cell        in its shared memory (region/cells.h)
 *        |
 *        | region_tile_read          copies the cells of some rows
 *        v
 *   region_input.last                how far the growth of cells is counted
 *        |
 *        | region_row_count          adds the growth since then
 *        v
 *   region_sum_row.now, other.now    what a name has counted
 *        |
 *        | region_sum_put            dispatches it, and copies it to `sent`
 *        v
 *   plugin_dispatch_values           collectd's queue; output plugins write it
 *
 * An entry of a BPF map takes the same way after map_sampler has copied its
 * value to a cell of a region of its own (map/publish.h).
 *
 * What belongs to what, with an example:
 *
 *   region_watch                     all regions of the host
 *    +- region_instance  gtpu@east   a socket, and its present producer
 *    |   +- region_reader            the producer's mapped memory
 *    |   +- region_input  session    a table of the producer --------+
 *    |       +- region_object 17     what holds row 17 of the table  | is
 *    |                               and counts for a region_sum_row | added
 *    +- region_budget  gtpu          a user's regions of one name,   | to
 *        |                           and what they may take          |
 *        +- region_sum  session      a table as it is reported <-----+
 *            +- region_sum_row eth0  what is counted under a name
 *            +- other                what no shown row has counted
 *
 * The thread of region_thread uses all of this, and no other thread does,
 * except that the thread which lists the runtime directory has `list` in
 * region_list.c, and that the sampler's thread takes empty polls from
 * region_room, under its lock.
 *
 *   round      what the thread does in one interval: region_watch_round
 *   scan       reading all of a table or directory; may take several rounds
 *   piece      what is read of a region before the next region's turn
 *   put        dispatching the values of a sum, after scans of all its inputs
 *   object     what a producer's row holds from percore_row_add until
 *              percore_row_remove; its row may then hold another object
 *   shown      said of a row that is reported: its objects are tracked
 *   tracked    said of an object whose cells are remembered from scan to scan
 *   candidate  an object that Top may choose to show
 *   mark       what is remembered of a row that is not tracked
 *   copy       0: values over all cores; 1 + N: those of core N
 *   owes       said of a row that has counted more than was dispatched
 */
#ifndef PERCORE_PLUGIN_REGION_INSTANCE_H
#define PERCORE_PLUGIN_REGION_INSTANCE_H

#include "region_input.h"
#include "region_watch.h"
#include "region_workers.h"

#include <errno.h>

/* How long instances without a producer, and tables without one, are kept. */
#define REGION_FORGET_NS UINT64_C(600000000000)

enum region_health {
  REGION_UNKNOWN,
  REGION_WELL,
  REGION_STALE,
  REGION_STOPPED,
  REGION_DEAD
};

struct region_instance {
  struct region_instance *next;
  struct region_watch *watch;
  char name[64];   /* "": the region has no instances */
  char label[194]; /* for messages: gtpu, or gtpu@east */
  struct region_reader *reader;
  uid_t uid; /* uid of the process that listened when the name was first seen;
                -1: unknown */
  struct region_budget *budget;
  uint64_t attaches_refused, adds_refused; /* totals at the last reading */
  struct region_input *inputs;
  uint32_t input_count;
  uint32_t next_input; /* the next input to read */
  uint32_t begun;      /* inputs that this scan has begun to read */
  uint64_t bytes_read; /* in the last scan of each table */
  uint64_t read_in;    /* the last round in which it was read */
  uint64_t looked_in;  /* the last round in which it was looked after */
  struct region_workers workers;
  bool from_zero; /* none of the producer's counts have been reported */
  uint64_t ending_since_ns; /* CLOCK_MONOTONIC: when the producer was found to
                               have ended, until its last counts are read; 0 */
  uint64_t counted_in;      /* the last round in which its workers were read */
  enum region_health health;
  bool listed;    /* the socket is in the runtime directory */
  bool met;       /* the present scan of the directory has found it */
  bool restarted; /* the name has a different producer than in the previous
                     round */
  bool silent;    /* a process listens but does not answer, or is stopped */
  uint64_t silent_since_ns;
  /* CLOCK_BOOTTIME: no producer of the name that started later was read. */
  uint64_t after_boottime_ns;
  uint64_t served_ns; /* CLOCK_MONOTONIC: when the name was last served */
  int complaint;      /* errno of the last logged reason why the instance is not
                         read; 0: none */
};

struct region_watch {
  struct region_watch_options options;
  struct region_instance *instances;
  size_t instances_len;
  uint64_t scan_ns;           /* CLOCK_MONOTONIC: when a scan of the runtime
                                 directory began; 0: there is none */
  uint64_t directory_ns;      /* CLOCK_REALTIME: its last change; 0: unknown */
  bool strangers;             /* it has sockets at which nobody listens */
  uint64_t after_boottime_ns; /* initial value of that of an instance */
  struct region_log log;
  struct region_pool memory, values; /* MaxMemory, MaxValues */
  struct region_tile tile;           /* memory for the next tile */
  struct region_budget *budgets;
  struct region_useful useful;
  struct machine *machine; /* NULL: no useful load so far */
  struct topology topology;
  uint64_t topology_ns;
  uint64_t round;
  uint64_t put_ns; /* CLOCK_REALTIME: when values were last dispatched */
  int regions, silent, stale, stuck; /* in this round */
  uint64_t attaches_refused, adds_refused, rows_torn, cells_back,
      rows_left_out;        /* since start */
  struct region_moment now; /* this round */
  bool any_met;             /* a region was found since start */
  bool absent_told;
};

static inline struct region_about
region_about_host(struct region_watch *watch) {
  return (struct region_about){.log = &watch->log};
}

static inline struct region_about
region_about(const struct region_instance *instance, const char *table) {
  return (struct region_about){.log = &instance->watch->log,
                               .uid = instance->uid,
                               .region = instance->label,
                               .part = table};
}

static inline bool region_watch_is_wanted(const struct region_watch *watch) {
  return watch->options.is_wanted(watch->options.argument);
}

static inline uint64_t region_watch_now_ns(const struct region_watch *watch) {
  const struct region_watch_options *options = &watch->options;
  return options->now_ns != NULL ? options->now_ns(options->argument) : 0;
}

static inline bool
region_instance_is_alive(const struct region_instance *instance) {
  return region_reader_presence(instance->reader) == REGION_ALIVE;
}

/* True if the reader has connected, but the producer has not answered yet. */
static inline bool
region_instance_is_unanswered(const struct region_instance *instance) {
  return region_reader_errno(instance->reader) == ETIMEDOUT ||
         region_reader_presence(instance->reader) == REGION_SILENT;
}

void region_instance_free_inputs(struct region_instance *instance);

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

/* ---------------------------------------------------------------------------
 * Which instances exist: sockets in the runtime directory that a process serves
 * or served recently (region_list.c).
 */

/* Looks for new sockets in the runtime directory, and adds their instances,
 * sorted by name. */
void region_list_look(struct region_watch *watch);

/* Frees instances that have not been served for ten minutes. */
void region_list_forget(struct region_watch *watch);

void region_list_free(struct region_watch *watch);

/* Returns the budget of a user's regions of that name, which is created if
 * necessary, or NULL if out of memory. No user takes what a region of another
 * user needs. Users that AllowUser names are one user. */
struct region_budget *region_budget_find(struct region_watch *watch,
                                         const struct region_config *config,
                                         const char *region, uid_t uid);

/* ---------------------------------------------------------------------------
 * Dispatching values (region_put.c)
 */

void region_put_begin(const struct region_watch *watch, value_list_t *list,
                      const char *plugin, const char *plugin_instance);
#endif
