/* load: shared by the two ways of running `percore load`: live, and with
 * -- COMMAND. */
#ifndef PERCORE_LOAD_H
#define PERCORE_LOAD_H

#include "cycles/engine.h"
#include "cycles/figures.h"
#include "text.h"

#include <stdio.h>

struct load_options {
  double interval_s;     /* 0 if not given */
  uint64_t count;        /* number of tables; 0: no limit */
  struct core_set cores; /* empty: all */
  const char *source, *event;
  double base_frequency_hz;
  bool json, compare, publish, time;
  bool all; /* percore without a command: regions and the doctor's line, too */
};

struct engine_options load_engine_options(const struct load_options *options,
                                          struct machine *machine,
                                          struct journal journal);
enum journal_level load_journal_level(const struct load_options *options);

/* Refuses --cores of which this machine can never have any. Returns TOOL_OK, or
 * another exit status after an error message. */
int load_check_cores(const char *command, struct core_set wanted,
                     const struct machine *machine);

/* Returns the length of the windows from which the minimum and the maximum load
 * are taken: a quarter of the interval, but long enough that the 10 ms steps of
 * /proc/stat do not dominate the extremes, and no longer than the plugin's
 * windows. */
uint64_t load_sample_interval_ns(double interval_s);

/* The message if no load can be measured. */
#define LOAD_NO_SOURCE                                                         \
  "no source of loads works here: see 'percore doctor' for reasons and advice"

/* Runs `percore load -- COMMAND`. `words` are the command and its arguments.
 * Returns the exit status of the command, or an exit status of percore if the
 * command did not run. */
int load_command_run(const struct load_options *options,
                     struct machine *machine, char **words);

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

/* Write the loads by every method (--compare). */
int compare_table_write(FILE *out, const void *page, struct screen screen);
int compare_json_write(FILE *out, const void *page);

#endif
