/* region_watch: the regions of this host over time: who serves them, what they
 * hold in each round, what became of them. Knows no clock and no thread: the
 * caller says when a round is, and how to wait. */
#ifndef PERCORE_PLUGIN_REGION_WATCH_H
#define PERCORE_PLUGIN_REGION_WATCH_H

#include "region_config.h"
#include "region_snapshot.h"

#include "cycles/figures.h"

/* All must live as long as the watch. */
struct region_watch_options {
  const struct region_configs *configs;
  const char *runtime_dir; /* NULL: the usual one */
  const char *sys_root;    /* NULL: "/"; where the topology is */
  const struct figures_group *groups;
  size_t groups_len;
  uint64_t interval_ns;
  size_t values_max;
  size_t memory_max;                /* bytes for what regions claim; 0: 1 GiB */
  struct region_receiver *receiver; /* NULL: none, see region/reader.h */
  /* Waits about so long; false: give up, the round is not wanted any more. */
  bool (*wait)(void *argument, uint64_t ns);
  bool (*is_wanted)(void *argument);
  /* CLOCK_MONOTONIC; NULL: nothing is read in pieces. */
  uint64_t (*now_ns)(void *argument);
  /* What became of the snapshots before; NULL: all of them were dispatched. */
  struct region_outlet (*outlet)(void *argument);
  void *argument;
};

struct region_moment {
  uint64_t stamp_ns; /* CLOCK_REALTIME, of the snapshot */
  uint64_t monotonic_ns, boottime_ns;
};

struct region_watch;

/* Opens nothing yet. NULL if out of memory. */
struct region_watch *
region_watch_new(const struct region_watch_options *options,
                 const struct region_moment *now);
void region_watch_free(struct region_watch *watch);

/* Looks who is there and reads everything. NULL if out of memory, or not wanted
 * any more. */
struct region_snapshot *region_watch_round(struct region_watch *watch,
                                           const struct region_moment *now);

#endif
