/* Tests the thread that publishes the maps of <Map> blocks. This file replaces
 * the functions of map/publish.c, so the tests do not read any map. */
#include "plugin_unit.h"

#include "plugin/map_sampler.h"

#include "temp_tree.h"

#include <stdatomic.h>

#define INTERVAL_NS UINT64_C(2000000)

/* ---------------------------------------------------------------------------
 * A simulated publisher
 */

struct map_publisher {
  pthread_t thread; /* the thread that opened the publisher */
  bool is_same;     /* the same thread made every later call */
};

static struct map_publisher publisher;
static atomic_int opens, updates, closes;

struct map_publisher *
map_publisher_open(const struct map_publisher_options *options) {
  (void)options;
  publisher = (struct map_publisher){.thread = pthread_self(), .is_same = true};
  opens++;
  return &publisher;
}

int map_publisher_add(struct map_publisher *map_publisher,
                      const struct map_table *table, bool fresh) {
  (void)map_publisher;
  bool is_first = strcmp(table->path, "/sys/fs/bpf/gateway/ports") == 0;
  assert_string_equal(table->name, "ports");
  assert_false(fresh);
  return is_first ? 0 : -EEXIST;
}

static void note_thread(struct map_publisher *map_publisher) {
  map_publisher->is_same &=
      pthread_equal(map_publisher->thread, pthread_self()) != 0;
}

size_t map_publisher_update(struct map_publisher *map_publisher) {
  note_thread(map_publisher);
  updates++;
  return 1;
}

void map_publisher_close(struct map_publisher *map_publisher) {
  if (map_publisher == NULL)
    return;
  note_thread(map_publisher);
  closes++;
}

/* ---------------------------------------------------------------------------
 * Tests
 */

/* Only the thread that has attached to a region can detach from it, and a
 * region cannot be destroyed while a thread is attached. */
TEST(the_thread_that_opens_a_publisher_closes_it) {
  struct map_sampler *sampler;
  assert_accepted("<Map \"/sys/fs/bpf/gateway/ports\">\n</Map>");
  assert_int_equal(map_sampler_start(&sampler, &config.maps, INTERVAL_NS), 0);
  while (updates < 2)
    sched_yield();
  map_sampler_stop(sampler);
  assert_int_equal(opens, 1);
  assert_int_equal(closes, 1);
  assert_true(publisher.is_same);
}

TEST(a_second_map_for_the_same_table_is_a_warning) {
  struct map_sampler *sampler;
  assert_accepted("<Map \"/sys/fs/bpf/gateway/ports\">\n</Map>\n"
                  "<Map \"/sys/fs/bpf/old/ports\">\nRegion \"gatewaymap\"\n"
                  "</Map>");
  assert_int_equal(map_sampler_start(&sampler, &config.maps, INTERVAL_NS), 0);
  map_sampler_stop(sampler); /* after a round */
  assert_int_equal(fake_count_logged(LOG_WARNING), 1);
  assert_non_null(fake_logged(LOG_WARNING,
                              "map /sys/fs/bpf/old/ports is not "
                              "read: region gatewaymap already has "
                              "a table ports"));
}

TEST(a_program_can_publish_a_region_beside_its_maps) {
  assert_accepted("<Map \"/sys/fs/bpf/GTP-guard/*\">\n</Map>");
  assert_string_equal(config.maps.list[0].region, "gtpguardmap");
}

TEST(keys_are_shown_as_the_option_says) {
  assert_accepted("<Map \"/sys/fs/bpf/a/*\">\nKey \"hex\"\n</Map>\n"
                  "<Map \"/sys/fs/bpf/b/*\">\nKey \"ipv4\"\n</Map>\n"
                  "<Map \"/sys/fs/bpf/c/*\">\n</Map>");
  assert_int_equal(config.maps.list[0].table.key, MAP_KEY_HEX);
  assert_int_equal(config.maps.list[1].table.key, MAP_KEY_IPV4);
  assert_int_equal(config.maps.list[2].table.key, MAP_KEY_BY_TYPE);
}

TEST(a_file_that_is_no_map_matches_no_pattern) {
  struct map_sampler *sampler;
  struct temp_tree tree;
  char lines[128];
  temp_tree_make(&tree);
  temp_tree_write(&tree, "/gateway/ports", "");
  snprintf(lines, sizeof(lines), "<Map \"%s/gateway/*\">\n</Map>", tree.root);
  assert_accepted(lines);
  opens = 0;
  assert_int_equal(map_sampler_start(&sampler, &config.maps, INTERVAL_NS), 0);
  map_sampler_stop(sampler);
  temp_tree_remove(&tree);
  assert_int_equal(opens, 0);
  assert_non_null(fake_logged(LOG_WARNING, "no map matches it; maps are read"));
}

TEST(without_maps_there_is_no_thread) {
  struct map_sampler *sampler;
  assert_int_equal(map_sampler_start(&sampler, &config.maps, INTERVAL_NS), 0);
  assert_null(sampler);
  map_sampler_stop(sampler);
}

const struct unit_fixtures unit_fixtures = {
    .before_each = plugin_unit_set_up, .after_each = plugin_unit_tear_down};
