/* load_print: a snapshot as a table for people and as JSON for scripts. */
#ifndef PERCORE_LOAD_PRINT_H
#define PERCORE_LOAD_PRINT_H

#include "cycles/figures.h"
#include "window.h"

#include <stdio.h>

/* Writes the table. If the window is too narrow, columns are left out, those of
 * least interest first; if it is too low, several cores share a line, and if
 * that is not enough, only the busiest cores are shown and a line says so.
 * Returns 0 or -ENOMEM. */
int load_table_write(FILE *out, const void *snapshot, struct window window);

/* The columns that window.sort can name, from 1. */
size_t load_table_columns(const void *snapshot);

/* Writes one document, one line. Returns 0 or -ENOMEM. */
int load_json_write(FILE *out, const void *snapshot);

#endif
