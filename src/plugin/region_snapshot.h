/* region_snapshot: what the regions held at one moment, as values with names
 * that are ready to be dispatched. Made by the thread that reads regions, taken
 * by collectd's read callback. */
#ifndef PERCORE_PLUGIN_REGION_SNAPSHOT_H
#define PERCORE_PLUGIN_REGION_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* From the most to the least important: beyond MaxValues the end is cut. */
enum region_rank {
  REGION_RANK_SELF,   /* how many regions there are */
  REGION_RANK_USEFUL, /* useful loads and what is made of them */
  REGION_RANK_HOST,   /* over all cores */
  REGION_RANK_CORE,   /* of one core */
  REGION_RANKS,
};

enum region_type { REGION_DERIVE, REGION_GAUGE, REGION_PERCENT };

/* The first point of a counter: a store cannot show counts before it. */
struct region_first {
  uint64_t snapshot; /* number of the snapshot that has it; 0: none has */
  uint64_t zero_ns;  /* CLOCK_REALTIME of a 0 that goes before it; 0: none */
};

struct region_value {
  const char *plugin, *plugin_instance, *type_instance;
  enum region_type type;
  union {
    int64_t derive;
    double gauge;
  };
  /* For a derive. The 0 is dispatched if no snapshot since the first point was
   * dispatched. */
  struct region_first first;
  struct region_first *series; /* where `first` is kept; NULL: nowhere. Valid
                                  until the snapshot is complete */
};

struct region_values {
  struct region_value *list;
  size_t len, capacity;
  size_t cut; /* beyond the most that are kept */
};

/* What people should hear of. */
enum region_severity { REGION_OKAY, REGION_WARNING, REGION_FAILURE };

struct region_notice {
  enum region_severity severity;
  char text[192];
};

struct region_snapshot {
  uint64_t number;  /* from 1 */
  uint64_t time_ns; /* CLOCK_REALTIME */
  struct region_values values[REGION_RANKS];
  size_t values_max; /* kept of each rank */
  struct region_notice *events;
  size_t events_len;
  /* How many there are now. */
  int regions, regions_silent, regions_stale, workers_stuck;
  uint64_t snapshots_dropped; /* nobody took them in time, since start */
  struct region_text *texts;  /* what the names point into */
  bool memory_short;          /* something is missing */
  bool partial; /* a table that takes long has its values another time */
};

/* What became of earlier snapshots. */
struct region_outlet {
  uint64_t dispatched; /* number of the last snapshot that was dispatched */
  uint64_t before_it;  /* bit i: snapshot `dispatched` - i was dispatched */
  size_t room;         /* how many values may be dispatched in one interval */
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

/* The name lives as long as the snapshot; "" if out of memory. */
const char *region_snapshot_text(struct region_snapshot *snapshot,
                                 const char *text);
const char *region_snapshot_format(struct region_snapshot *snapshot,
                                   const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A gauge that is not finite, or beyond 1e18, is no value and left out. */
void region_snapshot_put(struct region_snapshot *snapshot,
                         enum region_rank rank,
                         const struct region_value *value);

/* Leaves room for that many values; what is cut begins in a later snapshot. */
void region_snapshot_limit(struct region_snapshot *snapshot, size_t room);

void region_snapshot_tell(struct region_snapshot *snapshot,
                          enum region_severity severity, const char *format,
                          ...) __attribute__((format(printf, 3, 4)));

#endif
