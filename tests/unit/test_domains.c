/* Tests the residencies and the power of packages. */
#include "unit.h"

#include "cycles/domains.h"
#include "play.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PMUS "/sys/bus/event_source/devices/"
#define RAPL 2.3283064365386962890625e-10

enum { CORE_TYPE = 20, PACKAGE_TYPE = 21, POWER_TYPE = 22 };

static void add_pmu(struct fake_machine *fake, const char *name, int type,
                    const char *cpumask) {
  char number[16];
  snprintf(number, sizeof number, "%d\n", type);
  fake_machine_filef(fake, number, PMUS "%s/type", name);
  fake_machine_filef(fake, cpumask, PMUS "%s/cpumask", name);
  fake_machine_filef(fake, "config:0-63\n", PMUS "%s/format/event", name);
}

static void add_event(struct fake_machine *fake, const char *pmu, int type,
                      const char *event, int config, double hz) {
  char text[32];
  snprintf(text, sizeof text, "event=%#x\n", (unsigned)config);
  fake_machine_filef(fake, text, PMUS "%s/events/%s", pmu, event);
  fake_machine_counter(fake, (uint32_t)type, (uint64_t)config, FAKE_PER_WALL,
                       hz);
}

/* Sets up two packages of two cores each. Each core spends 40 % of the time in
 * C6. Each package spends 30 % in C2 and uses 100 W; its memory uses 20 W. */
static void start(struct play *play) {
  play_start(play, 4);
  struct fake_machine *fake = play->fake;
  fake_machine_msr(fake, PLAY_TSC_HZ, false);
  add_pmu(fake, "cstate_core", CORE_TYPE, "0-3\n");
  add_event(fake, "cstate_core", CORE_TYPE, "c6-residency", 2,
            0.4 * PLAY_TSC_HZ);
  add_pmu(fake, "cstate_pkg", PACKAGE_TYPE, "0,2\n");
  add_event(fake, "cstate_pkg", PACKAGE_TYPE, "c2-residency", 0,
            0.3 * PLAY_TSC_HZ);
  add_pmu(fake, "power", POWER_TYPE, "0,2\n");
  add_event(fake, "power", POWER_TYPE, "energy-pkg", 2, 100 / RAPL);
  add_event(fake, "power", POWER_TYPE, "energy-ram", 3, 20 / RAPL);
  fake_machine_file(fake, PMUS "power/events/energy-pkg.scale",
                    "2.3283064365386962890625e-10\n");
  fake_machine_file(fake, PMUS "power/events/energy-pkg.unit", "Joules\n");
  fake_machine_file(fake, PMUS "power/events/energy-ram.scale",
                    "2.3283064365386962890625e-10\n");
  for (int core = 0; core < 4; core++)
    fake_machine_filef(fake, core < 2 ? "0\n" : "1\n",
                       "/sys/devices/system/cpu/cpu%d/topology/"
                       "physical_package_id",
                       core);
}

/* Returns a figure of an interval of 10 s, or NAN if it is unknown. */
static double value_of(struct domains *domains, struct fake_machine *fake,
                       enum domain_kind kind, const char *name, int where) {
  size_t len;
  struct domain_figure *figures;
  assert_int_equal(domains_read(domains, &figures, &len), 0);
  free(figures);
  fake_machine_run(fake, 10 * FAKE_SECOND);
  assert_int_equal(domains_read(domains, &figures, &len), 0);
  double value = NAN;
  for (size_t i = 0; i < len; i++)
    if (figures[i].kind == kind && strcmp(figures[i].name, name) == 0 &&
        (kind == DOMAIN_CORE_RESIDENCY ? figures[i].core
                                       : figures[i].package) == where &&
        !isnan(figures[i].value)) {
      assert_nan(value); /* there is only one figure per package */
      value = figures[i].value;
    }
  free(figures);
  return value;
}

static void end(struct play *play, struct domains *domains) {
  domains_close(domains);
  play_end(play);
}

static void
residencies_are_shares_of_time_and_energy_is_in_watts(void **state) {
  (void)state;
  struct play play;
  start(&play);
  play_open(&play);
  struct domains *domains = domains_open(play.engine, true, true);
  for (int core = 0; core < 4; core++)
    assert_near(value_of(domains, play.fake, DOMAIN_CORE_RESIDENCY, "c6", core),
                0.4, 1e-6);
  for (int package = 0; package < 2; package++) {
    assert_near(
        value_of(domains, play.fake, DOMAIN_PACKAGE_RESIDENCY, "c2", package),
        0.3, 1e-6);
    assert_near(value_of(domains, play.fake, DOMAIN_POWER, "pkg", package), 100,
                1e-4);
    assert_near(value_of(domains, play.fake, DOMAIN_POWER, "ram", package), 20,
                1e-4);
  }
  end(&play, domains);
}

