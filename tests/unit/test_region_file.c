/* Tests the files of regions: their names, who is alive, and which are removed.
 */
#include "percore_config.h"

#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "region/file.h"
#include "region/process.h"
#include "region/writer.h"
#include "region_unit.h"

static const char *runtime_dir(void) { return getenv("PERCORE_RUNTIME_DIR"); }

/* Returns how many files there are in a directory, and the name of the last. */
static unsigned files_in(const char *path, char last[NAME_MAX + 1]) {
  unsigned count = 0;
  DIR *dir = opendir(path);
  assert_non_null(dir);
  for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
    if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
      count++;
      if (last != NULL)
        strcpy(last, entry->d_name);
    }
  closedir(dir);
  return count;
}

static unsigned files(void) { return files_in(runtime_dir(), NULL); }

static const char *path_of(const char *name) {
  static char path[512];
  snprintf(path, sizeof(path), "%s/%s", runtime_dir(), name);
  return path;
}

static const char *only_path(void) {
  char name[NAME_MAX + 1];
  assert_int_equal(files_in(runtime_dir(), name), 1);
  return path_of(name);
}

/* ---------------------------------------------------------------------------
 * Creating
 */

REGION_TEST(a_region_is_one_file_with_the_mode_of_its_readers) {
  struct stat status;
  assert_return_code(stat(only_path(), &status), errno);
  assert_true(S_ISREG(status.st_mode));
  assert_int_equal(status.st_mode & 07777, 0640);
  const char *name = strrchr(only_path(), '/') + 1;
  assert_int_equal(strncmp(name, "unit.", 5), 0);
  assert_int_equal(strspn(name + 5, "0123456789abcdef"), 16);
  assert_int_equal(strlen(name), 5 + 16);
}

TEST(a_region_for_all_users_is_readable_by_all_whatever_the_umask) {
  const struct percore_options options = {.instance = "a-1.b", .all_users = 1};
  struct percore_region *region;
  struct stat status;
  mode_t before = umask(077);
  assert_return_code(
      create_region(&region, "unit", unit_tables, TABLES, &options), errno);
  umask(before);
  assert_return_code(stat(only_path(), &status), errno);
  assert_int_equal(status.st_mode & 07777, 0644);
  assert_int_equal(strncmp(strrchr(only_path(), '/') + 1, "unit@a-1.b.", 11),
                   0);
  assert_return_code(percore_destroy(region), errno);
}

TEST(creating_a_region_leaves_no_descriptor_and_no_thread) {
  unsigned fds = files_in("/proc/self/fd", NULL),
           threads = files_in("/proc/self/task", NULL);
  struct percore_region *region = unit_create();
  assert_int_equal(files_in("/proc/self/fd", NULL), fds);
  assert_int_equal(files_in("/proc/self/task", NULL), threads);
  unit_end(region);
  assert_int_equal(files_in("/proc/self/fd", NULL), fds);
}

static int forks; /* how many children were started while a file was named */

/* Whoever may write to the directory can keep this call waiting. */
int __wrap_renameat(int from_dir, const char *from, int to_dir, const char *to);
int __real_renameat(int from_dir, const char *from, int to_dir, const char *to);
int __wrap_renameat(int from_dir, const char *from, int to_dir,
                    const char *to) {
  pid_t child = fork();
  if (child == 0)
    _exit(0);
  assert_int_equal(waitpid(child, NULL, 0), child);
  forks++;
  return __real_renameat(from_dir, from, to_dir, to);
}

TEST(a_program_can_fork_while_its_region_waits_for_the_directory) {
  forks = 0;
  alarm(10); /* a fork that waits waits for ever */
  struct percore_region *region = unit_create();
  alarm(0);
  assert_int_equal(forks, 1);
  unit_end(region);
}

TEST(a_region_that_cannot_be_made_leaves_no_file_and_no_descriptor) {
  const struct percore_options options = {.quiet = 1};
  struct rlimit before, none = {0};
  struct percore_region *region;
  unsigned fds = files_in("/proc/self/fd", NULL);
  assert_return_code(getrlimit(RLIMIT_FSIZE, &before), errno);
  none.rlim_max = before.rlim_max;
  assert_return_code(setrlimit(RLIMIT_FSIZE, &none), errno);
  assert_fails(create_region(&region, "unit", unit_tables, TABLES, &options),
               EFBIG);
  assert_return_code(setrlimit(RLIMIT_FSIZE, &before), errno);
  assert_int_equal(files(), 0);
  assert_int_equal(files_in("/proc/self/fd", NULL), fds);
  assert_return_code(percore_destroy(region), errno);
}

