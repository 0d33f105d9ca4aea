/* region_host.h: a host with regions, for tests of the plugin. The producers
 * run in the test's process and are served between two rounds of the watch
 * (plugin/region_watch.h), which reads them. The test controls the clock. */
#ifndef PERCORE_REGION_HOST_H
#define PERCORE_REGION_HOST_H

#include "fake_collectd.h"

#include "plugin/config.h"
#include "plugin/region_watch.h"

#include "region_unit.h"

#define SECOND UINT64_C(1000000000)
#define HOST "percore_host_unit_"

/* What the last round found and dispatched. If a row began in it, the round was
 * followed by another one, a millisecond later, so that each count so far has
 * been dispatched. */
struct host_round {
  uint64_t time_ns;
  int regions, regions_silent, regions_stale, workers_stuck;
  bool partial;      /* a table is still being read */
  size_t host_len;   /* values over all cores, without percore's own */
  size_t events_len; /* notifications */
};
enum region_type { REGION_DERIVE, REGION_GAUGE };
struct region_value {
  enum region_type type;
  int64_t derive;
  double gauge;
  uint64_t first_ns; /* time of the first point with this name in the round */
  int64_t first;
};
extern struct host_round *snapshot;
extern struct percore_region *served[4];
extern uint64_t (*host_now_ns)(void *); /* NULL: reading takes no time */
/* For host_now_ns: a region's turn ends after host_looks looks at the clock,
 * and no region has a second turn in a round. */
uint64_t time_passes(void *argument);
extern unsigned host_looks;    /* 128 */
extern size_t host_memory_max; /* MaxMemory; 0: 1 GiB */
extern size_t host_values_max; /* MaxValues; 0: 20000 */
extern uint32_t host_cores;    /* of producers; 4 */
extern bool host_settles;      /* false: a round is never followed by another */
extern uint64_t began_ns;      /* start of the watch, CLOCK_BOOTTIME */

void set_up(void);
void tear_down(void);

uint64_t boottime_ns(void);

/* Starts the watch with these lines of a <Plugin percore> block. Everything
 * that the test has already created counts as newer than the watch, unless the
 * test sets began_ns. */
void start_watch(const char *lines);
void play_round(uint64_t after_ns);

/* Returns how much room a core has after the last round. */
double room_of_core(int core, double load);

/* Starts the watch and plays one round, a second later. */
void begin_watch(const char *lines);

/* Plays a round after the clock was set back. */
void play_round_set_back(void);

/* Plays a round that begins at the same CLOCK_BOOTTIME as the previous round.
 */
void play_round_begun_before(uint64_t after_ns);

struct percore_region *create(unsigned place, const char *instance,
                              const struct percore_table *tables, uint32_t len);
struct percore_region *create_usual(unsigned place, const char *instance);
void end_producer(unsigned place);

/* Ends the connections of a producer as if it had died, but leaves its files.
 */
void abandon_producer(unsigned place);

/* Reports so many events of the regions of others that the log takes no more
 * for an hour. */
void fill_log(void);

/* Returns the number of the row with this name. Adds the row if necessary. */
uint32_t row_of(struct percore_region *region, unsigned table,
                const char *name);

/* Add `n` to a column of a row in the table `port` or `slow`. */
void add(struct percore_region *region, const char *name, int core,
         unsigned column, uint64_t n);
void add_slow(struct percore_region *region, const char *name, unsigned column,
              uint64_t n);

const struct region_value *find(const char *plugin, const char *instance,
                                const char *row);
void assert_count(const char *plugin, const char *instance, const char *row,
                  int64_t expected);
void assert_none(const char *plugin, const char *instance, const char *row);
double gauge(const char *plugin, const char *instance, const char *row);
bool told(const char *text);

#endif
