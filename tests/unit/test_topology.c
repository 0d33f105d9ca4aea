#include "unit.h"

#include "cycles/topology.h"
#include "fake_machine.h"
#include "temp_tree.h"

#define CPU "/sys/devices/system/cpu"
#define NODE "/sys/devices/system/node"

static struct topology topology;
static struct fake_machine *fake; /* NULL: the files are real */

static void end(void) {
  topology_free(&topology);
  if (fake != NULL)
    fake_machine_free(fake);
  fake = NULL;
}

static void assert_set(const struct core_set *set, const char *list) {
  char text[512];
  core_set_format(set, text, sizeof text);
  assert_string_equal(text, list);
}

/* ---------------------------------------------------------------------------
 * Real files
 */

static int read_fixture(const char *name) {
  char root[512];
  snprintf(root, sizeof root, "%s/%s", TEST_FIXTURES, name);
  struct machine *machine = machine_linux(root);
  int status = topology_read(&topology, machine);
  machine_linux_close(machine);
  return status;
}

TEST(a_machine_may_have_a_single_core) {
  assert_int_equal(read_fixture("one-core"), 0);
  assert_set(&topology.online, "0");
  assert_set(&topology.possible, "0");
  assert_set(&topology.isolated, "");
  assert_int_equal(topology.cores_len, 1);
  assert_int_equal(topology.node[0], 0);
  assert_int_equal(topology.sibling[0], -1);
  assert_true(topology.hypervisor);
  assert_false(topology.monitors);
}

TEST(two_threads_of_one_core_are_siblings) {
  assert_int_equal(read_fixture("two-cores"), 0);
  assert_set(&topology.online, "0-1");
  assert_set(&topology.isolated, "1");
  assert_int_equal(topology.sibling[0], 1);
  assert_int_equal(topology.sibling[1], 0);
  assert_false(topology.hypervisor);
  assert_true(topology.tsc_steady);
  assert_true(topology.monitors);
}

TEST(files_that_are_cut_off_leave_their_part_unknown) {
  assert_int_equal(read_fixture("cut"), 0);
  assert_set(&topology.online, "0");
  assert_int_equal(topology.node[0], -1);
  assert_int_equal(topology.sibling[0], -1);
  assert_false(topology.tsc_steady);
}

TEST(a_tree_that_lists_no_core_online_is_refused) {
  struct temp_tree tree;
  temp_tree_make(&tree);
  struct machine *machine = machine_linux(tree.root);
  assert_int_equal(topology_read(&topology, machine), -ENOENT);
  temp_tree_write(&tree, CPU "/possible", "0-3\n");
  temp_tree_write(&tree, CPU "/online", "\n");
  assert_int_equal(topology_read(&topology, machine), -ENOENT);
  machine_linux_close(machine);
  temp_tree_remove(&tree);
}

/* Writes the files of a server with 4 nodes and 2 threads per core.
 * The cores c and c + half are siblings. */
static void write_server(const struct temp_tree *tree, int cores) {
  char path[128], text[64];
  int half = cores / 2, node_cores = cores / 8;
  snprintf(text, sizeof text, "0-%d\n", cores - 1);
  temp_tree_write(tree, CPU "/online", text);
  temp_tree_write(tree, CPU "/possible", text);
  for (int core = 0; core < cores; core++) {
    snprintf(path, sizeof path, CPU "/cpu%d/topology/thread_siblings_list",
             core);
    snprintf(text, sizeof text, "%d,%d\n", core % half, core % half + half);
    temp_tree_write(tree, path, text);
  }
  temp_tree_write(tree, NODE "/online", "0-3\n");
  for (int node = 0; node < 4; node++) {
    snprintf(path, sizeof path, NODE "/node%d/cpulist", node);
    snprintf(text, sizeof text, "%d-%d,%d-%d\n", node * node_cores,
             (node + 1) * node_cores - 1, half + node * node_cores,
             half + (node + 1) * node_cores - 1);
    temp_tree_write(tree, path, text);
  }
}

static void check_server(int cores) {
  struct temp_tree tree;
  temp_tree_make(&tree);
  write_server(&tree, cores);
  struct machine *machine = machine_linux(tree.root);
  assert_int_equal(topology_read(&topology, machine), 0);
  assert_int_equal(topology.cores_len, cores);
  assert_int_equal(core_set_count(&topology.online), cores);
  int half = cores / 2;
  for (int core = 0; core < cores; core++) {
    assert_int_equal(topology.sibling[core], (core + half) % cores);
    assert_int_equal(topology.node[core], core % half / (cores / 8));
  }
  topology_free(&topology);
  machine_linux_close(machine);
  temp_tree_remove(&tree);
}

