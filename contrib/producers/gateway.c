/* gateway: a simulated packet gateway for dashboards, with traffic that rises
 * and falls, bursts that overflow queues, damaged packets, and tunnels that
 * come and go. For a simpler example, read pthread.c first.
 *
 *   cc -D_GNU_SOURCE gateway.c $(pkg-config --cflags --libs percore) -lm
 *   ./a.out [--nap] CORE ...    one worker per core
 *
 * Every millisecond, a worker polls its queues until they are empty, and then
 * sleeps. It is busy for at most half of each millisecond. With --nap, a worker
 * polls every four milliseconds, sleeps instead of working and of polling, and
 * reports this time as busy and as empty polls. The cores then need not exist,
 * so one small machine can simulate a large host.
 *
 * The program ends on SIGINT or SIGTERM, and after DURATION seconds if this
 * environment variable is set. */
#include <percore_tune.h>

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum port_field { PACKETS, BYTES, DROPS, ERRORS, QUEUED, DELAY };
static const struct percore_field port_fields[] = {
    [PACKETS] = {.name = "rx_packets", .unit = "packets"},
    [BYTES] = {.name = "rx_bytes", .unit = "bytes"},
    [DROPS] = {.name = "rx_drops",
               .unit = "packets",
               .help = "packets that found the queue full"},
    [ERRORS] = {.name = "rx_errors",
                .unit = "packets",
                .help = "damaged packets"},
    [QUEUED] = {.name = "queued", .unit = "packets", .kind = PERCORE_UPDOWN},
    [DELAY] = {.name = "delay",
               .unit = "ns",
               .help = "time from the arrival of a packet until it is "
                       "handled",
               .kind = PERCORE_HISTOGRAM,
               .sub_bits = 2,
               .max_bits = 30},
};
static const struct percore_field tunnel_fields[] = {
    [PACKETS] = {.name = "rx_packets", .unit = "packets"},
    [BYTES] = {.name = "rx_bytes", .unit = "bytes"},
};

enum tables { PORT, TUNNEL, TABLES };
static const struct percore_table tables[TABLES] = {
    [PORT] = {.name = "port",
              .help = "ports that receive packets",
              .fields = port_fields,
              .field_count = 6,
              .max_rows = 4,
              .row_name_size = 24},
    [TUNNEL] = {.name = "tunnel",
                .help = "tunnels that carry packets while they are up",
                .fields = tunnel_fields,
                .field_count = 2,
                .max_rows = 16,
                .row_name_size = 24},
};

enum { PORTS = 2, QUEUE = 4096, MAX_WORKERS = 64 };
#define SECOND_NS 1000000000.0
#define PACKET_NS 4000 /* work per packet */
#define DOWN 0         /* the number of no row */

static struct percore_region *region;
static uint32_t port_rows[PORTS];
static const char *const tunnel_names[] = {"amsterdam", "berlin", "cairo",
                                           "dakar",     "espoo",  "florence"};
enum { TUNNELS = sizeof(tunnel_names) / sizeof(tunnel_names[0]) };
static uint32_t tunnel_rows[TUNNELS]; /* or DOWN */
static int worker_count;

/* How a worker spends its time: `spinning` by default, `napping` with --nap. */
static const struct mode {
  int64_t period_ns; /* from one poll of the queues to the next */
  double max_busy;   /* maximum busy share of the period */
  unsigned batch;
} spinning = {1000000, 0.5, 32}, napping = {4000000, 0.9, 512};
static const struct mode *mode = &spinning;

static volatile sig_atomic_t stop;

static void on_signal(int number) {
  (void)number;
  stop = 1;
}

static int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * (int64_t)SECOND_NS + now.tv_nsec;
}

static void sleep_until(int64_t time_ns) {
  struct timespec time = {.tv_sec = time_ns / (int64_t)SECOND_NS,
                          .tv_nsec = time_ns % (int64_t)SECOND_NS};
  clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
}

static void be_busy(int64_t ns) {
  int64_t end = now_ns() + ns;
  if (mode == &napping)
    sleep_until(end);
  while (now_ns() < end)
    ;
}

/* ---------------------------------------------------------------------------
 * Traffic: it rises and falls with a period of two minutes, at a different
 * phase for each worker, and stays below what the worker can handle. Every 83
 * seconds, it is three times as high for two seconds, which is often more than
 * the worker can handle.
 */
