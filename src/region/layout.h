/* layout.h: the bytes of a region.
 *
 * The code in the folder region/ lets one process count events and other
 * processes read the counts. layout.h defines the format. Producers use
 * writer.h; readers use file.h, directory.h and reader.h. The folder must not
 * depend on cycles/, plugin/ or tool/.
 *
 * Errors in this folder: a function that can fail returns 0, or -1 (NULL if it
 * returns a pointer) with errno. A function that takes a struct region_fault
 * also stores the errno and the reason there (fault.h). If such a function only
 * checks something, it returns a bool, which is false on a fault. A function
 * that takes no fault and whose name contains "is_" or "has_" answers a
 * question; the answer false is not an error.
 *
 * percore-region(7) specifies the same bytes; change both together. All numbers
 * are in the producer's byte order, and all offsets count from the start of the
 * region. Records may grow at their end in later minor versions, so readers
 * step by the sizes in the header. */
#ifndef PERCORE_REGION_LAYOUT_H
#define PERCORE_REGION_LAYOUT_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "name.h"
#include "percore_reader.h"
#include "percore_tune.h"

/* Sets errno and returns -1. */
static inline int region_failed(int error) {
  errno = error;
  return -1;
}

#define REGION_MAGIC "PERCORE1"
#define REGION_BYTE_ORDER 0x01020304u
#define REGION_MAJOR 1
#define REGION_MINOR 0

/* Limits for producers and readers. */
#define REGION_MAX_TABLES 256u
#define REGION_MAX_FIELDS 16384u /* over all tables */
#define REGION_MAX_TABLE_FIELDS 1024u
#define REGION_MAX_STRINGS (4u << 20) /* bytes of the string pool */
#define REGION_MAX_ROWS (1u << 31)    /* per table */
#define REGION_MAX_SLOTS 16384u
#define REGION_MAX_STATES 256u /* per field */
/* The header is immutable, except for the members marked "live". */
struct region_header {
  char magic[8];
  uint32_t byte_order;
  uint16_t major;
  uint16_t minor;
  uint32_t header_size;
  uint32_t table_size;
  uint32_t field_size;
  uint32_t slot_size;
  uint64_t region_size;
  /* Size of the header, tables, fields and strings together. */
  uint64_t directory_size;
  uint8_t boot_id[16]; /* of the kernel, as in /proc; 0: unknown */
  int32_t pid;         /* in the producer's pid namespace */
  uint32_t word_size;  /* 8 */
  uint64_t page_size;  /* page size of the region's memory */
  uint64_t start_realtime_ns;
  uint64_t start_boottime_ns;
  uint64_t tsc_hz;
  uint64_t attach_refused; /* live: how many attach calls found no slot */
  uint32_t name;           /* offset in the string pool, as for all names */
  uint32_t instance;
  uint64_t tables_offset;
  uint32_t table_count;
  uint32_t field_count;
  uint64_t fields_offset;
  uint64_t strings_offset;
  uint64_t strings_size;
  uint64_t slots_offset;
  uint32_t slot_count;
  uint32_t core_count; /* slots 0 to core_count - 1 belong to the cores */
  uint64_t blocks_offset;
  uint64_t block_stride;
  uint64_t ended; /* live: 1 after a clean end */
  /* live: how many of the refused row_add calls found only rows that a thread
   * might still use */
  uint64_t adds_postponed;
  uint64_t postponed_by; /* live: 1 + the slot of that thread, the last time */
  /* Which process made the region: the inode of its pid namespace, and the
   * ticks after boot at which it started; 0: unknown. */
  uint64_t pid_namespace, pid_start;
  uint64_t flags;            /* enum region_flags */
  uint64_t adds_in_children; /* live: of the refused row_add calls: new names */
  uint64_t reserved[1];
};
_Static_assert(sizeof(struct region_header) == 256, "");

enum region_flags {
  /* While byte 0 of the file is locked, somebody can count in it. */
  REGION_LOCK_TELLS = 1,
  /* All parts in use have memory, and no other process can take it away: a
   * reader that trusts the file's user may map the file. */
  REGION_POPULATED = 2
};

enum region_table_flags {
  REGION_TABLE_CONSISTENT = 1, /* a row begins with a sequence counter */
  REGION_TABLE_SINGLE = 2      /* one unnamed row, live from the start */
};

