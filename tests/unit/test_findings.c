#include "unit.h"

#include "temp_tree.h"
#include "tool/doctor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Returns facts about a machine on which nothing is missing. */
static struct doctor_facts healthy(void) {
  struct doctor_facts facts = {
      .kernel = "Linux 6.1.0 x86_64",
      .cores_online = 2,
      .online = "0-1",
      .possible = "0-1",
      .tsc_steady = true,
      .clocksource = "tsc",
      .pmus = "cpu msr software",
      .core_pmu = true,
      .has_mperf = true,
      .has_paranoid = true,
      .paranoid = 2,
      .may_perf = true,
      .has_cpuidle = true,
      .collectd = "/usr/sbin/collectd",
      .regions = {.directory = "/run/percore",
                  .mode = "mode 3775, owner root, group percore",
                  .group = 998,
                  .member = true,
                  .user = "ann",
                  .alive = 1,
                  .sockets = 1},
      .running_len = 1,
      .running = {{.pid = 42,
                   .capabilities = CAPABILITY_PERFMON,
                   .in_group = true,
                   .open_files = 4096,
                   .state = PLUGIN_LOADED,
                   .plugin = {"/usr/lib/collectd", true}}},
  };
  for (int source = 0; source < SOURCES; source++)
    facts.source[source] =
        (struct source_facts){.cores = 2, .proof = PROOF_PROVEN};
  facts.source[SOURCE_MPERF].chosen = 2;
  return facts;
}

static const struct finding *find(const struct findings *findings,
                                  const char *name) {
  for (size_t i = 0; i < findings->len; i++)
    if (strcmp(findings->finding[i].name, name) == 0)
      return &findings->finding[i];
  fail_msg("there is no finding %s", name);
  return NULL;
}

static char *text_of(const struct doctor_facts *facts) {
  struct findings findings;
  findings_make(&findings, facts);
  char *out = NULL;
  size_t size;
  FILE *file = open_memstream(&out, &size);
  assert_int_equal(findings_text_write(file, &findings, facts, 80, false), 0);
  fclose(file);
  return out;
}

static void a_healthy_machine_needs_no_advice(void **state) {
  (void)state;
  struct doctor_facts facts = healthy();
  struct findings findings;
  findings_make(&findings, &facts);
  for (size_t i = 0; i < findings.len; i++) {
    assert_int_equal(findings.finding[i].verdict, VERDICT_OK);
    assert_string_equal(findings.finding[i].advice, "");
  }
  char *out = text_of(&facts);
  assert_non_null(
      strstr(out, "Loads come from mperf (proven) on 2 of 2 cores.\n"));
  free(out);
}

static void
a_counter_is_proposed_for_isolated_cores_with_its_cost(void **state) {
  (void)state;
  struct doctor_facts facts = healthy();
  struct findings findings;
  snprintf(facts.isolated, sizeof facts.isolated, "1");
  facts.isolated_on_idle = 1;
  findings_make(&findings, &facts);
  assert_non_null(strstr(find(&findings, "isolated")->advice, "25 us"));
  for (int source = 0; source < SOURCE_IDLE; source++)
    facts.source[source] = (struct source_facts){0};
  findings_make(&findings, &facts);
  assert_string_equal(find(&findings, "isolated")->advice, "");
}

static void what_wake_latency_lacks_is_noted(void **state) {
  (void)state;
  struct doctor_facts facts = healthy();
  struct findings findings;
  facts.has_cpuidle = false;
  findings_make(&findings, &facts);
  const struct finding *wake = find(&findings, "wake latency");
  assert_int_equal(wake->verdict, VERDICT_NOTE);
  assert_non_null(strstr(wake->value, "cpuidle has no driver"));
  snprintf(facts.wake_reason, FACT_SIZE, "the kernel refuses: why; do this");
  findings_make(&findings, &facts);
  assert_string_equal(wake->value, "the kernel refuses: why");
  assert_string_equal(wake->advice, "do this");
}

static void lxcfs_is_named_with_advice(void **state) {
  (void)state;
  struct doctor_facts facts = healthy();
  struct findings findings;
  facts.lxcfs = true;
  findings_make(&findings, &facts);
  assert_non_null(strstr(find(&findings, "/proc/stat")->value, "LXCFS"));
  assert_non_null(strstr(find(&findings, "/proc/stat")->advice, "SysRoot"));
}

