/* backoff: delays the next attempt at something that failed, longer after each
 * failure. Initialise a struct backoff with zeros, and set wait_ns to 0 after a
 * success. */
#ifndef PERCORE_BACKOFF_H
#define PERCORE_BACKOFF_H

#include <stdint.h>

struct backoff {
  uint64_t until_ns; /* no attempt before this CLOCK_MONOTONIC time */
  uint64_t wait_ns;  /* the delay after the last failure */
};

/* Call this after each failure. Delays the next attempt by first_ns after the
 * first failure, and by twice the previous delay, but at most max_ns, after
 * each later failure. */
static inline void backoff_extend(struct backoff *backoff, uint64_t now_ns,
                                  uint64_t first_ns, uint64_t max_ns) {
  uint64_t wait_ns = backoff->wait_ns == 0 ? first_ns : 2 * backoff->wait_ns;
  backoff->wait_ns = wait_ns < max_ns ? wait_ns : max_ns;
  backoff->until_ns = now_ns + backoff->wait_ns;
}

#endif
