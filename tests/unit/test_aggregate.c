#include "unit.h"

#include "cycles/aggregate.h"
#include "fake_machine.h"

#define NODE "/sys/devices/system/node"
#define CPU "/sys/devices/system/cpu"

static struct fake_machine *fake;
static struct topology topology;
static struct snapshot *snapshot;

static void end(void) {
  snapshot_free(snapshot);
  topology_free(&topology);
  if (fake != NULL)
    fake_machine_free(fake);
  fake = NULL;
}

/* Makes a snapshot of `len` online cores, with their loads in busy[]. */
static struct snapshot *make(const double *busy, size_t len) {
  struct snapshot *snapshot = calloc(1, sizeof *snapshot);
  snapshot->cores_len = len;
  snapshot->cores = calloc(len, sizeof *snapshot->cores);
  for (size_t i = 0; i < len; i++)
    snapshot->cores[i] = (struct core_figures){
        .core = (int)i, .online = true, .load = busy[i], .room = 1 - busy[i]};
  return snapshot;
}

static const struct aggregate_figures *find(const struct snapshot *snapshot,
                                            const char *name) {
  for (size_t i = 0; i < snapshot->aggregates_len; i++)
    if (strcmp(snapshot->aggregates[i].name, name) == 0)
      return &snapshot->aggregates[i];
  return NULL;
}

TEST(mean_min_max_and_stddev_are_those_of_the_loads) {
  static const double busy[] = {0.2, 0.4, 0.4, 0.4, 0.5, 0.5, 0.7, 0.9};
  snapshot = make(busy, 8);
  struct aggregate_figures all = {0};
  struct core_set set;
  core_set_parse(&set, "0-7");
  aggregate_cores(&all, snapshot, &set);
  assert_int_equal(all.cores_len, 8);
  assert_near(all.load.mean, 0.5, 1e-12);
  assert_near(all.load.min, 0.2, 0);
  assert_near(all.load.max, 0.9, 0);
  /* The standard deviation of a population divides by n, not by n - 1. */
  assert_near(all.load.stddev, 0.2, 1e-12);
}

TEST(the_stddev_of_one_core_is_0) {
  static const double busy[] = {0.3};
  snapshot = make(busy, 1);
  struct aggregate_figures all = {0};
  struct core_set set;
  core_set_parse(&set, "0");
  aggregate_cores(&all, snapshot, &set);
  assert_near(all.load.mean, 0.3, 0);
  assert_near(all.load.stddev, 0, 0);
}

TEST(cores_without_value_are_counted_and_left_out) {
  static const double busy[] = {0.2, NAN, 0.6, 0.9};
  snapshot = make(busy, 4);
  struct aggregate_figures all = {0};
  struct core_set set;
  core_set_parse(&set, "0-3");
  snapshot->cores[3].online = false;
  aggregate_cores(&all, snapshot, &set);
  assert_int_equal(all.cores_len, 2);
  assert_int_equal(all.cores_without_value, 1);
  assert_near(all.load.mean, 0.4, 1e-12);
  assert_near(all.load.max, 0.6, 0);
}

TEST(without_any_value_the_aggregate_is_unknown) {
  static const double busy[] = {NAN, NAN};
  snapshot = make(busy, 2);
  struct aggregate_figures all = {0};
  struct core_set set;
  core_set_parse(&set, "0-1");
  aggregate_cores(&all, snapshot, &set);
  assert_int_equal(all.cores_len, 0);
  assert_int_equal(all.cores_without_value, 2);
  assert_nan(all.load.mean);
  assert_nan(all.load.min);
  assert_nan(all.load.max);
  assert_nan(all.load.stddev);
}

/* ---------------------------------------------------------------------------
 * Sets
 */

static struct topology read_topology(struct fake_machine *fake) {
  struct topology topology;
  assert_int_equal(topology_read(&topology, &fake->machine), 0);
  return topology;
}

static const double eighths[] = {0,   0.125, 0.25, 0.375,
                                 0.5, 0.625, 0.75, 0.875};

/* Aggregates the loads 0, 1/8, ... 7/8 of the cores of the fake machine. */
static void aggregate_eighths(void) {
  topology = read_topology(fake);
  snapshot = make(eighths, 8);
  assert_int_equal(aggregate_all(snapshot, &topology, NULL, 0), 0);
}

TEST(a_plain_machine_has_only_all_cores) {
  fake = fake_machine_new(8);
  aggregate_eighths();
  assert_int_equal(snapshot->aggregates_len, 1);
  assert_near(find(snapshot, "all")->load.mean, 0.4375, 1e-12);
  assert_near(find(snapshot, "all")->room.mean, 0.5625, 1e-12);
  assert_near(find(snapshot, "all")->room.min, 0.125, 1e-12);
}

