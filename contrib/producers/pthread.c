/* pthread: a fast path that publishes counters. Pinned workers poll simulated
 * ports and count packets, bytes and the time per packet, per core and port.
 *
 *   cc -D_GNU_SOURCE pthread.c $(pkg-config --cflags --libs percore) -pthread
 *   ./a.out 0 1        # a worker on core 0 and one on core 1
 *   percore top pthread
 *
 * The program ends on SIGINT or SIGTERM, and after DURATION seconds if this
 * environment variable is set. */
#include <percore_tune.h>

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The description of the counters: the fields, and a table in which every row
 * consists of these fields. */
enum port_field { PACKETS, BYTES, QUEUED, PACKET_TIME };
static const struct percore_field port_fields[] = {
    [PACKETS] = {.name = "rx_packets", .unit = "packets"},
    [BYTES] = {.name = "rx_bytes", .unit = "bytes"},
    [QUEUED] = {.name = "queued",
                .unit = "packets",
                .kind = PERCORE_UPDOWN,
                .help = "packets received and not yet sent"},
    [PACKET_TIME] = {.name = "packet_time",
                     .unit = "cycles",
                     .kind = PERCORE_HISTOGRAM,
                     .sub_bits = 2,
                     .max_bits = 24},
};

enum tables { PORT, TABLES };
static const struct percore_table tables[TABLES] = {
    [PORT] = {.name = "port",
              .help = "ports that receive packets",
              .fields = port_fields,
              .field_count = 4,
              .max_rows = 16,
              .row_name_size = 24},
};

enum { PORTS = 2, BATCH = 32, MAX_WORKERS = 64 };

static struct percore_region *region;
static uint32_t port_rows[PORTS];
static volatile sig_atomic_t stop;

static void on_signal(int number) {
  (void)number;
  stop = 1;
}

/* Simulates a driver: returns the number of packets received, which may be 0,
 * and their sizes. */
static unsigned receive(unsigned *seed, uint32_t sizes[BATCH]) {
  unsigned n = rand_r(seed) % 4 == 0 ? (unsigned)rand_r(seed) % BATCH : 0;
  for (unsigned i = 0; i < n; i++)
    sizes[i] = 64 + (uint32_t)rand_r(seed) % 1400;
  return n;
}

static void *work(void *argument) {
  int core = (int)(intptr_t)argument;
  unsigned seed = (unsigned)core + 1;
  uint32_t sizes[BATCH];
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET((size_t)core, &cpus);
  pthread_setaffinity_np(pthread_self(), sizeof(cpus), &cpus);

  /* Each thread makes its handles once. If a call fails, its handle is a sink:
   * updates go to private memory that no reader sees, and packets are still
   * forwarded. */
  percore_slot_t slot = percore_attach(region, "worker", core);
  percore_table_t ports = percore_table(slot, PORT);

  for (unsigned port = 0; !stop; port = (port + 1) % PORTS) {
    unsigned n = receive(&seed, sizes);
    percore_row_t row = percore_row(ports, port_rows[port]);
    percore_add(row, QUEUED, n);
    for (unsigned i = 0; i < n; i++) {
      uint64_t start = percore_tsc();
      /* Counters that change between percore_begin and percore_end change
       * together for readers: no reader sees the packet without its bytes. */
      percore_begin(row);
      percore_add(row, PACKETS, 1);
      percore_add(row, BYTES, sizes[i]);
      percore_end(row);
      percore_observe(row, PACKET_TIME, percore_tsc() - start);
    }
    percore_add(row, QUEUED, -(int64_t)n);
    /* Call this once per round: the round counts as busy if n > 0. */
    percore_poll(slot, n, 0);
    if (n == 0) {
      percore_sleep(slot);
      usleep(50);
      percore_wake(slot);
    }
  }
  return NULL;
}

int main(int argc, char **argv) {
  const char *duration = getenv("DURATION"), *instance = getenv("INSTANCE");
  struct percore_options options = {.instance = instance};
  pthread_t workers[MAX_WORKERS];
  int count = 0;
  bool usable = argc >= 2 && argc <= MAX_WORKERS;
  for (int i = 1; i < argc && usable; i++)
    usable = argv[i][0] >= '0' && argv[i][0] <= '9';
  if (!usable) {
    fprintf(stderr, "usage: %s CORE ...\n", argv[0]);
    return 2;
  }
  signal(SIGINT, on_signal);
  signal(SIGTERM, on_signal);
  signal(SIGALRM, on_signal);
  /* On failure, percore_create prints the reason, and the region is a sink. */
  region = percore_create("pthread", tables, TABLES, &options);
  for (int p = 0; p < PORTS; p++) {
    char name[24];
    snprintf(name, sizeof(name), "port%d", p);
    port_rows[p] = percore_row_add(region, PORT, name, 0);
  }
  alarm(duration != NULL ? (unsigned)atoi(duration) : 0);
  for (int i = 1; i < argc; i++)
    if (pthread_create(&workers[count], NULL, work,
                       (void *)(intptr_t)atoi(argv[i])) == 0)
      count++;
  for (int i = 0; i < count; i++)
    pthread_join(workers[i], NULL);
  return 0;
}
