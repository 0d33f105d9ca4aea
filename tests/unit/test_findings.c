#include "unit.h"

#include "tool/doctor.h"

#include <stdlib.h>
#include <string.h>

/* A bare-metal machine where all is well, two cores, collectd and plugin. */
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
      .has_paranoid = true,
      .paranoid = 2,
      .may_perf = true,
      .collectd = "/usr/sbin/collectd",
      .plugindir = "/usr/lib/collectd",
      .plugin_installed = true,
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
  assert_int_equal(findings_text_write(file, &findings, facts, 80), 0);
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
    assert_null(findings.finding[i].advice);
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
  assert_null(find(&findings, "isolated")->advice);
}

static void lxcfs_is_named_with_what_to_do(void **state) {
  (void)state;
  struct doctor_facts facts = healthy();
  struct findings findings;
  facts.lxcfs = true;
  findings_make(&findings, &facts);
  assert_non_null(strstr(find(&findings, "/proc/stat")->value, "LXCFS"));
  assert_non_null(strstr(find(&findings, "/proc/stat")->advice, "SysRoot"));
}

static void on_arm64_nothing_of_x86_is_advised(void **state) {
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

static void whatever_is_missing_comes_with_what_to_do(void **state) {
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
          assert_non_null(findings.finding[i].advice);
      assert_int_equal(find(&findings, "plugin")->verdict, VERDICT_MISSING);
    }
  assert_false(facts_have_source(&facts));
  char *out = text_of(&facts);
  assert_non_null(strstr(out, "No source of loads works here"));
  free(out);
}

static void missing_rights_are_advised_before_missing_hardware(void **state) {
  (void)state;
  struct doctor_facts facts = healthy();
  struct findings findings;
  facts.hypervisor = true;
  facts.core_pmu = facts.may_perf = false;
  facts.source[SOURCE_REF_CYCLES] =
      (struct source_facts){.reason = "it cannot be opened: Permission denied"};
  findings_make(&findings, &facts);
  const struct finding *finding = find(&findings, "ref-cycles");
  assert_non_null(strstr(finding->advice, "CAP_PERFMON"));
  assert_int_equal(find(&findings, "CAP_PERFMON")->verdict, VERDICT_MISSING);
  facts.may_perf = true;
  findings_make(&findings, &facts);
  finding = find(&findings, "ref-cycles");
  assert_non_null(strstr(finding->advice, "hypervisor"));
}

static void without_paranoia_no_capability_is_needed(void **state) {
  (void)state;
  struct doctor_facts facts = healthy();
  struct findings findings;
  facts.may_perf = false;
  facts.paranoid = -1;
  findings_make(&findings, &facts);
  assert_int_equal(find(&findings, "CAP_PERFMON")->verdict, VERDICT_OK);
}

static void a_sampled_tick_is_told_wherever_it_matters(void **state) {
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

/* mperf under a hypervisor, in a container whose /proc/stat is of no use. */
static void a_source_that_only_a_name_brings_in_is_told_so(void **state) {
  (void)state;
  struct doctor_facts facts = healthy();
  facts.source[SOURCE_MPERF].chosen = 0;
  char *out = text_of(&facts);
  assert_non_null(strstr(out, "\nNo source is chosen by itself: name one"));
  free(out);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_healthy_machine_needs_no_advice),
      cmocka_unit_test(a_counter_is_proposed_for_isolated_cores_with_its_cost),
      cmocka_unit_test(lxcfs_is_named_with_what_to_do),
      cmocka_unit_test(on_arm64_nothing_of_x86_is_advised),
      cmocka_unit_test(whatever_is_missing_comes_with_what_to_do),
      cmocka_unit_test(missing_rights_are_advised_before_missing_hardware),
      cmocka_unit_test(without_paranoia_no_capability_is_needed),
      cmocka_unit_test(a_sampled_tick_is_told_wherever_it_matters),
      cmocka_unit_test(a_hypervisor_without_steal_is_noted),
      cmocka_unit_test(a_kernel_that_counts_softirq_as_idle_is_noted),
      cmocka_unit_test(a_source_that_only_a_name_brings_in_is_told_so),
  };
  return cmocka_run_group_tests_name("findings", tests, NULL, NULL);
}