TEST(any_number_of_regions_may_have_a_name) {
  struct percore_region *first = unit_create(), *second = unit_create();
  assert_int_equal(files(), 2);
  unit_end(first);
  unit_end(second);
}

static void assert_same_user(uid_t user, gid_t group) {
  struct stat status;
  assert_return_code(stat(only_path(), &status), errno);
  assert_int_equal(status.st_uid, user);
  assert_int_equal(status.st_gid, group);
}

TEST(a_file_has_the_group_of_a_directory_that_says_so) {
  enum { GROUP = 64003 };
  if (geteuid() != 0) {
    print_message("skipped: needs root, to give the directory a group\n");
    skip();
  }
  assert_return_code(chown(runtime_dir(), 0, GROUP), errno);
  assert_return_code(chmod(runtime_dir(), 03770), errno);
  UNIT_REGION(region);
  assert_same_user(0, GROUP);
}

/* ---------------------------------------------------------------------------
 * Who is alive
 */

/* Starts a process that creates a region and then does what `act` says; it must
 * not return. Returns its pid as soon as the region is there. */
static pid_t start(void (*act)(struct percore_region *region, int says)) {
  int says[2];
  char ready;
  assert_return_code(pipe(says), errno);
  pid_t pid = fork();
  assert_return_code(pid, errno);
  if (pid == 0) {
    struct percore_region *region;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(says[0]);
    if (create_region(&region, "unit", unit_tables, TABLES, NULL) == 0)
      act(region, says[1]);
    _exit(1);
  }
  close(says[1]);
  assert_int_equal(read(says[0], &ready, 1), 1);
  close(says[0]);
  return pid;
}

static void say(int says) {
  if (write(says, "", 1) != 1)
    _exit(2);
}

static void wait_for_signal(struct percore_region *region, int says) {
  (void)region;
  say(says);
  pause();
}

static void end(pid_t pid) {
  kill(pid, SIGKILL);
  assert_int_equal(waitpid(pid, NULL, 0), pid);
}

TEST(a_killed_producer_is_gone_and_its_last_counts_are_there) {
  pid_t pid = start(wait_for_signal);
  UNIT_READER(reader);
  assert_int_equal(region_reader_refresh(reader), REGION_AS_BEFORE);
  assert_int_equal(region_reader_presence(reader), REGION_ALIVE);
  assert_int_equal(region_reader_pid(reader), pid);
  end(pid);
  assert_int_equal(region_reader_refresh(reader), REGION_WENT);
  assert_false(region_reader_ended(reader));
  assert_int_equal(region_reader_rows(reader, GLOBALS + 1), 1);
  assert_int_equal(files(), 1);
}

TEST(a_producer_that_waits_for_its_parent_is_gone) {
  pid_t pid = start(wait_for_signal);
  UNIT_READER(reader);
  siginfo_t info;
  kill(pid, SIGKILL);
  assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
  assert_int_equal(region_reader_refresh(reader), REGION_WENT);
  end(pid);
}

static void leave_a_child(struct percore_region *region, int says) {
  (void)region;
  if (fork() == 0) {
    prctl(PR_SET_PDEATHSIG, 0);
    say(says);
    sleep(60);
    _exit(0);
  }
  pause();
}

TEST(a_child_that_lives_on_does_not_keep_the_region_alive) {
  assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  pid_t pid = start(leave_a_child);
  UNIT_READER(reader);
  end(pid);
  assert_int_equal(region_reader_refresh(reader), REGION_WENT);
  pid_t child;
  while ((child = waitpid(-1, NULL, WNOHANG)) == 0) {
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/task/%d/children", getpid());
    FILE *file = fopen(path, "re");
    int of_it;
    assert_non_null(file);
    if (fscanf(file, "%d", &of_it) == 1)
      kill(of_it, SIGKILL);
    fclose(file);
    poll(NULL, 0, 1);
  }
}

