/* Collects facts about running collectd processes from /proc. */
#include "doctor.h"
#include "text.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#define CONFIG "/etc/collectd/collectd.conf"
#define CONFIG_LINES_MAX 100000

static FILE *open_file(const char *proc, const char *pid, const char *name) {
  char path[FACT_SIZE + 64];
  snprintf(path, sizeof(path), "%s/%s/%s", proc, pid, name);
  return fopen(path, "re");
}

/* Reads at most size - 1 bytes from the file `name` in the directory of a
 * process, and appends a NUL. Returns the number of bytes read, which is 0 if
 * the file cannot be opened. */
static size_t read_start(char *text, size_t size, const char *proc,
                         const char *pid, const char *name) {
  FILE *file = open_file(proc, pid, name);
  size_t length = file != NULL ? fread(text, 1, size - 1, file) : 0;
  text[length] = '\0';
  if (file != NULL)
    fclose(file);
  return length;
}

/* ---------------------------------------------------------------------------
 * Rights and limits
 */

/* Parses "4 27 1000 ". */
static bool has_group(const char *list, unsigned long group) {
  for (char *end;; list = end) {
    unsigned long number = strtoul(list, &end, 10);
    if (end == list)
      return false;
    if (number == group)
      return true;
  }
}

void collectd_read_status(struct collectd_facts *facts, const char *proc,
                          const char *pid, long group) {
  char status[8192];
  read_start(status, sizeof(status), proc, pid, "status");
  for (char *line, *rest = status; (line = strsep(&rest, "\n")) != NULL;) {
    sscanf(line, "PPid: %ld", &facts->parent);
    sscanf(line, "Uid: %*u %u", &facts->uid);
    sscanf(line, "CapEff: %llx", &facts->capabilities);
    /* The second number in the line is the effective group. */
    unsigned effective;
    if (sscanf(line, "Gid: %*u %u", &effective) == 1)
      facts->in_group |= group == (long)effective;
    if (strncmp(line, "Groups:", 7) == 0 && group >= 0)
      facts->in_group |= has_group(line + 7, (unsigned long)group);
  }
}

static void read_limits(struct collectd_facts *facts, const char *proc,
                        const char *pid) {
  static const char name[] = "\nMax open files";
  char limits[4096];
  read_start(limits, sizeof(limits), proc, pid, "limits");
  const char *line = strstr(limits, name);
  if (line != NULL)
    facts->open_files = strtol(line + strlen(name), NULL, 10);
}

/* ---------------------------------------------------------------------------
 * The plugin
 */

void plugin_find(struct plugin_facts *facts, const char *directory) {
  char path[FACT_SIZE + 16];
  struct stat status;
  text_clean_string(facts->directory, FACT_SIZE, directory);
  snprintf(path, sizeof(path), "%s/percore.so", directory);
  /* Use lstat, because collectd refuses to load a symbolic link. */
  facts->is_installed = directory[0] != '\0' && lstat(path, &status) == 0 &&
                        S_ISREG(status.st_mode);
}

/* Writes the path of a collectd process's configuration file: the argument of
 * its option -C, or the default path. */
static void find_config(char path[FACT_SIZE], const char *proc,
                        const char *pid) {
  char line[4096] = ""; /* ends with two NULs, in case -C is the last word */
  size_t length = read_start(line, sizeof(line) - 1, proc, pid, "cmdline");
  snprintf(path, FACT_SIZE, "%s", CONFIG);
  for (const char *word = line; word < line + length; word += strlen(word) + 1)
    if (strncmp(word, "-C", 2) == 0)
      snprintf(path, FACT_SIZE, "%s",
               word[2] != '\0' ? word + 2 : word + strlen(word) + 1);
}

/* Opens a regular file for reading. Returns NULL for any other file: every user
 * can start a process that is called collectd and name a FIFO or a device with
 * -C, and reading that file might block percore doctor. */
static FILE *open_regular(const char *path) {
  struct stat status;
  int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  FILE *file = fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode)
                   ? fdopen(fd, "r")
                   : NULL;
  if (file == NULL && fd >= 0)
    close(fd);
  return file;
}

/* Sets `directory` to the PluginDir in the configuration file, if there is one.
 * Ignores the files that the configuration file includes. */
static void read_config(char directory[FACT_SIZE], const char *proc,
                        const char *pid) {
  char path[FACT_SIZE], line[1024], key[16], value[FACT_SIZE];
  find_config(path, proc, pid);
  FILE *file = open_regular(path);
  for (int i = 0; i < CONFIG_LINES_MAX && file != NULL &&
                  fgets(line, sizeof(line), file) != NULL;
       i++)
    if (sscanf(line, " %15s \"%255[^\"\n]", key, value) == 2 &&
        strcasecmp(key, "PluginDir") == 0)
      snprintf(directory, FACT_SIZE, "%s", value);
  if (file != NULL)
    fclose(file);
}

/* Finds out from collectd's memory map whether the plugin is loaded. If so,
 * sets `directory` to the directory that contains the loaded file. Only root
 * and collectd's own user may read the map. */
static void read_maps(struct collectd_facts *facts, char directory[FACT_SIZE],
                      const char *proc, const char *pid) {
  char line[4096];
  FILE *file = open_file(proc, pid, "maps");
  while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
    char *path = strchr(line, '/'), *name = strstr(line, "/percore.so");
    if (facts->state == PLUGIN_UNKNOWN)
      facts->state = PLUGIN_ABSENT;
    if (name == NULL)
      continue;
    facts->state =
        strcmp(name, "/percore.so\n") == 0 ? PLUGIN_LOADED : PLUGIN_REPLACED;
    snprintf(directory, FACT_SIZE, "%.*s", (int)(name - path), path);
  }
  if (file != NULL)
    fclose(file);
}

/* ---------------------------------------------------------------------------
 * All processes
 */

static bool is_collectd(const char *proc, const char *pid) {
  char name[32];
  read_start(name, sizeof(name), proc, pid, "comm");
  return strcmp(name, "collectd\n") == 0;
}

/* Removes processes whose parent is also in the list. collectd's exec plugin
 * has forked them, and they have not executed their program yet. Returns the
 * new length. */
static int drop_children(struct collectd_facts *list, int len) {
  int kept = 0;
  for (int i = 0; i < len; i++) {
    bool is_child = false;
    for (int j = 0; j < len; j++)
      is_child |= list[i].parent == list[j].pid;
    if (!is_child)
      list[kept++] = list[i];
  }
  return kept;
}

int collectd_find(struct collectd_facts list[COLLECTDS_MAX], const char *proc,
                  long group) {
  DIR *dir = opendir(proc);
  int len = 0;
  if (dir == NULL)
    return 0;
  for (struct dirent *entry;
       len < COLLECTDS_MAX && (entry = readdir(dir)) != NULL;) {
    long pid = strtol(entry->d_name, NULL, 10);
    char directory[FACT_SIZE] = PLUGINDIR;
    if (pid <= 0 || !is_collectd(proc, entry->d_name))
      continue;
    struct collectd_facts *facts = &list[len++];
    *facts = (struct collectd_facts){.pid = pid};
    collectd_read_status(facts, proc, entry->d_name, group);
    read_limits(facts, proc, entry->d_name);
    read_config(directory, proc, entry->d_name);
    read_maps(facts, directory, proc, entry->d_name);
    plugin_find(&facts->plugin, directory);
  }
  closedir(dir);
  return drop_children(list, len);
}
