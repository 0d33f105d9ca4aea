/* region_producer: a fast path with known counts, for tests of percore(1).
 *
 * Usage: region_producer NAME[@INSTANCE] [OPTION]...
 *   --rows N      rows of the table `session` (default 4); 3 k packets and
 *                 1000 k bytes are counted for row k
 *   --workers N   threads that poll (default 1), on the cores allowed
 *   --hostile     use names of rows and threads, units and states with bytes
 *                 that would control a terminal or break JSON
 *
 * Prints `ready`, then reads commands from stdin until end of file, and answers
 * each with one line:
 *
 *   port           print packets and bytes counted on port 0
 *   log            print "SECONDS PACKETS,...": the packets counted on port 0,
 *                  as logged every 10 ms, with the time on CLOCK_REALTIME
 *   stop           end the workers
 *   stick, go      make the last worker stop polling without percore_sleep, and
 *                  poll again
 *   sleep, wake    make it stop and poll again, with percore_sleep and
 *                  percore_wake
 *   remove K       remove row K of `session`
 *   add K          add row K of `session`
 *   name NAME      add a row of `port` with this name
 */
#include "percore_config.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../unit/calls.h"
#include "percore_tune.h"

enum { MAX_WORKERS = 16, MAX_LOOKS = 1 << 16, PORTS = 2 };
enum { PORT, SESSION, ODD, WORKER };
enum { RX_PACKETS, RX_BYTES, IN_FLIGHT, LATENCY }; /* fields of PORT */
enum { QUEUE, LINK };                              /* fields of WORKER */

static const char *const links[] = {"down", "up"};
static const char *const hostile_links[] = {"do\xe2\x80\xaewn", "u\"p\\"};

static struct percore_field port_fields[] = {
    {.name = "rx_packets", .unit = "packets", .help = "received packets"},
    {.name = "rx_bytes", .unit = "bytes"},
    {.name = "in_flight", .unit = "packets", .kind = PERCORE_UPDOWN},
    {.name = "latency",
     .unit = "ns",
     .kind = PERCORE_HISTOGRAM,
     .sub_bits = 3,
     .max_bits = 20},
};
static struct percore_field worker_fields[] = {
    {.name = "queue",
     .unit = "packets",
     .kind = PERCORE_GAUGE,
     .aggregation = PERCORE_MAX},
    {.name = "link",
     .unit = "1",
     .kind = PERCORE_STATE,
     .states = links,
     .state_count = 2},
};
static const struct percore_field session_fields[] = {
    {.name = "packets", .unit = "packets"},
    {.name = "bytes", .unit = "bytes"},
};
static const struct percore_field odd_fields[] = {
    {.name = "errors", .unit = "errors"},
    {.name = "balance", .unit = "1", .kind = PERCORE_UPDOWN},
};
static struct percore_table tables[] = {
    [PORT] = {.name = "port",
              .help = "one row for each port",
              .storage = PERCORE_PER_CORE,
              .fields = port_fields,
              .field_count = 4,
              .max_rows = 8,
              .row_name_size = 56},
    [SESSION] = {.name = "session",
                 .storage = PERCORE_OWNED,
                 .fields = session_fields,
                 .field_count = 2,
                 .key = PERCORE_KEY_IPV4},
    [ODD] = {.name = "odd",
             .storage = PERCORE_SHARED,
             .fields = odd_fields,
             .field_count = 2},
    [WORKER] = {.name = "worker",
                .storage = PERCORE_PER_CORE,
                .fields = worker_fields,
                .field_count = 2},
};

static struct {
  const char *name;
  struct percore_options region;
  uint32_t rows;
  int workers;
  bool hostile;
} options = {.rows = 4, .workers = 1};

static struct percore_region *region;
static uint32_t port_table, worker_table;
static uint32_t port_rows[PORTS];
static atomic_bool stop, stuck, asleep;
static pthread_barrier_t attached; /* the workers and main() wait */

struct worker {
  pthread_t thread;
  int number, core;
  _Atomic uint64_t packets; /* on port 0 */
};
static struct worker workers[MAX_WORKERS];

static _Noreturn void fail(const char *what) {
  perror(what);
  exit(1);
}

