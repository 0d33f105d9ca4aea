/* compare: every method of measuring a load side by side, over the same
 * windows, so that anyone can see on their own machine which of them miss what.
 */
#ifndef PERCORE_COMPARE_H
#define PERCORE_COMPARE_H

#include "cycles/engine.h"
#include "window.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define METHODS_MAX 16
#define WHY_SIZE 256

/* What one method says of all cores. */
struct comparison_method {
  const char *name;   /* in JSON */
  char title[64];     /* in the table */
  char why[WHY_SIZE]; /* why it has no value for any core; "" if it has */
  double *load;       /* by position in comparison.core[]; NAN: no value. May be
                         beyond 0 to 1: these methods are shown as they are. */
};

struct comparison {
  uint64_t time_ns;  /* CLOCK_REALTIME */
  double interval_s; /* measured */
  double bracket_s;  /* between the first and the last method's reading */
  size_t cores_len;
  int *core; /* core numbers, rising */
  size_t methods_len;
  struct comparison_method method[METHODS_MAX];
};

/* Return 0 or -ENOMEM. The table keeps within the window as load_table_write
 * does. */
int comparison_table_write(FILE *out, const struct comparison *comparison,
                           struct window window);
int comparison_json_write(FILE *out, const struct comparison *comparison);

/* ---------------------------------------------------------------------------
 * Reading them (methods.c)
 */

struct methods;

/* Opens what can be opened and proves the sources, which takes up to half a
 * second for each; `engine` is what percore's own row is made of. Returns 0 or
 * -errno as engine_open. */
int methods_open(struct methods **methods, const struct engine_options *engine);
void methods_close(struct methods *methods);

/* Reads every method once. What lies between this and the last call is then in
 * the comparison, which lives until the next call. The first one has no
 * values. Returns 0 or -errno. */
int methods_sample(struct methods *methods,
                   const struct comparison **comparison);

/* Runs the proofs that have become due. */
void methods_prove(struct methods *methods);

/* Does percore's own row have a value for any core? */
bool methods_have_load(const struct methods *methods);

#endif
