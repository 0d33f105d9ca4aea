#include "filter.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNEQUAL (WAKE_LESS | WAKE_GREATER)

/* "<=" precedes "<", and ">=" precedes ">", because the first match is used. */
static const struct {
  const char *text;
  int accepted;
} operators[] = {
    {"==", WAKE_EQUAL},
    {"!=", UNEQUAL},
    {"<=", WAKE_LESS | WAKE_EQUAL},
    {">=", WAKE_GREATER | WAKE_EQUAL},
    {"<", WAKE_LESS},
    {">", WAKE_GREATER},
};
#define OPERATORS (sizeof(operators) / sizeof(operators[0]))

/* Removes the quotes around a value. Returns false if a quote is missing, or if
 * a value without quotes contains an operator, as in "100 or SilentTime < 3".
 */
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

/* Copies text without the blanks at both ends. Returns false if nothing is left
 * or the text does not fit. */
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

bool wake_to_number(double *number, const char *text) {
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
    one->accepted = operators[i].accepted;
    if (after > length ||
        !copy_trimmed(one->column, sizeof(one->column), text, before) ||
        !copy_trimmed(one->text, sizeof(one->text), text + after,
                      length - after) ||
        !unquote(one->text))
      return false;
    one->is_number = wake_to_number(&one->number, one->text);
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

bool wake_comparison_holds(const struct wake_comparison *comparison,
                           const char *value) {
  double number, wanted = comparison->number;
  if (comparison->is_number && wake_to_number(&number, value))
    return (comparison->accepted & (number < wanted   ? WAKE_LESS
                                    : number > wanted ? WAKE_GREATER
                                                      : WAKE_EQUAL)) != 0;
  return comparison->accepted ==
         (strcmp(value, comparison->text) == 0 ? WAKE_EQUAL : UNEQUAL);
}
