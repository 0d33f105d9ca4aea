/* arguments: what the command lines of all subcommands have in common. */
#ifndef PERCORE_ARGUMENTS_H
#define PERCORE_ARGUMENTS_H

#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>

struct arguments {
  const char *command;
  const char *help; /* printed by --help */
  /* Each with a letter of its own; ends with ARGUMENTS_END. */
  const struct option *options;
  /* Takes one option, `text` being its argument. Returns TOOL_OK, or the exit
   * code after saying what is wrong. */
  int (*take)(int option, const char *text, void *into);
  bool takes_words; /* beside options, such as the name of a region */
};

/* The options that every subcommand has. */
#define ARGUMENTS_END                                                          \
  {"help", no_argument, NULL, 'h'}, {"version", no_argument, NULL, 'V'}, {     \
    NULL, 0, NULL, 0                                                           \
  }

/* Reads the options; the words are then argv[optind] to argv[argc - 1]. Returns
 * -1 if the command is to be carried out, else the exit code. */
int arguments_read(const struct arguments *arguments, int argc, char **argv,
                   void *into);

/* For commands with no option of their own but --json. Returns as
 * arguments_read. */
int arguments_json(const char *command, const char *help, int argc, char **argv,
                   bool *json);

/* For commands that take one region: *region becomes the one word that there
 * is. Returns as arguments_read. */
int arguments_region(const char *command, int argc, char **argv,
                     const char **region);

/* A number from least to most, and nothing else. */
bool arguments_number(const char *text, double least, double most,
                      double *value);

/* A whole number from 1 to most, and nothing else. */
bool arguments_whole(const char *text, double most, uint64_t *value);

/* --interval and --count of the commands that show figures again and again.
 * Return TOOL_OK or TOOL_USAGE. */
#define INTERVAL_DEFAULT_S 2.0
int arguments_interval(const char *command, const char *text,
                       double *interval_s);
int arguments_count(const char *command, const char *text, uint64_t *count);

#endif
