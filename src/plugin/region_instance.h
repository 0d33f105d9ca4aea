/* region_instance: one producer's name, `<region>[@<instance>].sock`, and all
 * that is known of who serves it. Private to region_watch. */
#ifndef PERCORE_PLUGIN_REGION_INSTANCE_H
#define PERCORE_PLUGIN_REGION_INSTANCE_H

#include "region_sum.h"
#include "region_watch.h"
#include "region_workers.h"

#include <errno.h>

/* A row of the instance that has a name in the sum. */
struct region_part {
  struct region_sum_row *row;
  uint32_t number;
  uint64_t generation;
  bool cores_known; /* last is */
  uint64_t last[];  /* [core][column]: raw; of a gauge where it began */
};

/* A table of the producer that is read now. */
struct region_instance_table {
  char *name;
  struct region_sum *sum; /* NULL: not one that can be added to */
  bool joined;            /* what is met first has counted since its birth */
  bool odd_told;          /* why it has no sum */
  uint64_t names_seen;    /* how many the sum had at the last look */
  uint64_t round;         /* of the sum, in which it was read last */
  uint64_t round_before;  /* the same of the producer before */
  struct region_reading *reading; /* NULL: not in the middle of it */
  struct region_growth *growth;
  struct region_part **parts;
  uint32_t parts_len, parts_capacity;
};

enum region_health { REGION_UNKNOWN, REGION_WELL, REGION_STALE, REGION_DEAD };

struct region_instance {
  struct region_instance *next;
  char region[128];
  char name[64]; /* "" for a region without instances */
  const struct region_config *config;
  struct region_reader *reader;
  uid_t uid; /* who listened when it was met; -1: nobody knows */
  struct region_allowance_entry *allowance;
  uint64_t attaches_refused, adds_refused; /* at the last look */
  uint64_t producer;
  struct region_instance_table *tables;
  uint32_t table_count;
  struct region_workers workers;
  bool began_lately; /* its producer was started since the round before, and
                        was not read yet */
  enum region_health health;
  bool listed;    /* its socket is in the runtime directory */
  bool restarted; /* another producer since the round before */
  bool silent;    /* somebody listens and does not answer */
  uint64_t silent_since_ns;
  uint64_t absent_boottime_ns; /* CLOCK_BOOTTIME: the round before that one */
  uint64_t served_ns;          /* last time anybody did, CLOCK_MONOTONIC */
  int complaint; /* errno: why it is not read, which has been logged */
};

/* What regions are summed in, by region, table, and instance if told apart. */
struct region_sums {
  struct region_sum_entry {
    char *region, *instance;
    struct region_sum *sum;
  } * list;
  size_t len;
};

/* What the regions may take together (MaxMemory); and what one of them may,
 * with all its instances: half of it, of which an eighth is kept for names. A
 * little is there for each in any case. */
#define REGION_MEMORY_OWN ((size_t)1 << 20)
struct region_allowances {
  struct region_allowance all;
  struct region_allowance_entry {
    struct region_allowance_entry *next;
    struct region_allowance region, rows;
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
  uint64_t rows_torn, cells_back;
  struct region_moment last;    /* round */
  uint64_t mark_round, mark_ns; /* what was not there since is forgotten */
  bool any_met;                 /* since start */
  bool crowd_told, user_told, absent_told, descriptors_told, directory_told;
};

/* Makes the tables of the producer that has come. False if out of memory. */
bool region_instance_came(struct region_watch *watch,
                          struct region_instance *instance,
                          const struct region_moment *now);

/* Reads its workers, and its tables into the sums, but for large ones, which
 * have a turn of their own. `ended`: for the last time, and all. False if out
 * of memory. */
bool region_instance_read(struct region_watch *watch,
                          struct region_instance *instance,
                          const struct region_moment *now, bool ended);

/* How many large tables there are to be read. */
uint32_t region_instance_large(const struct region_instance *instance);

/* Reads those, each for so long. */
void region_instance_read_large(struct region_watch *watch,
                                struct region_instance *instance,
                                uint64_t slice_ns);

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
void region_health_conclude(const struct region_watch *watch,
                            struct region_instance *instance,
                            const struct region_moment *now,
                            struct region_snapshot *snapshot);

/* Lets go of rows that were not there in that round or later. */
void region_instance_forget(struct region_instance *instance, uint64_t round);

/* Whether another instance that is alive is added to that sum. */
bool region_instance_shares(const struct region_watch *watch,
                            const struct region_sum *sum,
                            const struct region_instance *but);

void region_instance_free_tables(struct region_instance *instance);

#endif
