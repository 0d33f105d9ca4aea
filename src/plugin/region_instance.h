/* region_instance: one producer's name, `<region>[@<instance>].sock`, and all
 * that is known of who serves it. Private to region_watch. */
#ifndef PERCORE_PLUGIN_REGION_INSTANCE_H
#define PERCORE_PLUGIN_REGION_INSTANCE_H

#include "region_sum.h"
#include "region_watch.h"
#include "region_workers.h"

/* A table of the producer that is read now. */
struct region_instance_table {
  char *name;
  struct region_sum *sum; /* NULL: not one that can be added to */
  bool joined;            /* what it counts is known from the round before */
  bool odd_told;          /* that it is another than those of the others */
  struct region_accounts *accounts;
  struct region_tile tile;
  const struct region_account **found; /* by place in the tile */
  struct region_sum_row **cache;       /* by row */
  uint32_t cache_len;
};

enum region_health { REGION_UNKNOWN, REGION_WELL, REGION_STALE, REGION_DEAD };

struct region_instance {
  struct region_instance *next;
  char region[128];
  char name[64]; /* "" for a region without instances */
  const struct region_config *config;
  struct region_reader *reader;
  uint64_t producer;
  struct region_instance_table *tables;
  uint32_t table_count;
  struct region_workers workers;
  bool postponed;    /* a table waits for the next round */
  bool began_lately; /* its producer was started since the round before */
  enum region_health health;
  bool listed;    /* its socket is in the runtime directory */
  bool restarted; /* another producer since the round before */
  bool silent;    /* somebody listens and does not answer */
  uint64_t silent_since_ns;
  uint64_t listed_ns; /* last time, CLOCK_MONOTONIC */
  bool complained;    /* why it is not read has been logged */
};

/* What regions are summed in, by region, table, and instance if told apart. */
struct region_sums {
  struct region_sum_entry {
    char *region, *instance;
    struct region_sum *sum;
  } * list;
  size_t len;
};

struct region_watch {
  struct region_watch_options options;
  struct region_instance *instances;
  size_t instances_len;
  struct region_sums sums;
  struct region_useful *useful;
  struct machine *machine; /* NULL: nothing useful yet */
  struct topology topology;
  uint64_t topology_ns;
  uint64_t round;
  struct region_moment last;    /* round */
  uint64_t mark_round, mark_ns; /* what was not there since is forgotten */
  bool any_met;                 /* since start */
  bool crowd_told, absent_told;
};

/* Makes the tables of the producer that has come. False if out of memory. */
bool region_instance_came(struct region_watch *watch,
                          struct region_instance *instance,
                          const struct region_moment *now);

/* Reads all its tables and workers into the sums. `ended`: for the last time.
 * False if out of memory. */
bool region_instance_read(struct region_watch *watch,
                          struct region_instance *instance,
                          const struct region_moment *now, bool ended);

/* Lets go of rows that were not there in that round or later. */
void region_instance_forget(struct region_instance *instance, uint64_t round);

void region_instance_free_tables(struct region_instance *instance);

#endif