static void sleep_ns(long ns) {
  nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

/* ---------------------------------------------------------------------------
 * Workers
 */

/* Polls one round. Every second round handles 64 packets of 100 bytes. */
static void poll_once(struct worker *worker, percore_slot_t slot,
                      uint64_t round) {
  percore_row_t row =
      percore_row(percore_table(slot, port_table), port_rows[0]);
  uint64_t n = round % 2 == 0 ? 64 : 0;
  if (n > 0) {
    begin_section(slot);
    percore_add(row, RX_PACKETS, n);
    percore_add(row, RX_BYTES, n * 100);
    end_section(slot);
    percore_observe(row, LATENCY, round % 1000);
    atomic_store(&worker->packets, worker->packets + n);
  }
  /* Use a simulated clock, because time spent asleep does not count as work. */
  percore_poll(slot, n, percore_polled_(slot.seat->head) + 1000);
  sleep_ns(200000);
}

static void wait_while(percore_slot_t slot, atomic_bool *flag, bool say_so) {
  if (say_so)
    percore_sleep(slot);
  while (atomic_load(flag) && !atomic_load(&stop))
    sleep_ns(1000000);
  if (say_so)
    percore_wake(slot);
}

static void *work(void *argument) {
  struct worker *worker = argument;
  percore_slot_t slot;
  char name[40];
  bool last = worker->number + 1 == options.workers;
  snprintf(name, sizeof(name),
           options.hostile ? "\033[2Jworker\n%d\377" : "worker %d",
           worker->number);
  if (attach_thread(region, name, worker->core, &slot) != 0)
    perror("percore_attach");
  percore_row_t idle =
      percore_row(percore_table(slot, port_table), port_rows[1]);
  percore_add(idle, IN_FLIGHT, worker->number == 0 ? -5 : 2);
  percore_row_t state = percore_row(percore_table(slot, worker_table), 0);
  percore_set(state, QUEUE, 10 + worker->number);
  percore_set(state, LINK, worker->number % 2);
  poll_once(worker, slot, 0);
  pthread_barrier_wait(&attached);
  for (uint64_t round = 1; !atomic_load(&stop); round++) {
    poll_once(worker, slot, round);
    if (last && atomic_load(&stuck))
      wait_while(slot, &stuck, false);
    if (last && atomic_load(&asleep))
      wait_while(slot, &asleep, true);
  }
  percore_detach(slot);
  return NULL;
}

static void start_workers(void) {
  cpu_set_t allowed;
  int core = -1;
  pthread_barrier_init(&attached, NULL, (unsigned)options.workers + 1);
  CPU_ZERO(&allowed);
  sched_getaffinity(0, sizeof(allowed), &allowed);
  for (int w = 0; w < options.workers; w++) {
    do
      core = (core + 1) % CPU_SETSIZE;
    while (!CPU_ISSET(core, &allowed));
    workers[w].number = w;
    workers[w].core = core;
    if (pthread_create(&workers[w].thread, NULL, work, &workers[w]) != 0)
      fail("pthread_create");
  }
  pthread_barrier_wait(&attached);
}

static void stop_workers(void) {
  atomic_store(&stop, true);
  for (int w = 0; w < options.workers; w++)
    pthread_join(workers[w].thread, NULL);
  options.workers = 0;
}

static uint64_t packets_so_far(void) {
  uint64_t packets = 0;
  for (int w = 0; w < MAX_WORKERS; w++)
    packets += atomic_load(&workers[w].packets);
  return packets;
}

/* ---------------------------------------------------------------------------
 * The log of counts
 */

static struct look {
  double time_s;
  uint64_t packets;
} looks[MAX_LOOKS];
static atomic_uint look_count;

static void *keep_log(void *argument) {
  (void)argument;
  for (unsigned i = 0; i < MAX_LOOKS && !atomic_load(&stop); i++) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    looks[i] =
        (struct look){.time_s = (double)now.tv_sec + (double)now.tv_nsec / 1e9,
                      .packets = packets_so_far()};
    atomic_store(&look_count, i + 1);
    sleep_ns(10000000);
  }
  return NULL;
}

static void print_log(void) {
  unsigned count = atomic_load(&look_count);
  for (unsigned i = 0; i < count; i++)
    printf("%s%.6f %" PRIu64, i > 0 ? "," : "", looks[i].time_s,
           looks[i].packets);
  putchar('\n');
}

/* ---------------------------------------------------------------------------
 * Filling the region
 */

