#include "latency_limit.h"

#include "base/file.h"
#include "text.h"

#include <glob.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DMA_LATENCY "/dev/cpu_dma_latency"
#define NO_LIMIT_US 2000000000 /* what it reads as if no process sets it */

/* Lists the processes that hold a file open: "tuned (8), cyclictest (9)". */
static void list_holders(char *list, size_t size, const char *root) {
  char path[256];
  glob_t found;
  snprintf(path, sizeof(path), "%s/proc/[0-9]*/fd/*", root);
  list[0] = '\0';
  if (glob(path, GLOB_NOSORT, NULL, &found) != 0)
    return;
  for (size_t i = 0; i < found.gl_pathc; i++) {
    char target[sizeof(DMA_LATENCY)] = "", name[32], holder[48];
    int pid = atoi(found.gl_pathv[i] + strlen(root) + strlen("/proc/"));
    ssize_t length = readlink(found.gl_pathv[i], target, sizeof(target));
    if (length != sizeof(target) - 1 || strcmp(target, DMA_LATENCY) != 0)
      continue;
    file_read(name, sizeof(name), "%s/proc/%d/comm", root, pid);
    name[strcspn(name, "\n")] = '\0';
    snprintf(holder, sizeof(holder), "%s (%d)", name, pid);
    text_append(list, size, ", ", holder);
  }
  globfree(&found);
}

void latency_limit_read(struct latency_limit *limit, const char *root,
                        int core) {
  char text[96], said[sizeof(limit->text)];
  int32_t us;
  *limit = (struct latency_limit){.us = INFINITY};
  if (file_read(text, sizeof(text), "%s/sys/module/cpuidle/parameters/off",
                root) > 0 &&
      text[0] == '1') {
    limit->us = 0;
    strcpy(limit->text, "cpuidle.off=1 on the kernel's command line");
    return;
  }
  /* 0: no limit; "n/a": 0 us. */
  if (file_read(text, sizeof(text),
                "%s/sys/devices/system/cpu/cpu%d/power/"
                "pm_qos_resume_latency_us",
                root, core) > 0 &&
      strcmp(text, "0\n") != 0) {
    limit->us = strtod(text, NULL);
    strcpy(limit->text, "pm_qos_resume_latency_us of the core");
  }
  if (file_read(text, sizeof(text), "%s" DMA_LATENCY, root) != sizeof(us))
    return;
  memcpy(&us, text, sizeof(us));
  if (us >= NO_LIMIT_US || us >= limit->us)
    return;
  limit->us = us;
  list_holders(text, sizeof(text), root);
  snprintf(said, sizeof(said), DMA_LATENCY ", held by %s",
           text[0] != '\0' ? text : "an unknown process");
  text_clean_string(limit->text, sizeof(limit->text), said);
}
