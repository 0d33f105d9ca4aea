/* arguments: describes a subcommand and its options in one table, which is used
 * to parse the command line and to print --help, which shells complete from. */
#ifndef PERCORE_ARGUMENTS_H
#define PERCORE_ARGUMENTS_H

#include <stddef.h>
#include <stdio.h>

struct machine;

enum argument_type {
  ARGUMENT_FLAG,   /* bool */
  ARGUMENT_TEXT,   /* const char *; one of the choices, if there are any */
  ARGUMENT_NUMBER, /* double, from min to max */
  ARGUMENT_WHOLE,  /* uint64_t, a whole number from min to max */
  ARGUMENT_CORES,  /* struct core_set, not empty */
};

struct argument {
  char letter;
  const char *name;
  enum argument_type type;
  /* what --help calls the value, such as "N"; NULL for a flag */
  const char *value;
  const char *help;
  size_t offset; /* offset of the value in the struct of options */
  double min, max;
  const char *(*choice)(int i); /* returns choice i, or NULL after the last */
};

struct command {
  const char *name;
  const char *summary; /* one line for percore --help */
  const char *usage;   /* follows the name in --help: "REGION [OPTION]..." */
  const char *about;   /* a paragraph for --help */
  const struct argument *arguments;
  size_t arguments_len;
  const void *defaults; /* a struct of options, in which the others are set */
  size_t options_size;
  int words_max; /* arguments other than options: 0 or 1 */
  /* Runs the subcommand on this machine. `word` is its argument, or NULL.
   * Returns the exit status. */
  int (*run)(void *options, const char *word, struct machine *machine);
};

#define ARGUMENTS(table) (table), sizeof(table) / sizeof((table)[0])

/* Initializes the defaults of a command: those of struct TYPE that are not 0.
 */
#define DEFAULTS(type, ...)                                                    \
  .defaults = &(const struct type){__VA_ARGS__},                               \
  .options_size = sizeof(struct type)

/* Initializes an option that sets `member` of the struct `options`.
 * Initializers of other members of struct argument, such as .min, may follow.
 */
#define ARGUMENT(options, member, option_letter, option_name, option_type,     \
                 value_name, text, ...)                                        \
  {                                                                            \
    .letter = option_letter, .name = option_name, .type = option_type,         \
    .value = value_name, .help = text, .offset = offsetof(options, member),    \
    __VA_ARGS__                                                                \
  }

/* Options shared by several subcommands. */
#define ARGUMENT_JSON(options)                                                 \
  ARGUMENT(options, json, 'j', "json", ARGUMENT_FLAG, NULL,                    \
           "print JSON, one document per line, instead of text")
#define INTERVAL_DEFAULT_S 2.0
#define ARGUMENT_INTERVAL(options)                                             \
  ARGUMENT(options, interval_s, 'i', "interval", ARGUMENT_NUMBER, "SECONDS",   \
           "time between two tables, 0.1 to 3600 (default 2)", .min = 0.1,     \
           .max = 3600)
#define ARGUMENT_COUNT(options)                                                \
  ARGUMENT(options, count, 'n', "count", ARGUMENT_WHOLE, "N",                  \
           "end after N tables", .min = 1, .max = 1e15)

/* Parses the options into *options, and leaves the other arguments in
 * argv[optind] to argv[argc - 1]. Returns -1 if the command should run,
 * otherwise the exit status (after --help, --version, or an error message). */
int arguments_read(const struct command *command, int argc, char **argv,
                   void *options);

/* Prints `left` in a column of `left_width` characters, and `right` next to it,
 * wrapped at the end of the line. */
void arguments_print_row(FILE *out, const char *left, int left_width,
                         const char *right);

#endif
