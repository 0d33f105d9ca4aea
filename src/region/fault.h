/* fault.h: describes why a region cannot be read or created: an errno, the rule
 * of percore-region(7) that the region breaks, the table and field that break
 * the rule, and the reason in words. */
#ifndef PERCORE_REGION_FAULT_H
#define PERCORE_REGION_FAULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "layout.h"

/* All rules, each with the suffix of its enumerator and its name in
 * percore-region(7). */
/* clang-format off */
#define REGION_RULE_LIST(RULE) \
  RULE(FILE_NAME, "file-name") \
  RULE(MAGIC, "magic") \
  RULE(BYTE_ORDER, "byte-order") \
  RULE(VERSION, "version") \
  RULE(RECORD_SIZES, "record-sizes") \
  RULE(REGION_SIZE, "region-size") \
  RULE(DIRECTORY_SIZE, "directory-size") \
  RULE(COUNTS, "counts") \
  RULE(REGION_NAME, "region-name") \
  RULE(INSTANCE_NAME, "instance-name") \
  RULE(STRING_PLACE, "string-place") \
  RULE(STRING_SUM, "string-sum") \
  RULE(TEXT, "text") \
  RULE(CORE_TABLE, "core-table") \
  RULE(CORE_FIELDS, "core-fields") \
  RULE(TABLE_NAME, "table-name") \
  RULE(STORAGE, "storage") \
  RULE(KEY, "key") \
  RULE(CONSISTENT, "consistent") \
  RULE(ROW_NAME_SIZE, "row-name-size") \
  RULE(TABLE_FIELDS, "table-fields") \
  RULE(MAX_ROWS, "max-rows") \
  RULE(IDENTIFIER, "identifier") \
  RULE(COLUMNS, "columns") \
  RULE(ROW_STRIDE, "row-stride") \
  RULE(FIELD_NAME, "field-name") \
  RULE(KIND, "kind") \
  RULE(AGGREGATION, "aggregation") \
  RULE(HISTOGRAM, "histogram") \
  RULE(STATES, "states") \
  RULE(PLACE, "place")
/* clang-format on */

#define REGION_RULE_ENUMERATOR(rule, name) REGION_RULE_##rule,
enum region_rule {
  REGION_NO_RULE, /* a failure that breaks no rule */
  REGION_RULE_LIST(REGION_RULE_ENUMERATOR)
};
#undef REGION_RULE_ENUMERATOR

/* Returns a name such as "place"; "" for REGION_NO_RULE. */
const char *region_rule_name(enum region_rule rule);

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

/* A number that a rule limits. REGION_LIMIT is one without unit and words. An
 * array ends with REGION_LIMITS_END. */
struct region_limit {
  enum region_rule rule;
  const char *what; /* such as "row stride" */
  uint64_t value, least, most;
  uint64_t unit;     /* the value must be a multiple of it; 0: any value */
  const char *words; /* what the value must be, if the numbers do not say it */
};
#define REGION_LIMIT(rule, what, value, least, most)                           \
  { REGION_RULE_##rule, what, value, least, most, 0, NULL }
#define REGION_LIMITS_END                                                      \
  { .what = NULL }

/* Returns true if all numbers of an array are within their limits. Otherwise
 * reports the first that is not. */
bool region_within(const struct region_limit *limits,
                   struct region_fault *fault);

/* Sets the table or field at fault to its name or, if the name is NULL or
 * invalid, its number. Returns false. */
bool region_blame(char subject[REGION_SUBJECT_SIZE], const char *name,
                  uint32_t number);

/* Writes the fault as one line, such as "table session: its births, ...". */
#define REGION_FAULT_LINE 600
void region_fault_text(const struct region_fault *fault,
                       char line[REGION_FAULT_LINE]);

#endif
