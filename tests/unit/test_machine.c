#include "unit.h"

#include "cycles/machine.h"
#include "temp_tree.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <unistd.h>

struct fixture {
  struct temp_tree tree;
  struct machine *machine;
};

static struct fixture *fixture;

static void setup(void) {
  fixture = calloc(1, sizeof *fixture);
  temp_tree_make(&fixture->tree);
  fixture->machine = machine_linux(fixture->tree.root);
  assert_non_null(fixture->machine);
}

static void teardown(void) {
  machine_linux_close(fixture->machine);
  temp_tree_remove(&fixture->tree);
  free(fixture);
}

static ssize_t read_file(const char *path, char *buffer, size_t size) {
  memset(buffer, '#', size);
  return fixture->machine->read_file(fixture->machine->context, path, buffer,
                                     size);
}

static const char *full(const struct fixture *fixture, const char *path) {
  static char text[96];
  snprintf(text, sizeof text, "%s%s", fixture->tree.root, path);
  return text;
}

TEST(a_tree_with_our_boot_id_is_that_of_our_kernel) {
  static const char boot_id[] = "/proc/sys/kernel/random/boot_id";
  const char *root = fixture->tree.root;
  struct machine *ours = machine_linux(NULL);
  char id[64];
  assert_true(machine_read(ours, id, sizeof id, boot_id) > 0);
  machine_linux_close(ours);
  assert_true(machine_is_ours(NULL));
  assert_false(machine_is_ours(root)); /* has none */
  temp_tree_write(&fixture->tree, boot_id, "");
  assert_false(machine_is_ours(root));
  temp_tree_write(&fixture->tree, boot_id, id);
  assert_true(machine_is_ours(root));
  id[0] = id[0] == 'a' ? 'b' : 'a';
  temp_tree_write(&fixture->tree, boot_id, id);
  assert_false(machine_is_ours(root));
}

TEST(only_arm64_has_a_system_counter) {
#ifdef __aarch64__
  assert_true(fixture->machine->system_counter_hz >= 1e6);
#else
  assert_near(fixture->machine->system_counter_hz, 0, 0);
#endif
}

TEST(a_file_is_read_whole_and_terminated_with_nul) {
  char buffer[64];
  temp_tree_write(&fixture->tree, "/proc/some/file", "0-3,8\n");
  assert_int_equal(read_file("/proc/some/file", buffer, 64), 6);
  assert_string_equal(buffer, "0-3,8\n");
  temp_tree_write(&fixture->tree, "/empty", "");
  assert_int_equal(read_file("/empty", buffer, 64), 0);
  assert_string_equal(buffer, "");
}

TEST(a_file_may_fill_all_but_the_last_byte) {
  char buffer[8];
  temp_tree_write(&fixture->tree, "/seven", "1234567");
  assert_int_equal(read_file("/seven", buffer, 8), 7);
  assert_string_equal(buffer, "1234567");
  temp_tree_write(&fixture->tree, "/eight", "12345678");
  assert_int_equal(read_file("/eight", buffer, 8), -EFBIG);
  assert_string_equal(buffer, "1234567");
  assert_int_equal(read_file("/seven", buffer, 1), -EFBIG);
  assert_int_equal(read_file("/seven", buffer, 0), -EFBIG);
}

TEST(nothing_is_written_past_the_buffer) {
  char buffer[16];
  temp_tree_write(&fixture->tree, "/long", "0123456789012345678901234567890");
  memset(buffer, '#', sizeof buffer);
  fixture->machine->read_file(fixture->machine->context, "/long", buffer, 8);
  assert_memory_equal(buffer + 8, "########", 8);
}

TEST(a_huge_file_is_refused) {
  char buffer[4096];
  temp_tree_write(&fixture->tree, "/huge", "");
  assert_int_equal(truncate(full(fixture, "/huge"), (off_t)1 << 40), 0);
  assert_int_equal(read_file("/huge", buffer, sizeof buffer), -EFBIG);
}

