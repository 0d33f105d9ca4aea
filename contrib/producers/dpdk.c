/* dpdk: forwards packets between two DPDK ports and counts them with percore.
 *
 * The commands below need no huge pages, PCI devices or networks. Each lcore
 * receives at most --rate packets per second from net_null and sends them to
 * net_ring. It receives them from net_ring again and sends them to net_null,
 * which discards them:
 *
 *   cc dpdk.c $(pkg-config --cflags --libs libdpdk percore) -o dpdk
 *   ./dpdk -l 0-2 --no-huge -m 64 --no-pci --vdev net_null0 --vdev net_ring0 \
 *     -- --rate 200000 --seconds 10
 *
 * The main lcore waits; every other lcore polls its own queue of both ports.
 * Watch the counters with `percore top dpdk`. With DPDK 24.11 or later, its
 * telemetry tells how busy the lcores are, too: programs without percore are
 * asked that by collectd (percore-pollers(7)). At the end the program
 * prints DPDK's packet counts for each port, which equal percore's; with --hold
 * it then keeps the region until its standard input ends.
 *
 * The steps that percore needs are to describe the counters, to create the
 * region, to attach each lcore, and in each round to count and to call
 * percore_poll.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include <rte_version.h>

#include <percore_tune.h>

enum { BURST = 32, DESCRIPTORS = 512, BUFFERS = 4095, CACHE = 128, PORTS = 2 };

/* ---------------------------------------------------------------------------
 * The description of the counters
 */

enum { RX_PACKETS, RX_BYTES, TX_PACKETS, TX_DROPS, RX_BURST };

static const struct percore_field port_fields[] = {
    [RX_PACKETS] = {.name = "rx_packets", .unit = "packets"},
    [RX_BYTES] = {.name = "rx_bytes", .unit = "bytes"},
    [TX_PACKETS] = {.name = "tx_packets", .unit = "packets"},
    [TX_DROPS] = {.name = "tx_drops",
                  .unit = "packets",
                  .help = "packets for which this port had no room"},
    [RX_BURST] = {.name = "rx_burst",
                  .unit = "packets",
                  .help = "packets per burst",
                  .kind = PERCORE_HISTOGRAM,
                  .sub_bits = 5, /* one bucket per burst size */
                  .max_bits = 6},
};

static const struct percore_field queue_fields[] = {
    [RX_PACKETS] = {.name = "rx_packets", .unit = "packets"},
};

/* Only one lcore polls a queue, so the counters of a queue need only one copy
 * (PERCORE_OWNED). */
enum { PORT, QUEUE, TABLES };
static const struct percore_table tables[TABLES] = {
    [PORT] = {.name = "port",
              .help = "ports that receive packets",
              .fields = port_fields,
              .field_count = 5,
              .max_rows = PORTS,
              .row_name_size = 56},
    [QUEUE] = {.name = "queue",
               .help = "receive queues of the ports",
               .storage = PERCORE_OWNED,
               .fields = queue_fields,
               .field_count = 1,
               .max_rows = PORTS * RTE_MAX_LCORE,
               .row_name_size = 120,
               .row_align = 64},
};

static struct percore_region *region;
static uint32_t port_row[PORTS], queue_row[PORTS][RTE_MAX_LCORE];

/* Creates the region and its rows. If a call fails, its row is a sink: updates
 * go to private memory that no reader sees, and packets are still forwarded. */
static void make_region(uint16_t queues) {
  /* On failure, percore_create prints the reason. */
  region = percore_create("dpdk", tables, TABLES, NULL);
  for (uint16_t port = 0; port < PORTS; port++) {
    char name[RTE_ETH_NAME_MAX_LEN], both[RTE_ETH_NAME_MAX_LEN + 32];
    rte_eth_dev_get_name_by_port(port, name);
    port_row[port] = percore_row_add(region, PORT, name, 0);
    for (uint16_t q = 0; q < queues; q++) {
      snprintf(both, sizeof(both), "port:%s|queue:%u", name, q);
      queue_row[port][q] = percore_row_add(region, QUEUE, both, 0);
    }
  }
}

