/* Tests what is found to keep a core out of its idle states. */
#include "tool/latency_limit.h"

#include "temp_tree.h"
#include "unit.h"

#include <sys/stat.h>
#include <unistd.h>

static struct temp_tree tree;

static void begin(void) { temp_tree_make(&tree); }

static void end(void) { temp_tree_remove(&tree); }

static struct latency_limit read_limit(void) {
  struct latency_limit limit;
  latency_limit_read(&limit, tree.root, 5);
  return limit;
}

static void set_device(const char *text) {
  temp_tree_write(&tree,
                  "/sys/devices/system/cpu/cpu5/power/pm_qos_resume_latency_us",
                  text);
}

/* The file contains an int32_t. */
static void set_dma(int32_t us) {
  char path[128];
  temp_tree_write(&tree, "/dev/cpu_dma_latency", "");
  snprintf(path, sizeof(path), "%s/dev/cpu_dma_latency", tree.root);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  assert_int_equal(fwrite(&us, sizeof(us), 1, file), 1);
  assert_int_equal(fclose(file), 0);
}

TEST(a_machine_without_limits_has_none) { assert_true(isinf(read_limit().us)); }

TEST(files_that_set_no_limit_set_none) {
  temp_tree_write(&tree, "/sys/module/cpuidle/parameters/off", "0\n");
  set_device("0\n");
  set_dma(2000000000);
  assert_true(isinf(read_limit().us));
}

TEST(the_lowest_limit_counts) {
  set_device("70\n");
  assert_near(read_limit().us, 70, 0);
  assert_non_null(strstr(read_limit().text, "of the core"));
  set_dma(20);
  assert_near(read_limit().us, 20, 0);
  assert_non_null(strstr(read_limit().text, "fuser -v /dev/cpu_dma_latency"));
  set_dma(100);
  assert_near(read_limit().us, 70, 0);
  set_device("n/a\n");
  assert_near(read_limit().us, 0, 0);
}

TEST(cpuidle_that_is_off_is_a_limit) {
  temp_tree_write(&tree, "/sys/module/cpuidle/parameters/off", "1\n");
  assert_near(read_limit().us, 0, 0);
  assert_non_null(strstr(read_limit().text, "cpuidle.off=1"));
}

const struct unit_fixtures unit_fixtures = {.before_each = begin,
                                            .after_each = end};
