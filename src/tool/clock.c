/* percore clock: pins the idle clock of the source "bpf", so that the clock
 * keeps running while no process uses it. */
#include "cycles/idle_clock.h"
#include "tool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>

#define COMMAND "clock"

struct clock_options {
  bool pin, unpin;
};

static const struct argument arguments[] = {
    ARGUMENT(struct clock_options, pin, 'p', "pin", ARGUMENT_FLAG, NULL,
             "load the clock and pin it, unless one is already pinned"),
    ARGUMENT(struct clock_options, unpin, 'u', "unpin", ARGUMENT_FLAG, NULL,
             "remove the pinned clock"),
};

/* Starts the clock of every online core. A core that halts starts its own
 * clock, but a busy core may never halt. */
static void start_cores(const struct programs *clock,
                        const struct core_set *online) {
  core_set_for_each(core, online) {
    int status = programs_calls.start(clock, core);
    if (status != 0)
      say_failure(COMMAND, "core %d has no value until it halts: %s", core,
                  strerror(-status));
  }
}

static int load_and_pin(const struct machine *machine, char why[WHY_SIZE]) {
  struct programs clock;
  struct core_set online;
  int status =
      machine_read_core_set(machine, &online, "/sys/devices/system/cpu/online");
  if (status != 0) {
    snprintf(why, WHY_SIZE, "/sys/devices/system/cpu/online: %s",
             strerror(-status));
    return status;
  }
  status =
      programs_load(&clock, idle_clock_state0_polls(machine, &online), why);
  if (status != 0)
    return status;
  start_cores(&clock, &online);
  status = programs_pin(&clock, why);
  programs_close(&clock);
  return status;
}

static int say_done(const char *text) {
  fputs(text, stdout);
  return end_output(COMMAND);
}

static int pin(const struct machine *machine, char why[WHY_SIZE]) {
  struct programs clock;
  int status = programs_open(&clock, why);
  programs_close(&clock);
  if (status == 0)
    return say_done("an idle clock is already pinned in " IDLE_CLOCK_PINS "\n");
  if (status == -ENOLINK && programs_unpin(why) == 0)
    status = -ENOENT; /* what a killed process has left is gone */
  if (status != -ENOENT || load_and_pin(machine, why) != 0)
    return say_failure(COMMAND, "cannot pin the clock: %s", why);
  return say_done("the idle clock is pinned in " IDLE_CLOCK_PINS "\n");
}

/* Only one process at a time may look for a pinned clock and pin one. Returns a
 * descriptor that holds the lock until it is closed, or -1: this user may not
 * pin, and will be told so. */
static int lock_pins(void) {
  int fd = open(IDLE_CLOCK_PINS ".lock",
                O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd >= 0)
    flock(fd, LOCK_EX);
  return fd;
}

static int clock_main(void *given, const char *word, struct machine *machine) {
  const struct clock_options *options = given;
  char why[WHY_SIZE] = "";
  (void)word;
  if (options->pin == options->unpin)
    return say_usage(COMMAND, "give either --pin or --unpin");
  lock_pins(); /* until this process ends */
  if (options->unpin)
    return programs_unpin(why) == 0 ? TOOL_OK : say_failure(COMMAND, "%s", why);
  return pin(machine, why);
}

const struct command clock_command = {
    .name = COMMAND,
    .summary = "keep the idle clock of source bpf running",
    .usage = "--pin | --unpin",
    .about =
        "Loads the idle clock of source bpf and pins it in " IDLE_CLOCK_PINS
        ", where every user may read it. Needs root. Run it before the "
        "fast path starts: pinning and unpinning interrupt every core some "
        "150 times.",
    .arguments = ARGUMENTS(arguments),
    DEFAULTS(clock_options, .pin = false),
    .run = clock_main,
};
