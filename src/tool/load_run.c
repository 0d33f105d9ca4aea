/* percore load -- COMMAND: measures loads while a command runs. */
#include "base/clock.h"
#include "cycles/schedule.h"
#include "load.h"
#include "tool.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define COMMAND "load"

/* Exit statuses, as in shells: the command cannot be run, the command was not
 * found, or a signal ended the command (SIGNALLED plus the number of the
 * signal). */
enum { NOT_RUNNABLE = 126, NOT_FOUND = 127, SIGNALLED = 128 };

/* ---------------------------------------------------------------------------
 * The command
 */

/* Fills *set with the signals for which wait_until waits. */
static void waited_signals(sigset_t *set) {
  sigemptyset(set);
  sigaddset(set, SIGCHLD);
  sigaddset(set, SIGINT);
  sigaddset(set, SIGTERM);
  sigaddset(set, SIGHUP);
}

/* Settings that percore changes for itself and restores for the command. */
struct inherited {
  sigset_t mask;
  struct rlimit files;
};

/* Starts the command. Returns its pid, or -errno if it cannot be run. */
static pid_t start(char **words, const struct inherited *inherited) {
  posix_spawnattr_t attributes;
  struct rlimit raised;
  sigset_t defaults;
  pid_t pid;
  int error = posix_spawnattr_init(&attributes);
  if (error != 0)
    return -error;
  sigemptyset(&defaults);
  sigaddset(&defaults, SIGPIPE);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setsigmask(&attributes, &inherited->mask);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  getrlimit(RLIMIT_NOFILE, &raised);
  setrlimit(RLIMIT_NOFILE, &inherited->files);
  error = posix_spawnp(&pid, words[0], NULL, &attributes, words, environ);
  setrlimit(RLIMIT_NOFILE, &raised);
  posix_spawnattr_destroy(&attributes);
  return error != 0 ? -error : pid;
}

/* Waits until `time_ns` of CLOCK_MONOTONIC or until the command has ended.
 * Returns true and sets *exit_status if the command has ended. Passes signals
 * on to the command, except those from the terminal, which the command receives
 * itself. */
static bool wait_until(pid_t pid, uint64_t time_ns, int *exit_status) {
  sigset_t signals;
  waited_signals(&signals);
  while (true) {
    int status = TOOL_FAILURE << 8; /* if it is lost */
    if (waitpid(pid, &status, WNOHANG) != 0) {
      *exit_status = WIFSIGNALED(status) ? SIGNALLED + WTERMSIG(status)
                                         : WEXITSTATUS(status);
      return true;
    }
    uint64_t now_ns = monotonic_ns();
    if (now_ns >= time_ns)
      return false;
    struct timespec left = timespec_of_ns(time_ns - now_ns);
    siginfo_t info;
    int number = sigtimedwait(&signals, &info, &left);
    if (number > 0 && number != SIGCHLD && info.si_code <= 0)
      kill(pid, number);
  }
}

/* ---------------------------------------------------------------------------
 * The loads of the command
 */

struct measuring {
  struct engine *engine;
  struct figures *figures;
  struct inherited inherited;
  uint64_t began_ns;
};

static void sample(const struct measuring *measuring, uint64_t due_ns) {
  engine_sample(measuring->engine, monotonic_ns() > due_ns + SCHEDULE_LATE_NS);
  figures_sample(measuring->figures);
}

/* Samples the loads until the command has ended, and returns the command's exit
 * status. */
static int measure(const struct measuring *measuring, pid_t pid) {
  uint64_t window_ns = load_sample_interval_ns(3600);
  uint64_t averages_ns = measuring->began_ns;
  int exit_status;
  uint64_t due_ns;
  while (!wait_until(pid, due_ns = monotonic_ns() + window_ns, &exit_status)) {
    sample(measuring, due_ns);
    if (monotonic_ns() - averages_ns >= LOADAVG_INTERVAL_NS) {
      figures_load_average(measuring->figures);
      averages_ns += LOADAVG_INTERVAL_NS;
    }
  }
  sample(measuring, due_ns);
  return exit_status;
}

static int show(const struct measuring *measuring,
                const struct load_options *options) {
  struct snapshot *snapshot = figures_interval(measuring->figures);
  if (snapshot == NULL)
    return -ENOMEM;
  snapshot->time_ns = clock_now_ns(CLOCK_REALTIME);
  snapshot->covered_ns =
      engine_time_ns(measuring->engine) - measuring->began_ns;
  const struct load_page page = {.snapshot = snapshot, .time = options->time};
  fflush(stdout);
  int status = options->json ? load_json_write(stderr, &page)
                             : screen_write(stderr, (struct screen){0},
                                            load_table_write, &page);
  snapshot_free(snapshot);
  return status;
}

static int measure_command(struct measuring *measuring,
                           const struct load_options *options, char **words) {
  sigset_t signals;
  engine_prove(measuring->engine);
  if (stop_requested())
    return TOOL_FAILURE;
  /* The parent may have set SIGCHLD to be ignored; the kernel would then
   * discard the exit status. */
  signal(SIGCHLD, SIG_DFL);
  waited_signals(&signals);
  sigprocmask(SIG_BLOCK, &signals, &measuring->inherited.mask);
  /* No window of a load may have begun before the command. */
  nanosleep(&(struct timespec){.tv_nsec = COLUMNS_WINDOW_MIN_NS}, NULL);
  sample(measuring, monotonic_ns());
  if (!engine_has_source(measuring->engine))
    return say_failure(COMMAND, LOAD_NO_SOURCE);
  figures_load_average(measuring->figures);
  snapshot_free(figures_interval(measuring->figures));
  measuring->began_ns = engine_time_ns(measuring->engine);
  pid_t pid = start(words, &measuring->inherited);
  if (pid < 0) {
    say_failure(COMMAND, "cannot run '%s': %s", words[0], strerror(-pid));
    return pid == -ENOENT ? NOT_FOUND : NOT_RUNNABLE;
  }
  int exit_status = measure(measuring, pid);
  int status = show(measuring, options);
  if (status != 0)
    say_failure(COMMAND, "%s", strerror(-status));
  return exit_status;
}

static void say_message(void *context, enum journal_level level,
                        const char *line) {
  const enum journal_level *most = context;
  if (level <= *most)
    say_failure(COMMAND, "%s", line);
}

int load_command_run(const struct load_options *options,
                     struct machine *machine, char **words) {
  enum journal_level most = load_journal_level(options);
  struct engine_options engine = load_engine_options(
      options, machine,
      (struct journal){.write = say_message, .context = &most});
  struct measuring measuring = {0};
  getrlimit(RLIMIT_NOFILE, &measuring.inherited.files);
  int result, status = engine_open(&measuring.engine, &engine);
  if (status == 0)
    measuring.figures =
        figures_open(&(struct figures_options){0}, measuring.engine);
  if (status == 0 && measuring.figures == NULL)
    status = -ENOMEM;
  if (status == 0)
    result = measure_command(&measuring, options, words);
  else
    result = say_failure(COMMAND, "cannot read loads: %s", strerror(-status));
  figures_close(measuring.figures);
  engine_close(measuring.engine);
  return result;
}
