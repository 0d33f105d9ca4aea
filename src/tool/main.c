/* percore(1): the table of subcommands. */
#include "percore_config.h"

#include "cycles/machine.h"
#include "text.h"
#include "tool.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct command *const commands[] = {
    &load_command, &pick_command,  &regions_command, &top_command,
    &wake_command, &clock_command, &doctor_command,
};
#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

static int print_help(void) {
  puts("Usage: percore [COMMAND [OPTION]...]\n"
       "Shows how busy each CPU core really is. Without a command: the loads,\n"
       "the regions, and what 'percore doctor' would say first.\n\n"
       "Commands:");
  for (size_t i = 0; i < COMMANDS; i++)
    arguments_print_row(stdout, commands[i]->name, 7, commands[i]->summary);
  puts(
      "\nOptions:\n"
      "  -h, --help     print this help\n"
      "  -V, --version  print the version\n\n"
      "'percore COMMAND --help' lists the options of a command; the manual is\n"
      "percore(1).");
  return end_output(NULL);
}

/* Runs a command with the options of the command line. */
static int run(const struct command *command, int argc, char **argv) {
  struct machine *machine = machine_linux(NULL);
  void *options = malloc(command->options_size);
  if (machine == NULL || options == NULL)
    return say_failure(command->name, "%s", strerror(ENOMEM));
  memcpy(options, command->defaults, command->options_size);
  int status = arguments_read(command, argc, argv, options);
  if (status < 0)
    status =
        command->run(options, optind < argc ? argv[optind] : NULL, machine);
  free(options);
  machine_linux_close(machine);
  return status;
}

/* A file that is opened later must not take the place of a closed stdout or
 * stderr. What is written to a closed stdout is lost, and must be an error. */
static void fill_closed(void) {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
    if (fcntl(fd, F_GETFD) < 0)
      open("/dev/null", fd == STDOUT_FILENO ? O_RDONLY : O_RDWR);
}

int main(int argc, char **argv) {
  fill_closed();
  signal(SIGPIPE, SIG_IGN); /* it becomes an error of write(2) */
  if (argc < 2)
    return run(&all_command, argc, argv);
  const char *name = argv[1];
  if (strcmp(name, "-V") == 0 || strcmp(name, "--version") == 0)
    return say_version();
  if (strcmp(name, "-h") == 0 || strcmp(name, "--help") == 0)
    return print_help();
  for (size_t i = 0; i < COMMANDS; i++)
    if (strcmp(name, commands[i]->name) == 0)
      return run(commands[i], argc - 1, argv + 1);
  return say_usage(NULL, "unknown %s '%s'",
                   name[0] == '-' ? "option" : "command", name);
}
