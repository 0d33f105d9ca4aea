/* percore(1): the table of subcommands. */
#include "percore_config.h"

#include "text.h"
#include "tool.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct command *const commands[] = {
    &load_command, &pick_command,   &regions_command, &top_command,
    &dump_command, &map_command,    &clock_command,   &check_command,
    &wake_command, &doctor_command,
};
#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

static void print_help(FILE *out) {
  fputs("Usage: percore COMMAND [OPTION]...\n"
        "Shows how busy each CPU core really is.\n\n"
        "Commands:\n",
        out);
  for (size_t i = 0; i < COMMANDS; i++)
    arguments_print_row(out, commands[i]->name, 7, commands[i]->summary);
  fputs("\nOptions:\n"
        "  -h, --help     print this help\n"
        "  -V, --version  print the version\n\n"
        "'percore COMMAND --help' lists the options of a command; the manual "
        "is\npercore(1).\n",
        out);
}

static int say_unknown(const char *name) {
  char names[256] = "";
  if (name[0] == '-')
    return say_usage(NULL, "unknown option '%s'", name);
  for (size_t i = 0; i < COMMANDS; i++)
    text_append(names, sizeof(names), i + 1 < COMMANDS ? ", " : " or ",
                commands[i]->name);
  return say_usage(NULL, "unknown command '%s'; choose %s", name, names);
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
  if (argc < 2) {
    print_help(stderr);
    return TOOL_USAGE;
  }
  const char *name = argv[1];
  if (strcmp(name, "-V") == 0 || strcmp(name, "--version") == 0)
    return say_version();
  if (strcmp(name, "--complete") == 0) /* for completion in a shell */
    arguments_complete(commands, COMMANDS, argv + 2, argc - 2);
  else if (strcmp(name, "-h") == 0 || strcmp(name, "--help") == 0)
    print_help(stdout);
  else {
    for (size_t i = 0; i < COMMANDS; i++)
      if (strcmp(name, commands[i]->name) == 0)
        return commands[i]->run(argc - 1, argv + 1);
    return say_unknown(name);
  }
  return end_output(NULL);
}
