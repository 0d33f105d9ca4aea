/* Tests src/region/memory.c: available memory, for which the tests fake the
 * root of /proc and /sys, and providing memory. */
#include "percore_config.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "region/memory.h"
#include "temp_tree.h"
#include "unit.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

static struct temp_tree tree;

static void make_root(void) {
  temp_tree_make(&tree);
  region_memory_root = tree.root;
  temp_tree_write(&tree, "/proc/meminfo",
                  "MemTotal: 9000 kB\nMemFree: 10 kB\nMemAvailable: 8000 kB\n");
}

static void remove_root(void) {
  region_memory_root = "";
  temp_tree_remove(&tree);
}

TEST(without_a_limit_the_result_is_mem_available) {
  temp_tree_write(&tree, "/proc/self/cgroup", "0::/\n");
  assert_int_equal(region_memory_room(), 8000 * 1024);
}

TEST(the_group_with_the_least_memory_left_decides) {
  temp_tree_write(&tree, "/proc/self/cgroup", "0::/pods/one\n");
  temp_tree_write(&tree, "/sys/fs/cgroup/pods/one/memory.max", "max\n");
  temp_tree_write(&tree, "/sys/fs/cgroup/pods/memory.max", "500000\n");
  temp_tree_write(&tree, "/sys/fs/cgroup/pods/memory.current", "400000\n");
  assert_int_equal(region_memory_room(), 100000);
}

TEST(page_cache_counts_as_available_memory) {
  temp_tree_write(&tree, "/proc/self/cgroup", "0::/pod\n");
  temp_tree_write(&tree, "/sys/fs/cgroup/pod/memory.max", "500000\n");
  temp_tree_write(&tree, "/sys/fs/cgroup/pod/memory.current", "500000\n");
  temp_tree_write(&tree, "/sys/fs/cgroup/pod/memory.stat",
                  "anon 1\nfile 400000\ninactive_file 200000\n"
                  "active_file 50000\nshmem 150000\n");
  assert_int_equal(region_memory_room(), 250000);
}

TEST(the_group_of_version_2_is_found_among_others) {
  temp_tree_write(&tree, "/proc/self/cgroup",
                  "9:cpu:/x0::/y\n4:memory:/jobs/a\n0::/pod\n");
  temp_tree_write(&tree, "/sys/fs/cgroup/pod/memory.max", "500000\n");
  temp_tree_write(&tree, "/sys/fs/cgroup/pod/memory.current", "200000\n");
  assert_int_equal(region_memory_room(), 300000);
}

TEST(possible_cores_are_counted_up_to_the_highest_number) {
  static const struct {
    const char *text;
    uint32_t cores;
  } cases[] = {{"0\n", 1}, {"0-7\n", 8}, {"0-3,8-11\n", 12}, {"0,5", 6}};
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    temp_tree_write(&tree, "/sys/devices/system/cpu/possible", cases[i].text);
    assert_int_equal(region_possible_cores(), cases[i].cores);
  }
}

/* What madvise(2) was last asked to make huge: offsets in a mapping at `huge`.
 */
static unsigned char huge[1];
static uint64_t begin, end;

int __real_madvise(void *start, size_t size, int advice);
int __wrap_madvise(void *start, size_t size, int advice);
int __wrap_madvise(void *start, size_t size, int advice) {
  if (advice != MADV_COLLAPSE)
    return __real_madvise(start, size, advice);
  begin = (uintptr_t)start - (uintptr_t)huge;
  end = begin + size;
  return 0;
}

TEST(only_huge_pages_that_lie_in_a_range_are_made_if_memory_is_left) {
  enum { PAGE = REGION_HUGE_PAGE };
  static const struct {
    uint64_t offset, length, free_pages, begin, end;
  } cases[] = {
      {PAGE, PAGE, 3, PAGE, 2 * PAGE},
      {PAGE - 8, 3 * PAGE, 3, PAGE, 3 * PAGE},
      {PAGE + 8, 2 * PAGE, 3, 2 * PAGE, 3 * PAGE},
      {PAGE + 8, PAGE, 3, 0, 0},
      {0, PAGE - 8, 3, 0, 0},
      {0, PAGE, 2, 0, 0},
  };
  if (sysconf(_SC_PAGESIZE) != 4096) {
    print_message("skipped: pages of this machine are not 4 KiB\n");
    skip();
  }
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    char text[64];
    snprintf(text, sizeof(text), "MemAvailable: %u kB\n",
             (unsigned)(cases[i].free_pages * PAGE / 1024));
    temp_tree_write(&tree, "/proc/meminfo", text);
    begin = end = 0;
    region_memory_make_huge(huge, cases[i].offset, cases[i].length);
    assert_int_equal(begin, cases[i].begin);
    assert_int_equal(end, cases[i].end);
  }
}

TEST(a_large_mapping_begins_on_a_huge_page) {
  enum { SIZE = REGION_HUGE_PAGE + 65536, TIMES = 3 };
  unsigned char *maps[TIMES];
  int fd = memfd_create("unit", MFD_CLOEXEC);
  assert_return_code(ftruncate(fd, SIZE), errno);
  for (int i = 0; i < TIMES; i++) {
    maps[i] = region_memory_map(fd, SIZE, PROT_READ);
    assert_non_null(maps[i]);
    assert_int_equal((uintptr_t)maps[i] % REGION_HUGE_PAGE, 0);
  }
  for (int i = 0; i < TIMES; i++)
    munmap(maps[i], SIZE);
  close(fd);
}

/* Makes madvise(2) fail as before Linux 5.14, which introduced
 * MADV_POPULATE_WRITE. An emulator that does not support seccomp filters does
 * not support this advice either. */
static void refuse_madvise(void) {
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {.len = sizeof(filter) / sizeof(filter[0]),
                               .filter = filter};
  (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  (void)prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* Provided memory must not have holes, because readers take a hole for the end
 * of the rows in use. */
TEST(memory_that_was_provided_has_no_holes_on_any_kernel) {
  uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), size = 16 * page;
  int status, fd = memfd_create("unit", MFD_CLOEXEC);
  assert_return_code(ftruncate(fd, (off_t)size), errno);
  unsigned char *map = region_memory_map(fd, size, PROT_READ | PROT_WRITE);
  assert_non_null(map);
  pid_t pid = fork();
  assert_return_code(pid, errno);
  if (pid == 0) {
    refuse_madvise();
    _exit(region_memory_provide(fd, map, page + 8, 9 * page, page,
                                &(uint64_t){0}) == 0
              ? 0
              : 1);
  }
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_int_equal(status, 0);
  assert_int_equal(lseek(fd, 0, SEEK_DATA), page);
  assert_int_equal(lseek(fd, (off_t)page, SEEK_HOLE), 11 * page);
  munmap(map, size);
  close(fd);
}

const struct unit_fixtures unit_fixtures = {.before_each = make_root,
                                            .after_each = remove_root};
