#include "descriptors.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

/* Descriptors that are open now, -1 if unknown. */
static long count_open(void) {
  DIR *directory = opendir("/proc/self/fd");
  if (directory == NULL)
    return -1;
  long count = -1; /* the directory itself */
  for (struct dirent *entry; (entry = readdir(directory)) != NULL;)
    count += entry->d_name[0] != '.';
  closedir(directory);
  return count;
}

long descriptors_available(void) {
  struct rlimit limit;
  long open = count_open();
  if (open < 0 || getrlimit(RLIMIT_NOFILE, &limit) != 0)
    return 0;
  long available = (long)limit.rlim_cur - open - DESCRIPTORS_RESERVE;
  return available > 0 ? available : 0;
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

bool descriptors_crowded(long need) {
  return count_open() + need + DESCRIPTORS_RESERVE > DESCRIPTORS_HIGH;
}

int descriptors_move(int fd) {
  int moved = fcntl(fd, F_DUPFD_CLOEXEC, DESCRIPTORS_HIGH);
  if (moved < 0)
    return fd;
  close(fd);
  return moved;
}
