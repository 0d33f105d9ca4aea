/* How regions are read: what belongs to what, which thread uses it, and the
 * words that the files region_* use. The way of a count, from a cell, or an
 * entry of a BPF map, to a PUTVAL:
 *
 *   a program adds to an entry       of a BPF map
 *        |
 *        | map_feed_read             map/feed.c: here the thread of map_sampler
 *        |                           is the producer
 *        v
 *   a producer adds to a cell        of its file (percore_update.h)
 *        |
 *        | region_tile_read          region/tile.c: reads some rows, and adds
 *        |                           the cells that all slots have of them
 *        v
 *   region_tile.totals               cells as they are now
 *        |
 *        | region_row_count          region_sum.c: adds what a row has grown
 *        |                           since region_input.last to its name, or to
 *        |                           `other`
 *        v
 *   region_sum_row.now, other.now    what a name has counted
 *        |
 *        | region_sum_put            region_put.c: dispatches it as `sent`
 *        v
 *   plugin_dispatch_values           collectd's queue; output plugins write it
 *
 * What belongs to what, with an example:
 *
 *   region_watch                     all regions of the host
 *    +- region_instance  gtpu@east   a name, under which come and go:
 *    +- region_producer              a file
 *    |   +- region_reader            the words of the file
 *    |   +- region_input  session    a table of the producer, and ---+
 *    |                               for each of its rows the name   | is
 *    |                               for which it counts             | added
 *    +- region_budget  gtpu          the regions of one name, and    | to
 *        |                           and what they may take          |
 *        +- region_sum  session      a table as it is reported <-----+
 *            +- region_sum_row eth0  what is counted under a name
 *            +- other                what no shown row has counted
 *
 * The thread of region_thread uses all of this, and no other thread does,
 * except that the sampler's thread reads empty_polls, under their lock.
 *
 *   round      what the thread does in one interval: region_watch_round
 *   scan       reading all of a table, in one or more rounds
 *   turn       how long a region is read before the next region
 *   pass       one scan of each input of a sum
 *   put        dispatching the values of a sum, after a pass
 *   tile       some consecutive rows of a table, with their cells
 *   object     what a producer's row holds from percore_row_add until
 *              percore_row_remove; its row may then hold another object, the
 *              next incarnation of the row
 *   births     the cells of a row when its object was added
 *   present    said of fields that are reported as they are: up-down counters,
 *              gauges and states
 *   shown      said of a row that is reported: its objects count for it
 *   candidate  an object that Top may choose to show
 *   copy       0: values over all cores; 1 + N: those of core N
 *   allowance  what a region may take of MaxMemory or MaxValues
 *   owes       said of a row that has counted more than was dispatched
 */
#ifndef PERCORE_PLUGIN_REGIONS_H
#define PERCORE_PLUGIN_REGIONS_H

#include "region_config.h"
#include "region_log.h"
#include "region_watch.h"
#include "region_workers.h"

#include "base/key_index.h"
#include "region/growth.h"
#include "region/reader.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <sys/stat.h>

/* ---------------------------------------------------------------------------
 * region_sum: one table of a region as it is reported, summed over all
 * producers of the region.
 *
 * A row has the counts that were made under its name while the row was shown.
 * They never decrease, whatever happens to producers. `other` has the rest of
 * what the table counted, so rows + other = table.
 *
 * A put dispatches the values of a sum. In the first of several consecutive
 * puts that contain a row, each of its counters is a point with the count that
 * was dispatched last, 0 in a new row, stamped with the time from which on the
 * row counts. What it counts follows from the next put on. So each growth has
 * two points, between which a data store finds it, and the order in which
 * collectd's threads write the points of one put does not matter. */

#define REGION_SUM_NAME_SIZE 128

/* What the producers of one region, with all its instances, may take, and its
 * sums: one for each table of the region or, if ReportPerInstance is set,
 * of an instance. */
struct region_budget {
  struct region_budget *next;
  struct region_log *log;
  const struct region_config *config;
  struct region_allowance memory, values;
  struct region_sum *sums;
  size_t instances;
  size_t rows, rows_most; /* shown now; the most so far */
  /* MaxNewRows: an hour divided by it, which a new row uses; CLOCK_MONOTONIC
   * until when time is used; when a row was last denied, and in which table. */
  uint64_t new_row_ns, used_ns, denied_ns;
  char denied_in[REGION_SUM_NAME_SIZE];
  bool denies; /* it was told */
  uid_t uid;   /* of the first; -1: unknown */
  char name[128];
};