static void on_arm64_no_advice_is_about_x86(void **state) {
  (void)state;
  struct doctor_facts facts = healthy();
  struct findings findings;
  facts.arm64 = true;
  for (int source = 0; source < SOURCE_BPF; source++)
    facts.source[source] = (struct source_facts){0};
  findings_make(&findings, &facts);
  for (int source = 0; source < SOURCE_BPF; source++) {
    const char *advice = find(&findings, source_name(source))->advice;
    assert_null(strstr(advice, "mperf"));
    assert_null(strstr(advice, "MPERF"));
    assert_non_null(strstr(advice, "cnt_cycles"));
  }
}

static void everything_missing_is_reported_with_advice(void **state) {
  (void)state;
  struct doctor_facts facts = {.cores_online = 2};
  struct findings findings;
  for (int hypervisor = 0; hypervisor < 2; hypervisor++)
    for (int rights = 0; rights < 2; rights++) {
      facts.hypervisor = hypervisor;
      facts.may_perf = rights;
      findings_make(&findings, &facts);
      for (size_t i = 0; i < findings.len; i++)
        if (findings.finding[i].verdict != VERDICT_OK)
          assert_string_not_equal(findings.finding[i].advice, "");
      assert_int_equal(find(&findings, "plugin")->verdict, VERDICT_MISSING);
    }
  assert_false(facts_have_source(&facts));
  char *out = text_of(&facts);
  assert_non_null(strstr(out, "No source of loads works here"));
  free(out);
}

static void rights_are_advised_only_for_a_counter_that_exists(void **state) {
  (void)state;
  struct doctor_facts facts = healthy();
  struct findings findings;
  facts.hypervisor = true;
  facts.may_perf = false;
  for (int source = 0; source < SOURCE_IDLE; source++)
    facts.source[source] = (struct source_facts){0};
  findings_make(&findings, &facts);
  const struct finding *finding = find(&findings, "ref-cycles");
  assert_non_null(strstr(finding->advice, "CAP_PERFMON"));
  assert_int_equal(find(&findings, "CAP_PERFMON")->verdict, VERDICT_MISSING);
  assert_non_null(strstr(find(&findings, "mperf")->advice, "CAP_PERFMON"));
  /* The configuration does not name an event. */
  assert_null(strstr(find(&findings, "event")->advice, "CAP_PERFMON"));
  assert_int_equal(find(&findings, "event")->verdict, VERDICT_NOTE);
  facts.core_pmu = facts.has_mperf = false;
  findings_make(&findings, &facts);
  assert_int_equal(find(&findings, "CAP_PERFMON")->verdict, VERDICT_NOTE);
  assert_null(strstr(find(&findings, "mperf")->advice, "CAP_PERFMON"));
  finding = find(&findings, "ref-cycles");
  assert_non_null(strstr(finding->advice, "hypervisor"));
}

static void
a_counter_that_does_not_exist_is_not_said_to_lack_rights(void **state) {
  (void)state;
  struct doctor_facts facts = healthy();
  struct findings findings;
  facts.may_perf = facts.core_pmu = facts.has_mperf = false;
  facts.hypervisor = true;
  facts.source[SOURCE_REF_CYCLES] = (struct source_facts){
      .reason = "it cannot be opened: Permission denied (grant CAP_PERFMON)"};
  findings_make(&findings, &facts);
  assert_string_equal(find(&findings, "ref-cycles")->value,
                      "this machine has no core PMU");
  facts.core_pmu = true;
  findings_make(&findings, &facts);
  assert_non_null(strstr(find(&findings, "ref-cycles")->value, "CAP_PERFMON"));
}

static void
with_perf_event_paranoid_minus_1_no_capability_is_needed(void **state) {
  (void)state;
  struct doctor_facts facts = healthy();
  struct findings findings;
  facts.may_perf = false;
  facts.paranoid = -1;
  findings_make(&findings, &facts);
  assert_int_equal(find(&findings, "CAP_PERFMON")->verdict, VERDICT_OK);
}

static void a_sampled_tick_is_reported_wherever_it_matters(void **state) {
  (void)state;
  struct doctor_facts facts = healthy();
  struct findings findings;
  facts.source[SOURCE_IDLE].proof = PROOF_TICK_SAMPLED;
  findings_make(&findings, &facts);
  assert_int_equal(find(&findings, "idle")->verdict, VERDICT_NOTE);
  assert_non_null(strstr(find(&findings, "idle")->value, "tick-sampled"));
  assert_int_equal(find(&findings, "tick")->verdict, VERDICT_NOTE);
  assert_non_null(strstr(find(&findings, "tick")->advice, "nohz"));
}

