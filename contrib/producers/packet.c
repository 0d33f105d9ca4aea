/* packet: receives frames from a raw packet socket and counts them with
 * percore.
 *
 *   cc packet.c $(pkg-config --cflags --libs percore) -o packet
 *   ./packet INTERFACE [CORE]
 *
 * Polls while frames arrive, and blocks when none have arrived for a while,
 * like a fast path that shares its core. percore_sleep and percore_wake tell
 * readers that the blocked worker is not stuck. Needs CAP_NET_RAW. Watch the
 * counters with `percore top packet@INTERFACE`. Ends on SIGINT or SIGTERM and
 * prints its counts.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <percore_tune.h>

enum { BATCH = 32, FRAME = 2048, IDLE_ROUNDS = 1000, WAIT_MS = 200 };

/* ---------------------------------------------------------------------------
 * The description of the counters
 */

enum { INTERFACE, PROTOCOL };          /* tables */
enum { PACKETS, BYTES, DROPS, SIZES }; /* fields of `interface` */

static const struct percore_field interface_fields[] = {
    [PACKETS] = {.name = "rx_packets", .unit = "packets"},
    [BYTES] = {.name = "rx_bytes", .unit = "bytes"},
    [DROPS] = {.name = "rx_drops",
               .unit = "packets",
               .help = "frames for which the socket had no room"},
    [SIZES] = {.name = "size",
               .unit = "bytes",
               .help = "length of frames",
               .kind = PERCORE_HISTOGRAM,
               .sub_bits = 2,
               .max_bits = 14},
};

static const struct percore_field protocol_fields[] = {
    [PACKETS] = {.name = "rx_packets", .unit = "packets"},
    [BYTES] = {.name = "rx_bytes", .unit = "bytes"},
};

/* The rows of the table `protocol`, each with the Ethernet type that it counts;
 * the last row counts all other types. */
static const struct {
  uint16_t type;
  const char *name;
} protocols[] = {
    {ETH_P_IP, "ipv4"}, {ETH_P_IPV6, "ipv6"}, {ETH_P_ARP, "arp"}, {0, "other"}};
enum { PROTOCOLS = sizeof(protocols) / sizeof(protocols[0]) };

static const struct percore_table tables[] = {
    [INTERFACE] = {.name = "interface",
                   .storage = PERCORE_PER_CORE,
                   .fields = interface_fields,
                   .field_count = 4,
                   .max_rows = 1,
                   .row_name_size = 24},
    [PROTOCOL] = {.name = "protocol",
                  .storage = PERCORE_PER_CORE,
                  .fields = protocol_fields,
                  .field_count = 2,
                  .max_rows = PROTOCOLS,
                  .row_name_size = 24},
};

static struct percore_region *region;
static percore_table_t interface_table, protocol_table;
static uint32_t interface_row, protocol_row[PROTOCOLS];

static void make_region(const char *interface) {
  struct percore_options options = {.instance = interface};
  /* On failure, percore_create prints the reason. */
  region = percore_create("packet", tables, 2, &options);
  interface_row = percore_row_add(region, INTERFACE, interface, 0);
  for (int p = 0; p < PROTOCOLS; p++)
    protocol_row[p] = percore_row_add(region, PROTOCOL, protocols[p].name, 0);
}

/* ---------------------------------------------------------------------------
 * The fast path
 */

static volatile sig_atomic_t stop;

static void on_signal(int number) {
  (void)number;
  stop = 1;
}

struct receiver {
  int socket;
  uint64_t packets, bytes; /* totals, printed at the end */
  struct mmsghdr messages[BATCH];
  struct iovec parts[BATCH];
  unsigned char frames[BATCH][FRAME];
};

static int protocol_of(const unsigned char *frame, unsigned length) {
  uint16_t type = 0;
  if (length >= sizeof(struct ethhdr))
    type = ntohs(((const struct ethhdr *)(const void *)frame)->h_proto);
  int p = 0;
  while (p < PROTOCOLS - 1 && protocols[p].type != type)
    p++;
  return p;
}