struct region_sum_field {
  char name[REGION_SUM_NAME_SIZE];
  char label[REGION_SUM_NAME_SIZE]; /* the field's name in identifiers */
  uint32_t kind, aggregation, column, cells, sub_bits;
  uint64_t put; /* number of the last put that contained the field; 0: none */
  bool wanted;
  bool cycles; /* values are in cycles, which are converted to ns */
  const struct region_bounds *bounds; /* or NULL */
  uint32_t ends[REGION_MOST_BOUNDS];  /* the first bucket above each bound */
};

/* Arrays of values are [copy][column]. Copy 0 is the sum over all cores, copy
 * 1 + N is core N. */
struct region_sum_row {
  uint64_t put; /* number of the last put that contained the row; 0: none */
  uint64_t since_ns; /* CLOCK_REALTIME: since when it counts, if the last put
                        did not contain it */
  uint32_t copies;   /* allocated: at least those of the sum */
  uint32_t objects;  /* that count for it, over all inputs */
  /* In the pass read_in: the objects whose up-down counters, gauges and states
   * are in `now`. States, and gauges without an aggregation, are those of the
   * newest producer of a name: which, when it started, and how many objects
   * they could be of. */
  uint32_t parts, singles;
  uint64_t read_in;
  const struct region_instance *newest_of;
  uint64_t newest_ns;
  uint64_t contended;   /* in which put it was a candidate and not chosen; 0 */
  int64_t weight;       /* Top ranks by it */
  bool shown;           /* its objects count for it, not for `other` */
  bool contends, again; /* is a candidate; was one lately */
  bool put_now;         /* this put contains the row */
  uint64_t
      *now; /* counts; up-down counters, gauges and states: at the last put */
  uint64_t *sent; /* counts that were dispatched last */
  char name[];
};

struct region_columns {
  struct region_column {
    uint32_t column, field;
  } * list;
  uint32_t len;
};

struct region_sum {
  struct region_sum *next;                  /* of the same budget */
  const struct region_table_config *config; /* NULL: no <Table> block */
  struct region_budget *budget;
  char instance[REGION_SUM_NAME_SIZE]; /* "": the sum of all instances */
  char table[REGION_SUM_NAME_SIZE];
  uint64_t tsc_hz; /* 0: cycles are not converted */

  /* The structure of the table, which never changes. */
  struct region_sum_field *fields;
  uint32_t field_count, columns, core_count;
  size_t name_size; /* of a row's name, so that suffixes fit; with the NUL */
  /* The columns to read. counters: those of counters and histograms; present:
   * those of up-down counters, gauges and states. */
  struct region_columns counters, present;
  uint32_t values;       /* of a row, in one copy */
  bool single, per_core; /* the table has a single row; it is PER_CORE */
  bool is_core;          /* the built-in table `core` */
  bool chooses_rows;     /* the option Row is set */
  const struct region_sum_field
      *ranks_by;    /* by which Top ranks rows, or NULL */
  uint32_t rank_at; /* its place among what an input remembers of a row */

  /* The rows; then `capacity` more pointers, in which rows are ranked. */
  struct region_sum_row **rows;
  size_t len, capacity, shown;
  struct key_index names; /* finds rows by name */
  struct region_sum_row *other;
  struct region_input *inputs; /* tables of producers that are added to it */
  /* A pass reads each input once; then the sum is put. */
  uint64_t pass;         /* its number */
  uint32_t unread;       /* inputs that it has not read yet */
  uint32_t copies;       /* 1, or 1 + core_count; never increases */
  uint8_t *core_used;    /* cores with a slot */
  uint64_t *core_put;    /* like `put` of a row */
  uint64_t puts, put_ns; /* number and CLOCK_REALTIME of the last put */
  uint64_t read_ns;      /* CLOCK_MONOTONIC: when an input was last read */
  bool is_new;           /* an input was read since the last put */
  size_t charged;        /* values charged to the budget */
  uint64_t names_shown;  /* incremented whenever Top shows another name */
};

/* ---------------------------------------------------------------------------
 * region_input: reads one table of one producer again and again, and adds what
 * each row has counted since the last scan to a row of the sum or to `other`.
 */

/* An object that Top may show. */
struct region_candidate {
  uint32_t number, incarnation;
  int64_t weight;
  struct region_sum_row *row;
};