static void a_hypervisor_without_steal_is_noted(void **state) {
  (void)state;
  struct doctor_facts facts = healthy();
  struct findings findings;
  facts.hypervisor = true;
  findings_make(&findings, &facts);
  assert_int_equal(find(&findings, "hypervisor")->verdict, VERDICT_OK);
  facts.steal_unknown = true;
  findings_make(&findings, &facts);
  assert_int_equal(find(&findings, "hypervisor")->verdict, VERDICT_NOTE);
  assert_non_null(strstr(find(&findings, "hypervisor")->value, "no stolen"));
}

static void a_kernel_that_counts_softirq_as_idle_is_noted(void **state) {
  (void)state;
  struct doctor_facts facts = healthy();
  struct findings findings;
  facts.softirq_is_idle = true;
  findings_make(&findings, &facts);
  assert_int_equal(find(&findings, "softirq")->verdict, VERDICT_NOTE);
  assert_non_null(find(&findings, "softirq")->advice);
}

static void interrupts_that_the_idle_clock_cannot_see_are_noted(void **state) {
  (void)state;
  struct doctor_facts facts = healthy();
  struct findings findings;
  snprintf(facts.clock_unseen, FACT_SIZE, "thermal_apic HYP");
  findings_make(&findings, &facts);
  const struct finding *finding = find(&findings, "bpf misses");
  assert_int_equal(finding->verdict, VERDICT_NOTE);
  assert_non_null(strstr(finding->value, "thermal_apic HYP"));
}

static void why_softirqs_cannot_be_measured_is_noted(void **state) {
  (void)state;
  struct doctor_facts facts = healthy();
  struct findings findings;
  snprintf(facts.softirq_trouble, FACT_SIZE, "PREEMPT_RT");
  findings_make(&findings, &facts);
  const struct finding *finding = find(&findings, "ReportSoftirq");
  assert_int_equal(finding->verdict, VERDICT_NOTE);
  assert_string_equal(finding->value, "PREEMPT_RT");
}

static void a_source_that_must_be_named_is_reported_as_such(void **state) {
  (void)state;
  struct doctor_facts facts = healthy();
  facts.source[SOURCE_MPERF].chosen = 0;
  char *out = text_of(&facts);
  assert_non_null(strstr(out, "\nNo source is used by default: choose one"));
  free(out);
}

static void
a_missing_directory_and_group_are_reported_with_commands(void **state) {
  (void)state;
  struct doctor_facts facts = healthy();
  struct findings findings;
  facts.regions.error = ENOENT;
  facts.regions.group = -1;
  findings_make(&findings, &facts);
  const struct finding *finding = find(&findings, "directory");
  assert_int_equal(finding->verdict, VERDICT_MISSING);
  assert_non_null(strstr(finding->advice, "install -d -m 3775 -g percore"));
  assert_non_null(strstr(find(&findings, "group")->advice, "groupadd"));
}

static void
an_unreadable_socket_is_reported_with_reason_and_command(void **state) {
  (void)state;
  struct doctor_facts facts = healthy();
  struct findings findings;
  struct regions_facts *regions = &facts.regions;
  regions->member = false;
  regions->sockets = 3;
  regions->unreadable_len = 2;
  snprintf(regions->unreadable[0].name, FACT_SIZE, "gtpu");
  snprintf(regions->unreadable[0].why, FACT_SIZE, "Permission denied");
  regions->unreadable[0].error = EACCES;
  snprintf(regions->unreadable[1].name, FACT_SIZE, "old");
  regions->unreadable[1].error = ECONNREFUSED;
  findings_make(&findings, &facts);
  assert_non_null(strstr(find(&findings, "group")->advice, "percore ann"));
  const struct finding *socket = find(&findings, "socket");
  assert_string_equal(socket->value, "gtpu: Permission denied");
  assert_non_null(strstr(socket->advice, "usermod -aG percore ann"));
  assert_non_null(strstr(socket[1].advice, "rm '/run/percore/old.sock'"));
}

