#include "map.h"

#include "base/bpf.h"
#include "base/file.h"

#include <errno.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

static const struct {
  const char *name;
  bool is_array, is_per_cpu;
} types[] = {
    [BPF_MAP_TYPE_HASH] = {"hash", false, false},
    [BPF_MAP_TYPE_ARRAY] = {"array", true, false},
    [BPF_MAP_TYPE_PERCPU_HASH] = {"percpu_hash", false, true},
    [BPF_MAP_TYPE_PERCPU_ARRAY] = {"percpu_array", true, true},
    [BPF_MAP_TYPE_LRU_HASH] = {"lru_hash", false, false},
    [BPF_MAP_TYPE_LRU_PERCPU_HASH] = {"lru_percpu_hash", false, true},
    [BPF_MAP_TYPE_LPM_TRIE] = {"lpm_trie", false, false},
};
#define TYPES (sizeof(types) / sizeof(types[0]))

const char *map_type_name(uint32_t type) {
  return type < TYPES ? types[type].name : NULL;
}

bool map_can_be_read(const struct bpf_map_info *info) {
  return map_type_name(info->type) != NULL;
}

bool map_is_array(const struct bpf_map_info *info) {
  return info->type < TYPES && types[info->type].is_array;
}

bool map_is_per_cpu(const struct bpf_map_info *info) {
  return info->type < TYPES && types[info->type].is_per_cpu;
}

/* ---------------------------------------------------------------------------
 * Cores
 */

size_t map_possible_cores(int *cores, size_t size) {
  char text[4096];
  struct core_set possible;
  size_t len = 0;
  if (file_read(text, sizeof(text), MAP_POSSIBLE) == 0 ||
      core_set_parse(&possible, text) != 0)
    return 0;
  core_set_for_each(core, &possible) {
    if (len < size)
      cores[len++] = core;
  }
  return len;
}

/* ---------------------------------------------------------------------------
 * Opening
 */

static int describe(struct map *map, char why[WHY_SIZE]) {
  union bpf_attr attr = {.info = {.bpf_fd = (uint32_t)map->fd,
                                  .info_len = sizeof(map->info),
                                  .info = (uintptr_t)&map->info}};
  int status = bpf_call(BPF_OBJ_GET_INFO_BY_FD, &attr);
  if (status < 0)
    return why_fails(why, status,
                     "cannot get its description from the kernel: %s",
                     strerror(-status));
  map->copies = 1;
  map->stride = map->info.value_size;
  if (!map_is_per_cpu(&map->info))
    return 0;
  int cores[CORES_MAX];
  map->copies = (uint32_t)map_possible_cores(cores, CORES_MAX);
  map->stride = (map->info.value_size + 7) & ~(size_t)7;
  if (map->copies > 0)
    return 0;
  return why_fails(why, -EIO,
                   "cannot read the possible cores from " MAP_POSSIBLE);
}

static bool is_map(int fd) {
  char path[64], target[64] = "";
  snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
  return readlink(path, target, sizeof(target) - 1) > 0 &&
         strcmp(target, "anon_inode:bpf-map") == 0;
}

/* Returns why the path does not lead to a map, or NULL if it does or may do so.
 * `fd` is the result of opening the pin read-only: a descriptor or a negative
 * errno. The kernel returns EINVAL for pinned links, and some kernels also for
 * pinned programs; it returns EACCES for files that are not pins. */
static const char *why_no_map(const char *path, int fd) {
  struct statfs system;
  struct stat status;
  if (fd >= 0 ? !is_map(fd) : fd == -EINVAL)
    return "it is a BPF program or link, not a map";
  if (statfs(path, &system) == 0 && system.f_type != BPF_FS_MAGIC)
    return "it is not on a BPF file system";
  if (stat(path, &status) == 0 && !S_ISREG(status.st_mode))
    return "it is not a pinned map";
  return NULL;
}

int map_open_pin(struct map *map, const char *path, char why[WHY_SIZE]) {
  union bpf_attr attr = {.pathname = (uintptr_t)path,
                         .file_flags = BPF_F_RDONLY};
  *map = (struct map){.fd = bpf_call(BPF_OBJ_GET, &attr)};
  int status = map->fd;
  const char *no_map = why_no_map(path, map->fd);
  bool rights = status == -EACCES || status == -EPERM;
  if (no_map != NULL)
    status = why_fails(why, -EINVAL, "%s", no_map);
  else if (status < 0)
    status = why_fails(why, status, "cannot open it: %s%s", strerror(-status),
                       rights ? "; if it is a map, make it readable (chmod), "
                                "and on kernels before 5.19 grant CAP_BPF"
                              : "");
  else
    status = describe(map, why);
  if (status != 0)
    map_close(map);
  return status;
}

int map_open_id(struct map *map, uint32_t id, char why[WHY_SIZE]) {
  union bpf_attr attr = {.map_id = id, .open_flags = BPF_F_RDONLY};
  *map = (struct map){.fd = bpf_call(BPF_MAP_GET_FD_BY_ID, &attr)};
  if (map->fd < 0)
    return why_fails(
        why, map->fd, "cannot open it: %s%s", strerror(-map->fd),
        map->fd == -EPERM ? "; run as root, or give its pin instead" : "");
  int status = describe(map, why);
  if (status != 0)
    map_close(map);
  return status;
}

uint32_t map_next_id(uint32_t id) {
  union bpf_attr attr = {.start_id = id};
  int status = bpf_call(BPF_MAP_GET_NEXT_ID, &attr);
  if (status < 0)
    errno = -status;
  return status < 0 ? 0 : attr.next_id;
}

void map_close(struct map *map) {
  if (map->fd >= 0)
    close(map->fd);
  map->fd = -1;
}
