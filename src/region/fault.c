/* fault.c: reports a broken rule or an errno, and writes it as one line. */
#include "percore_config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "fault.h"

const char *region_rule_name(enum region_rule rule) {
  static const char *const names[] = {"",
#define NAME(rule, name) name,
                                      REGION_RULE_LIST(NAME)
#undef NAME
  };
  return names[rule];
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

bool region_within(const struct region_limit *limits,
                   struct region_fault *fault) {
  const struct region_limit *limit = limits;
  while (limit->what != NULL && limit->value >= limit->least &&
         limit->value <= limit->most &&
         (limit->unit == 0 || limit->value % limit->unit == 0))
    limit++;
  if (limit->what == NULL)
    return true;
  if (limit->words != NULL)
    return region_breaks(fault, limit->rule,
                         "its %s is %" PRIu64 "; it must be %s", limit->what,
                         limit->value, limit->words);
  char to[32] = "", multiple[48] = "";
  if (limit->most != limit->least)
    snprintf(to, sizeof(to), " to %" PRIu64, limit->most);
  if (limit->unit != 0)
    snprintf(multiple, sizeof(multiple), " and a multiple of %" PRIu64,
             limit->unit);
  return region_breaks(fault, limit->rule,
                       "its %s is %" PRIu64 "; it must be %" PRIu64 "%s%s",
                       limit->what, limit->value, limit->least, to, multiple);
}

bool region_blame(char subject[REGION_SUBJECT_SIZE], const char *name,
                  uint32_t number) {
  if (region_name_is_valid(name, true))
    snprintf(subject, REGION_SUBJECT_SIZE, "%s", name);
  else
    snprintf(subject, REGION_SUBJECT_SIZE, "#%u", number);
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