static void count(struct receiver *receiver, int frames) {
  percore_row_t all = percore_row(interface_table, interface_row);
  for (int i = 0; i < frames; i++) {
    unsigned length = receiver->messages[i].msg_len;
    int p = protocol_of(receiver->frames[i], length);
    percore_row_t one = percore_row(protocol_table, protocol_row[p]);
    percore_begin(all); /* readers see all of these updates or none */
    percore_add(all, PACKETS, 1);
    percore_add(all, BYTES, length);
    percore_add(one, PACKETS, 1);
    percore_add(one, BYTES, length);
    percore_end(all);
    percore_observe(all, SIZES, length);
    receiver->packets++;
    receiver->bytes += length;
  }
}

/* Adds the frames that the kernel dropped since the last call: each read resets
 * the kernel's count to 0.
 */
static void count_drops(struct receiver *receiver) {
  struct tpacket_stats stats;
  socklen_t size = sizeof(stats);
  if (getsockopt(receiver->socket, SOL_PACKET, PACKET_STATISTICS, &stats,
                 &size) == 0)
    percore_add(percore_row(interface_table, interface_row), DROPS,
                stats.tp_drops);
}

static void receive(struct receiver *receiver, percore_slot_t slot) {
  int idle = 0;
  while (!stop) {
    int frames = recvmmsg(receiver->socket, receiver->messages, BATCH,
                          MSG_DONTWAIT | MSG_TRUNC, NULL);
    if (frames < 0)
      frames = 0;
    count(receiver, frames);
    percore_poll(slot, (uint64_t)frames, 0);
    idle = frames > 0 ? 0 : idle + 1;
    if (idle < IDLE_ROUNDS)
      continue;
    struct pollfd ready = {.fd = receiver->socket, .events = POLLIN};
    count_drops(receiver);
    percore_sleep(slot);
    poll(&ready, 1, WAIT_MS);
    percore_wake(slot);
  }
}

/* ---------------------------------------------------------------------------
 * The socket
 */

static int fail(const char *what) {
  fprintf(stderr, "packet: %s: %s\n", what, strerror(errno));
  return 1;
}

static int open_socket(struct receiver *receiver, const char *interface) {
  struct sockaddr_ll address = {.sll_family = AF_PACKET,
                                .sll_protocol = htons(ETH_P_ALL)};
  int yes = 1;
  address.sll_ifindex = (int)if_nametoindex(interface);
  if (address.sll_ifindex == 0)
    return -1;
  /* The protocol is 0 until the socket is bound; otherwise, the socket would
   * first receive frames from all interfaces. */
  receiver->socket = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
  if (receiver->socket < 0 ||
      setsockopt(receiver->socket, SOL_PACKET, PACKET_IGNORE_OUTGOING, &yes,
                 sizeof(yes)) != 0 ||
      bind(receiver->socket, (struct sockaddr *)&address, sizeof(address)) != 0)
    return -1;
  for (int i = 0; i < BATCH; i++) {
    receiver->parts[i] = (struct iovec){receiver->frames[i], FRAME};
    receiver->messages[i].msg_hdr.msg_iov = &receiver->parts[i];
    receiver->messages[i].msg_hdr.msg_iovlen = 1;
  }
  return 0;
}

static int pin(int core) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET((size_t)core, &cpus);
  return sched_setaffinity(0, sizeof(cpus), &cpus);
}

int main(int argc, char **argv) {
  static struct receiver receiver;
  int core = argc > 2 ? atoi(argv[2]) : -1;
  if (argc < 2 || argc > 3 || core >= CPU_SETSIZE) {
    fputs("Usage: packet INTERFACE [CORE]\n", stderr);
    return 2;
  }
  signal(SIGINT, on_signal);
  signal(SIGTERM, on_signal);
  if (open_socket(&receiver, argv[1]) != 0)
    return fail(argv[1]);
  make_region(argv[1]);
  if (core >= 0 && pin(core) != 0)
    return fail("cannot run on that core");
  percore_slot_t slot = percore_attach(region, argv[1], core);
  interface_table = percore_table(slot, INTERFACE);
  protocol_table = percore_table(slot, PROTOCOL);
  puts("receiving");
  fflush(stdout);
  receive(&receiver, slot);
  printf("counted rx_packets %" PRIu64 " rx_bytes %" PRIu64 "\n",
         receiver.packets, receiver.bytes);
  return 0;
}
