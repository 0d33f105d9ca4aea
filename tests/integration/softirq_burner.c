/* softirq_burner CORE PERIOD_US SPIN_US: occupies a core with softirqs of a
 * known length until it is killed, and prints every 50 ms:
 *
 *   ns on CLOCK_MONOTONIC, ns in softirq so far, how often the timer has fired
 */
#include "softirq_timer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int main(int argc, char **argv) {
  if (argc != 4)
    return 2;
  struct softirq_timer_bpf *timer =
      softirq_timer_start(atoi(argv[1]), strtoull(argv[2], NULL, 10) * 1000,
                          strtoull(argv[3], NULL, 10) * 1000);
  if (timer == NULL) {
    fprintf(stderr, "softirq_burner: %s\n", strerror(errno));
    return 1;
  }
  for (;;) {
    const struct timespec pause = {0, 50000000};
    struct softirq_log log;
    struct timespec now;
    if (softirq_timer_read(timer, &log) != 0)
      return 1;
    clock_gettime(CLOCK_MONOTONIC, &now);
    printf("%llu %llu %llu\n",
           (unsigned long long)now.tv_sec * 1000000000 +
               (unsigned long long)now.tv_nsec,
           (unsigned long long)log.spun_ns, (unsigned long long)log.fires);
    if (fflush(stdout) != 0)
      return 0;
    nanosleep(&pause, NULL);
  }
}
