/* Tests the errors for pins that cannot be read as a map. This file simulates
 * bpf(2). */
#include "base/bpf.h"
#include "map/map.h"

#include "unit.h"

#include <fcntl.h>

static int error; /* errno of BPF_OBJ_GET; 0: the pin is a program */
static char why[WHY_SIZE];

/* Replaces the function of the C library. */
long syscall(long number, ...) {
  (void)number;
  errno = error;
  return error != 0 ? -1 : open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static int open_pin(const char *path) {
  struct map map;
  int status = map_open_pin(&map, path, why);
  assert_int_equal(map.fd, -1);
  return status;
}

TEST(a_program_is_not_taken_for_a_map) {
  error = 0;
  assert_int_equal(open_pin("/sys/fs/bpf/program"), -EINVAL);
  assert_non_null(strstr(why, "not a map"));
}

/* The kernel cannot open a link read-only. Some kernels also cannot open a
 * program read-only. */
TEST(a_pin_that_cannot_be_opened_read_only_is_not_a_map) {
  error = EINVAL;
  assert_int_equal(open_pin("/sys/fs/bpf/link"), -EINVAL);
  assert_non_null(strstr(why, "not a map"));
}

TEST(advice_on_rights_is_for_maps_only) {
  error = EACCES;
  assert_int_equal(open_pin("/nowhere/pin"), -EACCES);
  assert_non_null(strstr(why, "if it is a map, make it readable (chmod)"));
}