TEST(a_missing_file_is_enoent) {
  char buffer[8];
  assert_int_equal(read_file("/none", buffer, 8), -ENOENT);
  assert_int_equal(read_file("/no/folder", buffer, 8), -ENOENT);
}

/* Reading a FIFO could wait forever for a writer. */
TEST(a_file_that_is_not_regular_is_refused_without_waiting) {
  char buffer[8];
  assert_int_equal(mkfifo(full(fixture, "/fifo"), 0600), 0);
  assert_true(read_file("/fifo", buffer, 8) < 0);
  assert_int_equal(mkdir(full(fixture, "/folder"), 0700), 0);
  assert_true(read_file("/folder", buffer, 8) < 0);
  assert_int_equal(symlink("/dev/zero", full(fixture, "/zero")), 0);
  assert_true(read_file("/zero", buffer, 8) < 0);

  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  snprintf(address.sun_path, sizeof address.sun_path, "%s",
           full(fixture, "/socket"));
  assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
  assert_true(read_file("/socket", buffer, 8) < 0);
  close(fd);
}

TEST(a_path_that_is_too_long_is_refused) {
  static char path[2 * PATH_MAX];
  char buffer[8];
  memset(path, 'a', sizeof path - 1);
  path[0] = '/';
  assert_int_equal(read_file(path, buffer, 8), -ENAMETOOLONG);
}

static int open_descriptors(void) {
  struct machine *machine = machine_linux(NULL);
  int count = 0;
  for (int fd = 0; fd < 2048; fd++)
    count += fcntl(fd, F_GETFD) >= 0;
  machine_linux_close(machine);
  return count;
}

TEST(no_descriptor_stays_open) {
  char buffer[8];
  int before = open_descriptors();
  temp_tree_write(&fixture->tree, "/long", "0123456789");
  mkfifo(full(fixture, "/fifo"), 0600);
  for (int i = 0; i < 10; i++) {
    read_file("/long", buffer, 8);
    read_file("/fifo", buffer, 8);
    read_file("/none", buffer, 8);
  }
  assert_int_equal(open_descriptors(), before);
}

/* Returns how many descriptors of this process are open on a file. */
static int count_open(const char *file) {
  int count = 0;
  char path[64], target[128];
  for (int fd = 0; fd < 2048; fd++) {
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    ssize_t length = readlink(path, target, sizeof(target) - 1);
    target[length > 0 ? length : 0] = '\0';
    count += strcmp(target, file) == 0;
  }
  return count;
}

TEST(the_kernels_stat_is_opened_once_and_read_anew) {
  static char first[1 << 20], second[1 << 20];
  struct machine *machine = machine_linux("/");
  assert_non_null(machine);
  for (int i = 0; i < 50; i++) {
    char *text = i == 0 ? first : second;
    assert_true(machine->read_file(machine->context, "/proc/stat", text,
                                   sizeof(first)) > 0);
    assert_int_equal(count_open("/proc/stat"), 1);
    usleep(1000); /* lets this core halt, which changes its idle time */
  }
  assert_string_not_equal(first, second);
  assert_int_equal(
      machine->read_file(machine->context, "/proc/stat", first, 16), -EFBIG);
  machine_linux_close(machine);
  assert_int_equal(count_open("/proc/stat"), 0);
}

TEST(a_counter_at_its_end_has_not_failed_but_a_closed_one_has) {
  char buffer[8];
  const struct machine *machine = fixture->machine;
  int fd = open("/dev/null", O_RDONLY);
  errno = EIO; /* of an earlier call */
  assert_int_equal(machine->perf_read(machine->context, fd, buffer, 8), 0);
  machine->perf_close(machine->context, fd);
  assert_int_equal(machine->perf_read(machine->context, fd, buffer, 8), -EBADF);
}

