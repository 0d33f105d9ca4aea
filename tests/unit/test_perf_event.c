#include "unit.h"

#include "cycles/perf_event.h"
#include "fake_machine.h"

#define DEVICES "/sys/bus/event_source/devices/"

static struct fake_machine *fake;
static struct perf_group group;
static struct perf_reading reading;

static void setup(void) {
  fake = fake_machine_new(2);
  fake_machine_msr(fake, 2.6e9, true);
  fake_machine_file(fake, DEVICES "armv8_pmuv3_0/type", "8\n");
  fake_machine_file(fake, DEVICES "armv8_pmuv3_0/events/cnt_cycles",
                    "event=0x4004\n");
}

static void teardown(void) { fake_machine_free(fake); }

static void check(const char *pmu, const char *name, uint32_t type,
                  uint64_t config) {
  struct perf_event event;
  char why[WHY_SIZE] = "";
  if (perf_event_find(&event, pmu, name, &fake->machine, why) != 0)
    fail_msg("%s: %s", name, why);
  assert_int_equal(event.type, type);
  assert_int_equal(event.config, config);
}

/* Asserts that an event is not found, for a reason that contains `word`. */
static void refused(const char *pmu, const char *name, const char *word) {
  struct perf_event event;
  char why[WHY_SIZE] = "";
  assert_int_equal(perf_event_find(&event, pmu, name, &fake->machine, why),
                   -ENOENT);
  if (strstr(why, word) == NULL)
    fail_msg("\"%s\" does not mention %s", why, word);
}

TEST(a_name_is_looked_up_in_the_events_of_its_pmu) {
  check("msr", "mperf", FAKE_MSR_TYPE, FAKE_MSR_MPERF);
  check("armv8_pmuv3_0", "cnt_cycles", 8, 0x4004);
}

TEST(the_message_names_a_missing_pmu) {
  refused("armv8_pmuv3_1", "cnt_cycles", "armv8_pmuv3_1");
}

TEST(the_message_names_a_missing_event) { refused("msr", "pperf", "pperf"); }

TEST(a_pmu_type_that_is_not_a_number_is_refused) {
  static const char *const types[] = {"x\n",   "-1\n",  "4294967296\n",
                                      "4 4\n", "0x4\n", ""};
  for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
    fake_machine_file(fake, DEVICES "armv8_pmuv3_0/type", types[i]);
    refused("armv8_pmuv3_0", "cnt_cycles", "armv8_pmuv3_0");
  }
}

/* Events of other PMUs have more terms, whose places only their files in
 * `format` tell. */
TEST(an_event_with_other_terms_is_refused) {
  static const char *const events[] = {
      "",         "event=0x11,umask=1\n", "umask=1\n", "0x11\n", "event=x\n",
      "event=\n", "event=0x4004 1"};
  for (size_t i = 0; i < sizeof events / sizeof events[0]; i++) {
    fake_machine_file(fake, DEVICES "armv8_pmuv3_0/events/cnt_cycles",
                      events[i]);
    refused("armv8_pmuv3_0", "cnt_cycles", "cnt_cycles");
  }
}

/* ---------------------------------------------------------------------------
 * Groups
 */

static const struct perf_event mperf_group[] = {
    {.type = FAKE_MSR_TYPE, .config = FAKE_MSR_MPERF},
    {.type = FAKE_MSR_TYPE, .config = FAKE_MSR_TSC},
    {.type = FAKE_MSR_TYPE, .config = FAKE_MSR_APERF},
};

TEST(one_read_returns_the_whole_group) {
  fake->cores[1].load = 0.25;
  assert_int_equal(
      perf_group_open(&group, &fake->machine, 1, mperf_group, 3, false), 0);
  assert_int_equal(fake_machine_descriptors(fake, 1), 3);
  fake_machine_run(fake, FAKE_SECOND);
  assert_int_equal(perf_group_read(&group, &reading), 0);
  assert_int_equal(fake->perf_reads, 1);
  assert_int_equal(reading.time_enabled_ns, FAKE_SECOND);
  assert_int_equal(reading.time_running_ns, FAKE_SECOND);
  assert_int_equal(reading.value[0], 650000000);
  assert_int_equal(reading.value[1], 2600000000);
  assert_int_equal(reading.value[2], 812500000);
  perf_group_close(&group);
  assert_int_equal(fake_machine_descriptors(fake, -1), 0);
}

