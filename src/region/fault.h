/* fault.h: describes why a region cannot be read or created: an errno, the rule
 * of percore-region(7) that the region breaks, the table and field that break
 * the rule, and the reason in words. */
#ifndef PERCORE_REGION_FAULT_H
#define PERCORE_REGION_FAULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "layout.h"

/* Groups of rules, in the order in which they are checked. */
enum region_rules {
  REGION_RULES_HANDOVER,
  REGION_RULES_HEADER,
  REGION_RULES_STRINGS,
  REGION_RULES_CORE,
  REGION_RULES_TABLES,
  REGION_RULES_FIELDS,
  REGION_RULES_PLACES,
  /* Readers accept a region that breaks a rule of the following groups, but
   * skip or misread the part that breaks it. */
  REGION_RULES_START,
  REGION_RULES_SLOTS,
  REGION_RULES_ROWS,
  REGION_RULES_VALUES,
  REGION_RULES_GROUPS
};

/* All rules, each with the suffix of its enumerator, its name in
 * percore-region(7), and its group. */
/* clang-format off */
#define REGION_RULE_LIST(RULE) \
  RULE(HELLO, "hello", HANDOVER) \
  RULE(SEALS, "seals", HANDOVER) \
  RULE(SOCKET_NAME, "socket-name", HANDOVER) \
  RULE(MAGIC, "magic", HEADER) \
  RULE(BYTE_ORDER, "byte-order", HEADER) \
  RULE(VERSION, "version", HEADER) \
  RULE(RECORD_SIZES, "record-sizes", HEADER) \
  RULE(REGION_SIZE, "region-size", HEADER) \
  RULE(DIRECTORY_SIZE, "directory-size", HEADER) \
  RULE(COUNTS, "counts", HEADER) \
  RULE(DIRECTORY_PARTS, "directory-parts", HEADER) \
  RULE(SLOT_PARTS, "slot-parts", HEADER) \
  RULE(REGION_NAME, "region-name", HEADER) \
  RULE(INSTANCE_NAME, "instance-name", HEADER) \
  RULE(STRING_PLACE, "string-place", STRINGS) \
  RULE(STRING_SUM, "string-sum", STRINGS) \
  RULE(TEXT, "text", STRINGS) \
  RULE(CORE_TABLE, "core-table", CORE) \
  RULE(CORE_FIELDS, "core-fields", CORE) \
  RULE(TABLE_NAME, "table-name", TABLES) \
  RULE(STORAGE, "storage", TABLES) \
  RULE(KEY, "key", TABLES) \
  RULE(CONSISTENT, "consistent", TABLES) \
  RULE(ROW_NAME_SIZE, "row-name-size", TABLES) \
  RULE(TABLE_FIELDS, "table-fields", TABLES) \
  RULE(MAX_ROWS, "max-rows", TABLES) \
  RULE(IDENTIFIER, "identifier", TABLES) \
  RULE(COLUMNS, "columns", TABLES) \
  RULE(ROW_STRIDE, "row-stride", TABLES) \
  RULE(LABEL_STRIDE, "label-stride", TABLES) \
  RULE(FIELD_NAME, "field-name", FIELDS) \
  RULE(KIND, "kind", FIELDS) \
  RULE(AGGREGATION, "aggregation", FIELDS) \
  RULE(HISTOGRAM, "histogram", FIELDS) \
  RULE(STATES, "states", FIELDS) \
  RULE(PART_PLACE, "part-place", PLACES) \
  RULE(BASES, "bases", PLACES) \
  RULE(OVERLAP, "overlap", PLACES) \
  RULE(REGION_ID, "region-id", START) \
  RULE(START_TIMES, "start-times", START) \
  RULE(SLOT_STATE, "slot-state", SLOTS) \
  RULE(SLOT_CORE, "slot-core", SLOTS) \
  RULE(SLOT_OWNER, "slot-owner", SLOTS) \
  RULE(SLOT_NAME, "slot-name", SLOTS) \
  RULE(FREE_SLOT, "free-slot", SLOTS) \
  RULE(ROWS_IN_USE, "rows-in-use", ROWS) \
  RULE(SINGLE_ROW, "single-row", ROWS) \
  RULE(ROW_STATE, "row-state", ROWS) \
  RULE(ROW_CHANGING, "row-changing", ROWS) \
  RULE(ROW_BEYOND, "row-beyond", ROWS) \
  RULE(ROW_REUSED, "row-reused", ROWS) \
  RULE(ROW_REMOVED, "row-removed", ROWS) \
  RULE(ROW_LABEL, "row-label", ROWS) \
  RULE(ROW_TEXT, "row-text", ROWS) \
  RULE(BIRTH, "birth", VALUES) \
  RULE(RESET, "reset", VALUES) \
  RULE(STATE_VALUE, "state-value", VALUES)
/* clang-format on */

#define REGION_RULE_ENUMERATOR(rule, name, group) REGION_RULE_##rule,
enum region_rule {
  REGION_NO_RULE, /* a failure that breaks no rule */
  REGION_RULE_LIST(REGION_RULE_ENUMERATOR) REGION_RULE_COUNT
};
#undef REGION_RULE_ENUMERATOR

/* Returns a name such as "overlap"; "" for REGION_NO_RULE. */
const char *region_rule_name(enum region_rule rule);
enum region_rules region_rule_group(enum region_rule rule);

/* Returns the name of a group, such as "places", and a description of its
 * rules. */
const char *region_rules_name(enum region_rules group);
const char *region_rules_about(enum region_rules group);

#define REGION_SUBJECT_SIZE (REGION_MAX_PLUGIN_NAME + 1)

struct region_fault {
  int error; /* 0: no fault; EPROTO: a rule is broken; otherwise an errno */
  enum region_rule rule;
  /* The table and the field that break the rule: a name, or a number such as
   * "#3" if the name is invalid; "" if the fault concerns no table or field. */
  char table[REGION_SUBJECT_SIZE];
  char field[REGION_SUBJECT_SIZE];
  char text[320]; /* the reason in words; "" if strerror(error) is the reason */
};

/* These functions overwrite the whole fault, set errno and return false, so
 * that a failed check can return their result. The text must not contain
 * untrusted bytes. */
bool region_breaks(struct region_fault *fault, enum region_rule rule,
                   const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool region_fails(struct region_fault *fault, int error, const char *text);

/* Reports that a limit is exceeded, such as "it has 8192 bytes, and at most
 * 4096 are allowed". */
bool region_exceeds(struct region_fault *fault, int error, const char *what,
                    uint64_t bytes, uint64_t most);

/* Add the table or field at fault, by its name or, if the name is NULL or
 * invalid, by its number. Return false. */
bool region_blame_table(struct region_fault *fault, const char *name,
                        uint32_t number);
bool region_blame_field(struct region_fault *fault, const char *name,
                        uint32_t number);

/* Writes the fault as one line, such as "table session: births overlap ...". */
#define REGION_FAULT_LINE 600
void region_fault_text(const struct region_fault *fault,
                       char line[REGION_FAULT_LINE]);

#endif
