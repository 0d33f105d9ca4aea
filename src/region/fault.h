/* fault.h: why a region cannot be read or created, as data: an errno, the rule
 * of percore-region(7) that it breaks, the table and field that break the rule,
 * and the reason in words. */
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
  /* Readers do not refuse a region that breaks one of the following rules: they
   * skip or misread the part that breaks it. */
  REGION_RULES_START,
  REGION_RULES_SLOTS,
  REGION_RULES_ROWS,
  REGION_RULES_VALUES,
  REGION_RULES_GROUPS
};

/* percore-region(7) lists the rules by name. */
enum region_rule {
  REGION_NO_RULE, /* no rule is broken: something else failed */
  REGION_RULE_HELLO,
  REGION_RULE_SEALS,
  REGION_RULE_SOCKET_NAME,
  REGION_RULE_MAGIC,
  REGION_RULE_BYTE_ORDER,
  REGION_RULE_VERSION,
  REGION_RULE_RECORD_SIZES,
  REGION_RULE_REGION_SIZE,
  REGION_RULE_DIRECTORY_SIZE,
  REGION_RULE_COUNTS,
  REGION_RULE_DIRECTORY_PARTS,
  REGION_RULE_SLOT_PARTS,
  REGION_RULE_REGION_NAME,
  REGION_RULE_INSTANCE_NAME,
  REGION_RULE_STRING_PLACE,
  REGION_RULE_STRING_SUM,
  REGION_RULE_TEXT,
  REGION_RULE_CORE_TABLE,
  REGION_RULE_CORE_FIELDS,
  REGION_RULE_TABLE_NAME,
  REGION_RULE_STORAGE,
  REGION_RULE_KEY,
  REGION_RULE_CONSISTENT,
  REGION_RULE_ROW_NAME_SIZE,
  REGION_RULE_TABLE_FIELDS,
  REGION_RULE_MAX_ROWS,
  REGION_RULE_IDENTIFIER,
  REGION_RULE_COLUMNS,
  REGION_RULE_ROW_STRIDE,
  REGION_RULE_LABEL_STRIDE,
  REGION_RULE_FIELD_NAME,
  REGION_RULE_KIND,
  REGION_RULE_AGGREGATION,
  REGION_RULE_HISTOGRAM,
  REGION_RULE_STATES,
  REGION_RULE_PART_PLACE,
  REGION_RULE_BASES,
  REGION_RULE_OVERLAP,
  REGION_RULE_REGION_ID,
  REGION_RULE_START_TIMES,
  REGION_RULE_SLOT_STATE,
  REGION_RULE_SLOT_CORE,
  REGION_RULE_SLOT_OWNER,
  REGION_RULE_SLOT_NAME,
  REGION_RULE_FREE_SLOT,
  REGION_RULE_ROWS_IN_USE,
  REGION_RULE_SINGLE_ROW,
  REGION_RULE_ROW_STATE,
  REGION_RULE_ROW_CHANGING,
  REGION_RULE_ROW_BEYOND,
  REGION_RULE_ROW_REUSED,
  REGION_RULE_ROW_REMOVED,
  REGION_RULE_ROW_LABEL,
  REGION_RULE_ROW_TEXT,
  REGION_RULE_BIRTH,
  REGION_RULE_RESET,
  REGION_RULE_STATE_VALUE,
  REGION_RULE_COUNT
};

/* Such as "overlap"; "" for REGION_NO_RULE. */
const char *region_rule_name(enum region_rule rule);
enum region_rules region_rule_group(enum region_rule rule);

/* Such as "places", and the subject of its rules in words. */
const char *region_rules_name(enum region_rules group);
const char *region_rules_about(enum region_rules group);

#define REGION_SUBJECT_SIZE (REGION_MAX_PLUGIN_NAME + 1)

struct region_fault {
  int error; /* 0: no fault; EPROTO: a rule is broken; any other errno */
  enum region_rule rule;
  /* The name of the table and field that break the rule, or a number such as
   * "#3" if the name is invalid; "" if it is not a table or field. */
  char table[REGION_SUBJECT_SIZE];
  char field[REGION_SUBJECT_SIZE];
  char text[320]; /* the reason in words; "": strerror(error) says it */
};

/* Both replace the whole fault, set errno and return false, the result of a
 * check that failed. The text must not contain foreign bytes. */
bool region_breaks(struct region_fault *fault, enum region_rule rule,
                   const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool region_fails(struct region_fault *fault, int error, const char *text);

/* Both name the culprit and return false; name may be NULL. */
bool region_blame_table(struct region_fault *fault, const char *name,
                        uint32_t number);
bool region_blame_field(struct region_fault *fault, const char *name,
                        uint32_t number);

/* Writes the fault as one line, such as "table session: births overlap ...". */
#define REGION_FAULT_LINE 600
void region_fault_text(const struct region_fault *fault,
                       char line[REGION_FAULT_LINE]);

#endif