/* The msr PMU refuses events that have exclude bits. */
TEST(events_are_opened_without_exclude_bits) {
  assert_int_equal(
      perf_group_open(&group, &fake->machine, 0, mperf_group, 1, false), 0);
  const struct perf_event_attr *attr = &fake->last_attr;
  assert_false(attr->exclude_user || attr->exclude_kernel || attr->exclude_hv ||
               attr->exclude_idle || attr->exclude_host || attr->exclude_guest);
  assert_false(attr->disabled || attr->inherit || attr->pinned);
  assert_true(attr->size >= PERF_ATTR_SIZE_VER0);
  assert_int_equal(attr->sample_period, 0);
  perf_group_close(&group);
}

TEST(a_group_that_cannot_be_opened_leaves_nothing_open) {
  fake_machine_find_counter(fake, FAKE_MSR_TYPE, FAKE_MSR_APERF, -1)
      ->open_error = EACCES;
  assert_int_equal(
      perf_group_open(&group, &fake->machine, 0, mperf_group, 3, false),
      -EACCES);
  assert_int_equal(fake_machine_descriptors(fake, -1), 0);
  assert_int_equal(group.events_len, 0);
  perf_group_close(&group); /* closing a closed group is harmless */
}

TEST(opening_on_an_offline_core_returns_enodev) {
  fake_machine_online(fake, 1, false);
  assert_int_equal(
      perf_group_open(&group, &fake->machine, 1, mperf_group, 3, false),
      -ENODEV);
}

TEST(a_dissolved_group_is_stale) {
  perf_group_open(&group, &fake->machine, 1, mperf_group, 3, false);
  fake_machine_online(fake, 1, false);
  fake_machine_online(fake, 1, true);
  assert_int_equal(perf_group_read(&group, &reading), -ESTALE);
  perf_group_close(&group);
  assert_int_equal(
      perf_group_open(&group, &fake->machine, 1, mperf_group, 3, false), 0);
  assert_int_equal(perf_group_read(&group, &reading), 0);
  perf_group_close(&group);
}

TEST(a_pinned_group_without_its_counters_is_busy) {
  assert_int_equal(
      perf_group_open(&group, &fake->machine, 0, mperf_group, 2, true), 0);
  assert_int_equal(perf_group_read(&group, &reading), 0);
  fake->cores[0].pinned_lost = true;
  assert_int_equal(perf_group_read(&group, &reading), -EBUSY);
  perf_group_close(&group);
}

TEST(an_error_of_the_read_is_returned) {
  perf_group_open(&group, &fake->machine, 0, mperf_group, 2, false);
  fake->cores[0].read_error = EIO;
  assert_int_equal(perf_group_read(&group, &reading), -EIO);
  perf_group_close(&group);
}

/* The words that the fake perf_read returns. */
static struct {
  uint64_t word[8];
  size_t size;
} answer;

static ssize_t answer_read(void *context, int fd, void *buffer, size_t size) {
  (void)context;
  (void)fd;
  if (size < answer.size)
    return -ENOSPC;
  memcpy(buffer, answer.word, answer.size);
  return (ssize_t)answer.size;
}

TEST(a_read_of_another_size_is_stale) {
  perf_group_open(&group, &fake->machine, 0, mperf_group, 2, false);
  struct machine machine = fake->machine;
  machine.perf_read = answer_read;
  group.machine = &machine;
  static const struct {
    uint64_t events_len;
    size_t size;
    int status;
  } shapes[] = {
      {2, 40, 0},       {1, 32, -ESTALE}, {1, 40, -ESTALE},
      {3, 48, -ESTALE}, {3, 40, -ESTALE}, {2, 32, -ESTALE},
      {2, 39, -ESTALE}, {2, 8, -ESTALE},  {2, 1, -ESTALE},
      {0, 24, -ESTALE}, {0, 40, -ESTALE}, {UINT64_C(0x100000002), 40, -ESTALE}};
  for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
    answer.word[0] = shapes[i].events_len;
    answer.size = shapes[i].size;
    assert_int_equal(perf_group_read(&group, &reading), shapes[i].status);
  }
  perf_group_close(&group);
}

const struct unit_fixtures unit_fixtures = {.before_each = setup,
                                            .after_each = teardown};
