/* Tests the limit on open files (src/base/descriptors.c). */
#include "unit.h"

#include "base/descriptors.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define OPENED 600

/* Runs a test in a child, so that its limit and its descriptors do not affect
 * other tests. First closes all descriptors from 3 on, because the test program
 * may have inherited some. */
static void in_a_child(rlim_t soft, rlim_t hard, void (*body)(void)) {
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    for (int fd = 3; fd < 4096; fd++)
      close(fd);
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){soft, hard});
    for (int fd = 3; fd < OPENED; fd++)
      if (dup(0) != fd)
        _exit(2);
    body();
    _exit(0);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
}

/* Use CHECK instead of cmocka's assertions in a child: after a failed assertion
 * of cmocka, the child would run the other tests. */
#define CHECK(condition)                                                       \
  do                                                                           \
    if (!(condition))                                                          \
      _exit(1);                                                                \
  while (0)

static rlim_t soft_limit(void) {
  struct rlimit limit;
  CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
  return limit.rlim_cur;
}

static void expect_what_is_left(void) {
  CHECK(descriptors_available() == 1024 - OPENED - DESCRIPTORS_RESERVE);
  CHECK(dup(0) >= 0);
  CHECK(descriptors_available() == 1024 - OPENED - DESCRIPTORS_RESERVE - 1);
}

TEST(open_descriptors_and_the_reserve_are_not_available) {
  in_a_child(1024, 2048, expect_what_is_left);
}

static void expect_none(void) { CHECK(descriptors_available() == 0); }

TEST(within_the_reserve_none_are_available) {
  in_a_child(OPENED + OPENED / 4, 2048, expect_none);
}

/* What is needed for three counters of each core. */
static rlim_t needed(void) { return 3 * (rlim_t)sysconf(_SC_NPROCESSORS_CONF); }

static void expect_same_limit(void) {
  rlim_t before = soft_limit();
  descriptors_raise_limit();
  CHECK(soft_limit() == before);
}

TEST(the_limit_is_not_raised_if_there_is_room) {
  in_a_child(OPENED + DESCRIPTORS_RESERVE + needed(), 4096, expect_same_limit);
}

static void expect_raised_limit(void) {
  descriptors_raise_limit();
  CHECK(soft_limit() == 1024 + needed() + DESCRIPTORS_RESERVE);
  CHECK(descriptors_available() >= (long)needed());
  expect_same_limit();
}

TEST(the_limit_is_raised_as_far_as_needed) {
  in_a_child(OPENED + 4, 4096, expect_raised_limit);
}

static void expect_hard_limit(void) {
  descriptors_raise_limit();
  CHECK(soft_limit() == OPENED + 10);
}

TEST(the_hard_limit_is_not_passed) {
  in_a_child(OPENED + 4, OPENED + 10, expect_hard_limit);
}

static void expect_room_up_to_the_reserve(void) {
  CHECK(descriptors_have_room(1024 - DESCRIPTORS_RESERVE - 1));
  CHECK(!descriptors_have_room(1024 - DESCRIPTORS_RESERVE));
}

TEST(a_low_descriptor_leaves_low_ones_free) {
  in_a_child(1024, 4096, expect_room_up_to_the_reserve);
  in_a_child(2000, 4096, expect_room_up_to_the_reserve);
}

static void expect_room_up_to_the_limit(void) {
  CHECK(descriptors_have_room(1024));
  CHECK(descriptors_have_room(2000 - DESCRIPTORS_RESERVE - 1));
  CHECK(!descriptors_have_room(2000 - DESCRIPTORS_RESERVE));
}

TEST(a_high_descriptor_leaves_others_free) {
  in_a_child(2000, 4096, expect_room_up_to_the_limit);
}

static void expect_a_quarter(void) {
  CHECK(descriptors_have_room(599));
  CHECK(!descriptors_have_room(600));
}

TEST(of_a_low_limit_a_quarter_stays_free) {
  in_a_child(800, 4096, expect_a_quarter);
}

static void expect_move(void) {
  int low = dup(0);
  int high = descriptors_move(low);
  CHECK(low < 1024 && high >= 1024);
  CHECK(fcntl(low, F_GETFD) < 0);
  CHECK(fcntl(high, F_GETFD) == FD_CLOEXEC);
}

TEST(descriptors_are_moved_to_where_select_cannot_use_them) {
  in_a_child(2048, 4096, expect_move);
}

static void expect_no_move(void) {
  int low = dup(0);
  CHECK(descriptors_move(low) == low);
  CHECK(fcntl(low, F_GETFD) >= 0);
}

TEST(below_a_limit_of_1024_nothing_is_moved) {
  in_a_child(1024, 4096, expect_no_move);
}
