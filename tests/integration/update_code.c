/* Wraps each update path in a function, so that its machine code can be tested.
 * Compiled as C11 and as C++17. */
#include <percore_load.h>
#include <percore_reader.h>
#include <percore_tune.h>

#ifdef __cplusplus
extern "C" {
#endif

void core_add(percore_row_t row, uint64_t n);
void core_add_one(percore_row_t row);
void core_add_four(percore_row_t row, uint64_t n);
void core_updown(percore_row_t row, int64_t n);
void core_set(percore_row_t row, uint64_t n);
void table_add(percore_table_t table, uint32_t row, uint64_t n);
void shared_add(percore_shared_row_t row, uint64_t n);
void shared_set(percore_shared_row_t row, uint64_t n);
void section(percore_row_t row, uint64_t n);
void poll_round(percore_slot_t slot, uint64_t n);
void poll_round_at(percore_slot_t slot, uint64_t tsc, uint64_t n);
void observe(percore_row_t row, uint64_t value);

void core_add(percore_row_t row, uint64_t n) { percore_add(row, 3, n); }

void core_add_one(percore_row_t row) { percore_add(row, 0, 1); }

/* Updates adjacent cells, which a compiler might combine into one vector. */
void core_add_four(percore_row_t row, uint64_t n) {
  percore_add(row, 0, n);
  percore_add(row, 1, n);
  percore_add(row, 2, n);
  percore_add(row, 3, n);
}

void core_updown(percore_row_t row, int64_t n) { percore_add(row, 2, n); }

void core_set(percore_row_t row, uint64_t n) { percore_set(row, 1, n); }

void table_add(percore_table_t table, uint32_t row, uint64_t n) {
  percore_add(percore_row(table, row), 1, n);
}

void shared_add(percore_shared_row_t row, uint64_t n) {
  percore_shared_add(row, 0, n);
}

void shared_set(percore_shared_row_t row, uint64_t n) {
  percore_set(row, 0, n);
}

void section(percore_row_t row, uint64_t n) {
  percore_begin(row);
  percore_add(row, 0, 1);
  percore_add(row, 1, n);
  percore_end(row);
}

void poll_round(percore_slot_t slot, uint64_t n) { percore_poll(slot, n, 0); }

void poll_round_at(percore_slot_t slot, uint64_t tsc, uint64_t n) {
  percore_poll(slot, n, tsc);
}

void observe(percore_row_t row, uint64_t value) {
  percore_observe(row, 4, value);
}

#ifdef WRONG_MIX
void wrong_mix(percore_shared_row_t row);
void wrong_mix(percore_shared_row_t row) { percore_add(row, 0, 1); }
#endif
#ifdef WRONG_MIX_SHARED
void wrong_mix(percore_row_t row);
void wrong_mix(percore_row_t row) { percore_shared_add(row, 0, 1); }
#endif

#ifdef WRONG_FRACTION
void wrong_fraction(percore_row_t row);
void wrong_fraction(percore_row_t row) { percore_set(row, 1, 0.25); }
#endif
#ifdef WRONG_SHARED_FRACTION
void wrong_fraction(percore_shared_row_t row, float value);
void wrong_fraction(percore_shared_row_t row, float value) {
  percore_set(row, 1, value);
}
#endif

#ifdef ALL_VALUES
enum { DOWN, UP };
void set_all(percore_row_t row, int8_t small, uint64_t large);
void set_all(percore_row_t row, int8_t small, uint64_t large) {
  percore_set(row, 0, -5);
  percore_set(row, 1, small);
  percore_set(row, 2, large);
  percore_set(row, 3, UP);
}
#endif

#ifdef __cplusplus
}
#endif
