/* region_instance: one producer's name, `<region>[@<instance>].sock`, and all
 * that is known of who serves it. Private to region_watch. */
#ifndef PERCORE_PLUGIN_REGION_INSTANCE_H
#define PERCORE_PLUGIN_REGION_INSTANCE_H

#include "region_table.h"
#include "region_watch.h"
#include "region_workers.h"

#include <errno.h>

enum region_health { REGION_UNKNOWN, REGION_WELL, REGION_STALE, REGION_DEAD };

struct region_instance {
  struct region_instance *next;
  char region[128];
  char name[64]; /* "" for a region without instances */
  const struct region_config *config;
  struct region_reader *reader;
  uid_t uid; /* of the listener when it was first seen; -1: unknown */
  struct region_allowance_entry *allowance;
  uint64_t attaches_refused, adds_refused; /* at the last look */
  uint64_t producer;
  struct region_instance_table *tables;
  uint32_t table_count;
  struct region_workers workers;
  bool began_lately;        /* its producer was started since the name was last
                               unserved, and its workers were not looked at yet */
  uint64_t ending_since_ns; /* CLOCK_MONOTONIC: when its producer was found
                               ended; 0: it was not */
  uint32_t next_table;      /* to be read */
  uint64_t turn;            /* the last round in which it was read */
  enum region_health health;
  bool listed;    /* its socket is in the runtime directory */
  bool restarted; /* another producer since the round before */
  bool silent;    /* somebody listens and does not answer */
  uint64_t silent_since_ns;
  uint64_t absent_boottime_ns; /* CLOCK_BOOTTIME: the last scan in which nobody
                                  served the name */
  uint64_t served_ns; /* CLOCK_MONOTONIC: the last time the name was served */
  bool drop_told;
  int complaint; /* errno: why it is not read, which has been logged */
};

/* Sums of regions, by region, table, and instance if told apart. */
struct region_sums {
  struct region_sum_entry {
    char *region, *instance;
    struct region_allowance_entry *allowance;
    struct region_sum *sum;
  } * list;
  size_t len;
  bool grew; /* since room was shared */
};

/* Memory of all regions together (MaxMemory), and of one region with all its
 * instances: half of that, of which an eighth is kept for names. Each region
 * has at least REGION_MEMORY_OWN. */
#define REGION_MEMORY_OWN ((size_t)1 << 20)
struct region_allowances {
  struct region_allowance all;
  struct region_allowance_entry {
    struct region_allowance_entry *next;
    struct region_allowance region, rows;
    uint64_t wanted; /* values, by all sums of the region */
    char name[128];
  } * list;
};

/* Sockets at which nobody listened, by hashes of name, file and time of change,
 * in ascending order. */
struct region_refused {
  uint64_t *marks;
  size_t len, capacity;
};

struct region_watch {
  struct region_watch_options options;
  struct region_instance *instances;
  size_t instances_len;
  struct region_refused refused; /* at the last look into the directory */
  struct region_sums sums;
  struct region_useful *useful;
  struct machine *machine; /* NULL: nothing useful yet */
  struct topology topology;
  uint64_t topology_ns;
  uint64_t round;
  struct region_allowances allowances;
  uint64_t attaches_refused, adds_refused; /* by producers, since start */
  uint64_t rows_torn, cells_back, rows_unseen;
  struct region_outlet outlet;
  size_t values_useful;         /* in the last round */
  struct region_moment last;    /* round */
  uint64_t mark_round, mark_ns; /* what was not there since is forgotten */
  bool any_met;                 /* since start */
  bool crowd_told, user_told, absent_told, descriptors_told, directory_told;
};

/* Makes the tables of the producer that has come. False if out of memory. */
bool region_instance_came(struct region_watch *watch,
                          struct region_instance *instance,
                          const struct region_moment *now);

/* Reads its workers, and begins to read its tables. `ended`: for the last time.
 * False if out of memory. */
bool region_instance_begin(struct region_watch *watch,
                           struct region_instance *instance,
                           const struct region_moment *now, bool ended);

/* Whether tables are being read, or are to be. */
bool region_instance_is_amid(const struct region_instance *instance);

/* Reads its tables in turns, at least some milliseconds, else until then (of
 * the watch's clock). */
void region_instance_read(struct region_watch *watch,
                          struct region_instance *instance, uint64_t until_ns);

/* True if its producer has ended and all of its counts were read. */
bool region_instance_is_drained(const struct region_instance *instance);

static inline bool
region_instance_is_alive(const struct region_instance *instance) {
  return region_reader_presence(instance->reader) == REGION_ALIVE;
}

/* Connected, and no answer yet. */
static inline bool
region_instance_is_unanswered(const struct region_instance *instance) {
  return region_reader_errno(instance->reader) == ETIMEDOUT;
}

/* The end of a round for it: who is silent, stale, gone; region_health.c. */
void region_health_conclude(struct region_instance *instance,
                            const struct region_moment *now,
                            struct region_snapshot *snapshot);

/* What to do where a socket or directory refuses this process: an end for a
 * message, which names the group whose members may use the file; "" if
 * membership would not help. Asks the name service: for messages that come
 * once. */
#define REGION_REMEDY_SIZE 256
const char *region_health_group_remedy(const char *path,
                                       char text[REGION_REMEDY_SIZE]);

/* region_choice.c: sets how many rows of each sum are shown, so that all sums
 * have their share of MaxValues; sorts the sums, those that want few values
 * first. */
void region_share_room(struct region_watch *watch);

/* Chooses the rows of a sum that the option Top shows. */
void region_choose(struct region_watch *watch, struct region_sum *sum);

/* Whether another instance that is alive is added to that sum. */
bool region_instance_shares(const struct region_watch *watch,
                            const struct region_sum *sum,
                            const struct region_instance *but);

void region_instance_free_tables(struct region_instance *instance);

#endif