static void a_running_collectd_is_judged_by_its_own_rights(void **state) {
  (void)state;
  struct doctor_facts facts = healthy();
  struct findings findings;
  facts.running[0] = (struct collectd_facts){
      .pid = 42, .uid = 1000, .state = PLUGIN_ABSENT, .open_files = 256};
  findings_make(&findings, &facts);
  assert_non_null(
      strstr(find(&findings, "LoadPlugin")->advice, "LoadPlugin percore"));
  assert_non_null(strstr(find(&findings, "counters")->advice,
                         "AmbientCapabilities=CAP_PERFMON"));
  char *out = text_of(&facts);
  assert_non_null(strstr(out, "SupplementaryGroups=percore"));
  free(out);
  assert_non_null(strstr(find(&findings, "open files")->advice, "LimitNOFILE"));
  facts.running_len = 0;
  findings_make(&findings, &facts);
  assert_non_null(
      strstr(find(&findings, "running")->advice, "systemctl start collectd"));
}

static void
an_unproven_source_is_noted_only_if_a_core_depends_on_it(void **state) {
  (void)state;
  struct doctor_facts facts = healthy();
  struct findings findings;
  facts.source[SOURCE_IDLE].proof = PROOF_UNPROVEN;
  facts.source[SOURCE_MPERF].chosen = 0;
  facts.source[SOURCE_BPF].chosen = 2;
  findings_make(&findings, &facts);
  assert_int_equal(find(&findings, "idle")->verdict, VERDICT_OK);
  assert_non_null(strstr(find(&findings, "idle")->value, "unproven"));
  assert_int_equal(find(&findings, "tick")->verdict, VERDICT_OK);
  facts.source[SOURCE_BPF].chosen = 1;
  facts.source[SOURCE_IDLE].chosen = 1;
  findings_make(&findings, &facts);
  assert_int_equal(find(&findings, "idle")->verdict, VERDICT_NOTE);
  assert_int_equal(find(&findings, "tick")->verdict, VERDICT_NOTE);
}

static void every_running_collectd_is_reported(void **state) {
  (void)state;
  struct doctor_facts facts = healthy();
  facts.running[1] = facts.running[0];
  facts.running[1].pid = 77;
  facts.running[1].plugin = (struct plugin_facts){"/opt/collectd", false};
  facts.running_len = 2;
  char *out = text_of(&facts);
  assert_non_null(strstr(out, "pid 42"));
  assert_non_null(strstr(out, "/usr/lib/collectd/percore.so\n"));
  assert_non_null(strstr(out, "pid 77"));
  assert_non_null(strstr(out, "/opt/collectd/percore.so is not installed"));
  free(out);
}

/* /proc contains a shell and two collectd processes. Process 98 is a child of
 * process 99. */
static void running_collectds_are_found_in_proc(void **state) {
  (void)state;
  struct temp_tree tree;
  struct collectd_facts list[COLLECTDS_MAX], *facts = &list[0];
  temp_tree_make(&tree);
  temp_tree_write(&tree, "/7/comm", "bash\n");
  temp_tree_write(&tree, "/98/comm", "collectd\n");
  temp_tree_write(&tree, "/98/status", "Name:\tcollectd\nPPid:\t99\n");
  temp_tree_write(&tree, "/99/comm", "collectd\n");
  temp_tree_write(&tree, "/99/status",
                  "Name:\tcollectd\nPPid:\t1\nUid:\t1\t1000\t1\t1\n"
                  "Gid:\t4\t4\t4\t4\nGroups:\t27 998 \n"
                  "CapEff:\t0000004000000000\n");
  temp_tree_write(&tree, "/99/limits",
                  "Limit                     Soft Limit  Hard Limit  Units\n"
                  "Max open files            4096        524288      files\n");
  temp_tree_write(
      &tree, "/99/maps",
      "7f00-7f01 r-xp 00000000 fd:00 1 /usr/sbin/collectd\n"
      "7f02-7f03 r-xp 00000000 fd:00 2 /lib/percore.so (deleted)\n");
  assert_int_equal(collectd_find(list, tree.root, 998), 1);
  assert_int_equal(facts->pid, 99);
  assert_int_equal(facts->uid, 1000);
  assert_true(facts->in_group);
  assert_true(facts->capabilities == CAPABILITY_PERFMON);
  assert_int_equal(facts->open_files, 4096);
  assert_int_equal(facts->state, PLUGIN_REPLACED);
  assert_string_equal(facts->plugin.directory, "/lib");
  assert_int_equal(collectd_find(list, tree.root, 99), 1);
  assert_false(facts->in_group);
  collectd_find(list, tree.root, 4);
  assert_true(facts->in_group);
  temp_tree_write(&tree, "/100/comm", "collectd\n");
  assert_int_equal(collectd_find(list, tree.root, 4), 2);
  temp_tree_remove(&tree);
  assert_int_equal(collectd_find(list, tree.root, 4), 0);
}