/* ---------------------------------------------------------------------------
 * The fast path
 */

static volatile bool stop;
/* How many packets per second each lcore takes from port 0. */
static double rate = 1e5;

/* Keeps an lcore from taking more packets from port 0 than `rate` allows. */
struct source {
  uint64_t start_tsc, taken;
  double per_tick;
};

static uint16_t allowed(const struct source *source, uint64_t now) {
  double due = (double)(now - source->start_tsc) * source->per_tick -
               (double)source->taken;
  return due < 1 ? 0 : due < BURST ? (uint16_t)due : BURST;
}

/* The cycles of an lcore's rounds that had packets, and of all of its rounds.
 * Only this lcore writes them. */
static struct rounds {
  uint64_t busy, all;
  char others[RTE_CACHE_LINE_SIZE - 16];
} rounds[RTE_MAX_LCORE];

static void count_round(struct rounds *of, uint64_t cycles, uint16_t packets) {
  if (packets > 0)
    __atomic_store_n(&of->busy, of->busy + cycles, __ATOMIC_RELAXED);
  __atomic_store_n(&of->all, of->all + cycles, __ATOMIC_RELAXED);
}

#if RTE_VERSION >= RTE_VERSION_NUM(24, 11, 0, 0)
static int tell_usage(unsigned lcore, struct rte_lcore_usage *usage) {
  usage->total_cycles = __atomic_load_n(&rounds[lcore].all, __ATOMIC_RELAXED);
  usage->busy_cycles = __atomic_load_n(&rounds[lcore].busy, __ATOMIC_RELAXED);
  return usage->total_cycles > 0 ? 0 : -1; /* it does not poll */
}
#endif

/* The tables as one thread updates them. */
struct counters {
  percore_table_t ports, queues;
};

/* Forwards a burst of at most `max` packets from `port` to the other port.
 * Returns how many packets it received.
 */
static uint16_t forward(uint16_t port, uint16_t queue, uint16_t max,
                        const struct counters *counters) {
  struct rte_mbuf *packets[BURST];
  uint16_t other = port ^ 1;
  uint16_t received = rte_eth_rx_burst(port, queue, packets, max);
  if (received == 0)
    return 0;
  uint64_t bytes = 0;
  for (uint16_t i = 0; i < received; i++)
    bytes += rte_pktmbuf_pkt_len(packets[i]);
  uint16_t sent = rte_eth_tx_burst(other, queue, packets, received);
  rte_pktmbuf_free_bulk(packets + sent, received - sent);

  percore_row_t in = percore_row(counters->ports, port_row[port]);
  percore_row_t out = percore_row(counters->ports, port_row[other]);
  percore_begin(in); /* readers see all of these updates or none */
  percore_add(in, RX_PACKETS, received);
  percore_add(in, RX_BYTES, bytes);
  percore_add(out, TX_PACKETS, sent);
  percore_add(out, TX_DROPS, received - sent);
  percore_end(in);
  percore_add(percore_row(counters->queues, queue_row[port][queue]), RX_PACKETS,
              received);
  percore_observe(in, RX_BURST, received);
  return received;
}

static int work(void *argument) {
  uint16_t queue = (uint16_t)(uintptr_t)argument;
  char name[40];
  snprintf(name, sizeof(name), "lcore %u", rte_lcore_id());
  /* The core on which this thread runs. rte_lcore_to_cpu_id() returns the
   * number of a core within its socket, and an lcore ID may differ from the
   * number of the CPU that the lcore runs on (--lcores 0@1). */
  percore_slot_t slot = percore_attach(region, name, PERCORE_THIS_CORE);
  struct counters counters = {percore_table(slot, PORT),
                              percore_table(slot, QUEUE)};
  struct source source = {.start_tsc = rte_rdtsc(),
                          .per_tick = rate / (double)rte_get_tsc_hz()};
  uint64_t last = source.start_tsc;
  uint16_t n = 0;
  while (!stop) {
    uint64_t now = rte_rdtsc();
    percore_poll(slot, n, now); /* ends the previous round of n packets */
    count_round(&rounds[rte_lcore_id()], now - last, n);
    last = now;
    uint16_t max = allowed(&source, now);
    n = max > 0 ? forward(0, queue, max, &counters) : 0;
    source.taken += n;
    n += forward(1, queue, BURST, &counters);
  }
  return 0;
}

