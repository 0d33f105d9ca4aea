#include "percore_config.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "fault.h"

static const struct {
  const char *name, *about;
} groups[REGION_RULES_GROUPS] = {
    [REGION_RULES_HANDOVER] = {"handover", "memory, seals and socket"},
    [REGION_RULES_HEADER] = {"header", "the header"},
    [REGION_RULES_STRINGS] = {"strings", "the string pool"},
    [REGION_RULES_CORE] = {"core", "the built-in table core"},
    [REGION_RULES_TABLES] = {"tables", "table records"},
    [REGION_RULES_FIELDS] = {"fields", "field records"},
    [REGION_RULES_PLACES] = {"places", "the places of the tables' parts"},
    [REGION_RULES_START] = {"start", "the region's id and start times"},
    [REGION_RULES_SLOTS] = {"slots", "slot records and slot blocks"},
    [REGION_RULES_ROWS] = {"rows", "rows in use, generations and labels"},
    [REGION_RULES_VALUES] = {"values", "cells, births and resets"},
};

static const struct {
  const char *name;
  enum region_rules group;
} rules[REGION_RULE_COUNT] = {
    [REGION_NO_RULE] = {"", REGION_RULES_HANDOVER},
    [REGION_RULE_HELLO] = {"hello", REGION_RULES_HANDOVER},
    [REGION_RULE_SEALS] = {"seals", REGION_RULES_HANDOVER},
    [REGION_RULE_SOCKET_NAME] = {"socket-name", REGION_RULES_HANDOVER},
    [REGION_RULE_MAGIC] = {"magic", REGION_RULES_HEADER},
    [REGION_RULE_BYTE_ORDER] = {"byte-order", REGION_RULES_HEADER},
    [REGION_RULE_VERSION] = {"version", REGION_RULES_HEADER},
    [REGION_RULE_RECORD_SIZES] = {"record-sizes", REGION_RULES_HEADER},
    [REGION_RULE_REGION_SIZE] = {"region-size", REGION_RULES_HEADER},
    [REGION_RULE_DIRECTORY_SIZE] = {"directory-size", REGION_RULES_HEADER},
    [REGION_RULE_COUNTS] = {"counts", REGION_RULES_HEADER},
    [REGION_RULE_DIRECTORY_PARTS] = {"directory-parts", REGION_RULES_HEADER},
    [REGION_RULE_SLOT_PARTS] = {"slot-parts", REGION_RULES_HEADER},
    [REGION_RULE_REGION_NAME] = {"region-name", REGION_RULES_HEADER},
    [REGION_RULE_INSTANCE_NAME] = {"instance-name", REGION_RULES_HEADER},
    [REGION_RULE_STRING_PLACE] = {"string-place", REGION_RULES_STRINGS},
    [REGION_RULE_STRING_SUM] = {"string-sum", REGION_RULES_STRINGS},
    [REGION_RULE_TEXT] = {"text", REGION_RULES_STRINGS},
    [REGION_RULE_CORE_TABLE] = {"core-table", REGION_RULES_CORE},
    [REGION_RULE_CORE_FIELDS] = {"core-fields", REGION_RULES_CORE},
    [REGION_RULE_TABLE_NAME] = {"table-name", REGION_RULES_TABLES},
    [REGION_RULE_STORAGE] = {"storage", REGION_RULES_TABLES},
    [REGION_RULE_KEY] = {"key", REGION_RULES_TABLES},
    [REGION_RULE_CONSISTENT] = {"consistent", REGION_RULES_TABLES},
    [REGION_RULE_ROW_NAME_SIZE] = {"row-name-size", REGION_RULES_TABLES},
    [REGION_RULE_TABLE_FIELDS] = {"table-fields", REGION_RULES_TABLES},
    [REGION_RULE_MAX_ROWS] = {"max-rows", REGION_RULES_TABLES},
    [REGION_RULE_IDENTIFIER] = {"identifier", REGION_RULES_TABLES},
    [REGION_RULE_COLUMNS] = {"columns", REGION_RULES_TABLES},
    [REGION_RULE_ROW_STRIDE] = {"row-stride", REGION_RULES_TABLES},
    [REGION_RULE_LABEL_STRIDE] = {"label-stride", REGION_RULES_TABLES},
    [REGION_RULE_FIELD_NAME] = {"field-name", REGION_RULES_FIELDS},
    [REGION_RULE_KIND] = {"kind", REGION_RULES_FIELDS},
    [REGION_RULE_AGGREGATION] = {"aggregation", REGION_RULES_FIELDS},
    [REGION_RULE_HISTOGRAM] = {"histogram", REGION_RULES_FIELDS},
    [REGION_RULE_STATES] = {"states", REGION_RULES_FIELDS},
    [REGION_RULE_PART_PLACE] = {"part-place", REGION_RULES_PLACES},
    [REGION_RULE_BASES] = {"bases", REGION_RULES_PLACES},
    [REGION_RULE_OVERLAP] = {"overlap", REGION_RULES_PLACES},
    [REGION_RULE_REGION_ID] = {"region-id", REGION_RULES_START},
    [REGION_RULE_START_TIMES] = {"start-times", REGION_RULES_START},
    [REGION_RULE_SLOT_STATE] = {"slot-state", REGION_RULES_SLOTS},
    [REGION_RULE_SLOT_CORE] = {"slot-core", REGION_RULES_SLOTS},
    [REGION_RULE_SLOT_OWNER] = {"slot-owner", REGION_RULES_SLOTS},
    [REGION_RULE_SLOT_NAME] = {"slot-name", REGION_RULES_SLOTS},
    [REGION_RULE_FREE_SLOT] = {"free-slot", REGION_RULES_SLOTS},
    [REGION_RULE_ROWS_IN_USE] = {"rows-in-use", REGION_RULES_ROWS},
    [REGION_RULE_SINGLE_ROW] = {"single-row", REGION_RULES_ROWS},
    [REGION_RULE_ROW_STATE] = {"row-state", REGION_RULES_ROWS},
    [REGION_RULE_ROW_CHANGING] = {"row-changing", REGION_RULES_ROWS},
    [REGION_RULE_ROW_BEYOND] = {"row-beyond", REGION_RULES_ROWS},
    [REGION_RULE_ROW_REUSED] = {"row-reused", REGION_RULES_ROWS},
    [REGION_RULE_ROW_REMOVED] = {"row-removed", REGION_RULES_ROWS},
    [REGION_RULE_ROW_LABEL] = {"row-label", REGION_RULES_ROWS},
    [REGION_RULE_ROW_TEXT] = {"row-text", REGION_RULES_ROWS},
    [REGION_RULE_BIRTH] = {"birth", REGION_RULES_VALUES},
    [REGION_RULE_RESET] = {"reset", REGION_RULES_VALUES},
    [REGION_RULE_STATE_VALUE] = {"state-value", REGION_RULES_VALUES},
};