static double packets_per_ns(int worker, int64_t at_ns) {
  double seconds = (double)at_ns / SECOND_NS + 47 * worker;
  double share = mode->max_busy * (0.5 + 0.38 * sin(2 * M_PI * seconds / 120));
  if (fmod(seconds, 83) < 2)
    share *= 3;
  return share / PACKET_NS;
}

/* ---------------------------------------------------------------------------
 * Workers
 */

struct worker {
  int number, core;
  pthread_t thread;
  percore_slot_t slot;
  percore_table_t ports, tunnels;
  unsigned seed;
  double queued[PORTS];
};

static percore_row_t port_row(const struct worker *worker, int port) {
  return percore_row(worker->ports, port_rows[port]);
}

/* Queues the `arrived` packets that have arrived since the last poll. Drops
 * those that do not fit. */
static void receive(struct worker *worker, double arrived) {
  for (int port = 0; port < PORTS; port++) {
    double *queued = &worker->queued[port];
    double before = floor(*queued), share = port == 0 ? 0.6 : 0.4;
    *queued += share * arrived;
    if (*queued > QUEUE) {
      percore_add(port_row(worker, port), DROPS, (uint64_t)(*queued - QUEUE));
      *queued = QUEUE;
    }
    percore_add(port_row(worker, port), QUEUED,
                (int64_t)(floor(*queued) - before));
  }
}

/* Returns the row of a random tunnel that is up, or DOWN if every tunnel is
 * down. Some tunnels are chosen more often than others. Another thread may
 * remove the row at any time, so call this for each batch, and do not use the
 * row after percore_poll. */
static uint32_t tunnel_of(struct worker *worker) {
  int most = rand_r(&worker->seed) % TUNNELS;
  int first = rand_r(&worker->seed) % (1 + most);
  uint32_t row = DOWN;
  for (int i = 0; i < TUNNELS && row == DOWN; i++)
    row =
        __atomic_load_n(&tunnel_rows[(first + i) % TUNNELS], __ATOMIC_ACQUIRE);
  return row;
}

/* Handles a batch of packets from the queue of a port. Returns how many packets
 * it handled. */
static unsigned handle(struct worker *worker, int port, double rate) {
  percore_row_t row = port_row(worker, port);
  double *queued = &worker->queued[port];
  unsigned n = *queued < mode->batch ? (unsigned)*queued : mode->batch;
  uint64_t bytes = 0, delay_ns = (uint64_t)(*queued / rate) + PACKET_NS;
  if (n == 0)
    return 0;
  be_busy((int64_t)n * PACKET_NS);
  for (unsigned i = 0; i < n; i++)
    bytes += 64 + (uint64_t)rand_r(&worker->seed) % 1400;
  percore_begin(row);
  percore_add(row, PACKETS, n);
  percore_add(row, BYTES, bytes);
  percore_end(row);
  percore_add(row, ERRORS, rand_r(&worker->seed) % (port ? 3000 : 300) == 0);
  percore_add(row, QUEUED, -(int64_t)n);
  for (unsigned i = 0; i < n; i++)
    percore_observe(row, DELAY, delay_ns);
  *queued -= n;
  uint32_t tunnel = tunnel_of(worker);
  if (tunnel != DOWN) {
    row = percore_row(worker->tunnels, tunnel);
    percore_add(row, PACKETS, n);
    percore_add(row, BYTES, bytes);
  }
  return n;
}

/* Reports a nap as work or, if `n` is 0, as polls that found nothing. In rounds
 * of more than 100 us, percore does not count time off the CPU, so this divides
 * the nap into rounds of about 50 us. */
static void end_nap(struct worker *worker, int64_t began_ns, uint64_t began_tsc,
                    uint64_t n) {
  uint64_t rounds = (uint64_t)(now_ns() - began_ns) / 50000;
  uint64_t ticks = percore_tsc() - began_tsc;
  for (uint64_t i = 1; i < rounds; i++)
    percore_poll(worker->slot, n, began_tsc + ticks * i / rounds);
}

