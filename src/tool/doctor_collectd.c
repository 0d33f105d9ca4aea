/* Facts about the running collectd, read from /proc. */
#include "doctor.h"
#include "text.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { STATUS_SIZE = 8192 };

static FILE *open_file(const char *proc, const char *pid, const char *name) {
  char path[FACT_SIZE + 64];
  snprintf(path, sizeof(path), "%s/%s/%s", proc, pid, name);
  return fopen(path, "re");
}

static bool is_collectd(const char *proc, const char *pid) {
  char name[32] = "";
  FILE *file = open_file(proc, pid, "comm");
  if (file == NULL)
    return false;
  bool read = fgets(name, sizeof(name), file) != NULL;
  fclose(file);
  return read && strcmp(name, "collectd\n") == 0;
}

/* Parses "Groups:\t4 27 1000 ". */
static bool has_group(const char *list, unsigned long long group) {
  while (*list != '\0' && *list != '\n') {
    char *end;
    unsigned long long number = strtoull(list, &end, 10);
    if (end == list)
      return false;
    if (number == group)
      return true;
    list = end;
    while (*list == ' ' || *list == '\t')
      list++;
  }
  return false;
}

void collectd_take_status(struct collectd_facts *facts, const char *line,
                          long group) {
  const char *value = strchr(line, ':');
  if (value == NULL)
    return;
  value++;
  if (strncmp(line, "Uid:", 4) == 0)
    sscanf(value, "%*u %u", &facts->uid);
  else if (strncmp(line, "CapEff:", 7) == 0)
    facts->capabilities = strtoull(value, NULL, 16);
  else if (strncmp(line, "Gid:", 4) == 0)
    sscanf(value, "%*u %u", &facts->gid);
  else if (strncmp(line, "Groups:", 7) == 0)
    facts->in_group = group >= 0 && has_group(value, (unsigned long long)group);
}

static void read_status(struct collectd_facts *facts, const char *proc,
                        const char *pid, long group) {
  char line[STATUS_SIZE];
  FILE *file = open_file(proc, pid, "status");
  if (file == NULL)
    return;
  while (fgets(line, sizeof(line), file) != NULL)
    collectd_take_status(facts, line, group);
  fclose(file);
  facts->in_group |= group >= 0 && facts->gid == (unsigned long)group;
}

/* Parses "Max open files 1024 524288 files". */
static void read_limits(struct collectd_facts *facts, const char *proc,
                        const char *pid) {
  static const char name[] = "Max open files";
  char line[256];
  FILE *file = open_file(proc, pid, "limits");
  if (file == NULL)
    return;
  while (fgets(line, sizeof(line), file) != NULL)
    if (strncmp(line, name, strlen(name)) == 0)
      facts->open_files = strtol(line + strlen(name), NULL, 10);
  fclose(file);
}

/* Only root and collectd's own user may read the map. */
static void read_maps(struct collectd_facts *facts, const char *proc,
                      const char *pid) {
  char line[4096];
  FILE *file = open_file(proc, pid, "maps");
  facts->plugin = PLUGIN_UNKNOWN;
  if (file == NULL)
    return;
  for (bool any = false; fgets(line, sizeof(line), file) != NULL; any = true) {
    if (!any)
      facts->plugin = PLUGIN_ABSENT;
    if (strstr(line, "/percore.so\n") != NULL)
      facts->plugin = PLUGIN_LOADED;
    else if (strstr(line, "/percore.so (deleted)\n") != NULL)
      facts->plugin = PLUGIN_REPLACED;
  }
  fclose(file);
}

void collectd_find(struct collectd_facts *facts, const char *proc, long group) {
  *facts = (struct collectd_facts){0};
  DIR *dir = opendir(proc);
  if (dir == NULL)
    return;
  char found[FACT_SIZE] = "";
  /* The lowest pid is the daemon; the others are its children. */
  for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
    long pid = strtol(entry->d_name, NULL, 10);
    if (pid <= 0 || (facts->pid > 0 && pid > facts->pid) ||
        !is_collectd(proc, entry->d_name))
      continue;
    facts->pid = pid;
    snprintf(found, sizeof(found), "%s", entry->d_name);
  }
  closedir(dir);
  if (facts->pid == 0)
    return;
  read_status(facts, proc, found, group);
  read_limits(facts, proc, found);
  read_maps(facts, proc, found);
}
