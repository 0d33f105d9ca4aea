/* region_host.h: a host with regions: producers in this process, served between
 * two looks of the watch; the clock is the test's. */
#ifndef PERCORE_REGION_HOST_H
#define PERCORE_REGION_HOST_H

#include "fake_collectd.h"

#include "plugin/config.h"
#include "plugin/region_watch.h"

#include "region_unit.h"

#define SECOND UINT64_C(1000000000)
#define HOST "percore_host_unit_"

extern struct region_snapshot *snapshot; /* of the last round */
extern struct percore_region *served[4];
extern uint64_t (*host_now_ns)(void *); /* NULL: nothing takes any time */
extern size_t host_memory_max;          /* MaxMemory; 0: the usual */
extern size_t host_values_max;          /* MaxValues; 0: 10000 */
extern size_t host_room;                /* of it for regions; 0: all */
extern bool host_memory_may_be_short; /* or a snapshot asserts that it is not */
extern uint64_t host_dispatched;      /* number of the last snapshot that
                                         reached the stores; all at first */
extern uint64_t host_before_it;       /* which snapshots before did: see
                                         struct region_outlet */
extern uint64_t began_ns;             /* the watch, CLOCK_BOOTTIME */

int set_up(void **state);
int tear_down(void **state);

uint64_t boottime_ns(void);

/* With lines of <Plugin percore>. What a test has created began later, unless
 * it sets began_ns. */
void start_watch(const char *lines);
void play_round(uint64_t after_ns);

/* A round whose moment is that of the one before, whatever began since. */
void play_round_begun_before(uint64_t after_ns);

struct percore_region *create(unsigned place, const char *instance,
                              const struct percore_table *tables, uint32_t len);
struct percore_region *create_usual(unsigned place, const char *instance);
void end_producer(unsigned place);

/* The connections end as if the process had died; its place stays taken. */
void abandon_producer(unsigned place);

/* Adds the row, if it is not there. */
uint32_t row_of(struct percore_region *region, unsigned table,
                const char *name);

/* Adds to a row of `port`, or of `slow`. */
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