/* Returns the lowest descriptor that is free. */
static int lowest_free(void) {
  int fd = open("/dev/null", O_RDONLY);
  close(fd);
  return fd;
}

TEST(a_file_that_stays_open_leaves_low_descriptors_free) {
  static char text[1 << 20];
  struct machine *machine = machine_linux("/");
  assert_non_null(machine);
  int lowest = lowest_free();
  assert_true(machine->read_file(machine->context, "/proc/stat", text,
                                 sizeof(text)) > 0);
  assert_int_equal(count_open("/proc/stat"), 1);
  assert_int_equal(lowest_free(), lowest);
  machine_linux_close(machine);
}

#define POLLED "/sys/devices/system/cpu/cpu0/cpuidle/state0/time"

TEST(the_file_that_tells_how_long_a_core_has_polled_is_opened_once) {
  char text[64];
  struct machine *machine = machine_linux("/");
  assert_non_null(machine);
  if (access(POLLED, R_OK) != 0) {
    print_message("this machine has no " POLLED "\n");
    machine_linux_close(machine);
    skip();
  }
  for (int i = 0; i < 5; i++) {
    int before = open_descriptors();
    assert_true(
        machine->read_file(machine->context, POLLED, text, sizeof(text)) > 0);
    assert_int_equal(strspn(text, "0123456789\n"), strlen(text));
    assert_int_equal(count_open(POLLED), 1);
    assert_int_equal(open_descriptors() - before, i == 0);
  }
  machine_linux_close(machine);
  assert_int_equal(count_open(POLLED), 0);
}

#define SEQNUM "/sys/kernel/uevent_seqnum"

/* Makes a file of sysfs that each machine has the one that tells how long a
 * core has polled. */
static void link_polled(void) {
  char path[256];
  snprintf(path, sizeof(path), "%s" POLLED, fixture->tree.root);
  temp_tree_write(&fixture->tree, POLLED, "");
  assert_int_equal(unlink(path), 0);
  assert_int_equal(symlink(SEQNUM, path), 0);
}

static bool is_offline; /* until the next read of a file that stayed open */

ssize_t __real_pread(int fd, void *buffer, size_t size, off_t offset);
ssize_t __wrap_pread(int fd, void *buffer, size_t size, off_t offset);
ssize_t __wrap_pread(int fd, void *buffer, size_t size, off_t offset) {
  errno = ENODEV;
  ssize_t got = is_offline ? -1 : __real_pread(fd, buffer, size, offset);
  is_offline = false;
  return got;
}

TEST(a_file_of_a_core_that_was_offline_is_opened_anew) {
  char text[64];
  link_polled();
  for (int i = 0; i < 5; i++) {
    is_offline = i == 2;
    assert_true(read_file(POLLED, text, sizeof(text)) > 0);
    assert_int_equal(count_open(SEQNUM), 1);
  }
}

/* A proof reads while a sample is about to keep the file open. */
static bool reads_again;

static void *read_again(void *unused) {
  char text[64];
  assert_true(read_file(POLLED, text, sizeof(text)) > 0);
  return unused;
}

int __real_fstatfs(int fd, struct statfs *kind);
int __wrap_fstatfs(int fd, struct statfs *kind);
int __wrap_fstatfs(int fd, struct statfs *kind) {
  pthread_t thread;
  if (reads_again) {
    reads_again = false;
    pthread_create(&thread, NULL, read_again, NULL);
    pthread_join(thread, NULL);
  }
  return __real_fstatfs(fd, kind);
}

TEST(two_threads_that_read_a_file_at_once_do_not_share_its_descriptor) {
  char text[64];
  link_polled();
  int before = open_descriptors();
  reads_again = true;
  assert_true(read_file(POLLED, text, sizeof(text)) > 0);
  assert_false(reads_again);
  assert_int_equal(count_open(SEQNUM), 1);
  machine_linux_close(fixture->machine);
  assert_int_equal(open_descriptors(), before);
  fixture->machine = machine_linux(fixture->tree.root);
}