TEST(servers_of_64_and_256_cores_have_nodes_and_siblings) {
  check_server(64);
  check_server(256);
}

/* ---------------------------------------------------------------------------
 * Files in memory
 */

TEST(an_offline_core_is_possible_and_belongs_to_no_node) {
  fake = fake_machine_new(4);
  fake_machine_file(fake, NODE "/node0/cpulist", "0-1,3\n");
  fake_machine_online(fake, 2, false);
  assert_int_equal(topology_read(&topology, &fake->machine), 0);
  assert_set(&topology.online, "0-1,3");
  assert_set(&topology.possible, "0-3");
  assert_int_equal(topology.node[2], -1);
}

TEST(a_refresh_notices_hotplug) {
  fake = fake_machine_new(4);
  fake_machine_filef(fake, "1-2\n", CPU "/cpu%d/topology/thread_siblings_list",
                     1);
  assert_int_equal(topology_read(&topology, &fake->machine), 0);
  assert_int_equal(topology.sibling[1], 2);
  fake_machine_online(fake, 2, false);
  fake_machine_filef(fake, "1\n", CPU "/cpu%d/topology/thread_siblings_list",
                     1);
  fake_machine_file(fake, NODE "/node0/cpulist", "0-1,3\n");
  assert_int_equal(topology_refresh(&topology, &fake->machine), 0);
  assert_set(&topology.online, "0-1,3");
  assert_set(&topology.possible, "0-3");
  assert_int_equal(topology.sibling[1], -1);
  assert_int_equal(topology.node[2], -1);
  fake_machine_online(fake, 2, true);
  fake_machine_file(fake, NODE "/node0/cpulist", "0-3\n");
  assert_int_equal(topology_refresh(&topology, &fake->machine), 0);
  assert_set(&topology.online, "0-3");
  assert_int_equal(topology.node[2], 0);
}

TEST(a_core_beyond_the_possible_cores_gets_room) {
  fake = fake_machine_new(8);
  fake_machine_file(fake, CPU "/possible", "0-3\n");
  fake_machine_file(fake, CPU "/online", "0-3\n");
  assert_int_equal(topology_read(&topology, &fake->machine), 0);
  assert_int_equal(topology.cores_len, 4);
  fake_machine_file(fake, CPU "/online", "0-7\n");
  assert_int_equal(topology_refresh(&topology, &fake->machine), 0);
  assert_int_equal(topology.cores_len, 8);
  assert_set(&topology.possible, "0-7");
}

TEST(isolcpus_and_nohz_full_are_both_isolated) {
  fake = fake_machine_new(8);
  fake_machine_file(fake, CPU "/isolated", "2-3\n");
  fake_machine_file(fake, CPU "/nohz_full", "3-5\n");
  assert_int_equal(topology_read(&topology, &fake->machine), 0);
  assert_set(&topology.isolated, "2-5");
  fake_machine_file(fake, CPU "/isolated", "\n");
  fake_machine_file(fake, CPU "/nohz_full", "  (null)\n");
  assert_int_equal(topology_refresh(&topology, &fake->machine), 0);
  assert_set(&topology.isolated, "");
  fake_machine_remove(fake, CPU "/isolated");
  fake_machine_remove(fake, CPU "/nohz_full");
  assert_int_equal(topology_refresh(&topology, &fake->machine), 0);
  assert_set(&topology.isolated, "");
}

TEST(siblings_form_a_ring_over_all_threads_of_a_core) {
  fake = fake_machine_new(8);
  for (int core = 0; core < 8; core += 2)
    fake_machine_filef(fake, "0,2,4,6\n",
                       CPU "/cpu%d/topology/thread_siblings_list", core);
  assert_int_equal(topology_read(&topology, &fake->machine), 0);
  assert_int_equal(topology.sibling[0], 2);
  assert_int_equal(topology.sibling[2], 4);
  assert_int_equal(topology.sibling[4], 6);
  assert_int_equal(topology.sibling[6], 0);
  assert_int_equal(topology.sibling[1], -1);
}

TEST(an_impossible_sibling_is_ignored) {
  fake = fake_machine_new(2);
  fake_machine_filef(fake, "1,700\n",
                     CPU "/cpu%d/topology/thread_siblings_list", 1);
  assert_int_equal(topology_read(&topology, &fake->machine), 0);
  assert_int_equal(topology.sibling[1], -1);
}

TEST(cores_of_a_node_that_is_offline_belong_to_no_node) {
  fake = fake_machine_new(2);
  fake_machine_file(fake, NODE "/online", "1023\n");
  fake_machine_file(fake, NODE "/node0/cpulist", "0-1\n");
  assert_int_equal(topology_read(&topology, &fake->machine), 0);
  assert_int_equal(topology.node[0], -1);
  assert_int_equal(topology.node[1], -1);
  fake_machine_file(fake, NODE "/node1023/cpulist", "1\n");
  assert_int_equal(topology_refresh(&topology, &fake->machine), 0);
  assert_int_equal(topology.node[1], 1023);
}

