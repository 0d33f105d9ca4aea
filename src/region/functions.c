/* functions.c: the updates of percore_update.h as functions, for programs that
 * are not written in C or C++. */
#include "percore_config.h"

#include "percore.h"

#define RETURNS(type, name, parameters, ...)                                   \
  type name##_fn parameters { return name(__VA_ARGS__); }

RETURNS(percore_core_row_t, percore_core_row,
        (percore_slot_t slot, percore_core_table_t table, uint32_t row), slot,
        table, row)
RETURNS(percore_owned_row_t, percore_owned_row,
        (percore_owned_table_t table, uint32_t row), table, row)
RETURNS(percore_shared_row_t, percore_shared_row,
        (percore_shared_table_t table, uint32_t row), table, row)
RETURNS(uint64_t, percore_tsc, (void))

#define UPDATES(kind, row_type)                                                \
  void percore_##kind##add_fn(row_type row, uint32_t column, uint64_t n) {     \
    percore_add(row, column, n);                                               \
  }                                                                            \
  void percore_##kind##updown_add_fn(row_type row, uint32_t column,            \
                                     int64_t n) {                              \
    percore_updown_add(row, column, n);                                        \
  }                                                                            \
  void percore_##kind##add_growth_fn(row_type row, uint32_t column,            \
                                     uint64_t value, uint64_t *last) {         \
    percore_add_growth(row, column, value, last);                              \
  }                                                                            \
  void percore_##kind##set_fn(row_type row, uint32_t column, int64_t value) {  \
    percore_set(row, column, value);                                           \
  }                                                                            \
  void percore_##kind##hist_add_fn(                                            \
      row_type row, percore_histogram_t histogram, uint64_t value) {           \
    percore_hist_add(row, histogram, value);                                   \
  }                                                                            \
  void percore_##kind##prefetch_fn(row_type row) { percore_prefetch(row); }

UPDATES(, percore_core_row_t)
UPDATES(owned_, percore_owned_row_t)

#define DOES(name, parameters, ...)                                            \
  void name##_fn parameters { name(__VA_ARGS__); }

DOES(percore_shared_add,
     (percore_shared_row_t row, uint32_t column, uint64_t n), row, column, n)
DOES(percore_shared_set,
     (percore_shared_row_t row, uint32_t column, uint64_t value), row, column,
     value)
DOES(percore_begin, (percore_slot_t slot), slot)
DOES(percore_end, (percore_slot_t slot), slot)
DOES(percore_row_begin, (percore_owned_row_t row), row)
DOES(percore_row_end, (percore_owned_row_t row), row)
DOES(percore_quiescent, (percore_slot_t slot), slot)
DOES(percore_poll, (percore_slot_t slot, uint64_t n), slot, n)
DOES(percore_poll_at, (percore_slot_t slot, uint64_t tsc, uint64_t n), slot,
     tsc, n)
DOES(percore_sleep, (percore_slot_t slot), slot)
DOES(percore_wake, (percore_slot_t slot), slot)
