/* backoff: postpones the next try of something that failed, longer after each
 * failure. All zero at first; a success sets wait_ns to 0. */
#ifndef PERCORE_BACKOFF_H
#define PERCORE_BACKOFF_H

#include <stdint.h>

struct backoff {
  uint64_t until_ns; /* no try before this time of CLOCK_MONOTONIC */
  uint64_t wait_ns;  /* how long the last failure postponed it */
};

/* Waits first_ns after the first failure, and twice as long each time, up to
 * max_ns. */
static inline void backoff_extend(struct backoff *backoff, uint64_t now_ns,
                                  uint64_t first_ns, uint64_t max_ns) {
  uint64_t wait_ns = backoff->wait_ns == 0 ? first_ns : 2 * backoff->wait_ns;
  backoff->wait_ns = wait_ns < max_ns ? wait_ns : max_ns;
  backoff->until_ns = now_ns + backoff->wait_ns;
}

#endif
