/* tool/ is percore(1): figures for people at a terminal, and JSON for scripts.
 *
 * One file per subcommand; main.c is the table of them. This folder reads what
 * cycles/ and region/ make known and must never measure a load by itself, with
 * one exception: compare.c shows what the methods measure that percore does not
 * use.
 */
#ifndef PERCORE_TOOL_H
#define PERCORE_TOOL_H

#include "cycles/engine.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
  TOOL_OK = 0,
  TOOL_FAILURE = 1,
  TOOL_USAGE = 2, /* the command line is wrong */
};

/* The subcommands, argv[0] being their name. They return one of the above. */
int load_main(int argc, char **argv);
int doctor_main(int argc, char **argv);
int regions_main(int argc, char **argv);
int top_main(int argc, char **argv);
int dump_main(int argc, char **argv);
int reset_main(int argc, char **argv);
int check_main(int argc, char **argv);
int clock_main(int argc, char **argv);
int soak_main(int argc, char **argv);

/* What was asked of `percore load`. */
struct load_options {
  double interval_s;
  uint64_t count;               /* of snapshots; 0: until it is told to stop */
  const struct core_set *cores; /* NULL: all */
  enum source source;
  const char *event;
  double base_frequency_hz;
  enum denominator denominator;
  bool json;
};

struct engine_options load_engine_options(const struct load_options *options,
                                          struct machine *machine,
                                          struct journal journal);

/* Why there is nothing to show. */
#define LOAD_NO_SOURCE                                                         \
  "no source of loads works here; 'percore doctor' says why and what would "   \
  "help"

/* `percore load --compare`. */
int compare_run(const struct load_options *options, struct machine *machine);

/* ---------------------------------------------------------------------------
 * Said to the user, on stderr
 */

/* "percore load: <line>"; returns TOOL_FAILURE. */
int say_failure(const char *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The same, with the way to the help; returns TOOL_USAGE. */
int say_usage(const char *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The way to the help alone; returns TOOL_USAGE. */
int say_try_help(const char *command);

/* Prints a text on stdout (the help, the version) and checks that it got
 * there. Returns TOOL_OK or TOOL_FAILURE. */
int say_text(const char *command, const char *text);
int say_version(void);

/* Flushes stdout. Returns 0 while all went well, -EPIPE if its reader has gone,
 * or -errno (then said on stderr). */
int flush_output(const char *command);

/* ---------------------------------------------------------------------------
 * Being told to stop
 *
 * stop_catch makes SIGINT, SIGTERM and SIGHUP a polite request and SIGPIPE an
 * error of write(2), so that a terminal can be put in order first.
 */

void stop_catch(void);
bool stop_requested(void);
/* The same for engine_options.cancel. */
const atomic_bool *stop_flag(void);

/* Sleeps until a time of CLOCK_MONOTONIC; false if told to stop before. */
bool sleep_until_ns(uint64_t time_ns);
uint64_t monotonic_ns(void);

#endif