/* Waits for the next time to poll. */
static void rest(struct worker *worker, int64_t until_ns) {
  int64_t began_ns = now_ns();
  uint64_t began_tsc = percore_tsc();
  if (mode == &spinning)
    percore_sleep(worker->slot);
  sleep_until(until_ns);
  if (mode == &spinning)
    percore_wake(worker->slot);
  else
    end_nap(worker, began_ns, began_tsc, 0);
}

static void *work(void *argument) {
  struct worker *worker = argument;
  struct sched_param first = {.sched_priority = 1};
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET((size_t)worker->core, &cpus);
  if (mode == &spinning)
    pthread_setaffinity_np(pthread_self(), sizeof(cpus), &cpus);
  else /* lets the thread wake up on time; may be refused */
    pthread_setschedparam(pthread_self(), SCHED_FIFO, &first);
  prctl(PR_SET_TIMERSLACK, 1);
  worker->slot = percore_attach(region, "gateway", worker->core);
  worker->ports = percore_table(worker->slot, PORT);
  worker->tunnels = percore_table(worker->slot, TUNNEL);

  int64_t polled = now_ns();
  while (!stop) {
    int64_t now = now_ns();
    int64_t enough = now + (int64_t)(mode->max_busy * (double)mode->period_ns);
    double rate = packets_per_ns(worker->number, now);
    receive(worker, rate * (double)(now - polled));
    polled = now;
    for (unsigned n = 1; n > 0 && now_ns() < enough;) {
      int64_t began_ns = now_ns();
      uint64_t began_tsc = percore_tsc();
      n = handle(worker, 0, rate) + handle(worker, 1, rate);
      if (mode == &napping && n > 0)
        end_nap(worker, began_ns, began_tsc, 1);
      percore_poll(worker->slot, n, 0);
    }
    rest(worker, polled + mode->period_ns);
  }
  return NULL;
}

/* ---------------------------------------------------------------------------
 * Tunnels: the first is always up; each of the others is up for about three
 * quarters of its own period.
 */
static void update_tunnels(void) {
  for (int i = 0; i < TUNNELS; i++) {
    bool up = i == 0 || fmod((double)now_ns() / SECOND_NS + 31 * i,
                             130 + 11 * i) < 95 + 9 * i;
    uint32_t row = tunnel_rows[i];
    if (up && row == DOWN) {
      row = percore_row_add(region, TUNNEL, tunnel_names[i], 0);
      __atomic_store_n(&tunnel_rows[i], row, __ATOMIC_RELEASE);
    } else if (!up && row != DOWN) {
      __atomic_store_n(&tunnel_rows[i], DOWN, __ATOMIC_RELEASE);
      percore_row_remove(region, TUNNEL, row, 0);
    }
  }
}

int main(int argc, char **argv) {
  static struct worker workers[MAX_WORKERS];
  const char *duration = getenv("DURATION");
  struct percore_options options = {0};
  bool nap = argc > 1 && strcmp(argv[1], "--nap") == 0;
  if (nap)
    mode = &napping;
  for (int i = 1 + nap; i < argc && worker_count < MAX_WORKERS; i++) {
    struct worker *worker = &workers[worker_count];
    *worker = (struct worker){.number = worker_count++, .core = atoi(argv[i])};
    worker->seed = (unsigned)worker->core;
    if (nap && options.cores <= (uint32_t)worker->core)
      options.cores = (uint32_t)worker->core + 1;
  }
  if (worker_count == 0) {
    fprintf(stderr, "usage: %s [--nap] CORE ...\n", argv[0]);
    return 2;
  }
  signal(SIGINT, on_signal);
  signal(SIGTERM, on_signal);
  signal(SIGALRM, on_signal);
  /* On failure, percore_create prints the reason, and the region is a sink:
   * updates go to private memory that no reader sees. */
  region = percore_create("gateway", tables, TABLES, &options);
  port_rows[0] = percore_row_add(region, PORT, "eth0", 0);
  port_rows[1] = percore_row_add(region, PORT, "eth1", 0);
  alarm(duration != NULL ? (unsigned)atoi(duration) : 0);
  for (int i = 0; i < worker_count; i++)
    if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0) {
      perror("pthread_create");
      return 1;
    }
  for (; !stop; sleep(1))
    update_tunnels();
  for (int i = 0; i < worker_count; i++)
    pthread_join(workers[i].thread, NULL);
  return 0;
}
