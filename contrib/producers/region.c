/* A producer without libpercore: it writes the file of percore-region(7), in
   which the table "request" has one row.

     cc -O2 region.c -o region && ./region & percore top demo */

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { SIZE = 4096, SLOTS = 2048, FIRST = 2176, SECOND = 2688, BLOCK = 3200 };
static const char *const texts[] = {
    "",           "demo",        "core",         "request",     "cycles",
    "operations", "bytes",       "total_cycles", "busy_cycles", "sleep_cycles",
    "polls",      "empty_polls", "items",        "requests"};
static const int fields[][2] = {{7, 4},  {8, 4},  {9, 4}, {10, 5}, {11, 5},
                                {12, 5}, {13, 5}, {6, 6}}; /* name, unit */
static unsigned char *map;

static void put(size_t at, uint64_t value, size_t size) {
  memcpy(map + at, size == 4 ? (void *)&(uint32_t){(uint32_t)value} : &value,
         size);
}

static void numbers(size_t at, size_t size, int count, const uint64_t *values) {
  for (int i = 0; i < count; i++)
    put(at + i * size, values[i], size);
}
#define PUT(at, size, ...)                                                     \
  numbers(at, size, sizeof((uint64_t[]){__VA_ARGS__}) / 8,                     \
          (uint64_t[]){__VA_ARGS__})

static uint64_t now(clockid_t clock) {
  struct timespec at;
  clock_gettime(clock, &at);
  return (uint64_t)at.tv_sec * 1000000000 + (uint64_t)at.tv_nsec;
}

/* A table with one row: live words, generation word, label, births, cells. */
static void table(int number, unsigned name, unsigned first, unsigned count,
                  size_t at) {
  PUT(256 + 128 * number, 4, name, 0, 2 * number, 2, first, count, count,
      8 * count, 1);
  PUT(304 + 128 * number, 8, at, at + 64, at + 80, 0, at + 160, 64 * !number,
      at + 72);
  PUT(at, 8, 1, 0, 0, 0, 0, 0, 0, 0, UINT64_C(1) << 32 | 2);
}

int main(void) {
  const char *dir = getenv("PERCORE_RUNTIME_DIR");
  struct flock lock = {.l_type = F_WRLCK, .l_len = 1},
               seen = {.l_type = F_RDLCK, .l_len = 1};
  struct stat pids;
  uint64_t id, start = 0;
  uint32_t at[14], end = 0;
  char hidden[64], *name = hidden + 1;
  if (chdir(dir ? dir : "/run/percore") != 0 || getrandom(&id, 8, 0) != 8)
    return perror("percore"), 1;
  snprintf(hidden, sizeof(hidden), ".demo.%016llx", (unsigned long long)id);
  int fd = open(hidden, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0640);
  if (fd < 0 || posix_fallocate(fd, 0, SIZE) != 0)
    return perror(hidden), 1;
  map = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (map == MAP_FAILED || madvise(map, SIZE, MADV_DONTFORK) != 0)
    return perror("mmap"), 1;
  fcntl(fd, F_OFD_SETLK, &lock); /* the mapping keeps the lock */
  close(fd);
  fd = open(hidden, O_RDONLY | O_CLOEXEC);
  fcntl(fd, F_OFD_GETLK, &seen); /* does a reader see it? */
  close(fd);

  FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
  for (unsigned i = 0, byte; file && i < 16 && fscanf(file, "%2x", &byte) == 1;
       i++) {
    map[48 + i] = (unsigned char)byte;
    (void)!fscanf(file, "-");
  }
  file =
      fopen("/proc/self/stat", "re"); /* field 22; the name has no space here */
  for (int i = 0; file && i < 21; i++)
    (void)!fscanf(file, "%*s");
  (void)!fscanf(file, "%llu", (unsigned long long *)&start);
  stat("/proc/self/ns/pid", &pids);

  for (int i = 0; i < 14; i++) { /* the string pool, at 1024 */
    strcpy((char *)map + 1024 + end, texts[i]);
    at[i] = end;
    end += (uint32_t)strlen(texts[i]) + 1;
  }
  for (int f = 0; f < 8; f++)
    PUT(512 + 64 * f, 4, at[fields[f][0]], at[fields[f][1]]);
  memcpy(map, "PERCORE1", 8);
  PUT(8, 4, 0x01020304);
  memcpy(map + 12, &(uint16_t){1}, 2); /* major version */
  PUT(16, 4, 256, 128, 64, 64);
  PUT(32, 8, SIZE, 1024 + end);
  PUT(64, 4, (uint64_t)getpid(), 8);
  PUT(72, 8, 4096, now(CLOCK_REALTIME), now(CLOCK_BOOTTIME), 1000000000, 0);
  PUT(112, 4, at[1], 0);
  PUT(120, 8, 256);
  PUT(128, 4, 2, 8);
  PUT(136, 8, 512, 1024, end, SLOTS);
  PUT(168, 4, 1, 1);
  PUT(176, 8, BLOCK, 128, 0, 0, 0, pids.st_ino, start, seen.l_type == F_WRLCK);
  table(0, at[2], 0, 6, FIRST);
  table(1, at[3], 6, 2, SECOND);
  if (rename(hidden, name) != 0)
    return perror(name), 1;
  for (uint64_t *cells = (uint64_t *)(map + SECOND + 160);; usleep(1000)) {
    __atomic_fetch_add(&cells[0], 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&cells[1], 512, __ATOMIC_RELAXED);
  }
}
