/* tool/ is percore(1): figures for people at a terminal, and JSON for scripts.
 *
 * One file per subcommand; main.c is the table of subcommands. This folder
 * shows what cycles/ and region/ report and must never measure a load by
 * itself, with one exception: compare.c shows methods that percore does not
 * use.
 *
 * Errors: functions of the folder return 0 or -errno and print nothing.
 * Functions that return an exit status have said what failed, why, and what to
 * do.
 */
#ifndef PERCORE_TOOL_H
#define PERCORE_TOOL_H

#include "arguments.h"
#include "cycles/engine.h"
#include "cycles/figures.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
  TOOL_OK = 0,
  TOOL_FAILURE = 1,
  TOOL_USAGE = 2, /* the command line is wrong */
};

extern const struct command load_command, regions_command, top_command,
    dump_command, reset_command, check_command, doctor_command;

/* ---------------------------------------------------------------------------
 * percore load
 */

struct load_options {
  double interval_s;     /* 0: not given */
  uint64_t count;        /* of tables; 0: no end */
  struct core_set cores; /* empty: all */
  const char *source, *denominator, *event;
  double base_frequency_hz;
  bool json, compare;
};

struct engine_options load_engine_options(const struct load_options *options,
                                          struct machine *machine,
                                          struct journal journal);
extern const struct figures_options load_figures;

/* Windows for minimum and maximum: a quarter of the interval, but not so short
 * that the 10 ms steps of /proc/stat would make the extremes, and not longer
 * than the plugin's. */
uint64_t load_sample_interval_ns(double interval_s);

/* Why there is nothing to show. */
#define LOAD_NO_SOURCE                                                         \
  "no source of loads works here: see 'percore doctor' for reasons and advice"

/* `percore load --compare`. */
int compare_run(const struct load_options *options, struct machine *machine);

/* `percore load -- COMMAND`. Returns the exit status of the command. */
int load_command_run(const struct load_options *options,
                     struct machine *machine, char **words);

/* ---------------------------------------------------------------------------
 * Messages, on stderr
 */

/* "percore load: <line>"; returns TOOL_FAILURE. */
int say_failure(const char *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The same, and how to get help; returns TOOL_USAGE. */
int say_usage(const char *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* How to get help; returns TOOL_USAGE. */
int say_try_help(const char *command);

/* Prints the version on stdout. Returns TOOL_OK or TOOL_FAILURE. */
int say_version(void);

/* Flushes stdout. Returns 0 if everything was written, -EPIPE if the reader has
 * gone, or -errno, already said on stderr. */
int flush_output(const char *command);

/* ---------------------------------------------------------------------------
 * Stopping
 *
 * stop_catch makes SIGINT, SIGTERM and SIGHUP a request to stop and SIGPIPE an
 * error of write(2), so that the terminal can be restored first.
 */

void stop_catch(void);
void stop_request(void);
bool stop_requested(void);
/* The same for engine_options.cancel. */
const atomic_bool *stop_flag(void);

/* Sleeps until a time of CLOCK_MONOTONIC; false if told to stop before. */
bool sleep_until_ns(uint64_t time_ns);
uint64_t monotonic_ns(void);

#endif