/* ---------------------------------------------------------------------------
 * DPDK
 */

static void check(int status, const char *what) {
  if (status >= 0)
    return;
  fprintf(stderr, "dpdk: %s: %s\n", what, rte_strerror(-status));
  exit(EXIT_FAILURE);
}

static void start_port(uint16_t port, uint16_t queues,
                       struct rte_mempool *buffers) {
  struct rte_eth_conf conf = {0};
  check(rte_eth_dev_configure(port, queues, queues, &conf), "configure");
  for (uint16_t q = 0; q < queues; q++) {
    check(rte_eth_rx_queue_setup(port, q, DESCRIPTORS, SOCKET_ID_ANY, NULL,
                                 buffers),
          "rx queue");
    check(rte_eth_tx_queue_setup(port, q, DESCRIPTORS, SOCKET_ID_ANY, NULL),
          "tx queue");
  }
  check(rte_eth_dev_start(port), "start");
}

static void print_counts(void) {
  for (uint16_t port = 0; port < PORTS; port++) {
    struct rte_eth_stats stats;
    char name[RTE_ETH_NAME_MAX_LEN];
    rte_eth_dev_get_name_by_port(port, name);
    check(rte_eth_stats_get(port, &stats), "stats");
    printf("counted %s rx_packets %" PRIu64 " tx_packets %" PRIu64 "\n", name,
           stats.ipackets, stats.opackets);
  }
  fflush(stdout);
}

static void on_signal(int number) {
  (void)number;
  stop = true;
}

static void run(double seconds) {
  unsigned lcore;
  uintptr_t queue = 0;
#if RTE_VERSION >= RTE_VERSION_NUM(24, 11, 0, 0)
  rte_lcore_register_usage_cb(tell_usage);
#endif
  RTE_LCORE_FOREACH_WORKER(lcore)
  check(rte_eal_remote_launch(work, (void *)queue++, lcore), "launch");
  printf("forwarding\n");
  fflush(stdout);
  for (double passed = 0; !stop && passed < seconds; passed += 0.01)
    usleep(10000);
  stop = true;
  rte_eal_mp_wait_lcore();
}

int main(int argc, char **argv) {
  int used = rte_eal_init(argc, argv);
  double seconds = 1e9;
  bool hold = false;
  check(used, "rte_eal_init");
  for (int i = used + 1; i < argc; i++)
    if (strcmp(argv[i], "--hold") == 0)
      hold = true;
    else if (i + 1 < argc && strcmp(argv[i], "--seconds") == 0)
      seconds = atof(argv[++i]);
    else if (i + 1 < argc && strcmp(argv[i], "--rate") == 0)
      rate = atof(argv[++i]);
    else
      rte_exit(2, "unknown option %s: use --rate PPS, --seconds S or --hold\n",
               argv[i]);
  uint16_t queues = (uint16_t)(rte_lcore_count() - 1);
  if (rte_eth_dev_count_avail() < PORTS || queues == 0)
    rte_exit(2, "two ports and two lcores are needed: use --vdev net_null0 "
                "--vdev net_ring0 -l 0,1\n");
  struct rte_mempool *buffers = rte_pktmbuf_pool_create(
      "buffers", BUFFERS, CACHE, 0, RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
  if (buffers == NULL)
    check(-rte_errno, "buffers");
  for (uint16_t port = 0; port < PORTS; port++)
    start_port(port, queues, buffers);
  make_region(queues);
  signal(SIGINT, on_signal);
  signal(SIGTERM, on_signal);
  run(seconds);
  print_counts();
  while (hold && getchar() != EOF)
    ;
  percore_destroy(region);
  for (uint16_t port = 0; port < PORTS; port++)
    rte_eth_dev_stop(port);
  rte_eal_cleanup();
  return 0;
}
