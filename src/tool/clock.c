/* percore clock: lets the idle clock of source bpf run without a process of its
 * own. */
#include "arguments.h"
#include "cycles/idle_clock.h"
#include "cycles/idle_clock_kernel.h"
#include "tool.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define COMMAND "clock"
#define WHY_SIZE 512

static const char help[] =
    "Usage: percore clock --pin | --unpin\n"
    "Loads the idle clock of source bpf and pins it in " IDLE_CLOCK_PINS ",\n"
    "where every user may read it. For root, before the fast path starts:\n"
    "pinning and unpinning interrupt every core some 150 times.\n\n"
    "  -p, --pin      load and pin it, if none is pinned\n"
    "  -u, --unpin    remove it\n"
    "  -h, --help     print this help\n"
    "  -V, --version  print the version\n";

static int take(int option, const char *text, void *into) {
  (void)text;
  char *wanted = into;
  if (*wanted != '\0' && *wanted != option)
    return say_usage(COMMAND, "--pin and --unpin exclude each other");
  *wanted = (char)option;
  return TOOL_OK;
}

/* Cores may be without a halt for as long as they are up. */
static void start_cores(const struct idle_clock_kernel *clock,
                        const struct core_set *online) {
  core_set_for_each(core, online) {
    int status = idle_clock_kernel_start(clock, core);
    if (status != 0)
      say_failure(COMMAND, "core %d has no value until it halts: %s", core,
                  strerror(-status));
  }
}

static int load_and_pin(const struct machine *machine, char *why) {
  struct idle_clock_kernel clock;
  struct core_set online;
  int status =
      machine_read_core_set(machine, "/sys/devices/system/cpu/online", &online);
  if (status != 0) {
    snprintf(why, WHY_SIZE, "/sys/devices/system/cpu/online: %s",
             strerror(-status));
    return status;
  }
  status = idle_clock_kernel_load(&clock, idle_clock_state0_polls(machine), why,
                                  WHY_SIZE);
  if (status != 0)
    return status;
  start_cores(&clock, &online);
  status = idle_clock_kernel_pin(&clock, IDLE_CLOCK_PINS, why, WHY_SIZE);
  idle_clock_kernel_close(&clock);
  return status;
}

static int pin(const struct machine *machine, char *why) {
  struct idle_clock_kernel clock;
  int status = idle_clock_kernel_open(&clock, IDLE_CLOCK_PINS, why, WHY_SIZE);
  idle_clock_kernel_close(&clock);
  if (status == 0)
    return say_text(COMMAND,
                    "an idle clock is pinned in " IDLE_CLOCK_PINS " already\n");
  if (status != -ENOENT || load_and_pin(machine, why) != 0)
    return say_failure(COMMAND, "no clock is pinned: %s", why);
  return say_text(COMMAND, "the idle clock is pinned in " IDLE_CLOCK_PINS "\n");
}

static int unpin(char *why) {
  if (idle_clock_kernel_unpin(IDLE_CLOCK_PINS, why, WHY_SIZE) != 0)
    return say_failure(COMMAND, "%s", why);
  return TOOL_OK;
}

int clock_main(int argc, char **argv) {
  static const struct option options[] = {{"pin", no_argument, NULL, 'p'},
                                          {"unpin", no_argument, NULL, 'u'},
                                          ARGUMENTS_END};
  static const struct arguments arguments = {
      .command = COMMAND, .help = help, .options = options, .take = take};
  char wanted = '\0', why[WHY_SIZE] = "";
  int status = arguments_read(&arguments, argc, argv, &wanted);
  if (status >= 0)
    return status;
  if (wanted == '\0')
    return say_usage(COMMAND, "give --pin or --unpin");
  struct machine *machine = machine_linux(NULL);
  if (machine == NULL)
    return say_failure(COMMAND, "%s", strerror(errno));
  status = wanted == 'p' ? pin(machine, why) : unpin(why);
  machine_linux_close(machine);
  return status;
}