struct region_table {
  uint32_t name;
  uint32_t help;
  uint32_t storage; /* enum percore_storage */
  uint32_t flags;
  uint32_t first_field;
  uint32_t field_count;
  uint32_t columns;    /* number of cells in a row; see region_place_columns */
  uint32_t row_stride; /* distance from row to row, in bytes */
  /* With row 0, which is never live: updates that belong to no row go there. A
   * single-row table has only row 0, which is live. */
  uint32_t max_rows;
  uint32_t row_name_size;
  uint32_t key; /* enum percore_key */
  uint32_t reserved_word;
  uint64_t live_offset;        /* struct region_table_live */
  uint64_t generations_offset; /* a word per row */
  /* Offset of the births: the sums of a row's cells when the row was added,
   * which readers subtract from the current sums. One word per row and column.
   */
  uint64_t birth_offset;
  /* Offset of the resets: the sums of a row's cells when the row was last reset
   * or added; offset 0: the resets equal the births. */
  uint64_t reset_offset;
  /* Offset of the rows of an OWNED or SHARED table, or of the shared block of a
   * PER_CORE table. */
  uint64_t single_offset;
  uint64_t slot_offset;   /* PER_CORE: offset of the rows in each slot block */
  uint64_t labels_offset; /* the name or key of each row */
  uint64_t reserved[3];
};
_Static_assert(sizeof(struct region_table) == 128, "");

struct region_field {
  uint32_t name;
  uint32_t unit;
  uint32_t help;
  uint32_t kind;        /* enum percore_kind */
  uint32_t aggregation; /* enum percore_aggregation */
  /* See region_place_columns. */
  uint32_t column;
  uint32_t cells; /* 1, or the buckets of a histogram */
  uint32_t sub_bits;
  uint32_t max_bits;
  /* Offset of the state names in the string pool: state_count consecutive
   * strings. */
  uint32_t states;
  uint32_t state_count;
  uint32_t reserved[5];
};
_Static_assert(sizeof(struct region_field) == 64, "");

/* The words of a table that change when rows are added. They have a cache line
 * of their own, so that adding rows does not slow updates down. */
struct region_table_live {
  uint64_t rows_in_use; /* one more than the highest row ever used */
  uint64_t adds_refused;
  uint64_t reserved[6];
};
_Static_assert(sizeof(struct region_table_live) == 64, "");

/* The generation word of a row or slot holds its state, a revision that every
 * change increments, and its incarnation. A reader loads the word first
 * (acquire) and again at the end (after an acquire fence). If the two differ or
 * the state is CHANGING, the data loaded between the two does not belong to a
 * single object. */
enum region_state {
  REGION_FREE = 0,     /* never used */
  REGION_CHANGING = 1, /* being written */
  REGION_LIVE = 2,     /* a row that was added; a slot with an owner */
  REGION_GONE = 3      /* a removed row, still readable; a released slot */
};

static inline enum region_state region_state(uint64_t generation) {
  return (enum region_state)(generation & 3);
}

/* Returns how many objects have used this row or slot, including the present
 * one. */
static inline uint32_t region_incarnation(uint64_t generation) {
  return (uint32_t)(generation >> 32);
}

/* Returns the generation word for a new state of the same object. */
static inline uint64_t region_changed(uint64_t generation,
                                      enum region_state state) {
  uint64_t revision = ((generation & 0xffffffffu) + 4) & 0xfffffffcu;
  return (generation & 0xffffffff00000000u) | revision | (uint64_t)state;
}

/* Returns the generation word of the next object in the same row or slot. */
static inline uint64_t region_next_object(uint64_t generation,
                                          enum region_state state) {
  return region_changed(generation, state) + ((uint64_t)1 << 32);
}

/* Generation words and labels are in separate arrays, because a reader loads
 * each generation word twice whenever it reads values, but each label only
 * once. A label is a name of row_name_size bytes, padded with NULs, or a key if
 * row_name_size is 0. */
static inline uint32_t region_label_size(const struct region_table *table) {
  return table->row_name_size != 0 ? table->row_name_size : 8;
}

#define REGION_SLOT_NAME_WORDS 5

struct region_slot {
  uint64_t generation;
  /* Tid of the owner in the producer's pid namespace; 0: no owner. */
  int32_t tid;
  /* The core that the slot counts for, or PERCORE_NO_CORE; -1 if never used. */
  int32_t core;
  uint64_t since_boottime_ns;
  uint64_t name[REGION_SLOT_NAME_WORDS];
};
_Static_assert(sizeof(struct region_slot) == 64, "");

/* A slot block consists of a struct percore_slot_head and the rows of the
 * PER_CORE tables. */
