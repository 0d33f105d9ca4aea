/* board_readers: what it costs when 100 processes ask for the loads of all of
 * 256 cores 100 times a second. The cores are played: another process writes
 * their board. For comparison, one process does the same with counters of its
 * own on the cores of this machine, which it reads at each call. Prints CPU
 * time, in percent of a core: of the calls alone, and of the processes, which
 * also wake up; and the time of a call for each core. */
#include "bench.h"
#include "board/load.h"
#include "board/publish.h"

#include <err.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { READERS = 100, PLAYED = 256, ASK_HZ = 100, SECONDS = 5 };
#define INTERVAL_NS NS_PER_S

/* What a reader used, in shared memory. */
struct used {
  uint64_t calls_ns, process_ns;
  double sum; /* of all loads */
  int cores;
};

static void sleep_until(uint64_t time_ns) {
  struct timespec until = timespec_of_ns(time_ns);
  clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}

/* Leaves out what it costs to read the clock, which is a system call. */
static void ask(struct percore_load *load, struct used *used) {
  static double loads[CORES_MAX];
  uint64_t before_ns = now_ns();
  uint64_t begin_ns = now_ns();
  if (percore_load_update(load) < 0)
    err(1, "percore_load_update");
  percore_load_get_all(load, loads, used->cores);
  uint64_t took_ns = now_ns() - begin_ns, clock_ns = begin_ns - before_ns;
  used->calls_ns += took_ns > clock_ns ? took_ns - clock_ns : 0;
  used->sum += loads[used->cores - 1];
}

static void read_loads(struct machine *machine, bool board, uint64_t start_ns,
                       struct used *used) {
  const struct percore_load_options options = {
      .from_board = board, .shortest_window = board ? 0 : 0.5 / ASK_HZ};
  struct percore_load *load;
  int status = load_open(&load, machine, &options);
  if (status != 0)
    errx(1, "load_open: %s", strerror(-status));
  used->cores = (int)sysconf(_SC_NPROCESSORS_CONF);
  uint64_t begin_ns = now_ns();
  for (uint64_t i = 0; i < SECONDS * ASK_HZ; i++) {
    sleep_until(start_ns + i * NS_PER_S / ASK_HZ);
    ask(load, used);
  }
  used->process_ns = now_ns() - begin_ns;
  _exit(isnan(used->sum));
}

static void say(void *context, enum journal_level level, const char *line) {
  (void)context, (void)level;
  warnx("%s", line);
}

/* Writes the board until this process is killed. */
static void publish(const struct topology *topology) {
  static struct core_figures cores[PLAYED];
  struct snapshot snapshot = {
      .interval_ns = INTERVAL_NS, .cores_len = PLAYED, .cores = cores};
  struct board *board =
      board_open(BOARD_GROUP, &(struct journal){.write = say});
  for (int i = 0; i < PLAYED; i++)
    cores[i] = (struct core_figures){.core = i,
                                     .online = true,
                                     .load = (double)i / PLAYED,
                                     .room = NAN,
                                     .steal = NAN,
                                     .frequency_hz = NAN};
  for (uint64_t due_ns = clock_now_ns(CLOCK_MONOTONIC);;
       due_ns += INTERVAL_NS) {
    sleep_until(due_ns);
    board_publish(board, &snapshot, topology);
  }
}

/* Makes a folder with a machine of PLAYED cores. */
static void make_root(char *folder) {
  char path[128];
  static const char *const parts[] = {"sys", "devices", "system", "cpu"};
  if (mkdtemp(folder) == NULL)
    err(1, "mkdtemp");
  strcpy(path, folder);
  for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
    strcat(strcat(path, "/"), parts[i]);
    mkdir(path, 0755);
  }
  size_t len = strlen(path);
  for (int i = 0; i < 2; i++) {
    strcpy(path + len, i == 0 ? "/possible" : "/online");
    FILE *file = fopen(path, "w");
    if (file == NULL || fprintf(file, "0-%d\n", PLAYED - 1) < 0 ||
        fclose(file) != 0)
      err(1, "%s", path);
  }
}

static void print(const char *who, const struct used *used, int len) {
  double calls_ns = 0, process_ns = 0;
  for (int i = 0; i < len; i++) {
    calls_ns += (double)used[i].calls_ns;
    process_ns += (double)used[i].process_ns;
  }
  printf("%-38s calls %5.2f %%  processes %5.2f %%  a core %6.0f ns\n", who,
         calls_ns / SECONDS / 1e7, process_ns / SECONDS / 1e7,
         calls_ns / (len * SECONDS * ASK_HZ * used->cores));
}

static void measure(const char *who, int readers, struct machine *machine,
                    bool board) {
  struct used *used =
      mmap(NULL, READERS * sizeof(*used), PROT_READ | PROT_WRITE,
           MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  uint64_t start_ns = clock_now_ns(CLOCK_MONOTONIC) + 2 * NS_PER_S;
  pid_t pids[READERS];
  for (int i = 0; i < readers; i++)
    if ((pids[i] = fork()) == 0)
      read_loads(machine, board, start_ns, &used[i]);
  for (int i = 0, status; i < readers; i++)
    if (waitpid(pids[i], &status, 0) < 0 || status != 0)
      warnx("a reader failed");
  print(who, used, readers);
}

int main(void) {
  char root[] = "/tmp/percore-bench-XXXXXX", command[128];
  struct topology topology;
  make_root(root);
  setenv("PERCORE_RUNTIME_DIR", root, 1);
  struct machine *played = machine_linux(root), *real = machine_linux(NULL);
  if (topology_read(&topology, played) != 0)
    errx(1, "topology_read");
  pid_t publisher = fork();
  if (publisher == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    publish(&topology);
  }
  sleep_until(clock_now_ns(CLOCK_MONOTONIC) + NS_PER_S / 2);
  measure("100 processes, a board of 256 cores", READERS, played, true);
  measure("1 process, own counters", 1, real, false);
  kill(publisher, SIGKILL);
  snprintf(command, sizeof(command), "rm -r %s", root);
  return system(command) == 0 ? 0 : 1;
}
