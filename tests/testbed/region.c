/* Tests that whoever holds the lock of a region's file keeps neither its
 * producer nor its readers waiting. The kernel of the guest matters: it may
 * hold the lock of an inode until it has copied a page. (Who may write to the
 * runtime directory can hold its lock: SECURITY.md says what follows.) */
#include "percore_reader.h"
#include "percore_tune.h"
#include "../unit/calls.h"

#include "chapters.h"
#include "report.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define DIRECTORY "/regions"
#define ROWS 200000

/* Returns a page that never comes: nobody answers its fault. */
static void *stuck_page(void) {
  struct uffdio_api api = {.api = UFFD_API};
  size_t size = (size_t)sysconf(_SC_PAGESIZE);
  void *page = mmap(NULL, size, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  struct uffdio_register missing = {
      .range = {.start = (uintptr_t)page, .len = size},
      .mode = UFFDIO_REGISTER_MODE_MISSING};
  int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
  return page != MAP_FAILED && ioctl(fd, UFFDIO_API, &api) == 0 &&
                 ioctl(fd, UFFDIO_REGISTER, &missing) == 0
             ? page
             : NULL;
}

/* Opens the file of the only region. */
static int open_region(void) {
  DIR *directory = opendir(DIRECTORY);
  int fd = -1;
  for (const struct dirent *file;
       directory != NULL && (file = readdir(directory)) != NULL;)
    if (file->d_name[0] != '.')
      fd = openat(dirfd(directory), file->d_name, O_RDWR | O_CLOEXEC);
  if (directory != NULL)
    closedir(directory);
  return fd;
}

/* Starts a process that holds the lock of the file's inode, in a write of a
 * page that never comes. */
static pid_t start_holder(void) {
  enum { SIZE = 4096 };
  pid_t child = fork();
  if (child != 0) {
    usleep(500000);
    return child;
  }
  void *page = stuck_page();
  int fd = open_region();
  if (page == NULL || fd < 0)
    _exit(100);
  _exit(write(fd, page, SIZE) < 0 ? errno : 101);
}

/* Returns how the process ended: its exit status, or -1 if it had to be killed,
 * because it was in the system call. */
static int end_holder(pid_t child) {
  int status;
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static double seconds_since(const struct timespec *begin) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)(now.tv_sec - begin->tv_sec) +
         1e-9 * (double)(now.tv_nsec - begin->tv_nsec);
}

/* Reads a row in another process. */
static bool another_reads(uint32_t row, uint64_t expected) {
  struct percore_reader *reader;
  uint64_t value = 0;
  int status;
  pid_t child = fork();
  if (child == 0) {
    alarm(8);
    _exit(percore_open(&reader, "guest", NULL) != 0 ||
          percore_refresh(reader) != 1 ||
          percore_read_row(reader, 0, row, PERCORE_TOTAL, NULL, 0, &value, 1) !=
              0 ||
          value != expected);
  }
  return waitpid(child, &status, 0) == child && status == 0;
}

/* Adds so many rows that memory is allocated, and counts in the last of them.
 */
static bool go_on(struct percore_region *region, uint64_t *key) {
  percore_table_t table;
  uint32_t row = 0;
  int errors = open_table(region, 0, &table);
  for (int i = 0; i < ROWS / 4; i++)
    errors |= make_row_key(region, 0, ++*key, &row);
  percore_add(percore_row(table, row), 0, *key);
  return errors == 0 && another_reads(row, *key);
}

void chapter_region(void) {
  static const struct percore_field field = {.name = "rx"};
  static const struct percore_table table = {.name = "flow",
                                             .storage = PERCORE_OWNED,
                                             .fields = &field,
                                             .field_count = 1,
                                             .max_rows = ROWS};
  struct percore_region *region;
  struct timespec begin;
  uint64_t key = 0;
  mkdir(DIRECTORY, 0770);
  setenv("PERCORE_RUNTIME_DIR", DIRECTORY, 1);
  int status = create_region(&region, "guest", &table, 1, NULL);
  result(status == 0, "a region can be created in a guest");
  pid_t child = start_holder();
  clock_gettime(CLOCK_MONOTONIC, &begin);
  bool goes_on = go_on(region, &key);
  note("region: %.2f s", seconds_since(&begin));
  result(goes_on && seconds_since(&begin) < 10,
         "rows of a region are added and read beside a process that holds the "
         "lock of its file");
  int ended = end_holder(child);
  note("region: the holder ended with %d", ended);
  result(ended == -1, "the kernel keeps the lock of a file while it waits for "
                      "a page to write");
  percore_destroy(region);
}
