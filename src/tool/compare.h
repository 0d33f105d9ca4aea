/* compare: loads by every method over the same intervals, to show what each
 * method misses on this machine. */
#ifndef PERCORE_COMPARE_H
#define PERCORE_COMPARE_H

#include "cycles/engine.h"
#include "text.h"

#include <stdio.h>

struct comparison;

/* Opens all methods, and tests (proves) percore's source. `percore` contains
 * the options of percore's own method. Returns 0, or -errno as engine_open
 * does. */
int comparison_open(struct comparison **comparison,
                    const struct engine_options *percore);
void comparison_close(struct comparison *comparison);

/* Reads every method. The loads are those since the previous call, and unknown
 * after the first call. Returns 0 or -errno. */
int comparison_read(struct comparison *comparison);

/* Write a struct comparison. Return 0 or -ENOMEM. */
int comparison_table_write(FILE *out, const void *comparison,
                           struct screen screen);
int comparison_json_write(FILE *out, const void *comparison);

#endif