#define REGION_CORE_ROW_OFFSET offsetof(struct percore_slot_head, total_cycles)
#define REGION_CORE_COLUMNS 7
#define REGION_CORE_LEAST_COLUMNS 6 /* that readers need */
#define REGION_CORE_MAX_COLUMNS 8   /* limit for later minor versions */
_Static_assert(sizeof(struct percore_slot_head) == 128, "");

/* ---------------------------------------------------------------------------
 * Rules for descriptions, for producers and readers: schema.c
 */

/* What a producer refused, and which thread the last refused row_add call
 * waited for. */
struct region_refusals {
  uint64_t attaches, adds_postponed, adds_in_children;
  uint32_t extra_slots;
  int32_t tid;
  char name[8 * REGION_SLOT_NAME_WORDS];
};

/* Write a line that says what was refused and what to do. Return false if
 * nothing was refused. In status.c. */
bool region_slots_refused(char *text, size_t size,
                          const struct region_refusals *refusals);
bool region_rows_refused(char *text, size_t size,
                         const struct region_refusals *refusals);

struct region_fault; /* see fault.h */

/* Check the description of a region, whose tables are the application's,
 * without `core`, and the help and the fields of a table. `instance` is
 * NULL if the region has none. */
bool region_schema_is_valid(const char *name, const char *instance,
                            const struct percore_table *tables,
                            uint32_t table_count, struct region_fault *fault);
bool region_fields_are_valid(const struct percore_table *table,
                             struct region_fault *fault);

/* ---------------------------------------------------------------------------
 * Shapes and places, for producers and readers: layout.c
 */

/* Returns the number of buckets of a histogram; 0 if its shape is invalid. */
uint32_t region_histogram_buckets(uint32_t sub_bits, uint32_t max_bits);

/* Returns how many cells a field has in each row; 0 for a histogram of invalid
 * shape. */
uint32_t region_field_cells(uint32_t kind, uint32_t sub_bits,
                            uint32_t max_bits);

/* Returns the distance in bytes between rows of `columns` columns; a row of up
 * to 64 bytes never crosses a cache line. Returns 0 if align is invalid. */
uint32_t region_row_stride(uint32_t columns, bool consistent, uint32_t align);

/* A part of a table outside the slot blocks. */
struct region_part {
  const char *name;
  size_t member;   /* offset of the table's member that says where it begins */
  uint64_t offset; /* the value of that member; 0: there is no such part */
  uint64_t count, size; /* number of elements, and bytes of each */
};

/* The live words are the first part; all others have one element per row. */
enum { REGION_TABLE_PARTS = 6 };
void region_table_parts(const struct region_table *table,
                        struct region_part parts[REGION_TABLE_PARTS]);

/* The parts that have places so far. */
struct region_places {
  uint64_t next; /* where the last of them ends */
  uint64_t end;  /* of the space for parts */
  /* The page size of the region's memory. 0: the offsets are given, and are
   * checked. */
  uint64_t page;
  struct region_fault *fault;
};

/* Sets the columns of a table and of its fields, which follow from the kinds of
 * the fields. Readers do not use those that the producer has written. `fields`:
 * the first field of the table. */
void region_place_columns(struct region_table *table,
                          struct region_field *fields);

/* Choose or check the places of the records and strings, which are the
 * directory, and of all other parts. Each part lies after the part before, so
 * no two overlap. Return false on a fault; *at_fault is then the number of the
 * table at fault, or the number of tables if no table is. */
bool region_place_directory(struct region_places *places,
                            struct region_header *header);
bool region_place_all(struct region_places *places,
                      struct region_header *header, struct region_table *tables,
                      uint32_t *at_fault);

/* ---------------------------------------------------------------------------
 * Making the records of a region: plan.c
 */

struct region_plan {
  struct region_header header;
  struct region_table *tables;
  struct region_field *fields;
  char *strings;
};

/* Checks the description and assigns an offset to every part. page_size is the
 * page size of the region's memory. Inserts `core` before the application's
 * tables and fields. Returns 0, or -1 and sets *fault (EINVAL, ENAMETOOLONG,
 * ENOMEM). Call region_plan_free in either case. */
int region_plan_make(struct region_plan *plan, const char *name,
                     const struct percore_table *tables, uint32_t table_count,
                     const struct percore_options *options, uint32_t cores,
                     uint64_t page_size, struct region_fault *fault);
void region_plan_free(struct region_plan *plan);

/* Writes the immutable part of a region to its start. */
void region_plan_write(const struct region_plan *plan, void *region);

#endif
