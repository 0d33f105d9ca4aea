/* filter: which datapoints are taken: comparisons such as "SilentTime > 100" or
 * "ReqCState == C6". */
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

struct wake_filter {
  char column[64];
  enum wake_operator comparison;
  char text[64];  /* what is compared with */
  bool is_number; /* text is a number */
  double number;
  bool is_exclude; /* what it is true of is left out */
};

/* Reads COLUMN OPERATOR VALUE; the operators are == != < <= > >=. Returns 0 or
 * -EINVAL. */
int wake_filter_parse(struct wake_filter *filter, const char *text,
                      bool is_exclude, char why[WAKE_WHY_SIZE]);

/* True if the comparison holds for a value of its column. Texts are equal or
 * not; an order of texts never holds. */
bool wake_filter_holds(const struct wake_filter *filter, const char *value);

#endif
