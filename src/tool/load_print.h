/* load_print: a snapshot as a table for people and as JSON for scripts. */
#ifndef PERCORE_LOAD_PRINT_H
#define PERCORE_LOAD_PRINT_H

#include "cycles/figures.h"
#include "window.h"

#include <stdio.h>

/* Writes the table. Where the window is too narrow, columns are left out,
 * those of least interest first; where it is too low, several cores share a
 * line, and if even that is not enough the busiest are shown and a line says
 * so. Returns 0 or -ENOMEM. */
int load_table_write(FILE *out, const struct snapshot *snapshot,
                     struct window window);

/* Writes one document, one line. Returns 0 or -ENOMEM. */
int load_json_write(FILE *out, const struct snapshot *snapshot);

#endif
