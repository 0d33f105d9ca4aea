#include "pmu.h"

#include "overlay.h"

#include "cycles/perf_event.h"

#include <dirent.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Writes the name of the core PMU. If the guest has no core PMU, writes the
 * usual name and returns false. */
static bool find_core_pmu(char pmu[64]) {
  bool found = false;
  strcpy(pmu, "armv8_pmuv3");
  DIR *directory = opendir("/sys/bus/event_source/devices");
  if (directory == NULL)
    return false;
  for (struct dirent *entry; (entry = readdir(directory)) != NULL;)
    if (strncmp(entry->d_name, "armv8", 5) == 0) {
      snprintf(pmu, 64, "%.63s", entry->d_name);
      found = true;
    }
  closedir(directory);
  return found;
}

bool core_pmu_present(void) {
  char pmu[64];
  return find_core_pmu(pmu);
}

const struct machine *pmu_machine(double instructions_per_s) {
  static char path[128], pmu[64];
  static struct overlay_file files[] = {{path, "event=0x08\n"}, {NULL, NULL}};
  static struct overlay overlay;
  find_core_pmu(pmu);
  snprintf(path, sizeof(path), PMU_FOLDER "/%s/events/cnt_cycles", pmu);
  if (overlay.below == NULL)
    overlay_open(&overlay, files);
  overlay.machine.system_counter_hz = instructions_per_s;
  return &overlay.machine;
}

int competitor_open(int core, uint64_t config, bool pinned) {
  struct perf_event_attr attr = {
      .size = sizeof(attr),
      .type = PERF_TYPE_RAW,
      .config = config,
      .pinned = pinned,
  };
  return (int)syscall(SYS_perf_event_open, &attr, -1, core, -1,
                      PERF_FLAG_FD_CLOEXEC);
}

void competitors_close(const int *fds, int fds_len) {
  for (int i = 0; i < fds_len; i++)
    if (fds[i] >= 0)
      close(fds[i]);
}

bool competitor_counts(int fd) {
  uint64_t value;
  return read(fd, &value, sizeof(value)) == sizeof(value);
}