static void add_rows(void) {
  static const char *const names[] = {"eth0", "eth1"};
  static const char *const hostile_names[] = {"\033]0;owned\007\033[2J",
                                              "a\"b\\c\n\xe2\x80\xae\xff/;= "};
  percore_table_t session;
  uint32_t odd;
  open_table(region, SESSION, &session);
  odd = ODD;
  for (uint32_t p = 0; p < PORTS; p++)
    if (make_row(region, PORT, options.hostile ? hostile_names[p] : names[p],
                 &port_rows[p]) != 0)
      fail("percore_row_add");
  for (uint32_t k = 0; k < options.rows; k++) {
    uint32_t row;
    if (make_row_key(region, SESSION, 0x0a000000u + k, &row) != 0)
      fail("percore_row_add_key");
    percore_row_t cells = percore_row(session, row);
    percore_add(cells, 0, 3ull * k);
    percore_add(cells, 1, 1000ull * k);
  }
  percore_shared_row_t row = percore_shared_row(region, odd, 0);
  percore_shared_add(row, 0, UINT64_MAX - 1);
  percore_shared_add(row, 1, (uint64_t)-42);
}

static void make_region(void) {
  char name[128];
  snprintf(name, sizeof(name), "%s", options.name);
  char *at = strchr(name, '@');
  if (at != NULL) {
    *at = '\0';
    options.region.instance = at + 1;
  }
  if (options.hostile)
    worker_fields[LINK].states = hostile_links;
  tables[SESSION].max_rows = options.rows > 0 ? options.rows : 1;
  if (create_region(&region, name, tables, 4, &options.region) != 0)
    fail("percore_create");
  port_table = PORT;
  worker_table = WORKER;
  add_rows();
}

static void obey(const char *line) {
  char name[56];
  unsigned k, t;
  if (strcmp(line, "log\n") == 0) {
    print_log();
    return;
  }
  if (strcmp(line, "port\n") == 0) {
    uint64_t packets = packets_so_far();
    printf("%" PRIu64 " %" PRIu64 "\n", packets, packets * 100);
    return;
  }
  if (strcmp(line, "stop\n") == 0)
    stop_workers();
  else if (strcmp(line, "stick\n") == 0 || strcmp(line, "go\n") == 0)
    atomic_store(&stuck, line[0] == 's');
  else if (strcmp(line, "sleep\n") == 0 || strcmp(line, "wake\n") == 0)
    atomic_store(&asleep, line[0] == 's');
  else if (sscanf(line, "remove %u", &k) == 1)
    percore_row_remove(region, SESSION, k + 1, PERCORE_NO_UPDATE_IN_FLIGHT);
  else if (sscanf(line, "add %u", &k) == 1)
    make_row_key(region, SESSION, 0x0a000000u + k, &k);
  else if (sscanf(line, "reset %u %u", &t, &k) == 2)
    percore_reset(region, t, t == ODD ? 0 : k + 1); /* has a single row */
  else if (sscanf(line, "name %55s", name) == 1)
    make_row(region, PORT, name, &k);
  else
    fail(line);
  puts("done");
}

static void parse(int argc, char **argv) {
  static const struct option long_options[] = {
      {"rows", required_argument, NULL, 'r'},
      {"workers", required_argument, NULL, 'w'},
      {"hostile", no_argument, NULL, 'h'},
      {NULL, 0, NULL, 0},
  };
  for (int option;
       (option = getopt_long(argc, argv, "", long_options, NULL)) != -1;)
    switch (option) {
    case 'r':
      options.rows = (uint32_t)strtoul(optarg, NULL, 10);
      break;
    case 'w':
      options.workers = atoi(optarg);
      break;
    case 'h':
      options.hostile = true;
      break;
    default:
      exit(2);
    }
  if (optind + 1 != argc || options.workers < 0 ||
      options.workers > MAX_WORKERS)
    exit(2);
  options.name = argv[optind];
}

int main(int argc, char **argv) {
  parse(argc, argv);
  make_region();
  start_workers();
  pthread_t log;
  if (pthread_create(&log, NULL, keep_log, NULL) != 0)
    fail("pthread_create");
  setvbuf(stdout, NULL, _IOLBF, 0);
  puts("ready");
  for (char line[64]; fgets(line, sizeof(line), stdin) != NULL;)
    obey(line);
  stop_workers();
  pthread_join(log, NULL);
  percore_destroy(region);
  return 0;
}
