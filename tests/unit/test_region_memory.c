/* Tests src/region/memory.c: available memory, for which the tests fake the
 * root of /proc and /sys, and providing memory. */
#include "percore_config.h"

#include <sys/mman.h>
#include <unistd.h>

#include "region/memory.h"
#include "region_unit.h"
#include "temp_tree.h"

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

static int refused_with; /* errno of the allocation of memory; 0: none */

int __real_madvise(void *start, size_t size, int advice);
int __wrap_madvise(void *start, size_t size, int advice);
int __wrap_madvise(void *start, size_t size, int advice) {
  if (advice == MADV_POPULATE_WRITE && refused_with != 0) {
    (void)__real_madvise(start, size, advice);
    errno = refused_with;
    return -1;
  }
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

static unsigned char *map_of(uint64_t size, int *fd) {
  *fd = memfd_create("unit", MFD_CLOEXEC);
  assert_return_code(ftruncate(*fd, (off_t)size), errno);
  unsigned char *map = region_memory_map(*fd, size, PROT_READ | PROT_WRITE);
  assert_non_null(map);
  return map;
}

/* Without memory, an update would end the process if the file system is full.
 */
TEST(memory_that_was_provided_has_no_holes) {
  uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), size = 16 * page, room = 0;
  int fd;
  unsigned char *map = map_of(size, &fd);
  assert_return_code(
      region_memory_provide(map, page + 8, 9 * page, page, &room), errno);
  assert_int_equal(lseek(fd, 0, SEEK_DATA), page);
  assert_int_equal(lseek(fd, (off_t)page, SEEK_HOLE), 11 * page);
  munmap(map, size);
  close(fd);
}

TEST(what_a_full_file_system_has_given_is_given_back) {
  uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), size = 16 * page, room = 0;
  int fd;
  unsigned char *map = map_of(size, &fd);
  memset(map, 1, 2 * page);
  refused_with = EFAULT;
  assert_fails(region_memory_provide(map, page + 8, 9 * page, page, &room),
               ENOSPC);
  refused_with = 0;
  /* The first page has other contents, too. */
  assert_int_equal(map[2 * page - 1], 1);
  assert_int_equal(lseek(fd, 0, SEEK_HOLE), 2 * page);
  assert_int_equal(lseek(fd, (off_t)(2 * page), SEEK_DATA), 10 * page);
  munmap(map, size);
  close(fd);
}

TEST(a_kernel_that_cannot_provide_memory_is_too_old) {
  uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), room = 0;
  refused_with = EINVAL;
  assert_fails(region_memory_provide(huge, 0, page, page, &room), ENOSYS);
  refused_with = 0;
}

const struct unit_fixtures unit_fixtures = {.before_each = make_root,
                                            .after_each = remove_root};
