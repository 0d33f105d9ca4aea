/* region_unit.h: regions for tests: a temporary runtime directory, and tables
 * of every storage. */
#ifndef PERCORE_REGION_UNIT_H
#define PERCORE_REGION_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "percore.h"
#include "region/connection.h"
#include "region/reader.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

enum unit_tables { GLOBALS, PORT, SESSION, SLOW, FLOW, TABLES };
enum { PACKETS, BYTES, DEPTH, LATENCY }; /* fields of `port` */
enum { LATENCY_COLUMN = 3 };

/* globals: PER_CORE, single row, with a level (max); port: PER_CORE, names,
 * packets, bytes, a gauge, a histogram; session: OWNED, keys, consistent;
 * slow: SHARED; flow: OWNED without resets. */
extern const struct percore_table unit_tables[TABLES];

enum { PORT_ROWS = 4, SESSION_ROWS = 3 };

/* Create and remove a runtime directory, as set-up and tear-down of a cmocka
 * group. */
int unit_make_runtime_dir(void **state);
int unit_remove_runtime_dir(void **state);

/* Returns false where receivers (region/receiver.h) cannot be started:
 * qemu-user refuses a clone(2) without an exit signal with EINVAL. */
bool unit_has_receivers(void);

/* A test by itself, or the first line of a test: skips where receivers cannot
 * be started. */
void unit_need_receivers(void **state);

/* Creates a region `unit` with 4 cores and 2 extra slots, and asserts success.
 */
struct percore_region *unit_create(enum percore_serving serving);

/* Connects a reader to `unit`, and asserts success. */
struct region_reader *unit_connect(void);

/* Waits until a connection has ended. This process is also the producer, so a
 * process that receives may inherit the producer's end of the connection and
 * close it a little later. */
void unit_await_end(const struct region_connection *connection);

/* Reads the raw totals of a row, and asserts that the row is live. */
void unit_totals(struct region_reader *reader, uint32_t table, uint32_t row,
                 uint64_t *values);

/* Returns the value that tools show for a column. */
uint64_t unit_shown(struct region_reader *reader, uint32_t table, uint32_t row,
                    uint32_t column);

#endif
