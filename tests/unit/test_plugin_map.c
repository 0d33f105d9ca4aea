/* Tests the thread of <Map>. A simulated publisher replaces the maps. */
#include "plugin_unit.h"

#include "plugin/map_sampler.h"

#include <sys/syscall.h>
#include <unistd.h>

#define INTERVAL_NS UINT64_C(1000000000)

/* ---------------------------------------------------------------------------
 * A simulated publisher
 */

/* Written by the thread; read after it has ended. */
static struct {
  int opens, closes;
  pid_t updated_by, closed_by;
} play;

static pid_t own_tid(void) { return (pid_t)syscall(SYS_gettid); }

int map_publisher_open(struct map_publisher **publisher,
                       const struct map_publisher_options *options) {
  static char played;
  assert_string_equal(options->region, "xdp");
  *publisher = (struct map_publisher *)(void *)&played;
  play.opens++;
  return 0;
}

int map_publisher_add(struct map_publisher *publisher,
                      const struct map_table *table, bool fresh) {
  assert_non_null(publisher);
  assert_string_equal(table->path, "/pins/packets");
  assert_false(fresh);
  return 0;
}

size_t map_publisher_update(struct map_publisher *publisher) {
  assert_non_null(publisher);
  play.updated_by = own_tid();
  return 1;
}

void map_publisher_close(struct map_publisher *publisher) {
  assert_non_null(publisher);
  play.closed_by = own_tid();
  play.closes++;
}

/* ---------------------------------------------------------------------------
 * Tests
 */

static int set_up(void **state) {
  memset(&play, 0, sizeof(play));
  return plugin_unit_set_up(state);
}

/* The thread ends after its first pass. */
static void start_and_stop(const char *lines) {
  struct map_sampler *sampler;
  assert_accepted(lines);
  assert_int_equal(map_sampler_start(&sampler, &config.maps, INTERVAL_NS), 0);
  map_sampler_stop(sampler);
}

static void without_maps_there_is_no_thread(void **state) {
  (void)state;
  start_and_stop("");
  assert_int_equal(play.opens, 0);
  assert_int_equal(play.closes, 0);
}

/* Only the thread that attached to the slots of a region can detach from them.
 */
static void the_thread_that_updates_a_region_closes_it(void **state) {
  (void)state;
  start_and_stop("<Map \"/pins/packets\">\nRegion \"xdp\"\n</Map>");
  assert_int_equal(play.opens, 1);
  assert_int_equal(play.closes, 1);
  assert_int_not_equal(play.updated_by, own_tid());
  assert_int_equal(play.closed_by, play.updated_by);
}

int main(void) {
#define TEST(test)                                                             \
  cmocka_unit_test_setup_teardown(test, set_up, plugin_unit_tear_down)
  const struct CMUnitTest tests[] = {
      TEST(without_maps_there_is_no_thread),
      TEST(the_thread_that_updates_a_region_closes_it),
  };
  return cmocka_run_group_tests_name("plugin_map", tests, NULL, NULL);
}
