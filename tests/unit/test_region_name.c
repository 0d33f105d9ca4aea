/* Tests how a producer claims and keeps the name of a region:
 * src/region/name.c. */
#include "percore_config.h"

#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "region/writer.h"
#include "region_unit.h"

static const char *path_of(const char *suffix) {
  static char path[128];
  snprintf(path, sizeof(path), "%s/unit.%s", getenv("PERCORE_RUNTIME_DIR"),
           suffix);
  return path;
}

static bool is_there(const char *suffix) {
  return access(path_of(suffix), F_OK) == 0;
}

/* True if a process listens at the socket. */
static bool is_found(void) {
  struct region_reader *reader;
  assert_return_code(region_reader_open(&reader, "unit", NULL, NULL), errno);
  bool connects = region_reader_connect(reader) == 0;
  region_reader_close(reader);
  return connects;
}

TEST(a_released_name_leaves_no_file) {
  struct percore_region *region = unit_create(PERCORE_SERVE_THREAD);
  assert_true(is_there("lock") && is_there("sock"));
  assert_return_code(percore_destroy(region), errno);
  assert_false(is_there("lock") || is_there("sock"));
}

TEST(a_name_that_cannot_be_taken_leaves_no_file) {
  struct percore_region *region;
  assert_return_code(mkdir(path_of("sock"), 0700), errno);
  assert_int_equal(create_region(&region, "unit", unit_tables, TABLES, NULL),
                   -1);
  assert_false(is_there("lock"));
  assert_return_code(percore_destroy(region), errno);
  assert_return_code(rmdir(path_of("sock")), errno);
}

int __real_open(const char *path, int flags, mode_t mode);
int __wrap_open(const char *path, int flags, mode_t mode);

/* If not NULL: what another process makes just before this one creates it. */
static const char *made_before;

