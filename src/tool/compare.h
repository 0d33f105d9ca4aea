/* compare: measures loads with every method over the same intervals, to show
 * what each method misses on this machine. */
#ifndef PERCORE_COMPARE_H
#define PERCORE_COMPARE_H

#include "cycles/engine.h"
#include "text.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define METHODS_MAX 16
#define WHY_SIZE 256

/* The loads that one method measured. */
struct comparison_method {
  const char *name; /* in JSON */
  char title[64];   /* in the table */
  /* Why the method could not measure any core; "" if it has measured at least
   * one core. */
  char why[WHY_SIZE];
  /* The loads as fractions, in the order of comparison.core; NAN if unknown. A
   * load may be below 0 or above 1. */
  double *load;
};

struct comparison {
  uint64_t time_ns;  /* CLOCK_REALTIME */
  double interval_s; /* as measured */
  double bracket_s;  /* how long it took to read all methods */
  size_t cores_len;
  int *core; /* core numbers, ascending */
  size_t methods_len;
  struct comparison_method method[METHODS_MAX];
};

/* Write a comparison as a table or as JSON. Return 0 or -ENOMEM. */
int comparison_table_write(FILE *out, const void *comparison,
                           struct screen screen);
int comparison_json_write(FILE *out, const void *comparison);

/* ---------------------------------------------------------------------------
 * Reading the methods (methods.c)
 */

struct methods;

/* Opens all methods, and tests (proves) the sources that are available, which
 * takes up to half a second for each source. `engine` contains the options of
 * percore's own method. Returns 0, or -errno as engine_open does. */
int methods_open(struct methods **methods, const struct engine_options *engine);
void methods_close(struct methods *methods);

/* Reads every method once, and sets *comparison to the loads since the previous
 * call. *comparison is valid until the next call. All loads are NAN in the
 * first call, because there is no previous call. Returns 0 or -errno. */
int methods_sample(struct methods *methods,
                   const struct comparison **comparison);

/* Repeats the tests of sources (proofs) that are due. */
void methods_prove(struct methods *methods);

#endif
