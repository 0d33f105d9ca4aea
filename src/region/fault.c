#include "percore_config.h"

#include <errno.h>
#include <inttypes.h>
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
} rules[REGION_RULE_COUNT] = {[REGION_NO_RULE] = {"", REGION_RULES_HANDOVER},
#define ENTRY(rule, name, group)                                               \
  [REGION_RULE_##rule] = {name, REGION_RULES_##group},
                              REGION_RULE_LIST(ENTRY)
#undef ENTRY
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
  region_fails(fault, EPROTO, "");
  fault->rule = rule;
  va_start(arguments, format);
  vsnprintf(fault->text, sizeof(fault->text), format, arguments);
  va_end(arguments);
  return false;
}

bool region_fails(struct region_fault *fault, int error, const char *text) {
  *fault = (struct region_fault){.error = error};
  snprintf(fault->text, sizeof(fault->text), "%s", text);
  errno = error;
  return false;
}

bool region_exceeds(struct region_fault *fault, int error, const char *what,
                    uint64_t bytes, uint64_t most) {
  region_fails(fault, error, "");
  snprintf(fault->text, sizeof(fault->text),
           "%s %" PRIu64 " bytes, and at most %" PRIu64 " are allowed", what,
           bytes, most);
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