static void exit_without_destroy(struct percore_region *region, int says) {
  percore_slot_t slot;
  (void)attach_thread(region, "main", 0, &slot);
  say(says);
  pause();
}

static void exit_on_signal(int number) {
  (void)number;
  exit(0);
}

static void exit_normally(struct percore_region *region, int says) {
  signal(SIGTERM, exit_on_signal);
  exit_without_destroy(region, says);
}

TEST(a_normal_exit_ends_the_region) {
  pid_t pid = start(exit_normally);
  UNIT_READER(reader);
  kill(pid, SIGTERM);
  assert_int_equal(waitpid(pid, NULL, 0), pid);
  assert_int_equal(region_reader_refresh(reader), REGION_WENT);
  assert_true(region_reader_ended(reader));
}

/* What the library writes into its header. */
static struct region_header header_of_this_process(void) {
  struct region_header header = {.flags = REGION_LOCK_TELLS};
  region_process_sign(&header);
  return header;
}

static int open_only(void) {
  int fd = open(only_path(), O_RDONLY | O_CLOEXEC);
  assert_return_code(fd, errno);
  return fd;
}

REGION_TEST(the_lock_tells_who_is_alive_if_the_producer_has_proved_it) {
  struct region_header header = header_of_this_process();
  int locked = open_only(), unlocked = open("/dev/null", O_RDONLY | O_CLOEXEC);
  assert_false(region_file_is_over(locked, &header, 0));
  assert_false(region_file_is_over(locked, &header, 1)); /* a child counts */
  header.pid = 0;
  assert_false(region_file_is_over(locked, &header, 0));
  close(unlocked);
  char path[] = "/tmp/percore-unit-XXXXXX";
  unlocked = mkstemp(path);
  unlink(path);
  header = header_of_this_process();
  assert_true(region_file_is_over(unlocked, &header, 0));
  header.flags = 0; /* the process tells */
  assert_false(region_file_is_over(unlocked, &header, 0));
  assert_true(region_file_is_over(unlocked, &header, 1));
  header.flags = REGION_LOCK_TELLS;
  header.boot_id[3] ^= 1; /* another machine's lock */
  assert_false(region_file_is_over(unlocked, &header, 0));
  close(locked);
  close(unlocked);
}

TEST(without_a_lock_the_process_tells_if_its_pid_is_known_here) {
  struct region_header header = header_of_this_process();
  header.flags = 0;
  assert_false(region_process_is_over(&header));
  header.pid_start++;
  assert_true(region_process_is_over(&header)); /* another has its pid */
  header.pid_namespace++;
  assert_false(region_process_is_over(&header));
  header = header_of_this_process();
  header.pid = fork();
  if (header.pid == 0)
    _exit(0);
  header.pid_start = 0;
  siginfo_t info;
  assert_int_equal(waitid(P_PID, (id_t)header.pid, &info, WEXITED | WNOWAIT),
                   0);
  assert_true(region_process_is_over(&header)); /* nobody has waited for it */
  waitpid(header.pid, NULL, 0);
  assert_true(region_process_is_over(&header));
}

TEST(a_reader_that_has_given_back_has_no_descriptor_and_reads_on) {
  UNIT_REGION(region);
  unsigned fds = files_in("/proc/self/fd", NULL);
  UNIT_READER(reader);
  region_reader_give_back(reader);
  assert_int_equal(files_in("/proc/self/fd", NULL), fds);
  assert_int_equal(region_reader_rows(reader, GLOBALS + 1), 1);
  assert_int_equal(region_reader_refresh(reader), REGION_AS_BEFORE);
  region_reader_give_back(reader);
  assert_int_equal(files_in("/proc/self/fd", NULL), fds);
}

TEST(a_removed_file_is_gone_for_its_readers) {
  UNIT_REGION(region);
  UNIT_READER(reader);
  region_reader_give_back(reader);
  assert_return_code(unlink(only_path()), errno);
  assert_int_equal(region_reader_refresh(reader), REGION_WENT);
  assert_int_equal(region_reader_fault(reader)->error, ENOENT);
}

