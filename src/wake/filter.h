/* filter: chooses datapoints by comparisons such as "SilentTime > 100" or
 * "ReqCState == C6 and SilentTime > 100". */
#ifndef PERCORE_WAKE_FILTER_H
#define PERCORE_WAKE_FILTER_H

#include "wake.h"

/* Parses a finite number. Returns false if the text is anything else. */
bool wake_to_number(double *number, const char *text);

/* The possible results of comparing two values. */
enum wake_order { WAKE_LESS = 1, WAKE_EQUAL = 2, WAKE_GREATER = 4 };

struct wake_comparison {
  char column[64];
  int accepted;   /* bit mask of the results for which the comparison holds */
  char text[64];  /* the value to compare with */
  bool is_number; /* `text` is a number */
  double number;
};

#define WAKE_COMPARISONS_MAX 8

/* Comparisons that must all hold. */
struct wake_filter {
  struct wake_comparison list[WAKE_COMPARISONS_MAX];
  size_t len;
};

/* Parses comparisons of the form COLUMN OPERATOR VALUE, joined by "and". The
 * operators are == != < <= > >=. A value may be in quotes. Returns 0 or
 * -EINVAL.
 */
int wake_filter_parse(struct wake_filter *filter, const char *text,
                      char why[WAKE_WHY_SIZE]);

/* True if the comparison holds for `value`, which is from the column of the
 * comparison. If either of the two compared values is not a number, only == and
 * != can hold. */
bool wake_comparison_holds(const struct wake_comparison *comparison,
                           const char *value);

#endif
