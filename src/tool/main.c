/* percore(1): a table of subcommands. */
#include "tool.h"

#include <stdio.h>
#include <string.h>

static const struct command {
  const char *name;
  int (*run)(int argc, char **argv);
  const char *help;
} commands[] = {
    {"load", load_main, "how busy each core is, live"},
    {"regions", regions_main, "which fast paths publish counters here"},
    {"top", top_main, "what a fast path does right now: rates, live"},
    {"dump", dump_main, "every value of a region, once"},
    {"reset", reset_main, "lets counters of a region show 0 from now on"},
    {"check", check_main, "whether a region keeps the rules of its format"},
    {"clock", clock_main, "keeps the idle clock of source bpf running"},
    {"soak", soak_main, "a floor of a core's load that needs no counter"},
    {"doctor", doctor_main, "what can be measured here, and what would help"},
};
#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

static void print_help(FILE *out) {
  fputs("Usage: percore COMMAND [OPTION]...\n"
        "Tells how busy each CPU core really is.\n\n"
        "Commands:\n",
        out);
  for (size_t i = 0; i < COMMANDS; i++)
    fprintf(out, "  %-8s %s\n", commands[i].name, commands[i].help);
  fputs("\nOptions:\n"
        "  -h, --help     print this help, or that of a command\n"
        "  -V, --version  print the version\n\n"
        "'percore COMMAND --help' lists the options of a command; the manual\n"
        "is percore(1).\n",
        out);
}

int main(int argc, char **argv) {
  if (argc < 2) {
    print_help(stderr);
    return TOOL_USAGE;
  }
  const char *name = argv[1];
  if (strcmp(name, "-V") == 0 || strcmp(name, "--version") == 0)
    return say_version();
  if (strcmp(name, "-h") == 0 || strcmp(name, "--help") == 0) {
    print_help(stdout);
    return flush_output(NULL) == 0 ? TOOL_OK : TOOL_FAILURE;
  }
  for (size_t i = 0; i < COMMANDS; i++)
    if (strcmp(name, commands[i].name) == 0)
      return commands[i].run(argc - 1, argv + 1);
  return say_usage(NULL,
                   name[0] == '-' ? "there is no option '%s'"
                                  : "there is no command '%s'",
                   name);
}