static void counters_that_are_not_wanted_are_not_opened(void **state) {
  (void)state;
  struct play play;
  start(&play);
  play_open(&play);
  assert_null(domains_open(play.engine, false, false));
  struct domains *domains = domains_open(play.engine, false, true);
  assert_nan(value_of(domains, play.fake, DOMAIN_PACKAGE_RESIDENCY, "c2", 0));
  assert_int_equal(fake_machine_descriptors(play.fake, -1), 4);
  end(&play, domains);
}

static void nothing_is_read_through_an_isolated_core(void **state) {
  (void)state;
  struct play play;
  start(&play);
  fake_machine_file(play.fake, "/sys/devices/system/cpu/isolated", "0,3\n");
  play_open(&play);
  struct domains *domains = domains_open(play.engine, true, true);
  assert_nan(value_of(domains, play.fake, DOMAIN_CORE_RESIDENCY, "c6", 3));
  assert_nan(value_of(domains, play.fake, DOMAIN_POWER, "pkg", 0));
  assert_near(value_of(domains, play.fake, DOMAIN_POWER, "pkg", 1), 100, 1e-4);
  assert_int_equal(fake_machine_descriptors(play.fake, 0), 0);
  assert_int_equal(fake_machine_descriptors(play.fake, 3), 0);
  end(&play, domains);
}

static void after_hotplug_counters_are_reopened(void **state) {
  (void)state;
  struct play play;
  start(&play);
  play_open(&play);
  struct domains *domains = domains_open(play.engine, true, true);
  value_of(domains, play.fake, DOMAIN_POWER, "pkg", 0);
  fake_machine_online(play.fake, 0, false);
  fake_machine_file(play.fake, PMUS "power/cpumask", "1-2\n");
  play_seconds(&play, 1);
  assert_near(value_of(domains, play.fake, DOMAIN_POWER, "pkg", 0), 100, 1e-4);
  assert_nan(value_of(domains, play.fake, DOMAIN_CORE_RESIDENCY, "c6", 0));
  end(&play, domains);
}

static void the_dies_of_a_package_share_one_figure(void **state) {
  (void)state;
  struct play play;
  start(&play);
  for (int core = 0; core < 4; core++)
    fake_machine_filef(play.fake, "0\n",
                       "/sys/devices/system/cpu/cpu%d/topology/"
                       "physical_package_id",
                       core);
  play_open(&play);
  struct domains *domains = domains_open(play.engine, true, true);
  assert_near(value_of(domains, play.fake, DOMAIN_POWER, "pkg", 0), 200, 1e-4);
  assert_near(value_of(domains, play.fake, DOMAIN_PACKAGE_RESIDENCY, "c2", 0),
              0.3, 1e-6);
  end(&play, domains);
}

static void a_counter_that_cannot_be_opened_is_reported_once(void **state) {
  (void)state;
  struct play play;
  start(&play);
  play_open(&play);
  for (size_t i = 0; i < play.fake->counters_len; i++)
    play.fake->counters[i].open_error = EACCES;
  struct domains *domains = domains_open(play.engine, true, true);
  assert_nan(value_of(domains, play.fake, DOMAIN_POWER, "pkg", 0));
  assert_nan(value_of(domains, play.fake, DOMAIN_POWER, "pkg", 0));
  assert_int_equal(fake_journal_count(&play.journal, "package counters",
                                      "CAP_PERFMON", NULL),
                   1);
  end(&play, domains);
}

static void descriptors_are_left_for_the_rest_of_the_process(void **state) {
  (void)state;
  struct play play;
  start(&play);
  play_open(&play);
  play.fake->limit = play.fake->hard_limit = 600;
  play.fake->others = 340;
  struct domains *domains = domains_open(play.engine, true, true);
  assert_nan(value_of(domains, play.fake, DOMAIN_POWER, "pkg", 0));
  assert_int_equal(fake_machine_descriptors(play.fake, -1), 0);
  assert_int_equal(fake_journal_count(&play.journal, "LimitNOFILE", NULL), 1);
  end(&play, domains);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(residencies_are_shares_of_time_and_energy_is_in_watts),
      cmocka_unit_test(counters_that_are_not_wanted_are_not_opened),
      cmocka_unit_test(nothing_is_read_through_an_isolated_core),
      cmocka_unit_test(after_hotplug_counters_are_reopened),
      cmocka_unit_test(the_dies_of_a_package_share_one_figure),
      cmocka_unit_test(a_counter_that_cannot_be_opened_is_reported_once),
      cmocka_unit_test(descriptors_are_left_for_the_rest_of_the_process),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