struct region_input {
  struct region_producer *producer;
  uint32_t number;        /* index of the table in the directory */
  struct region_sum *sum; /* NULL: not added to any sum */
  struct region_input *next_of_sum;
  bool from_zero; /* all of its counts are reported, including those before the
                     first scan */
  uint64_t start_ns;   /* CLOCK_REALTIME: when the producer started */
  bool left_out_once;  /* it could not be added to a sum */
  uint32_t scans;      /* that are complete */
  bool is_new;         /* one of them in this pass */
  uint64_t names_seen; /* the sum's names_shown, when the last scan began */
  uint32_t rows_read;  /* the most rows that a scan has read */
  size_t bytes;        /* charged to the budget */
  /* Of each row: counters at the last scan; then what to subtract from up-down
   * counters. */
  struct region_growth past;
  /* For which row the object counts. `other`: the object is not wanted; NULL:
   * `other`, until there is room. */
  struct region_sum_row **rows;
  uint32_t assigned; /* how many are not NULL */
  /* [copy][n]: sums of the cells of all other rows at the last scan; the same
   * for this scan and for the next, [copy][column]. */
  uint64_t *rest, *rest_now, *rest_next;
  /* The present scan. */
  struct region_tile *tile; /* that of the watch */
  uint32_t next_row;        /* 0: no scan is underway */
  uint32_t kept;            /* rows that the last complete scan remembered */
  bool ended;               /* the producer has ended: this is the last scan */
  bool looks_names_up, skips; /* skips: see skip_light */
  uint64_t live;              /* live rows so far */
  enum region_grown worst;
  struct region_candidate *candidates; /* room for 2 * candidates_most */
  size_t candidates_len, candidates_most;
  int64_t least; /* candidates with this weight or less are rejected */
};

/* ---------------------------------------------------------------------------
 * Instances
 */

/* How long instances without a producer, and tables without one, are kept. */
#define REGION_FORGET_NS UINT64_C(600000000000)

enum region_health {
  REGION_UNKNOWN,
  REGION_WELL,
  REGION_STALE,
  REGION_STOPPED,
  REGION_DEAD
};

/* A name under which producers publish. */
struct region_instance {
  struct region_instance *next;
  struct region_watch *watch;
  char name[64];   /* "": the region has no instances */
  char label[194]; /* for messages: gtpu, or gtpu@east */
  struct region_budget *budget;
  uint32_t files; /* of its producers, that are to be read */
  /* What this round has found. */
  struct region_found {
    uint32_t alive, came, went, stopped; /* producers */
    int polling, stuck;                  /* workers */
    bool ended; /* those that went had called percore_destroy */
  } found;
  enum region_health health;
  uint64_t served_ns; /* CLOCK_MONOTONIC: when it last had a file to read */
  /* CLOCK_MONOTONIC: when it was first read, or last reported; 0: never read */
  uint64_t calm_since_ns;
  uint32_t alive;         /* producers, in the last round */
  bool was_told, alarmed; /* ever reported; reported, and not well since then */
  bool complained;        /* it was logged why a file is not read */
};

#define REGION_INODES 4096

/* A producer's file. It stays in this list as long as it is in the directory,
 * so that its counts are not counted again. */
struct region_producer {
  struct region_producer *next, *next_of_inode; /* with the same remainder */
  struct region_watch *watch;
  /* NULL: its last counts were read, or it was refused */
  struct region_instance *instance;
  char file[NAME_MAX + 1];
  dev_t device; /* another one if something was mounted on the directory */
  ino_t inode;
  uid_t uid;
  struct region_reader *reader;            /* NULL: the same */
  uint64_t attaches_refused, adds_refused; /* totals at the last reading */
  struct region_input *inputs;
  uint32_t input_count;
  uint64_t looked_in;       /* the last round in which it was looked after */
  uint64_t read_in;         /* the last round in which it was read */
  uint64_t workers_read_in; /* the same of its workers, all of them */
  uint32_t next_table;      /* the next to read; input_count: all were read */
  bool missed; /* one of them could not be read, but may be in the next round */
  bool is_slow; /* its last turn took too long, or it has had none */
  bool ended;   /* the producer has ended; its last counts are being read */
  struct region_workers workers;
  bool from_zero; /* none of the producer's counts have been reported */
  bool met;       /* the last list of the directory has it */
  bool refused;   /* it is tried again when it changes, or in a minute */
};

