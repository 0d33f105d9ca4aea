/* load: what `percore load` shows, and how it is written. */
#ifndef PERCORE_LOAD_H
#define PERCORE_LOAD_H

#include "cycles/figures.h"
#include "cycles/machine.h"
#include "text.h"

#include <stdio.h>

/* Refuses --cores of which this machine can never have any. Returns TOOL_OK, or
 * another exit status after an error message. */
int load_check_cores(const char *command, struct core_set wanted,
                     const struct machine *machine);

/* ---------------------------------------------------------------------------
 * Writing a struct load_page. The functions return 0 or -ENOMEM.
 */

struct load_page {
  const struct snapshot *snapshot;
  bool time;         /* show user, system, irq and softirq time */
  const char *below; /* lines below the table, or NULL */
};

/* Writes a table that fits the screen. In a narrow screen, the columns of least
 * interest are left out. In a screen with few lines, several cores share a
 * line; if not all cores fit even then, only the busiest are shown, and a line
 * says how many. */
int load_table_write(FILE *out, const void *page, struct screen screen);

/* Returns the order after an order, or the one before it: the number of a
 * column that is shown, or 0, the order of the cores. */
size_t load_table_order(const void *page, size_t order, bool forwards);

/* Writes the snapshot as one JSON document. */
int load_json_write(FILE *out, const void *page);

#endif
