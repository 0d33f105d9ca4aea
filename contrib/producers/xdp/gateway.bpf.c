/* An XDP program whose counters percore reads by name. The program does not
 * depend on percore: percore needs only its maps and their type information
 * (clang -g). Tags (HELP) are optional; they add what a type cannot express.
 *
 * Build, load and show:
 *
 *   clang -O2 -g -target bpf -I/usr/include/$(uname -m)-linux-gnu \
 *     -c gateway.bpf.c -o gateway.bpf.o
 *   ./load eth0
 *   percore top /sys/fs/bpf/gateway/flows
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define HELP(text) __attribute__((btf_decl_tag("percore:help=" text)))

char LICENSE[] SEC("license") = "Dual MIT/GPL";

enum { ICMP, TCP, UDP, REST, PROTOCOLS };

struct protocol {
  __u64 rx_packets;
  __u64 rx_bytes HELP("bytes of the frames, from the Ethernet header on");
};

struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, PROTOCOLS);
  __type(key, __u32);
  __type(value, struct protocol);
} protocols SEC(".maps");

struct flow {
  __be32 source, destination;
  __be16 source_port, destination_port;
};

struct flow_counters {
  __u64 packets, bytes;
};

struct {
  __uint(type, BPF_MAP_TYPE_LRU_PERCPU_HASH);
  __uint(max_entries, 4096);
  __type(key, struct flow);
  __type(value, struct flow_counters);
} flows SEC(".maps");

static void count_protocol(__u32 protocol, __u64 length) {
  struct protocol *counters = bpf_map_lookup_elem(&protocols, &protocol);
  if (!counters)
    return;
  counters->rx_packets++;
  counters->rx_bytes += length;
}

static void count_flow(const struct flow *flow, __u64 length) {
  struct flow_counters first = {1, length};
  struct flow_counters *counters = bpf_map_lookup_elem(&flows, flow);
  if (!counters) {
    bpf_map_update_elem(&flows, flow, &first, BPF_NOEXIST);
    return;
  }
  counters->packets++;
  counters->bytes += length;
}

SEC("xdp")
int gateway(struct xdp_md *packet) {
  void *data = (void *)(long)packet->data;
  void *end = (void *)(long)packet->data_end;
  __u64 length = end - data;
  struct ethhdr *ethernet = data;
  struct iphdr *ip = (void *)(ethernet + 1);
  struct udphdr *udp = (void *)(ip + 1);

  if ((void *)udp > end || ethernet->h_proto != bpf_htons(ETH_P_IP)) {
    count_protocol(REST, length);
    return XDP_PASS;
  }
  count_protocol(ip->protocol == IPPROTO_ICMP  ? ICMP
                 : ip->protocol == IPPROTO_TCP ? TCP
                 : ip->protocol == IPPROTO_UDP ? UDP
                                               : REST,
                 length);
  if (ip->protocol == IPPROTO_UDP && (void *)(udp + 1) <= end) {
    struct flow flow = {ip->saddr, ip->daddr, udp->source, udp->dest};
    count_flow(&flow, length);
  }
  return XDP_PASS;
}
