#include "arguments.h"

#include "base/core_set.h"
#include "text.h"
#include "tool.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define HELP_WIDTH 79
#define OPTION_WIDTH 22 /* "-i, --interval SECONDS" */

static const struct argument common[] = {
    {.letter = 'h', .name = "help", .help = "print this help"},
    {.letter = 'V', .name = "version", .help = "print the version"},
};
#define COMMON (sizeof(common) / sizeof(common[0]))

/* Returns option i of the command, or NULL after the last option. The common
 * options (--help, --version) follow the command's own options. */
static const struct argument *argument_at(const struct command *command,
                                          size_t i) {
  if (i < command->arguments_len)
    return &command->arguments[i];
  i -= command->arguments_len;
  return i < COMMON ? &common[i] : NULL;
}

static const struct argument *find_letter(const struct command *command,
                                          int letter) {
  const struct argument *argument;
  for (size_t i = 0; (argument = argument_at(command, i)) != NULL; i++)
    if (argument->letter == letter)
      return argument;
  return NULL;
}

/* ---------------------------------------------------------------------------
 * Help
 */

void arguments_print_row(FILE *out, const char *left, int left_width,
                         const char *right) {
  fprintf(out, "  %-*s  ", left_width, left);
  text_wrap(out, right, left_width + 4, HELP_WIDTH);
}

/* Writes the choices of an option to `text`, such as "auto, mperf or idle". */
static void list_choices(char *text, size_t size,
                         const struct argument *argument) {
  text[0] = '\0';
  for (int i = 0; argument->choice(i) != NULL; i++)
    text_append(text, size, argument->choice(i + 1) != NULL ? ", " : " or ",
                argument->choice(i));
}

static int print_help(const struct command *command) {
  char left[64], right[512], choices[256];
  const struct argument *argument;
  printf("Usage: percore %s %s\n", command->name, command->usage);
  text_wrap(stdout, command->about, 0, HELP_WIDTH);
  fputc('\n', stdout);
  for (size_t i = 0; (argument = argument_at(command, i)) != NULL; i++) {
    snprintf(left, sizeof(left), "-%c, --%s%s%s", argument->letter,
             argument->name, argument->value != NULL ? " " : "",
             argument->value != NULL ? argument->value : "");
    snprintf(right, sizeof(right), "%s", argument->help);
    if (argument->choice != NULL) {
      list_choices(choices, sizeof(choices), argument);
      snprintf(right, sizeof(right), "%s: %s", argument->help, choices);
    }
    arguments_print_row(stdout, left, OPTION_WIDTH, right);
  }
  return end_output(command->name);
}

/* ---------------------------------------------------------------------------
 * Values
 */

static int take_number(const char *command, const struct argument *argument,
                       const char *text, void *into) {
  bool is_whole = argument->type == ARGUMENT_WHOLE;
  char *end;
  errno = 0;
  double value = strtod(text, &end);
  bool is_valid = errno == 0 && end != text && *end == '\0' &&
                  value >= argument->min && value <= argument->max &&
                  (!is_whole || value == floor(value));
  if (!is_valid)
    return say_usage(command,
                     "--%s: '%s' is not a %snumber from %.15g to %.15g",
                     argument->name, text, is_whole ? "whole " : "",
                     argument->min, argument->max);
  if (is_whole)
    *(uint64_t *)into = (uint64_t)value;
  else
    *(double *)into = value;
  return TOOL_OK;
}

static int take_choice(const char *command, const struct argument *argument,
                       const char *text, const char **into) {
  char choices[256];
  *into = text;
  if (argument->choice == NULL)
    return TOOL_OK;
  for (int i = 0; argument->choice(i) != NULL; i++)
    if (strcmp(argument->choice(i), text) == 0)
      return TOOL_OK;
  list_choices(choices, sizeof(choices), argument);
  return say_usage(command, "--%s: '%s' is unknown; choose %s", argument->name,
                   text, choices);
}

static int take_cores(const char *command, const struct argument *argument,
                      const char *text, struct core_set *cores) {
  if (core_set_parse(cores, text) == 0 && core_set_count(cores) > 0)
    return TOOL_OK;
  return say_usage(command,
                   "--%s: '%s' is not a list of cores from 0 to %d in rising "
                   "order, such as 0-3,8",
                   argument->name, text, CORES_MAX - 1);
}

static int take(const char *command, const struct argument *argument,
                const char *text, void *options) {
  void *into = (char *)options + argument->offset;
  switch (argument->type) {
  case ARGUMENT_FLAG:
    *(bool *)into = true;
    return TOOL_OK;
  case ARGUMENT_TEXT:
    return take_choice(command, argument, text, into);
  case ARGUMENT_NUMBER:
  case ARGUMENT_WHOLE:
    return take_number(command, argument, text, into);
  case ARGUMENT_CORES:
    return take_cores(command, argument, text, into);
  }
  return TOOL_USAGE;
}

/* ---------------------------------------------------------------------------
 * The command line
 */

#define OPTIONS_MAX 24
struct getopt_tables {
  char letters[2 * OPTIONS_MAX + 2];
  struct option options[OPTIONS_MAX + 1];
};

static void make_tables(struct getopt_tables *tables,
                        const struct command *command) {
  const struct argument *argument;
  size_t used = 1;
  *tables = (struct getopt_tables){.letters = ":"};
  for (size_t i = 0;
       i < OPTIONS_MAX && (argument = argument_at(command, i)) != NULL; i++) {
    bool wants_value = argument->type != ARGUMENT_FLAG;
    tables->letters[used++] = argument->letter;
    if (wants_value)
      tables->letters[used++] = ':';
    tables->options[i] = (struct option){
        argument->name, wants_value ? required_argument : no_argument, NULL,
        argument->letter};
  }
}

/* getopt names an unknown letter, but not an unknown word. */
static int refuse(const struct command *command, bool lacks_value,
                  const char *word) {
  const char letter[] = {'-', (char)optopt, '\0'};
  if (lacks_value)
    return say_usage(command->name, "option '%s' needs a value", word);
  return say_usage(command->name, "option '%s' is unknown or takes no value",
                   optopt != 0 ? letter : word);
}

int arguments_read(const struct command *command, int argc, char **argv,
                   void *options) {
  struct getopt_tables tables;
  make_tables(&tables, command);
  opterr = 0; /* its messages would contain what a terminal obeys */
  for (int letter; (letter = getopt_long(argc, argv, tables.letters,
                                         tables.options, NULL)) != -1;) {
    if (letter == 'h')
      return print_help(command);
    if (letter == 'V')
      return say_version();
    if (letter == '?' || letter == ':')
      return refuse(command, letter == ':', argv[optind - 1]);
    int status =
        take(command->name, find_letter(command, letter), optarg, options);
    if (status != TOOL_OK)
      return status;
  }
  if (optind + command->words_max < argc)
    return say_usage(command->name, "unexpected argument '%s'",
                     argv[optind + command->words_max]);
  return -1;
}
