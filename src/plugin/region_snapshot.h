/* region_snapshot: the values and names of all regions at one moment, ready to
 * be dispatched. The thread that reads regions makes a snapshot, and collectd's
 * read callback takes it. */
#ifndef PERCORE_PLUGIN_REGION_SNAPSHOT_H
#define PERCORE_PLUGIN_REGION_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Ranks of values, the most important first. If there are more values than
 * MaxValues, the values of the last ranks are cut. */
enum region_rank {
  REGION_RANK_SELF,   /* percore's own figures */
  REGION_RANK_USEFUL, /* useful loads of cores and sets of cores */
  REGION_RANK_HOST,   /* over all cores */
  REGION_RANK_CORE,   /* of single cores */
  REGION_RANKS,
};

enum region_type { REGION_DERIVE, REGION_GAUGE, REGION_PERCENT };

/* The first point of a counter. A time-series store cannot show what was
 * counted before this point, so a 0 precedes it. */
struct region_first {
  uint64_t snapshot; /* number of the snapshot with the first point; 0: there is
                        none yet */
  uint64_t zero_ns;  /* CLOCK_REALTIME: timestamp of the 0 that precedes it; 0:
                        no 0 precedes it */
};

struct region_value {
  const char *plugin, *plugin_instance, *type_instance;
  enum region_type type;
  union {
    int64_t derive;
    double gauge;
  };
  /* For derives only. The 0 is dispatched unless the snapshot with the first
   * point, or a later snapshot, has been dispatched. */
  struct region_first first;
  struct region_first *series; /* the sum's own copy of `first`, valid until the
                                  snapshot is complete, or NULL */
};

struct region_values {
  struct region_value *list;
  size_t len, capacity;
  size_t cut; /* number of values that were cut */
};

/* Events that are logged and sent as notifications. */
enum region_severity { REGION_OKAY, REGION_WARNING, REGION_FAILURE };

struct region_notice {
  enum region_severity severity;
  char region[128]; /* with its instance: gtpu@east */
  char text[192];
};

struct region_snapshot {
  uint64_t number;  /* the first is 1 */
  uint64_t time_ns; /* CLOCK_REALTIME */
  struct region_values values[REGION_RANKS];
  size_t values_max; /* limit for each rank */
  struct region_notice *events;
  size_t events_len;
  /* How many there were at the time of the snapshot. */
  int regions, regions_silent, regions_stale, workers_stuck;
  uint64_t snapshots_dropped; /* since start */
  struct region_text *texts;  /* memory of the names */
  bool memory_short;          /* values are missing */
  bool partial; /* a table is still being read, and its values will be in a
                   later snapshot */
};

/* What happened to earlier snapshots. */
struct region_outlet {
  uint64_t dispatched; /* number of the last dispatched snapshot */
  uint64_t before_it;  /* bit i is set if snapshot number `dispatched` - i was
                          dispatched */
  size_t room;         /* values that may be dispatched in one interval */
};

static inline bool region_outlet_dispatched(const struct region_outlet *outlet,
                                            uint64_t number) {
  uint64_t before = outlet->dispatched - number;
  return number <= outlet->dispatched && before < 64 &&
         (outlet->before_it >> before & 1);
}

struct region_snapshot *region_snapshot_new(uint64_t number, uint64_t time_ns,
                                            size_t values_max);
void region_snapshot_free(struct region_snapshot *snapshot);

/* These functions return a text that stays valid as long as the snapshot, or ""
 * if out of memory. */
const char *region_snapshot_text(struct region_snapshot *snapshot,
                                 const char *text);
const char *region_snapshot_format(struct region_snapshot *snapshot,
                                   const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Adds a value. Gauges that are not finite or exceed 1e18 are left out. */
void region_snapshot_put(struct region_snapshot *snapshot,
                         enum region_rank rank,
                         const struct region_value *value);

/* Cuts all values beyond `room`. A counter whose first point is cut begins in a
 * later snapshot. */
void region_snapshot_limit(struct region_snapshot *snapshot, size_t room);

void region_snapshot_tell(struct region_snapshot *snapshot,
                          enum region_severity severity, const char *region,
                          const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