/* ---------------------------------------------------------------------------
 * What is no file of a region
 */

static const char stranger[] = "unit.0123456789abcdef";

static void assert_not_read(int error) {
  struct region_reader *reader;
  assert_return_code(region_reader_open_file(&reader, stranger, NULL), errno);
  assert_int_equal(region_reader_refresh(reader), REGION_AS_BEFORE);
  assert_int_equal(region_reader_presence(reader), REGION_ABSENT);
  assert_int_equal(region_reader_fault(reader)->error, error);
  assert_true(strstr(region_reader_error(reader), stranger) != NULL);
  region_reader_close(reader);
  struct percore_reader *by_name;
  assert_return_code(percore_open(&by_name, "unit", NULL), errno);
  assert_int_equal(percore_refresh(by_name), -1);
  percore_close(by_name);
}

TEST(a_fifo_is_not_waited_for) {
  assert_return_code(mkfifo(path_of(stranger), 0600), errno);
  assert_not_read(ENOTSUP);
}

TEST(a_directory_is_not_read) {
  assert_return_code(mkdir(path_of(stranger), 0700), errno);
  assert_not_read(ENOTSUP);
  assert_return_code(rmdir(path_of(stranger)), errno);
}

TEST(a_link_is_not_followed) {
  assert_return_code(symlink("/dev/zero", path_of(stranger)), errno);
  assert_not_read(ELOOP);
}

TEST(a_file_with_two_names_is_not_read_twice) {
  struct percore_region *region = unit_create();
  char name[512];
  strcpy(name, only_path());
  assert_return_code(link(name, path_of(stranger)), errno);
  assert_not_read(ENOTSUP);
  unit_end(region);
}