const char *region_rule_name(enum region_rule rule) { return rules[rule].name; }

enum region_rules region_rule_group(enum region_rule rule) {
  return rules[rule].group;
}

const char *region_rules_name(enum region_rules group) {
  return groups[group].name;
}

const char *region_rules_about(enum region_rules group) {
  return groups[group].about;
}

bool region_breaks(struct region_fault *fault, enum region_rule rule,
                   const char *format, ...) {
  va_list arguments;
  *fault = (struct region_fault){.error = EPROTO, .rule = rule};
  va_start(arguments, format);
  vsnprintf(fault->text, sizeof(fault->text), format, arguments);
  va_end(arguments);
  errno = EPROTO;
  return false;
}

bool region_fails(struct region_fault *fault, int error, const char *text) {
  *fault = (struct region_fault){.error = error};
  snprintf(fault->text, sizeof(fault->text), "%s", text);
  errno = error;
  return false;
}

static void name_subject(char subject[REGION_SUBJECT_SIZE], const char *name,
                         uint32_t number) {
  if (region_name_is_valid(name, true))
    snprintf(subject, REGION_SUBJECT_SIZE, "%s", name);
  else
    snprintf(subject, REGION_SUBJECT_SIZE, "#%u", number);
}

bool region_blame_table(struct region_fault *fault, const char *name,
                        uint32_t number) {
  name_subject(fault->table, name, number);
  return false;
}

bool region_blame_field(struct region_fault *fault, const char *name,
                        uint32_t number) {
  name_subject(fault->field, name, number);
  return false;
}

void region_fault_text(const struct region_fault *fault,
                       char line[REGION_FAULT_LINE]) {
  bool table = fault->table[0] != '\0', field = fault->field[0] != '\0';
  snprintf(line, REGION_FAULT_LINE, "%s%s%s%s%s%s%s", table ? "table " : "",
           fault->table, table && field ? ", " : "", field ? "field " : "",
           fault->field, table || field ? ": " : "",
           fault->text[0] != '\0' ? fault->text : strerror(fault->error));
}
