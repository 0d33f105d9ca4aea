/* latency_limit: what keeps a core out of its idle states. */
#ifndef PERCORE_LATENCY_LIMIT_H
#define PERCORE_LATENCY_LIMIT_H

/* The kernel chooses only idle states whose exit latency is at most this limit,
 * which PM QoS sets. If cpuidle is off, the limit is 0. */
struct latency_limit {
  double us;        /* INFINITY: no limit */
  const char *text; /* what sets it, and perhaps how to find out who */
};

/* Reads the limit of a core. `root` precedes every path; "" is this machine.
 * Reading /dev/cpu_dma_latency needs root; if it cannot be read, there is no
 * limit. */
void latency_limit_read(struct latency_limit *limit, const char *root,
                        int core);

#endif
