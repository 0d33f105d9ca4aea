#include "percore_config.h"

#include "descriptors.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <sys/resource.h>
#include <unistd.h>

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

long descriptors_available(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
    return 0;
  rlim_t most = limit.rlim_cur < INT_MAX ? limit.rlim_cur : INT_MAX;
  rlim_t reserve =
      most / 4 < DESCRIPTORS_RESERVE ? most / 4 : DESCRIPTORS_RESERVE;
  long free_now = (long)most - (long)reserve, used = count_used();
  return used < free_now ? free_now - used : 0;
}

void descriptors_raise_limit(long need) {
  struct rlimit limit;
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
