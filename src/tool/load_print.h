/* load_print: a snapshot as a table for people and as JSON for scripts. */
#ifndef PERCORE_LOAD_PRINT_H
#define PERCORE_LOAD_PRINT_H

#include "cycles/figures.h"
#include "window.h"

#include <stdio.h>

/* Writes the table. If the window is too narrow, the least interesting columns
 * are left out first. If it is too low, several cores share a line; if that is
 * not enough, only the busiest cores are shown, and a line says so. Returns 0
 * or -ENOMEM. */
int load_table_write(FILE *out, const struct snapshot *snapshot,
                     struct window window);

/* How many columns window.sort can name, from 1 on. */
size_t load_table_columns(void);

/* Writes one document on one line. Returns 0 or -ENOMEM. */
int load_json_write(FILE *out, const struct snapshot *snapshot);

#endif