TEST(a_file_that_somebody_has_leased_is_not_waited_for) {
  int fd = open(path_of(stranger), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  assert_return_code(fd, errno);
  signal(SIGIO, SIG_IGN);
  assert_return_code(fcntl(fd, F_SETLEASE, F_WRLCK), errno);
  assert_not_read(EAGAIN);
  close(fd);
  signal(SIGIO, SIG_DFL);
}

TEST(an_empty_file_is_no_region) {
  int fd = open(path_of(stranger), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  assert_return_code(fd, errno);
  close(fd);
  assert_not_read(EPROTO);
}

REGION_TEST(a_file_with_the_name_of_another_region_is_not_read) {
  struct region_reader *reader;
  static const char other[] = "other.0123456789abcdef";
  char path[512];
  strcpy(path, only_path());
  assert_return_code(rename(path, path_of(other)), errno);
  assert_return_code(region_reader_open_file(&reader, other, NULL), errno);
  assert_int_equal(region_reader_refresh(reader), REGION_AS_BEFORE);
  assert_int_equal(region_reader_fault(reader)->rule, REGION_RULE_FILE_NAME);
  region_reader_close(reader);
}

TEST(only_names_of_regions_are_opened) {
  static const char *const names[] = {"unit",
                                      ".unit.0123456789abcdef",
                                      "unit.0123456789ABCDEF",
                                      "unit.sock",
                                      "unit.0123456789abcde",
                                      "Unit.0123456789abcdef",
                                      "unit@.0123456789abcdef",
                                      "unit@a\nb.0123456789abcdef"};
  struct region_reader *reader;
  for (size_t i = 0; i < COUNT_OF(names); i++)
    assert_fails(region_reader_open_file(&reader, names[i], NULL), EINVAL);
}

/* ---------------------------------------------------------------------------
 * Removing
 */

static time_t ahead_s;

time_t __real_time(time_t *at);
time_t __wrap_time(time_t *at);
time_t __wrap_time(time_t *at) {
  time_t now = __real_time(NULL) + ahead_s;
  if (at != NULL)
    *at = now;
  return now;
}

/* Leaves the file of a killed process. */
static void leave_dead(void) { end(start(wait_for_signal)); }

TEST(a_dead_file_stays_for_a_minute_after_it_was_found) {
  ahead_s = 0;
  leave_dead();
  region_files_clean(runtime_dir(), "unit");
  struct stat status;
  assert_return_code(stat(only_path(), &status), errno);
  assert_int_equal(status.st_mode & 0777, 0740); /* the note */
  ahead_s = 58;
  region_files_clean(runtime_dir(), "unit");
  assert_int_equal(files(), 1);
  ahead_s = 61;
  region_files_clean(runtime_dir(), "unit");
  assert_int_equal(files(), 0);
}

TEST(a_dead_file_is_read_after_it_was_found) {
  leave_dead();
  region_files_clean(runtime_dir(), "unit");
  UNIT_READER(reader);
  assert_int_equal(region_reader_refresh(reader), REGION_WENT);
}

TEST(the_next_creation_removes_what_was_left) {
  ahead_s = 0;
  leave_dead();
  unit_end(unit_create()); /* finds the first */
  ahead_s = 61;
  UNIT_REGION(region); /* removes it, and finds the second */
  assert_int_equal(files(), 2);
}

TEST(of_many_dead_files_the_oldest_are_removed_at_once) {
  enum { MANY = 70, KEPT = 64 };
  ahead_s = 0;
  struct percore_region *region;
  const struct percore_options options = {.cores = 1, .extra_slots = 1};
  for (int i = 0; i < MANY; i++) {
    assert_return_code(create_region(&region, "unit", NULL, 0, &options),
                       errno);
    percore_destroy(region);
  }
  assert_in_range(files(), KEPT, KEPT + 4);
}

TEST(living_files_and_those_of_others_stay) {
  static const char note[] = "unit.fedcba9876543210";
  ahead_s = 0;
  UNIT_REGION(region);
  leave_dead();
  int fd = open(path_of(note), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  assert_int_equal(write(fd, note, sizeof(note)), sizeof(note));
  close(fd);
  region_files_clean(runtime_dir(), "other");
  region_files_clean(runtime_dir(), "unit");
  ahead_s = 61;
  region_files_clean(runtime_dir(), "other");
  assert_int_equal(files(), 3);
  if (geteuid() == 0) {
    assert_return_code(seteuid(65534), errno);
    region_files_clean(runtime_dir(), "unit");
    assert_return_code(seteuid(0), errno);
    assert_int_equal(files(), 3);
  }
  region_files_clean(runtime_dir(), "unit");
  assert_int_equal(files(), 2);
  assert_return_code(access(path_of(note), F_OK), errno);
  assert_int_equal(unlink(path_of(note)), 0);
  UNIT_READER(reader);
  assert_int_equal(region_reader_presence(reader), REGION_ALIVE);
}

TEST(an_unfinished_file_stays_for_a_minute) {
  static const char name[] = ".unit.0123456789abcdef";
  ahead_s = 0;
  close(open(path_of(name), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  region_files_clean(runtime_dir(), "unit");
  region_files_clean(runtime_dir(), "unit");
  assert_int_equal(files(), 1);
  ahead_s = 61;
  region_files_clean(runtime_dir(), "unit");
  assert_int_equal(files(), 0);
}

TEST(however_many_files_are_dead_an_unfinished_one_stays_for_a_minute) {
  static const char name[] = ".unit.0123456789abcdef";
  ahead_s = 0;
  close(open(path_of(name), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  const struct timespec oldest = {.tv_sec = time(NULL) - 30};
  assert_return_code(utimensat(AT_FDCWD, path_of(name),
                               (const struct timespec[]){oldest, oldest}, 0),
                     errno);
  for (int i = 0; i < 70; i++)
    unit_end(unit_create());
  assert_return_code(access(path_of(name), F_OK), errno);
}

TEST(a_file_is_removed_if_and_only_if_nobody_counts_in_it) {
  char name[NAME_MAX + 1];
  int dir = open(runtime_dir(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  struct percore_region *region = unit_create();
  assert_int_equal(files_in(runtime_dir(), name), 1);
  assert_int_equal(region_file_remove(dir, name), 0);
  assert_int_equal(files(), 1);
  unit_end(region);
  assert_int_equal(region_file_remove(dir, name), 1);
  assert_int_equal(files(), 0);
  assert_fails(region_file_remove(dir, name), ENOENT);
  close(dir);
}

const struct unit_fixtures unit_fixtures = {
    .before_each = unit_make_runtime_dir,
    .after_each = unit_remove_runtime_dir};
