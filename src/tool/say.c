/* What every subcommand says and hears in the same way. */
#include "percore_config.h"

#include "text.h"
#include "tool.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static void say(const char *command, const char *format, va_list arguments) {
  char line[1024], clean[sizeof(line) * TEXT_GROWTH];
  vsnprintf(line, sizeof(line), format, arguments);
  text_clean(clean, sizeof(clean), line, strlen(line));
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
  fprintf(stderr, "Try 'percore %s%s--help'.\n", command != NULL ? command : "",
          command != NULL ? " " : "");
  return TOOL_USAGE;
}

int say_text(const char *command, const char *text) {
  fputs(text, stdout);
  return flush_output(command) == 0 ? TOOL_OK : TOOL_FAILURE;
}

int say_version(void) { return say_text(NULL, PACKAGE_STRING "\n"); }

int flush_output(const char *command) {
  if (fflush(stdout) == 0 && !ferror(stdout))
    return 0;
  int error = errno != 0 ? errno : EIO;
  if (error != EPIPE)
    say_failure(command, "cannot write: %s", strerror(error));
  return -error;
}

/* ---------------------------------------------------------------------------
 * Being told to stop
 */

/* Lock-free, as a signal handler needs it. */
static atomic_bool stopped;

static void on_stop(int signal) {
  (void)signal;
  atomic_store(&stopped, true);
}

void stop_catch(void) {
  struct sigaction stop = {.sa_handler = on_stop};
  struct sigaction ignore = {.sa_handler = SIG_IGN};
  sigaction(SIGINT, &stop, NULL);
  sigaction(SIGTERM, &stop, NULL);
  sigaction(SIGHUP, &stop, NULL);
  sigaction(SIGPIPE, &ignore, NULL);
}

bool stop_requested(void) { return atomic_load(&stopped); }

const atomic_bool *stop_flag(void) { return &stopped; }

uint64_t monotonic_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
}

bool sleep_until_ns(uint64_t time_ns) {
  struct timespec time = {.tv_sec = (time_t)(time_ns / 1000000000),
                          .tv_nsec = (long)(time_ns % 1000000000)};
  while (!stop_requested())
    if (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) == 0)
      return true;
  return false;
}
