#include "percore_config.h"

#include "descriptors.h"

#include <dirent.h>
#include <limits.h>
#include <stddef.h>
#include <sys/resource.h>

/* Those of /proc/self/fd but that of the directory itself. If it cannot be
 * opened, there is no descriptor left, or no /proc to tell: as many as there
 * may be. */
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