TEST(aggregates_follow_figures_that_were_changed) {
  fake = fake_machine_new(8);
  aggregate_eighths();
  for (int core = 0; core < 8; core++)
    snapshot->cores[core].room = 0.5;
  assert_int_equal(aggregate_all(snapshot, &topology, NULL, 0), 0);
  assert_int_equal(snapshot->aggregates_len, 1);
  assert_near(find(snapshot, "all")->room.min, 0.5, 0);
}

TEST(a_group_of_all_cores_has_an_aggregate_because_it_was_asked_for) {
  fake = fake_machine_new(8);
  fake_machine_file(fake, CPU "/isolated", "0-7\n");
  struct figures_group group = {.name = "dataplane"};
  core_set_parse(&group.cores, "0-7");
  topology = read_topology(fake);
  snapshot = make(eighths, 8);
  assert_int_equal(aggregate_all(snapshot, &topology, &group, 1), 0);
  assert_int_equal(snapshot->aggregates_len, 2);
  assert_int_equal(find(snapshot, "dataplane")->cores_len, 8);
}

TEST(isolated_and_housekeeping_cores_have_aggregates) {
  fake = fake_machine_new(8);
  fake_machine_file(fake, CPU "/isolated", "6-7\n");
  aggregate_eighths();
  assert_near(find(snapshot, "isolated")->load.min, 0.75, 1e-12);
  assert_int_equal(find(snapshot, "isolated")->cores_len, 2);
  assert_near(find(snapshot, "housekeeping")->load.max, 0.625, 1e-12);
  assert_int_equal(find(snapshot, "housekeeping")->cores_len, 6);
}

TEST(an_isolated_core_that_does_not_exist_makes_no_aggregate) {
  fake = fake_machine_new(8);
  topology = read_topology(fake);
  snapshot = make(eighths, 8);
  core_set_add(&topology.isolated, 64);
  assert_int_equal(aggregate_all(snapshot, &topology, NULL, 0), 0);
  assert_int_equal(snapshot->aggregates_len, 1);
}

TEST(each_of_two_nodes_has_an_aggregate) {
  fake = fake_machine_new(8);
  fake_machine_file(fake, NODE "/online", "0-1\n");
  fake_machine_file(fake, NODE "/node0/cpulist", "0-3\n");
  fake_machine_file(fake, NODE "/node1/cpulist", "4-7\n");
  aggregate_eighths();
  assert_int_equal(snapshot->aggregates_len, 3);
  assert_near(find(snapshot, "node0")->load.mean, 0.1875, 1e-12);
  assert_near(find(snapshot, "node1")->load.mean, 0.6875, 1e-12);
}

TEST(a_core_without_a_node_does_not_hide_the_nodes_of_others) {
  fake = fake_machine_new(8);
  fake_machine_file(fake, NODE "/node0/cpulist", "0-6\n");
  aggregate_eighths();
  assert_non_null(find(snapshot, "node0"));
  assert_int_equal(find(snapshot, "node0")->cores_len, 7);
}

TEST(groups_have_aggregates_under_their_names) {
  fake = fake_machine_new(8);
  struct figures_group groups[3] = {
      {.name = "dataplane"}, {.name = "control"}, {.name = "nowhere"}};
  core_set_parse(&groups[0].cores, "2-5,100-200");
  core_set_parse(&groups[1].cores, "0");
  core_set_parse(&groups[2].cores, "500");
  topology = read_topology(fake);
  snapshot = make(eighths, 8);
  assert_int_equal(aggregate_all(snapshot, &topology, groups, 3), 0);
  assert_int_equal(find(snapshot, "dataplane")->cores_len, 4);
  assert_near(find(snapshot, "dataplane")->load.mean, 0.4375, 1e-12);
  assert_near(find(snapshot, "control")->load.mean, 0, 0);
  assert_null(find(snapshot, "nowhere"));
}

TEST(a_set_whose_cores_have_no_value_still_has_an_aggregate) {
  static const double busy[] = {0.5, NAN};
  fake = fake_machine_new(2);
  fake_machine_file(fake, CPU "/isolated", "1\n");
  topology = read_topology(fake);
  snapshot = make(busy, 2);
  assert_int_equal(aggregate_all(snapshot, &topology, NULL, 0), 0);
  assert_int_equal(find(snapshot, "isolated")->cores_without_value, 1);
  assert_nan(find(snapshot, "isolated")->load.mean);
}

const struct unit_fixtures unit_fixtures = {.after_each = end};
