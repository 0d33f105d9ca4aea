#include "arguments.h"

#include "tool.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define INTERVAL_LEAST_S 0.1
#define INTERVAL_MOST_S 3600.0
#define COUNT_MOST 1e15

/* The letters of getopt: each option's own, a colon behind those that want an
 * argument. */
#define LETTERS_SIZE 64
static void list_letters(char letters[LETTERS_SIZE],
                         const struct option *options) {
  size_t used = 0;
  for (; options->name != NULL && used + 3 <= LETTERS_SIZE; options++) {
    letters[used++] = (char)options->val;
    if (options->has_arg == required_argument)
      letters[used++] = ':';
  }
  letters[used] = '\0';
}

static int take(const struct arguments *arguments, int option, void *into) {
  switch (option) {
  case 'h':
    return say_text(arguments->command, arguments->help);
  case 'V':
    return say_version();
  case '?': /* getopt has said what is wrong */
    return say_try_help(arguments->command);
  default:
    return arguments->take(option, optarg, into);
  }
}

int arguments_read(const struct arguments *arguments, int argc, char **argv,
                   void *into) {
  static char name[32]; /* for getopt's messages */
  char letters[LETTERS_SIZE];
  list_letters(letters, arguments->options);
  snprintf(name, sizeof(name), "percore %s", arguments->command);
  argv[0] = name;
  for (int option; (option = getopt_long(argc, argv, letters,
                                         arguments->options, NULL)) != -1;) {
    int status = take(arguments, option, into);
    if (status != TOOL_OK || option == 'h' || option == 'V')
      return status;
  }
  if (optind < argc && !arguments->takes_words)
    return say_usage(arguments->command, "'%s' is not an option", argv[optind]);
  return -1;
}

static int take_json(int option, const char *text, void *into) {
  (void)option, (void)text;
  *(bool *)into = true;
  return TOOL_OK;
}

int arguments_json(const char *command, const char *help, int argc, char **argv,
                   bool *json) {
  static const struct option options[] = {{"json", no_argument, NULL, 'j'},
                                          ARGUMENTS_END};
  const struct arguments arguments = {
      .command = command, .help = help, .options = options, .take = take_json};
  *json = false;
  return arguments_read(&arguments, argc, argv, json);
}

int arguments_region(const char *command, int argc, char **argv,
                     const char **region) {
  if (optind >= argc)
    return say_usage(command, "which region? 'percore regions' lists them");
  if (optind + 1 < argc)
    return say_usage(command, "unexpected argument '%s': give one region",
                     argv[optind + 1]);
  *region = argv[optind];
  return -1;
}

/* ---------------------------------------------------------------------------
 * Numbers
 */

bool arguments_number(const char *text, double least, double most,
                      double *value) {
  char *end;
  errno = 0;
  *value = strtod(text, &end);
  return errno == 0 && end != text && *end == '\0' && isfinite(*value) &&
         *value >= least && *value <= most;
}

bool arguments_whole(const char *text, double most, uint64_t *value) {
  double number;
  if (!arguments_number(text, 1, most, &number) || number != floor(number))
    return false;
  *value = (uint64_t)number;
  return true;
}

int arguments_interval(const char *command, const char *text,
                       double *interval_s) {
  if (arguments_number(text, INTERVAL_LEAST_S, INTERVAL_MOST_S, interval_s))
    return TOOL_OK;
  return say_usage(command, "--interval wants %g to %g seconds, not '%s'",
                   INTERVAL_LEAST_S, INTERVAL_MOST_S, text);
}

int arguments_count(const char *command, const char *text, uint64_t *count) {
  if (arguments_whole(text, COUNT_MOST, count))
    return TOOL_OK;
  return say_usage(command, "--count wants a whole number from 1, not '%s'",
                   text);
}