TEST(a_node_may_have_no_cores_or_unknown_cores) {
  fake = fake_machine_new(2);
  fake_machine_file(fake, NODE "/online", "0-3\n");
  fake_machine_file(fake, NODE "/node0/cpulist", "0,5000-8191\n");
  fake_machine_file(fake, NODE "/node1/cpulist", "\n");
  fake_machine_file(fake, NODE "/node2/cpulist", "junk\n");
  fake_machine_file(fake, NODE "/node3/cpulist", "1,9000\n");
  assert_int_equal(topology_read(&topology, &fake->machine), 0);
  assert_int_equal(topology.node[0], 0);
  assert_int_equal(topology.node[1], -1);
}

static bool tsc_is_steady(const char *flags) {
  fake_machine_file(fake, "/proc/cpuinfo", flags);
  assert_int_equal(topology_read(&topology, &fake->machine), 0);
  bool steady = topology.tsc_steady;
  topology_free(&topology);
  return steady;
}

#define FLAGS "processor\t: 0\nflags\t\t: "

TEST(a_tsc_is_steady_only_if_both_flags_say_so) {
  fake = fake_machine_new(1);
  assert_int_equal(topology_read(&topology, &fake->machine), 0);
  assert_true(topology.tsc_steady);
  topology_free(&topology);
  assert_false(tsc_is_steady(FLAGS "tsc constant_tsc\n"));
  assert_false(tsc_is_steady(FLAGS "tsc nonstop_tsc\n"));
  assert_false(tsc_is_steady(FLAGS "xconstant_tsc nonstop_tsc_s3\n"));
  assert_true(tsc_is_steady(FLAGS "nonstop_tsc constant_tsc\n"));
}

TEST(only_the_whole_word_hypervisor_is_the_flag) {
  static const struct {
    const char *cpuinfo;
    bool hypervisor;
  } machines[] = {
      {"processor\t: 0\nflags\t\t: fpu hypervisor tsc\n", true},
      {"processor\t: 0\nflags\t\t: fpu hypervisor\n", true},
      {"processor\t: 0\nflags\t\t: fpu hypervisors\n", false},
      {"processor\t: 0\nmodel name\t: hypervisor\nflags\t\t: fpu\n", false},
      {"processor\t: 0\nFeatures\t: fp asimd\n", false},
      {"", false},
  };
  fake = fake_machine_new(1);
  for (size_t i = 0; i < sizeof machines / sizeof machines[0]; i++) {
    struct topology topology;
    fake_machine_file(fake, "/proc/cpuinfo", machines[i].cpuinfo);
    assert_int_equal(topology_read(&topology, &fake->machine), 0);
    assert_int_equal(topology.hypervisor, machines[i].hypervisor);
    topology_free(&topology);
  }
}

TEST(the_flags_are_found_in_a_cpuinfo_of_any_length) {
  fake = fake_machine_new(1);
  char *text = NULL;
  size_t length;
  FILE *out = open_memstream(&text, &length);
  for (int core = 0; core < 4096; core++) { /* in total 8 MiB */
    fprintf(out, "processor\t: %d\nflags\t\t: hypervisor", core);
    for (int i = 0; i < 200; i++)
      fprintf(out, " flag_%d", i);
    fprintf(out, "\n\n");
  }
  fclose(out);
  fake_machine_file(fake, "/proc/cpuinfo", text);
  free(text);
  assert_int_equal(topology_read(&topology, &fake->machine), 0);
  assert_true(topology.hypervisor);
}

TEST(if_one_file_is_missing_everything_else_is_known) {
  static const char *const files[] = {
      CPU "/possible",       CPU "/isolated",
      CPU "/nohz_full",      "/proc/cpuinfo",
      NODE "/node0/cpulist", CPU "/cpu1/topology/thread_siblings_list"};
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
    struct fake_machine *fake = fake_machine_new(2);
    struct topology topology;
    fake_machine_fail(fake, files[i], EACCES);
    assert_int_equal(topology_read(&topology, &fake->machine), 0);
    assert_set(&topology.online, "0-1");
    assert_set(&topology.possible, "0-1");
    topology_free(&topology);
    fake_machine_free(fake);
  }
}

TEST(freeing_twice_is_harmless) {
  fake = fake_machine_new(2);
  assert_int_equal(topology_read(&topology, &fake->machine), 0);
  topology_free(&topology);
}

const struct unit_fixtures unit_fixtures = {.after_each = end};
