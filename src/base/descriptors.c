#include "percore_config.h"

#include "descriptors.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <sys/resource.h>
#include <unistd.h>

#define COUNTERS 3 /* of a core */

/* Returns the number of open descriptors: the entries of /proc/self/fd, except
 * the descriptor of that directory itself. Returns LONG_MAX if the directory
 * cannot be opened, because no descriptor is left or because /proc is not
 * mounted. */
static long count_used(void) {
  long count = -1;
  DIR *directory = opendir("/proc/self/fd");
  if (directory == NULL)
    return LONG_MAX;
  for (const struct dirent *entry; (entry = readdir(directory)) != NULL;)
    count += entry->d_name[0] != '.';
  closedir(directory);
  return count;
}

/* Returns how many descriptors may be open of those below `below`. */
static long limit_below(long below) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
    return 0;
  long most = limit.rlim_cur < (rlim_t)below ? (long)limit.rlim_cur : below;
  return most -
         (most / 4 < DESCRIPTORS_RESERVE ? most / 4 : DESCRIPTORS_RESERVE);
}

long descriptors_available(void) {
  long most = limit_below(INT_MAX), used = count_used();
  return used < most ? most - used : 0;
}

bool descriptors_have_room(int fd) {
  return fd < limit_below(fd < DESCRIPTORS_HIGH ? DESCRIPTORS_HIGH : INT_MAX);
}

void descriptors_raise_limit(void) {
  struct rlimit limit;
  long need = COUNTERS * sysconf(_SC_NPROCESSORS_CONF);
  if (descriptors_available() >= need || getrlimit(RLIMIT_NOFILE, &limit) != 0)
    return;
  rlim_t enough = (rlim_t)(DESCRIPTORS_HIGH + need + DESCRIPTORS_RESERVE);
  if (enough > limit.rlim_max)
    enough = limit.rlim_max;
  if (enough <= limit.rlim_cur)
    return;
  limit.rlim_cur = enough;
  setrlimit(RLIMIT_NOFILE, &limit);
}

int descriptors_move(int fd) {
  int moved = fcntl(fd, F_DUPFD_CLOEXEC, DESCRIPTORS_HIGH);
  if (moved < 0)
    return fd;
  close(fd);
  return moved;
}
