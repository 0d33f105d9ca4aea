#include "latency_limit.h"

#include "base/file.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define DMA_LATENCY "/dev/cpu_dma_latency"
#define NO_LIMIT_US 2000000000 /* what it reads as if no process sets it */

void latency_limit_read(struct latency_limit *limit, const char *root,
                        int core) {
  char text[96];
  int32_t us;
  *limit = (struct latency_limit){.us = INFINITY, .text = ""};
  if (file_read(text, sizeof(text), "%s/sys/module/cpuidle/parameters/off",
                root) > 0 &&
      text[0] == '1') {
    *limit =
        (struct latency_limit){0, "cpuidle.off=1 on the kernel's command line"};
    return;
  }
  /* 0: no limit; "n/a": 0 us. */
  if (file_read(text, sizeof(text),
                "%s/sys/devices/system/cpu/cpu%d/power/"
                "pm_qos_resume_latency_us",
                root, core) > 0 &&
      strcmp(text, "0\n") != 0)
    *limit = (struct latency_limit){strtod(text, NULL),
                                    "pm_qos_resume_latency_us of the core"};
  if (file_read(text, sizeof(text), "%s" DMA_LATENCY, root) != sizeof(us))
    return;
  memcpy(&us, text, sizeof(us));
  if (us < NO_LIMIT_US && us < limit->us)
    *limit = (struct latency_limit){
        us, DMA_LATENCY ", held by a process: fuser -v " DMA_LATENCY};
}