TEST(where_descriptors_are_short_files_of_sysfs_are_not_kept_open) {
  char text[64];
  static const rlim_t limits[] = {1100, 2048};
  struct rlimit before, limit;
  link_polled();
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
  limit = before;
  for (int i = 0; i < 2; i++) {
    limit.rlim_cur = limits[i];
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    for (int j = 0; j < 5; j++)
      assert_true(read_file(POLLED, text, sizeof(text)) > 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(count_open(SEQNUM), i);
  }
}

TEST(a_file_of_polled_time_that_is_not_the_kernels_is_opened_anew) {
  char text[64], path[256];
  snprintf(path, sizeof(path), "%s" POLLED, fixture->tree.root);
  temp_tree_write(&fixture->tree, POLLED, "17\n");
  assert_int_equal(read_file(POLLED, text, 64), 3);
  assert_int_equal(unlink(path), 0);
  assert_int_equal(read_file(POLLED, text, 64), -ENOENT);
  temp_tree_write(&fixture->tree, POLLED, "9\n");
  assert_int_equal(read_file(POLLED, text, 64), 2);
  assert_string_equal(text, "9\n");
}

TEST(a_sysroot_may_end_with_slashes_or_be_null) {
  char buffer[64], root[128];
  temp_tree_write(&fixture->tree, "/proc/stat", "cpu0 1 2 3 4\n");
  snprintf(root, sizeof root, "%s///", fixture->tree.root);
  struct machine *machine = machine_linux(root);
  assert_int_equal(
      machine->read_file(machine->context, "/proc/stat", buffer, 64), 13);
  machine_linux_close(machine);

  static const char *const here[] = {"/", NULL, ""};
  for (size_t i = 0; i < sizeof here / sizeof here[0]; i++) {
    machine = machine_linux(here[i]);
    assert_true(machine->read_file(machine->context, "/proc/self/comm", buffer,
                                   64) > 0);
    machine_linux_close(machine);
  }
  machine_linux_close(NULL);
}

struct names {
  int count;
  char all[256];
};

static void remember(const char *name, void *argument) {
  struct names *names = argument;
  names->count++;
  strcat(strcat(names->all, name), " ");
}

TEST(a_folder_lists_its_names) {
  struct names names = {0};
  temp_tree_write(&fixture->tree, "/n/node0/cpulist", "0\n");
  temp_tree_write(&fixture->tree, "/n/online", "0\n");
  assert_int_equal(fixture->machine->list_directory(fixture->machine->context,
                                                    "/n", remember, &names),
                   0);
  assert_int_equal(names.count, 2);
  assert_non_null(strstr(names.all, "node0 "));
  assert_non_null(strstr(names.all, "online "));
  assert_int_equal(fixture->machine->list_directory(fixture->machine->context,
                                                    "/none", remember, &names),
                   -ENOENT);
}

TEST(numbers_are_decimal_with_blanks_around_them) {
  static const struct {
    const char *text;
    int status;
    uint64_t value;
  } files[] = {
      {"14\n", 0, 14},
      {" 0 \n", 0, 0},
      {"18446744073709551615", 0, UINT64_MAX},
      {"18446744073709551616", -EINVAL, 0},
      {"", -EINVAL, 0},
      {"\n", -EINVAL, 0},
      {"-1\n", -EINVAL, 0},
      {"+1\n", -EINVAL, 0},
      {"0x10\n", -EINVAL, 0},
      {"1 2\n", -EINVAL, 0},
      {"12abc\n", -EINVAL, 0},
      {"1.5\n", -EINVAL, 0},
      {"<not supported>\n", -EINVAL, 0},
  };
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
    uint64_t value = 0;
    temp_tree_write(&fixture->tree, "/number", files[i].text);
    assert_int_equal(machine_read_u64(fixture->machine, &value, "/number"),
                     files[i].status);
    assert_int_equal(value, files[i].value);
  }
  uint64_t value;
  assert_int_equal(machine_read_u64(fixture->machine, &value, "/none"),
                   -ENOENT);
}

