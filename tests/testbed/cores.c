#include "cores.h"

#include "report.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int cores_present(void) { return (int)sysconf(_SC_NPROCESSORS_CONF); }

bool write_text(const char *path, const char *text) {
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  bool written = fd >= 0 && write(fd, text, strlen(text)) >= 0;
  if (!written)
    note("%s: %s", path, strerror(errno));
  if (fd >= 0)
    close(fd);
  return written;
}

static void online_path(int core, char path[64]) {
  snprintf(path, 64, "/sys/devices/system/cpu/cpu%d/online", core);
}

bool core_can_leave(int core) {
  char path[64];
  online_path(core, path);
  return access(path, W_OK) == 0;
}

void core_set_online(int core, bool online) {
  char path[64];
  online_path(core, path);
  if (!write_text(path, online ? "1" : "0")) {
    result(false, "core %d can be set offline and online", core);
    exit(1);
  }
}

/* A row of /proc/interrupts consists of a label and a column for each online
 * core, in the order of the heading. */
uint64_t core_interrupts(int core) {
  FILE *file = fopen("/proc/interrupts", "r");
  char line[4096];
  uint64_t sum = 0;
  int column = -1;
  if (file == NULL || fgets(line, sizeof(line), file) == NULL)
    abort();
  char *rest = line, *word;
  for (int i = 0; (word = strtok_r(i == 0 ? line : NULL, " \n", &rest)); i++)
    if (strncmp(word, "CPU", 3) == 0 && atoi(word + 3) == core)
      column = i;
  while (column >= 0 && fgets(line, sizeof(line), file) != NULL) {
    char *at = strchr(line, ':');
    for (int i = 0; at != NULL && i <= column; i++) {
      char *end;
      unsigned long long count = strtoull(at + (i == 0), &end, 10);
      if (end == at + (i == 0))
        break;
      if (i == column)
        sum += count;
      at = end;
    }
  }
  fclose(file);
  return sum;
}
