/* filter: chooses datapoints by comparisons such as "SilentTime > 100" or
 * "ReqCState == C6 and SilentTime > 100". */
#ifndef PERCORE_WAKE_FILTER_H
#define PERCORE_WAKE_FILTER_H

#include "wake.h"

enum wake_operator {
  WAKE_EQUAL,
  WAKE_NOT_EQUAL,
  WAKE_LESS,
  WAKE_LESS_OR_EQUAL,
  WAKE_GREATER,
  WAKE_GREATER_OR_EQUAL
};

/* One comparison. */
struct wake_comparison {
  char column[64];
  enum wake_operator comparison;
  char text[64];  /* the value to compare with */
  bool is_number; /* text is a number */
  double number;
};

#define WAKE_COMPARISONS_MAX 8

/* Comparisons that must all hold. A filter without comparisons always holds. */
struct wake_filter {
  struct wake_comparison list[WAKE_COMPARISONS_MAX];
  size_t len;
};

/* Parses COLUMN OPERATOR VALUE, and more of these after "and". The operators
 * are == != < <= > >=. A value may be in quotes. Returns 0 or -EINVAL. */
int wake_filter_parse(struct wake_filter *filter, const char *text,
                      char why[WAKE_WHY_SIZE]);

/* True if the comparison holds for a value of its column. For text, only == and
 * != can hold. */
bool wake_comparison_holds(const struct wake_comparison *comparison,
                           const char *value);

#endif
