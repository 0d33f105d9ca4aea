/* calls: the calls of libpercore that return a handle, as calls that return 0,
 * or -1 with errno, for assertions. */
#ifndef PERCORE_TESTS_CALLS_H
#define PERCORE_TESTS_CALLS_H

#include "percore_load.h"
#include "percore_reader.h"
#include "percore_tune.h"

#include <errno.h>
#include <stdio.h>

static inline int create_region(struct percore_region **region,
                                const char *name,
                                const struct percore_table *tables,
                                uint32_t table_count,
                                const struct percore_options *options) {
  *region = percore_create(name, tables, table_count, options);
  return errno == 0 ? 0 : -1;
}

static inline int attach_thread(struct percore_region *region, const char *name,
                                int core, percore_slot_t *slot) {
  *slot = percore_attach(region, name, core);
  return errno == 0 ? 0 : -1;
}

/* Attaches the thread once more, although it may have a slot for the core. */
static inline int attach_another(struct percore_region *region, int core,
                                 percore_slot_t *slot) {
  static unsigned attached;
  char name[24];
  snprintf(name, sizeof(name), "another %u", ++attached);
  return attach_thread(region, name, core, slot);
}

static inline int make_row(struct percore_region *region, uint32_t table,
                           const char *name, uint32_t *row) {
  *row = percore_row_add(region, table, name, 0);
  return errno == 0 ? 0 : -1;
}

static inline int make_row_key(struct percore_region *region, uint32_t table,
                               uint64_t key, uint32_t *row) {
  *row = percore_row_add(region, table, NULL, key);
  return errno == 0 ? 0 : -1;
}

/* An OWNED table, for threads that may not be attached. */
static inline int open_table(struct percore_region *region, uint32_t table,
                             percore_table_t *handle) {
  *handle = percore_table(percore_this_slot(region), table);
  return errno == 0 ? 0 : -1;
}

/* Sections of all PER_CORE rows of a slot. */
static inline void begin_section(percore_slot_t slot) {
  percore_sequence_begin_(&slot.seat->head->sequence);
}

static inline void end_section(percore_slot_t slot) {
  percore_sequence_end_(&slot.seat->head->sequence);
}

static inline const char *reader_error(const struct percore_reader *reader) {
  const char *why;
  (void)percore_reader_state(reader, &why);
  return why;
}

static inline struct percore_load_details
load_details(const struct percore_load *load, int core) {
  struct percore_load_details details;
  details.size = sizeof(details);
  (void)percore_load_get(load, core, &details);
  return details;
}

static inline double load_window(const struct percore_load *load, int core,
                                 double *age) {
  struct percore_load_details details = load_details(load, core);
  if (age != NULL)
    *age = details.age;
  return details.window;
}

#endif
