/* region_unit.h: regions for tests, with a temporary runtime directory and with
 * tables of every storage. */
#ifndef PERCORE_REGION_UNIT_H
#define PERCORE_REGION_UNIT_H

#include "calls.h"
#include "region/reader.h"
#include "unit.h"

/* Asserts that a call returns -1 and sets errno to `error`. */
#define assert_fails(call, error)                                              \
  do {                                                                         \
    errno = 0;                                                                 \
    assert_int_equal(call, -1);                                                \
    assert_int_equal(errno, error);                                            \
  } while (0)

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

enum unit_tables { GLOBALS, PORT, SESSION, SLOW, FLOW, TABLES };
enum { PACKETS, BYTES, DEPTH, LATENCY }; /* fields of `port` */
enum { LATENCY_COLUMN = 3 };

/* The tables of the test regions. globals: PER_CORE, a single row, with a gauge
 * (its aggregation is the maximum); port: PER_CORE, with row names, packets,
 * bytes, an up-down counter and a histogram; session: OWNED, with row keys,
 * consistent; slow: SHARED; flow: OWNED, with PERCORE_NO_RESET. */
extern const struct percore_table unit_tables[TABLES];

enum { PORT_ROWS = 4, SESSION_ROWS = 3 };

/* Create and remove a runtime directory. As set-up and tear-down of each test,
 * they keep the region of a test that failed from disturbing the next. */
void unit_make_runtime_dir(void);
void unit_remove_runtime_dir(void);

/* Creates a region `unit` with 4 cores and 2 extra slots, and asserts success.
 */
struct percore_region *unit_create(void);

/* Detaches all slots of the calling thread and destroys the region. */
void unit_end(struct percore_region *region);

/* Defines a test of `region`, which unit_create makes and unit_end ends. */
#define REGION_TEST(sentence)                                                  \
  static void sentence##_of(struct percore_region *region);                    \
  TEST(sentence) {                                                             \
    struct percore_region *region = unit_create();                             \
    sentence##_of(region);                                                     \
    unit_end(region);                                                          \
  }                                                                            \
  static void sentence##_of(struct percore_region *region                      \
                            __attribute__((unused)))

/* Return a slot, the handle of a table, or the number of a row, and assert
 * success. */
percore_slot_t unit_attach(struct percore_region *region, int core);
percore_table_t unit_owned_table(struct percore_region *region, uint32_t table);
uint32_t unit_row(struct percore_region *region, uint32_t table,
                  const char *name);
uint32_t unit_row_of_key(struct percore_region *region, uint32_t table,
                         uint64_t key);

/* Declare a region or a connected reader that ends with the block. */
#define UNIT_REGION(region)                                                    \
  struct percore_region *region __attribute__((cleanup(unit_end_region))) =    \
      unit_create()
#define UNIT_READER(reader)                                                    \
  struct region_reader *reader __attribute__((cleanup(unit_close_reader))) =   \
      unit_connect()
void unit_end_region(struct percore_region **region);
void unit_close_reader(struct region_reader **reader);

/* Connects a reader to `unit`, and asserts success. */
struct region_reader *unit_connect(void);

/* Reads the raw totals of a row, and asserts that the row is live. */
void unit_totals(struct region_reader *reader, uint32_t table, uint32_t row,
                 uint64_t *values);

/* Connects a new reader and returns the raw total of one column. */
uint64_t unit_read(uint32_t table, uint32_t row, uint32_t column);

/* Returns the value of a column as tools show it. */
uint64_t unit_shown(struct region_reader *reader, uint32_t table, uint32_t row,
                    uint32_t column);

#endif
