/* udp_flood ADDRESS PORT PACKETS_PER_S SECONDS: sends a burst of packets of 64
 * bytes every millisecond, and finally prints how many it sent per second. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#define PERIOD_NS UINT64_C(1000000)
#define BURST_MAX 1024

static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void sleep_until(uint64_t time_ns) {
  const struct timespec time = {(time_t)(time_ns / 1000000000),
                                (long)(time_ns % 1000000000)};
  clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
}

static uint64_t send_burst(int fd, struct mmsghdr *messages, uint64_t burst) {
  uint64_t sent = 0;
  while (sent < burst) {
    uint64_t left = burst - sent;
    int n = sendmmsg(fd, messages,
                     (unsigned)(left > BURST_MAX ? BURST_MAX : left), 0);
    if (n < 0 && errno == ECONNREFUSED)
      continue; /* the receiver is not ready yet */
    if (n < 0) {
      perror("udp_flood: sendmmsg");
      exit(1);
    }
    sent += (uint64_t)n;
  }
  return sent;
}

int main(int argc, char **argv) {
  static struct mmsghdr messages[BURST_MAX];
  static char packet[64];
  struct iovec content = {packet, sizeof(packet)};
  if (argc != 5)
    return 2;
  struct sockaddr_in to = {.sin_family = AF_INET,
                           .sin_port = htons((uint16_t)atoi(argv[2]))};
  int fd = socket(AF_INET, SOCK_DGRAM, 0);
  if (inet_pton(AF_INET, argv[1], &to.sin_addr) != 1 || fd < 0 ||
      connect(fd, (struct sockaddr *)&to, sizeof(to)) != 0) {
    fprintf(stderr, "udp_flood: %s: %s\n", argv[1], strerror(errno));
    return 1;
  }
  for (int i = 0; i < BURST_MAX; i++)
    messages[i].msg_hdr = (struct msghdr){.msg_iov = &content, .msg_iovlen = 1};
  uint64_t rate = strtoull(argv[3], NULL, 10), sent = 0;
  uint64_t begin_ns = now_ns(),
           end_ns =
               begin_ns + strtoull(argv[4], NULL, 10) * UINT64_C(1000000000);
  for (uint64_t next_ns = begin_ns; next_ns < end_ns; next_ns += PERIOD_NS) {
    uint64_t due = (next_ns - begin_ns + PERIOD_NS) / 1000 * rate / 1000000;
    sent += send_burst(fd, messages, due - sent);
    sleep_until(next_ns + PERIOD_NS);
  }
  printf("%.0f\n", (double)sent * 1e9 / (double)(now_ns() - begin_ns));
  return 0;
}