struct region_watch {
  struct region_watch_options options;
  struct region_instance *instances;
  struct region_producer *producers;
  size_t instances_len, producers_len, files; /* files: to be read */
  int notices;                                /* of inotify(7); -1: none */
  uint64_t list_ns; /* CLOCK_MONOTONIC: when the directory was last listed */
  bool lost;        /* notices were, since then */
  struct stat directory; /* when it was last listed */
  DIR *listed;           /* what is being listed, in one or more rounds; NULL */
  bool tries, is_whole;  /* see region_list.c */
  uid_t full_uid;        /* in this round: has as many files as it may */
  struct region_producer *by_inode[REGION_INODES]; /* see next_of_inode */
  /* CLOCK_BOOTTIME: what producers that started before have counted may have
   * been reported by a process before this one. */
  uint64_t after_boottime_ns;
  struct region_log log;
  struct region_pool memory, values; /* MaxMemory, MaxValues */
  struct region_tile tile;           /* the rows that are being read */
  struct region_budget *budgets;
  struct region_useful useful;
  struct machine *machine; /* NULL: no useful load so far */
  struct topology topology;
  uint64_t topology_ns;
  uint64_t round;
  uint64_t put_ns; /* CLOCK_REALTIME: when values were last dispatched */
  int regions, silent, stale, stuck; /* in this round */
  /* since start */
  uint64_t attaches_refused, adds_refused, rows_left_out, new_rows_left_out;
  struct region_moment now; /* this round */
  bool any_met;             /* a region was found since start */
};

/* ---------------------------------------------------------------------------
 * Sums: region_sum.c
 */

static inline struct region_about
region_about_sum(const struct region_sum *sum) {
  return (struct region_about){
      .log = sum->budget->log, .region = sum->budget->name, .part = sum->table};
}

/* Creates the sum for table t of a directory. tsc_hz is the frequency of the
 * first producer's TSC. Returns NULL if out of memory. */
struct region_sum *region_sum_new(const struct region_directory *directory,
                                  uint32_t t, const char *instance,
                                  uint64_t tsc_hz,
                                  struct region_budget *budget);
void region_sum_free(struct region_sum *sum);

/* True if the directory's table t has the same fields as the sum. */
bool region_sum_fits(const struct region_sum *sum,
                     const struct region_directory *directory, uint32_t t);

/* Copies the counts from `from`, by name, for fields with the same name, kind
 * and unit. */
void region_sum_inherit(struct region_sum *sum, const struct region_sum *from);

/* Copies the name of a row, which is untrusted bytes, for use in an identifier.
 * `/`, `;`, `=`, `"`, blanks, deceptive characters (utf8.h) and bytes that are
 * not UTF-8 are replaced by `_`; an empty name becomes `_`. A name that does
 * not fit into size bytes is cut after a whole character. */
void region_name_clean(char *clean, size_t size, const char *name);

/* Returns the row with this name, which is cleaned first: names that become
 * equal share a row. Adds the row if it does not exist and `make` is set.
 * Returns NULL if the row does not exist, if memory is short, or if the name
 * is `other`. */
struct region_sum_row *region_sum_find(struct region_sum *sum, const char *name,
                                       bool make);

/* Returns how many rows that were in no put may be shown, if the sum then shows
 * `rows` rows. A store keeps each name that it has ever received, so the rows
 * that take the places of others are limited (MaxNewRows). A region may show
 * more rows than ever before. */
size_t region_sum_new_rows(const struct region_sum *sum, size_t rows);

/* Notes that rows are not shown because of MaxNewRows. */
void region_sum_deny(struct region_sum *sum, uint64_t rows);

/* Charges the row `other` to the budget before the first input is added.
 * Returns false if its values exceed the budget. When no input is left,
 * region_sum_rest gives all values back. */
bool region_sum_begin(struct region_sum *sum);
void region_sum_rest(struct region_sum *sum);

/* Shows a row, unless its values exceed the budget, or its name MaxNewRows. */
bool region_sum_show(struct region_sum *sum, struct region_sum_row *row);
void region_sum_hide(struct region_sum *sum, struct region_sum_row *row);

/* Returns how many values a row has in the copies that are reported. */
size_t region_sum_row_values(const struct region_sum *sum);

/* True if a counter has grown since it was dispatched. */
bool region_sum_row_owes(const struct region_sum *sum,
                         const struct region_sum_row *row);
bool region_sum_owes(const struct region_sum *sum);

/* True if values of several objects cannot be combined. */
static inline bool
region_field_is_single(const struct region_sum_field *field) {
  return field->kind == PERCORE_STATE ||
         (field->kind == PERCORE_GAUGE && field->aggregation == PERCORE_NONE);
}

/* Combines an up-down counter, gauge or state with the one in *now, or replaces
 * it. */
void region_sum_combine(const struct region_sum *sum,
                        const struct region_column *column, uint64_t *now,
                        uint64_t value, bool replace);

/* Adds what the counters of one copy have grown since `last` to the row, and
 * updates `last`, which has the counters alone. A cell that has fallen does not
 * count until it exceeds its former value. If it has grown by 2^63 or more, it
 * may have fallen from a value beyond 2^63, so this growth does not count. */
