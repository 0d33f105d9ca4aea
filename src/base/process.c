#include "process.h"

#include "file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t process_read(char *text, size_t size, const char *proc, const char *pid,
                    const char *name) {
  return file_read(text, size, "%s/%s/%s", proc, pid, name);
}

void rights_read(struct rights *rights, const char *proc, const char *pid,
                 long group) {
  char status[8192];
  *rights = (struct rights){.uid = (unsigned)-1, .real_uid = (unsigned)-1};
  process_read(status, sizeof(status), proc, pid, "status");
  for (char *line, *rest = status; (line = strsep(&rest, "\n")) != NULL;) {
    sscanf(line, "PPid: %ld", &rights->parent);
    sscanf(line, "Uid: %u %u", &rights->real_uid, &rights->uid);
    sscanf(line, "CapEff: %llx", &rights->capabilities);
    /* The second number in the line is the effective group. */
    unsigned effective;
    if (sscanf(line, "Gid: %*u %u", &effective) == 1)
      rights->in_group |= group == (long)effective;
    if (strncmp(line, "Groups:", 7) != 0 || group < 0)
      continue;
    char *end;
    for (char *list = line + 7;; list = end) { /* "4 27 1000 " */
      long number = strtol(list, &end, 10);
      if (end == list)
        break;
      rights->in_group |= number == group;
    }
  }
}
