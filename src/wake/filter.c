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
    /* longer operators first */
    {"==", WAKE_EQUAL},         {"!=", WAKE_NOT_EQUAL},
    {"<=", WAKE_LESS_OR_EQUAL}, {">=", WAKE_GREATER_OR_EQUAL},
    {"<", WAKE_LESS},           {">", WAKE_GREATER},
};
#define OPERATORS (sizeof(operators) / sizeof(operators[0]))

/* Takes the quotes off a value, or refuses a value that contains an operator,
 * as in "100 or SilentTime < 3". */
static bool unquote(char *text) {
  size_t length = strlen(text);
  if (text[0] != '"' && text[0] != '\'')
    return strpbrk(text, "=!<>") == NULL;
  if (length < 2 || text[length - 1] != text[0])
    return false;
  memmove(text, text + 1, length - 2);
  text[length - 2] = '\0';
  return true;
}

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

static bool parse_one(struct wake_comparison *one, const char *text,
                      size_t length) {
  size_t before = strcspn(text, "=!<>");
  for (size_t i = 0; before < length && i < OPERATORS; i++) {
    size_t operator_length = strlen(operators[i].text);
    if (strncmp(text + before, operators[i].text, operator_length) != 0)
      continue;
    size_t after = before + operator_length;
    one->comparison = operators[i].comparison;
    if (after > length ||
        !copy_trimmed(one->column, sizeof(one->column), text, before) ||
        !copy_trimmed(one->text, sizeof(one->text), text + after,
                      length - after) ||
        !unquote(one->text))
      return false;
    one->is_number = to_number(&one->number, one->text);
    return true;
  }
  return false;
}

int wake_filter_parse(struct wake_filter *filter, const char *text,
                      char why[WAKE_WHY_SIZE]) {
  const char *rest = text;
  *filter = (struct wake_filter){.len = 0};
  while (filter->len < WAKE_COMPARISONS_MAX) {
    const char *and = strstr(rest, " and ");
    size_t length = and != NULL ? (size_t)(and-rest) : strlen(rest);
    if (!parse_one(&filter->list[filter->len], rest, length))
      break;
    filter->len++;
    if (and == NULL)
      return 0;
    rest = and+strlen(" and ");
  }
  snprintf(why, WAKE_WHY_SIZE,
           "'%.200s' is not a comparison: write COLUMN OPERATOR VALUE, such as "
           "'SilentTime > 100'; operators are == != < <= > >=; only 'and' "
           "joins comparisons, at most %d",
           text, WAKE_COMPARISONS_MAX);
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

bool wake_comparison_holds(const struct wake_comparison *comparison,
                           const char *value) {
  double number;
  if (comparison->is_number && to_number(&number, value))
    return holds_for_number(comparison->comparison, number, comparison->number);
  bool equal = strcmp(value, comparison->text) == 0;
  return (comparison->comparison == WAKE_EQUAL && equal) ||
         (comparison->comparison == WAKE_NOT_EQUAL && !equal);
}
