#include "filter.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
  const char *text;
  enum wake_operator comparison;
} operators[] = {
    /* the longer ones first */
    {"==", WAKE_EQUAL},         {"!=", WAKE_NOT_EQUAL},
    {"<=", WAKE_LESS_OR_EQUAL}, {">=", WAKE_GREATER_OR_EQUAL},
    {"<", WAKE_LESS},           {">", WAKE_GREATER},
};
#define OPERATORS (sizeof(operators) / sizeof(operators[0]))

/* Copies without the blanks at both ends. False if nothing is left, or if it
 * does not fit. */
static bool copy_trimmed(char *out, size_t size, const char *text,
                         size_t length) {
  while (length > 0 && isspace((unsigned char)text[length - 1]))
    length--;
  while (length > 0 && isspace((unsigned char)*text))
    text++, length--;
  if (length == 0 || length >= size)
    return false;
  memcpy(out, text, length);
  out[length] = '\0';
  return true;
}

static bool to_number(double *number, const char *text) {
  char *end;
  *number = strtod(text, &end);
  return end != text && *end == '\0' && isfinite(*number);
}

int wake_filter_parse(struct wake_filter *filter, const char *text,
                      bool is_exclude, char why[WAKE_WHY_SIZE]) {
  *filter = (struct wake_filter){.is_exclude = is_exclude};
  const char *at = strpbrk(text, "=!<>");
  for (size_t i = 0; at != NULL && i < OPERATORS; i++) {
    size_t length = strlen(operators[i].text);
    if (strncmp(at, operators[i].text, length) != 0)
      continue;
    filter->comparison = operators[i].comparison;
    const char *value = at + length;
    if (!copy_trimmed(filter->column, sizeof(filter->column), text,
                      (size_t)(at - text)) ||
        !copy_trimmed(filter->text, sizeof(filter->text), value, strlen(value)))
      break;
    filter->is_number = to_number(&filter->number, filter->text);
    return 0;
  }
  snprintf(why, WAKE_WHY_SIZE,
           "'%.200s' is not a comparison: write COLUMN OPERATOR VALUE, such as "
           "'SilentTime > 100'; operators are == != < <= > >=",
           text);
  return -EINVAL;
}

static bool holds_for_number(enum wake_operator comparison, double a,
                             double b) {
  switch (comparison) {
  case WAKE_EQUAL:
    return a == b;
  case WAKE_NOT_EQUAL:
    return a != b;
  case WAKE_LESS:
    return a < b;
  case WAKE_LESS_OR_EQUAL:
    return a <= b;
  case WAKE_GREATER:
    return a > b;
  default:
    return a >= b;
  }
}

bool wake_filter_holds(const struct wake_filter *filter, const char *value) {
  double number;
  if (filter->is_number && to_number(&number, value))
    return holds_for_number(filter->comparison, number, filter->number);
  bool equal = strcmp(value, filter->text) == 0;
  return (filter->comparison == WAKE_EQUAL && equal) ||
         (filter->comparison == WAKE_NOT_EQUAL && !equal);
}
