#include "latency_limit.h"

#include <glob.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DMA_LATENCY "/dev/cpu_dma_latency"
#define NO_LIMIT_US 2000000000 /* what it reads as if no process sets it */
#define PATH_SIZE 256

/* Reads at most `size` bytes of a file. Returns how many were read. */
static size_t read_bytes(const char *path, void *bytes, size_t size) {
  FILE *file = fopen(path, "re");
  size_t length = file != NULL ? fread(bytes, 1, size, file) : 0;
  if (file != NULL)
    fclose(file);
  return length;
}

/* Lists the processes that hold a file open: "tuned (8), cyclictest (9)". */
static void list_holders(char *list, size_t size, const char *root) {
  char path[PATH_SIZE];
  glob_t found;
  size_t used = 0;
  snprintf(path, sizeof(path), "%s/proc/[0-9]*/fd/*", root);
  list[0] = '\0';
  if (glob(path, GLOB_NOSORT, NULL, &found) != 0)
    return;
  for (size_t i = 0; i < found.gl_pathc; i++) {
    char target[sizeof(DMA_LATENCY)] = "", name[32] = "";
    int pid = atoi(found.gl_pathv[i] + strlen(root) + strlen("/proc/"));
    ssize_t length = readlink(found.gl_pathv[i], target, sizeof(target));
    if (length != sizeof(target) - 1 ||
        memcmp(target, DMA_LATENCY, sizeof(target) - 1) != 0)
      continue;
    snprintf(path, sizeof(path), "%s/proc/%d/comm", root, pid);
    read_bytes(path, name, sizeof(name) - 1);
    name[strcspn(name, "\n")] = '\0';
    int more = snprintf(list + used, size - used, "%s%s (%d)",
                        used > 0 ? ", " : "", name, pid);
    used += more > 0 && (size_t)more < size - used ? (size_t)more : 0;
  }
  globfree(&found);
}

void latency_limit_read(struct latency_limit *limit, const char *root,
                        int core) {
  char text[96] = "", path[PATH_SIZE];
  int32_t us;
  *limit = (struct latency_limit){.us = INFINITY};
  snprintf(path, sizeof(path), "%s/sys/module/cpuidle/parameters/off", root);
  if (read_bytes(path, text, 1) == 1 && text[0] == '1') {
    limit->us = 0;
    strcpy(limit->text, "cpuidle.off=1 on the kernel's command line");
    return;
  }
  snprintf(path, sizeof(path),
           "%s/sys/devices/system/cpu/cpu%d/power/pm_qos_resume_latency_us",
           root, core);
  /* 0: no limit; "n/a": 0 us. */
  if (read_bytes(path, text, sizeof(text) - 1) > 0 &&
      strcmp(text, "0\n") != 0) {
    limit->us = strtod(text, NULL);
    strcpy(limit->text, "pm_qos_resume_latency_us of the core");
  }
  snprintf(path, sizeof(path), "%s" DMA_LATENCY, root);
  if (read_bytes(path, &us, sizeof(us)) != sizeof(us) || us >= NO_LIMIT_US ||
      us >= limit->us)
    return;
  limit->us = us;
  list_holders(text, sizeof(text), root);
  snprintf(limit->text, sizeof(limit->text), DMA_LATENCY ", held by %s",
           text[0] != '\0' ? text : "an unknown process");
}