TEST(a_number_in_a_file_without_end_is_refused) {
  static char text[100000];
  uint64_t value;
  memset(text, '1', sizeof text - 1);
  temp_tree_write(&fixture->tree, "/number", text);
  assert_int_equal(machine_read_u64(fixture->machine, &value, "/number"),
                   -EINVAL);
}

TEST(core_lists_are_read_from_files) {
  struct core_set set;
  temp_tree_write(&fixture->tree, "/online", "0-2,5\n");
  assert_int_equal(machine_read_core_set(fixture->machine, &set, "/online"), 0);
  assert_int_equal(core_set_count(&set), 4);
  temp_tree_write(&fixture->tree, "/online", "(null)\n");
  assert_int_equal(machine_read_core_set(fixture->machine, &set, "/online"),
                   -EINVAL);
  assert_int_equal(machine_read_core_set(fixture->machine, &set, "/none"),
                   -ENOENT);
}

TEST(the_longest_core_list_fits) {
  static char text[CORES_MAX * 5];
  struct core_set even, set;
  core_set_clear(&even);
  for (int core = 0; core < CORES_MAX; core += 2)
    core_set_add(&even, core);
  core_set_format(&even, text, sizeof text);
  strcat(text, "\n");
  temp_tree_write(&fixture->tree, "/online", text);
  assert_int_equal(machine_read_core_set(fixture->machine, &set, "/online"), 0);
  assert_true(core_set_equal(&even, &set));
}

TEST(clocks_are_those_of_this_machine) {
  static const clockid_t clocks[] = {CLOCK_MONOTONIC, CLOCK_BOOTTIME,
                                     CLOCK_REALTIME};
  for (size_t i = 0; i < 3; i++) {
    struct timespec time;
    clock_gettime(clocks[i], &time);
    uint64_t before_ns =
        (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
    uint64_t ns =
        fixture->machine->clock_ns(fixture->machine->context, clocks[i]);
    clock_gettime(clocks[i], &time);
    uint64_t after_ns =
        (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
    assert_in_range(ns, before_ns, after_ns);
  }
}

static size_t largest;

static ssize_t read_endless(void *context, const char *path, char *buffer,
                            size_t size) {
  (void)context, (void)path, (void)buffer;
  largest = size;
  return -EFBIG;
}

TEST(a_file_of_more_than_64_mib_is_not_read) {
  const struct machine machine = {.read_file = read_endless};
  char *buffer = NULL;
  size_t size = 0;
  assert_int_equal(machine_read_long(&machine, "/endless", &buffer, &size),
                   -EFBIG);
  assert_int_equal(largest, 64 << 20);
  assert_int_equal(size, 64 << 20);
  free(buffer);
}

static uint64_t identity(const char *path) {
  return fixture->machine->identity(fixture->machine->context, path);
}

TEST(a_directory_that_is_made_anew_has_another_identity) {
  assert_int_equal(identity("/cpu1"), 0);
  assert_int_equal(mkdir(full(fixture, "/cpu1"), 0700), 0);
  uint64_t before = identity("/cpu1");
  assert_int_not_equal(before, 0);
  assert_int_equal(identity("/cpu1"), before);
  /* Unlike those of sysfs, its number may be used again at once. */
  char old[96];
  snprintf(old, sizeof old, "%s", full(fixture, "/old"));
  assert_int_equal(rename(full(fixture, "/cpu1"), old), 0);
  assert_int_equal(mkdir(full(fixture, "/cpu1"), 0700), 0);
  assert_int_not_equal(identity("/cpu1"), before);
}

const struct unit_fixtures unit_fixtures = {.before_each = setup,
                                            .after_each = teardown};
