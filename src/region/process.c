/* process.c: tells a process from others, and whether it still runs. */
#include "percore_config.h"

#include "process.h"

#include "base/cancellation.h"
#include "base/file.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static uint64_t known_namespace; /* 0: unknown */

void region_process_forget(void) { known_namespace = 0; }

static uint64_t own_namespace(void) {
  struct stat status;
  uint64_t known = __atomic_load_n(&known_namespace, __ATOMIC_RELAXED);
  if (known == 0 && stat("/proc/self/ns/pid", &status) == 0) {
    known = (uint64_t)status.st_ino;
    __atomic_store_n(&known_namespace, known, __ATOMIC_RELAXED);
  }
  return known;
}

/* Reads the stat of a process; 0: of this one, whose pid /proc may not know.
 * Returns what follows its name there, or NULL. */
static const char *read_stat(char text[1024], pid_t pid) {
  char name[16] = "self";
  NOT_CANCELLED;
  if (pid > 0)
    snprintf(name, sizeof(name), "%d", (int)pid);
  (void)file_read(text, 1024, "/proc/%s/stat", name);
  const char *end = strrchr(text, ')');
  return end != NULL ? end + 1 : NULL;
}

uint64_t region_process_start(pid_t pid) {
  char text[1024];
  uint64_t start = 0;
  const char *at = read_stat(text, pid);
  if (at != NULL && (at[1] == 'Z' || at[1] == 'X'))
    return UINT64_MAX;
  for (int field = 3; at != NULL && field < 22; field++)
    at = strchr(at + 1, ' ');
  if (at != NULL)
    sscanf(at, " %" SCNu64, &start);
  return start;
}

bool region_process_is_stopped(pid_t pid) {
  char text[1024];
  const char *at = read_stat(text, pid);
  return at != NULL && (at[1] == 'T' || at[1] == 't');
}

/* Writes the number of this boot, which never changes; zeros: unknown. */
static void write_boot_id(uint8_t id[16]) {
  static uint64_t known[2];
  NOT_CANCELLED;
  uint64_t words[2] = {__atomic_load_n(&known[0], __ATOMIC_RELAXED),
                       __atomic_load_n(&known[1], __ATOMIC_RELAXED)};
  memcpy(id, words, sizeof(words));
  if (words[0] != 0 && words[1] != 0)
    return;
  char text[64];
  const char *at = text;
  (void)file_read(text, sizeof(text), "/proc/sys/kernel/random/boot_id");
  for (int i = 0; i < 16 && sscanf(at, "%2" SCNx8, &id[i]) == 1; i++) {
    at += 2;
    at += *at == '-';
  }
  memcpy(words, id, sizeof(words));
  for (int i = 0; i < 2; i++)
    __atomic_store_n(&known[i], words[i], __ATOMIC_RELAXED);
}

bool region_process_is_of_this_boot(const struct region_header *header) {
  static const uint8_t unknown[16];
  uint8_t id[16];
  write_boot_id(id);
  return memcmp(id, unknown, sizeof(id)) != 0 &&
         memcmp(id, header->boot_id, sizeof(id)) == 0;
}

void region_process_sign(struct region_header *header) {
  header->pid = getpid();
  header->pid_namespace = own_namespace();
  header->pid_start = region_process_start(0);
  write_boot_id(header->boot_id);
}

bool region_process_is_here(const struct region_header *header) {
  return header->pid > 0 && header->pid_namespace != 0 &&
         header->pid_namespace == own_namespace();
}

bool region_process_is_over(const struct region_header *header) {
  if (!region_process_is_here(header))
    return false;
  if (kill(header->pid, 0) != 0)
    return errno == ESRCH;
  uint64_t start = region_process_start(header->pid);
  return start == UINT64_MAX ||
         (start != 0 && header->pid_start != 0 && start != header->pid_start);
}
