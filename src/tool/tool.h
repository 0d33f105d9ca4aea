/* tool/ is percore(1): figures for people at a terminal, and JSON for scripts.
 * Each subcommand is in a file of the same name; main.c contains the table of
 * subcommands. This folder shows what other folders measure. Functions that
 * return 0 or -errno print nothing, unless their comment says otherwise. A
 * function that returns an exit status other than TOOL_OK has printed what
 * failed, why, and what to do. */
#ifndef PERCORE_TOOL_H
#define PERCORE_TOOL_H

#include "arguments.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
  TOOL_OK = 0,
  TOOL_FAILURE = 1,
  TOOL_USAGE = 2, /* the command line is wrong */
};

extern const struct command load_command, pick_command, regions_command,
    top_command, wake_command, clock_command, doctor_command;

/* percore without a command: the loads as percore load shows them, on a
 * terminal live, otherwise once; below them the regions, and the first line of
 * percore doctor. */
extern const struct command all_command;

/* ---------------------------------------------------------------------------
 * Messages, on stderr
 */

/* Prints a message such as "percore load: cannot read loads". Returns
 * TOOL_FAILURE. */
int say_failure(const char *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Prints a message as say_failure does, and then how to get help. Returns
 * TOOL_USAGE. */
int say_usage(const char *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Prints the version to stdout. Returns TOOL_OK or TOOL_FAILURE. */
int say_version(void);

/* Flushes stdout. Returns 0 if everything was written, -EPIPE if the output was
 * closed, or another -errno after printing it on stderr. */
int flush_output(const char *command);

/* Flushes stdout at the end of a command. Returns its exit status: TOOL_OK also
 * if the output was closed, as by head(1). */
int end_output(const char *command);

/* ---------------------------------------------------------------------------
 * Stopping
 *
 * stop_catch turns SIGINT, SIGTERM and SIGHUP, unless percore was started with
 * them ignored, into a request to stop, so that percore can restore the
 * terminal before it ends.
 */

void stop_catch(void);
void stop_request(void);
bool stop_requested(void);
/* Returns the flag that a request to stop sets, for engine_options.cancel. */
const atomic_bool *stop_flag(void);

/* Sleeps until `time_ns` of CLOCK_MONOTONIC. Returns false if a request to stop
 * ended the sleep. */
bool sleep_until_ns(uint64_t time_ns);
uint64_t monotonic_ns(void);

#endif
