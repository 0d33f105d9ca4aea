/* The program that runs in a guest: chapters by name, results on stdout. */
#include "chapters.h"
#include "report.h"

#include <stdio.h>
#include <string.h>

static const struct {
  const char *name;
  void (*run)(void);
} chapters[] = {
    {"duty", chapter_duty},         {"tsc", chapter_tsc},
    {"refusal", chapter_refusal},   {"sharing", chapter_sharing},
    {"isolated", chapter_isolated}, {"hotplug", chapter_hotplug},
    {"suspend", chapter_suspend},   {"tick", chapter_tick},
};

static int run(const char *name) {
  for (size_t i = 0; i < sizeof(chapters) / sizeof(chapters[0]); i++)
    if (strcmp(chapters[i].name, name) == 0) {
      chapters[i].run();
      return 0;
    }
  fprintf(stderr, "no chapter '%s'\n", name);
  return 1;
}

int main(int argc, char **argv) {
  int status = argc > 1 ? 0 : 1;
  for (int i = 1; i < argc; i++)
    status |= run(argv[i]);
  note("results: %d", results());
  return status;
}