enum region_grown region_row_count(const struct region_sum *sum,
                                   struct region_sum_row *row, uint32_t copy,
                                   uint64_t *last, const uint64_t *cells);

/* Frees the oldest hidden rows if there are too many. */
void region_sum_forget(struct region_sum *sum);

/* Chooses the rows that Top shows (region_top.c). */
void region_sum_choose(struct region_sum *sum);

/* Begins to read all inputs anew. */
void region_sum_begin_pass(struct region_sum *sum);

/* Dispatches the values (region_put.c). */
void region_sum_put(struct region_sum *sum, struct region_watch *watch);

/* ---------------------------------------------------------------------------
 * Inputs: region_input.c
 */

/* Returns the sum of two weights, which come from producers and could overflow
 * it. */
static inline int64_t region_weights_add(int64_t a, int64_t b) {
  int64_t sum;
  if (__builtin_add_overflow(a, b, &sum))
    return b < 0 ? INT64_MIN : INT64_MAX;
  return sum;
}

/* Removes the input from its sum, and frees it. */
void region_input_leave(struct region_input *input);

enum region_scan {
  REGION_SCAN_DONE,
  REGION_SCAN_STOPPED, /* the next call goes on with it */
  REGION_SCAN_LATER    /* out of memory: the table must be read again */
};

/* Reads the table, and adds what it has counted since the last scan to the sum.
 * The scan stops after `until_ns` of CLOCK_MONOTONIC, and when the watch must
 * end. If the producer has ended, only counters
 * are read. */
enum region_scan region_input_scan(struct region_input *input, bool ended,
                                   uint64_t until_ns);

/* Ends a scan that is underway, which loses no count, and lets the present pass
 * read the input anew. */
void region_input_restart(struct region_input *input);

/* Lets the present object of a row count for a row of the sum. */
void region_input_assign(struct region_input *input, uint32_t number,
                         struct region_sum_row *row);

/* Keeps only the candidates with the largest weights (region_top.c). */
void region_candidates_cut(struct region_input *input);

/* ---------------------------------------------------------------------------
 * The watch
 */

static inline struct region_about
region_about_host(struct region_watch *watch) {
  return (struct region_about){.log = &watch->log};
}

static inline struct region_about
region_about(const struct region_instance *instance, const char *table) {
  return (struct region_about){
      .log = &instance->watch->log, .region = instance->label, .part = table};
}

static inline bool region_watch_is_wanted(const struct region_watch *watch) {
  return watch->options.is_wanted(watch->options.argument);
}

static inline uint64_t region_watch_now_ns(const struct region_watch *watch) {
  const struct region_watch_options *options = &watch->options;
  return options->now_ns != NULL ? options->now_ns(options->argument) : 0;
}

static inline bool
region_producer_is_alive(const struct region_producer *producer) {
  return producer->reader != NULL &&
         region_reader_presence(producer->reader) == REGION_ALIVE;
}

/* CLOCK_BOOTTIME */
static inline uint64_t
region_producer_started_ns(const struct region_producer *producer) {
  return region_reader_directory(producer->reader)->header.start_boottime_ns;
}

void region_producer_free_inputs(struct region_producer *producer);

/* Opens the producer's file, or looks whether the producer is alive. If the
 * file is refused, says why, and gives its place to others. */
void region_producer_refresh(struct region_producer *producer);

/* Frees what is needed to read the producer, but remembers its file. */
void region_producer_forget(struct region_producer *producer);

/* Logs why a file is not read, and that it is read after all. */
void region_health_complain(const struct region_producer *producer);
void region_health_read(struct region_instance *instance);

/* Logs what the producer refuses to its threads, and why. */
void region_health_refusals(const struct region_producer *producer,
                            struct region_refusals *refusals);

/* Concludes a round: reports which names are silent, stale or gone
 * (region_health.c). */
void region_health_conclude(struct region_watch *watch);

/* Returns advice for the end of a message that this process was refused access
 * to a file or directory. The advice names the group whose members have
 * access; it is "" if membership would not help. Queries the name service, so
 * use it only in messages that are logged once. */
#define REGION_REMEDY_SIZE 256
const char *region_health_group_remedy(const char *path,
                                       char text[REGION_REMEDY_SIZE]);

/* ---------------------------------------------------------------------------
 * Which producers exist: files in the runtime directory (region_list.c).
 */

/* Looks for files that have come or gone. */
void region_list_look(struct region_watch *watch);

/* Frees names that have had no file to read for ten minutes. */
void region_list_forget(struct region_watch *watch);

#endif
