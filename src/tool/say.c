/* Messages, stopping and waiting, for all subcommands. */
#include "percore_config.h"

#include "base/clock.h"
#include "text.h"
#include "tool.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static void say(const char *command, const char *format, va_list arguments) {
  char line[1024], clean[sizeof(line) * TEXT_GROWTH];
  vsnprintf(line, sizeof(line), format, arguments);
  text_clean_string(clean, sizeof(clean), line);
  fprintf(stderr, "percore%s%s: %s\n", command != NULL ? " " : "",
          command != NULL ? command : "", clean);
}

int say_failure(const char *command, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  say(command, format, arguments);
  va_end(arguments);
  return TOOL_FAILURE;
}

int say_usage(const char *command, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  say(command, format, arguments);
  va_end(arguments);
  fprintf(stderr, "Try 'percore%s%s --help'.\n", command != NULL ? " " : "",
          command != NULL ? command : "");
  return TOOL_USAGE;
}

int say_version(void) {
  puts(PACKAGE_STRING);
  return end_output(NULL);
}

int flush_output(const char *command) {
  if (fflush(stdout) == 0 && !ferror(stdout))
    return 0;
  int error = errno != 0 ? errno : EIO;
  if (error != EPIPE)
    say_failure(command, "cannot write: %s", strerror(error));
  return -error;
}

int end_output(const char *command) {
  int status = flush_output(command);
  return status == 0 || status == -EPIPE ? TOOL_OK : TOOL_FAILURE;
}

/* ---------------------------------------------------------------------------
 * Stopping
 */

static atomic_bool stopped; /* lock-free, so a signal handler may set it */

void stop_request(void) { atomic_store(&stopped, true); }

static void on_stop(int signal) {
  (void)signal;
  stop_request();
}

void stop_catch(void) {
  static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
  /* A page that is being written is written to its end. */
  struct sigaction stop = {.sa_handler = on_stop, .sa_flags = SA_RESTART},
                   before;
  for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
    if (sigaction(signals[i], NULL, &before) == 0 &&
        before.sa_handler != SIG_IGN)
      sigaction(signals[i], &stop, NULL);
}

bool stop_requested(void) { return atomic_load(&stopped); }

const atomic_bool *stop_flag(void) { return &stopped; }

uint64_t monotonic_ns(void) { return clock_now_ns(CLOCK_MONOTONIC); }

/* Sleeps in slices, because a signal that arrives between the test of the flag
 * and the sleep does not end the sleep. */
#define SLICE_NS UINT64_C(50000000)

bool sleep_until_ns(uint64_t time_ns) {
  uint64_t now_ns;
  while ((now_ns = monotonic_ns()) < time_ns) {
    uint64_t left_ns = time_ns - now_ns;
    struct timespec slice =
        timespec_of_ns(left_ns < SLICE_NS ? left_ns : SLICE_NS);
    if (stop_requested())
      return false;
    nanosleep(&slice, NULL);
  }
  return !stop_requested();
}