/* Simulates a collectd that was started with -C and the tree's collectd.conf.
 */
static void simulate_collectd(struct temp_tree *tree) {
  char path[256];
  temp_tree_make(tree);
  temp_tree_write(tree, "/99/comm", "collectd\n");
  snprintf(path, sizeof(path), "%s/99/cmdline", tree->root);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fprintf(file, "collectd%c-f%c-C%c%s/collectd.conf%c", 0, 0, 0, tree->root, 0);
  fclose(file);
}

static void the_plugin_is_looked_for_where_collectd_looks(void **state) {
  (void)state;
  struct temp_tree tree;
  struct collectd_facts list[COLLECTDS_MAX];
  char text[256];
  simulate_collectd(&tree);
  snprintf(text, sizeof(text), "# PluginDir \"/no\"\n  plugindir \"%s\"\n",
           tree.root);
  temp_tree_write(&tree, "/collectd.conf", text);
  assert_int_equal(collectd_find(list, tree.root, -1), 1);
  assert_string_equal(list[0].plugin.directory, tree.root);
  assert_false(list[0].plugin.is_installed);
  temp_tree_write(&tree, "/percore.so", "");
  collectd_find(list, tree.root, -1);
  assert_true(list[0].plugin.is_installed);
  temp_tree_remove(&tree);
}

static void a_configuration_that_is_a_fifo_is_not_waited_for(void **state) {
  (void)state;
  struct temp_tree tree;
  struct collectd_facts list[COLLECTDS_MAX];
  char path[256];
  simulate_collectd(&tree);
  snprintf(path, sizeof(path), "%s/collectd.conf", tree.root);
  assert_int_equal(mkfifo(path, 0600), 0);
  alarm(10);
  assert_int_equal(collectd_find(list, tree.root, -1), 1);
  alarm(0);
  assert_string_not_equal(list[0].plugin.directory, tree.root);
  temp_tree_remove(&tree);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_healthy_machine_needs_no_advice),
      cmocka_unit_test(a_counter_is_proposed_for_isolated_cores_with_its_cost),
      cmocka_unit_test(what_wake_latency_lacks_is_noted),
      cmocka_unit_test(lxcfs_is_named_with_advice),
      cmocka_unit_test(on_arm64_no_advice_is_about_x86),
      cmocka_unit_test(everything_missing_is_reported_with_advice),
      cmocka_unit_test(rights_are_advised_only_for_a_counter_that_exists),
      cmocka_unit_test(
          a_counter_that_does_not_exist_is_not_said_to_lack_rights),
      cmocka_unit_test(
          a_missing_directory_and_group_are_reported_with_commands),
      cmocka_unit_test(
          an_unreadable_socket_is_reported_with_reason_and_command),
      cmocka_unit_test(a_running_collectd_is_judged_by_its_own_rights),
      cmocka_unit_test(running_collectds_are_found_in_proc),
      cmocka_unit_test(the_plugin_is_looked_for_where_collectd_looks),
      cmocka_unit_test(a_configuration_that_is_a_fifo_is_not_waited_for),
      cmocka_unit_test(every_running_collectd_is_reported),
      cmocka_unit_test(
          an_unproven_source_is_noted_only_if_a_core_depends_on_it),
      cmocka_unit_test(
          with_perf_event_paranoid_minus_1_no_capability_is_needed),
      cmocka_unit_test(a_sampled_tick_is_reported_wherever_it_matters),
      cmocka_unit_test(a_hypervisor_without_steal_is_noted),
      cmocka_unit_test(a_kernel_that_counts_softirq_as_idle_is_noted),
      cmocka_unit_test(why_softirqs_cannot_be_measured_is_noted),
      cmocka_unit_test(interrupts_that_the_idle_clock_cannot_see_are_noted),
      cmocka_unit_test(a_source_that_must_be_named_is_reported_as_such),
  };
  return cmocka_run_group_tests_name("findings", tests, NULL, NULL);
}
