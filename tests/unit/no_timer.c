#include <stddef.h>
#include <sys/time.h>

/* Replaces that of libc: on a busy machine, the process that receives a region
 * may wait for a core for longer than the second after which it would be
 * killed. */
int setitimer(__itimer_which_t which, const struct itimerval *new,
              struct itimerval *old) {
  (void)which, (void)new, (void)old;
  return 0;
}