int __wrap_open(const char *path, int flags, mode_t mode) {
  if (made_before != NULL && (flags & O_CREAT) != 0) {
    int fd = __real_open(made_before, O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_return_code(fd, errno);
    close(fd);
    made_before = NULL;
  }
  return __real_open(path, flags, mode);
}

TEST(a_lock_file_that_another_process_has_just_made_is_only_locked) {
  struct stat file;
  made_before = path_of("lock");
  struct percore_region *region = unit_create(PERCORE_SERVE_POLLED);
  assert_null(made_before);
  assert_return_code(stat(path_of("lock"), &file), errno);
  assert_int_equal(file.st_mode & 0777, 0600);
  assert_return_code(percore_destroy(region), errno);
}

/* Serves a polled region when its next check is due. */
static void serve_later(struct percore_region *region) {
  region->server.checked_ms = INT64_MIN / 2;
  assert_return_code(percore_serve(region), errno);
}

TEST(a_removed_socket_is_restored_when_the_region_is_polled) {
  UNIT_REGION(region, PERCORE_SERVE_POLLED);
  assert_return_code(unlink(path_of("sock")), errno);
  serve_later(region);
  struct region_reader *reader;
  assert_return_code(region_reader_open(&reader, "unit", NULL, NULL), errno);
  assert_int_equal(region_reader_refresh(reader), REGION_AS_BEFORE);
  assert_return_code(percore_serve(region), errno);
  assert_int_equal(region_reader_refresh(reader), REGION_CAME);
  /* The connection continues without the socket. */
  assert_return_code(unlink(path_of("sock")), errno);
  serve_later(region);
  assert_true(is_found());
  assert_int_equal(region_reader_refresh(reader), REGION_AS_BEFORE);
  assert_int_equal(region_reader_presence(reader), REGION_ALIVE);
  region_reader_close(reader);
}

REGION_TEST(a_removed_socket_is_restored_by_the_thread) {
  assert_return_code(unlink(path_of("sock")), errno);
  enum { TURNS = 2000, TURN_US = 10000 };
  for (int i = 0; i < TURNS && !is_found(); i++)
    usleep(TURN_US);
  UNIT_READER(reader);
}

TEST(a_recreated_directory_also_receives_the_lock_file) {
  struct percore_region *region = unit_create(PERCORE_SERVE_POLLED), *other;
  const char *dir = getenv("PERCORE_RUNTIME_DIR");
  assert_return_code(unlink(path_of("sock")), errno);
  assert_return_code(unlink(path_of("lock")), errno);
  assert_return_code(rmdir(dir), errno);
  assert_return_code(percore_serve(region), errno);
  assert_return_code(mkdir(dir, 0700), errno);
  serve_later(region);
  assert_true(is_found());
  assert_fails(create_region(&other, "unit", unit_tables, TABLES, NULL),
               EADDRINUSE);
  assert_return_code(percore_destroy(other), errno);
  assert_return_code(percore_destroy(region), errno);
  assert_false(is_there("lock") || is_there("sock"));
}

TEST(a_name_that_another_process_has_taken_is_left_alone) {
  struct percore_region *first = unit_create(PERCORE_SERVE_POLLED);
  assert_return_code(unlink(path_of("sock")), errno);
  assert_return_code(unlink(path_of("lock")), errno);
  UNIT_REGION(second, PERCORE_SERVE_THREAD);
  struct stat before, after;
  assert_return_code(stat(path_of("sock"), &before), errno);
  assert_return_code(percore_serve(first), errno);
  assert_return_code(percore_destroy(first), errno);
  assert_return_code(stat(path_of("sock"), &after), errno);
  assert_int_equal(before.st_ino, after.st_ino);
  assert_true(is_there("lock"));
}

static long page_faults(void) {
  struct rusage usage;
  assert_return_code(getrusage(RUSAGE_SELF, &usage), errno);
  return usage.ru_minflt;
}

/* Writes to each page, and returns how many page faults that takes. */
static long write_pages(char *memory, size_t pages) {
  long before = page_faults();
  for (size_t i = 0; i < pages; i++)
    ((volatile char *)memory)[i * 4096]++;
  return page_faults() - before;
}

/* A process that is started with a copy of this one's memory makes this one
 * copy each page to which it writes. */
TEST(claiming_and_releasing_a_name_copies_no_memory_of_the_program) {
  enum { PAGES = 4096 };
  struct percore_options options = {.quiet = 1};
  struct percore_region *other;
  char *memory = mmap(NULL, PAGES * 4096, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(memory != MAP_FAILED);
  assert_return_code(madvise(memory, PAGES * 4096, MADV_NOHUGEPAGE), errno);
  assert_true(write_pages(memory, PAGES) >= PAGES);

  struct percore_region *region = unit_create(PERCORE_SERVE_THREAD);
  assert_true(write_pages(memory, PAGES) < PAGES / 8);
  assert_fails(create_region(&other, "unit", unit_tables, TABLES, &options),
               EADDRINUSE);
  assert_return_code(percore_destroy(other), errno);
  options.runtime_dir = path_of("none");
  assert_fails(create_region(&other, "unit", unit_tables, TABLES, &options),
               ENOENT);
  assert_return_code(percore_destroy(other), errno);
  assert_true(write_pages(memory, PAGES) < PAGES / 8);
  assert_return_code(percore_destroy(region), errno);
  assert_true(write_pages(memory, PAGES) < PAGES / 8);
  munmap(memory, PAGES * 4096);
}

/* ---------------------------------------------------------------------------
 * Different users in one group
 */

enum { FIRST_USER = 64001, SECOND_USER = 64002, GROUP = 64003 };

/* Creates an instance of the region as this user in a child process, destroys
 * it again if `orderly` is true, and kills the process. Returns 0 or the errno
 * of percore_create. */
static int serve_as(uid_t user, const char *instance, bool orderly) {
  int says[2], error = -1;
  assert_return_code(pipe(says), errno);
  pid_t pid = fork();
  assert_return_code(pid, errno);
  if (pid == 0) {
    const struct percore_options options = {.instance = instance};
    struct percore_region *region;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    umask(077); /* the group may use the region even with the strictest umask */
    if (setgroups(0, NULL) != 0 || setgid(GROUP) != 0 || setuid(user) != 0)
      _exit(2);
    error = create_region(&region, "unit", unit_tables, TABLES, &options) != 0
                ? errno
                : 0;
    if (orderly)
      percore_destroy(region);
    if (write(says[1], &error, sizeof(error)) != sizeof(error))
      _exit(3);
    pause();
  }
  assert_int_equal(read(says[0], &error, sizeof(error)), sizeof(error));
  close(says[0]);
  close(says[1]);
  kill(pid, SIGKILL);
  waitpid(pid, NULL, 0);
  return error;
}

static void be_directory_of_group(mode_t mode) {
  const char *dir = getenv("PERCORE_RUNTIME_DIR");
  if (geteuid() != 0) {
    print_message("skipped: needs root, to act as two users\n");
    skip();
  }
  assert_return_code(chown(dir, 0, GROUP), errno);
  assert_return_code(chmod(dir, mode), errno);
}

TEST(a_name_that_a_user_released_can_be_taken_by_another) {
  be_directory_of_group(03770);
  assert_int_equal(serve_as(FIRST_USER, NULL, true), 0);
  assert_int_equal(serve_as(SECOND_USER, NULL, true), 0);
}

TEST(after_a_crash_the_group_can_take_the_name) {
  be_directory_of_group(02770);
  assert_int_equal(serve_as(FIRST_USER, NULL, false), 0);
  assert_true(is_there("lock"));
  assert_int_equal(serve_as(SECOND_USER, NULL, true), 0);
}

/* The sticky bit keeps the members of the group from removing a socket of
 * another member, even if no process listens on it. */
TEST(in_a_sticky_directory_only_its_user_and_root_replace_it) {
  be_directory_of_group(03770);
  assert_int_equal(serve_as(FIRST_USER, NULL, false), 0);
  assert_int_equal(serve_as(SECOND_USER, NULL, true), EPERM);
  assert_int_equal(serve_as(FIRST_USER, NULL, false), 0);
  assert_int_equal(serve_as(0, NULL, true), 0);
  assert_int_equal(serve_as(SECOND_USER, NULL, true), 0);
}

/* ---------------------------------------------------------------------------
 * The instance "*"
 */

static struct percore_region *create_any(const char *directory, int error) {
  const struct percore_options options = {.instance = "*",
                                          .runtime_dir = directory,
                                          .serving = PERCORE_SERVE_POLLED,
                                          .quiet = 1};
  struct percore_region *region;
  int rc = create_region(&region, "unit", unit_tables, TABLES, &options);
  assert_int_equal(rc, error == 0 ? 0 : -1);
  if (error != 0)
    assert_int_equal(errno, error);
  return region;
}

/* Asserts that a region is read as this instance. */
static void check_instance(const struct percore_region *region,
                           const char *instance) {
  struct percore_reader *reader;
  assert_return_code(percore_open(&reader, "unit", instance), errno);
  assert_int_equal(percore_refresh(reader), 1);
  percore_close(reader);
  assert_non_null(strstr(region->server.claim.socket_path, instance));
}

TEST(an_instance_of_a_star_is_the_lowest_free_number) {
  struct percore_region *regions[12];
  char number[8];
  for (int i = 0; i < 12; i++) {
    regions[i] = create_any(NULL, 0);
    snprintf(number, sizeof(number), "%d", i + 1);
    check_instance(regions[i], number);
  }
  assert_return_code(percore_destroy(regions[1]), errno);
  regions[1] = create_any(NULL, 0);
  check_instance(regions[1], "2");
  for (int i = 0; i < 12; i++)
    assert_return_code(percore_destroy(regions[i]), errno);
}

TEST(the_number_of_a_dead_process_is_taken_again) {
  int status;
  pid_t child = fork();
  assert_return_code(child, errno);
  if (child == 0) {
    (void)create_any(NULL, 0);
    _exit(0);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  struct percore_region *region = create_any(NULL, 0);
  check_instance(region, "1");
  assert_return_code(percore_destroy(region), errno);
}

TEST(a_number_whose_lock_file_belongs_to_another_group_is_skipped) {
  char path[128];
  be_directory_of_group(03770);
  snprintf(path, sizeof(path), "%s/unit@1.lock", getenv("PERCORE_RUNTIME_DIR"));
  int lock = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0640);
  assert_return_code(lock, errno);
  assert_return_code(fchown(lock, 0, 0), errno); /* the directory is setgid */
  close(lock);
  assert_int_equal(serve_as(FIRST_USER, "*", false), 0);
  snprintf(path, sizeof(path), "%s/unit@2.sock", getenv("PERCORE_RUNTIME_DIR"));
  assert_return_code(access(path, F_OK), errno);
}

TEST(a_number_is_chosen_when_the_region_is_first_served_and_then_kept) {
  char directory[] = "/tmp/percore-any-XXXXXX", path[64];
  assert_non_null(mkdtemp(directory));
  snprintf(path, sizeof(path), "%s/later", directory);
  struct percore_region *first = create_any(path, ENOENT);
  const struct percore_options other = {
      .instance = "1", .runtime_dir = path, .serving = PERCORE_SERVE_POLLED};
  assert_ptr_equal(create_any(path, ENOENT), first);
  assert_return_code(mkdir(path, 0700), errno);
  struct percore_region *one;
  assert_return_code(create_region(&one, "unit", NULL, 0, &other), errno);
  for (int i = 0; i < 2; i++) {
    serve_later(first);
    setenv("PERCORE_RUNTIME_DIR", path, 1);
    check_instance(first, "2");
    assert_return_code(unlink(first->server.claim.socket_path), errno);
    assert_return_code(unlink(first->server.claim.lock_path), errno);
    if (i == 0)
      assert_return_code(percore_destroy(one), errno);
  }
  assert_return_code(percore_destroy(first), errno);
  assert_return_code(rmdir(path), errno);
  assert_return_code(rmdir(directory), errno);
}

const struct unit_fixtures unit_fixtures = {
    .before_each = unit_make_runtime_dir,
    .after_each = unit_remove_runtime_dir};
