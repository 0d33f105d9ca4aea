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
  fake_machine_file(fake, DEVICES "cpu/type", "4\n");
  fake_machine_file(fake, DEVICES "cpu/format/event", "config:0-7,32-35\n");
  fake_machine_file(fake, DEVICES "cpu/format/umask", "config:8-15\n");
  fake_machine_file(fake, DEVICES "cpu/format/any", "config:21\n");
  fake_machine_file(fake, DEVICES "cpu/format/ldlat", "config1:0-15\n");
  fake_machine_file(fake, DEVICES "cpu/format/late", "config2:60-63\n");
  fake_machine_file(fake, DEVICES "cpu/events/cpu-cycles", "event=0x3c\n");
  fake_machine_file(fake, DEVICES "cpu/events/mem-loads",
                    "event=0xcd,umask=0x1,ldlat=3\n");
  fake_machine_file(fake, DEVICES "cpu/events/with-flag", "event=0x5,any\n");
  fake_machine_file(fake, DEVICES "cpu/events/open", "event=?\n");
}

static void teardown(void) { fake_machine_free(fake); }

static void check(const char *text, uint32_t type, uint64_t config,
                  uint64_t config1, uint64_t config2) {
  struct perf_event event;
  char why[WHY_SIZE] = "";
  memset(&event, 0xff, sizeof event);
  if (perf_event_parse(&event, text, &fake->machine, why) != 0)
    fail_msg("%s: %s", text, why);
  assert_int_equal(event.type, type);
  assert_int_equal(event.config, config);
  assert_int_equal(event.config1, config1);
  assert_int_equal(event.config2, config2);
}

/* Asserts that parsing `text` returns -error and a reason that contains `word`.
 */
static void refused(const char *text, int error, const char *word) {
  struct perf_event event;
  char why[WHY_SIZE] = "";
  int status = perf_event_parse(&event, text, &fake->machine, why);
  if (status != -error)
    fail_msg("%s: %d, not %d (%s)", text, status, -error, why);
  if (strstr(why, word) == NULL)
    fail_msg("%s: \"%s\" does not mention %s", text, why, word);
}

TEST(a_name_is_looked_up_in_the_events_of_its_pmu) {
  check("msr/mperf/", FAKE_MSR_TYPE, FAKE_MSR_MPERF, 0, 0);
  check("cpu/cpu-cycles/", 4, 0x3c, 0, 0);
  check("cpu/mem-loads/", 4, 0x1cd, 3, 0);
  check("cpu/with-flag/", 4, 0x200005, 0, 0);
}

TEST(terms_are_placed_as_the_format_says) {
  check("cpu/event=0x3c,umask=1/", 4, 0x13c, 0, 0);
  check("cpu/ldlat=0x1234/", 4, 0, 0x1234, 0);
  check("cpu/late=9/", 4, 0, 0, UINT64_C(9) << 60);
  check("cpu/any/", 4, 1 << 21, 0, 0);
}

TEST(a_field_in_two_pieces_is_filled_from_its_lowest_bit) {
  check("cpu/event=0xabc/", 4, UINT64_C(0xa000000bc), 0, 0);
}

TEST(a_later_term_replaces_a_value_of_the_event) {
  check("cpu/mem-loads,ldlat=100/", 4, 0x1cd, 100, 0);
  check("cpu/event=0xff,event=0x01/", 4, 1, 0, 0);
}

TEST(whole_config_words_can_be_given) {
  check("cpu/config=0xffffffffffffffff,config1=2,config2=3/", 4, UINT64_MAX, 2,
        3);
}

TEST(raw_numbers_are_of_the_raw_type) {
  check("r1a8", PERF_TYPE_RAW, 0x1a8, 0, 0);
  check("0x1A8", PERF_TYPE_RAW, 0x1a8, 0, 0);
  check("r0x1a8", PERF_TYPE_RAW, 0x1a8, 0, 0);
  check("rffffffffffffffff", PERF_TYPE_RAW, UINT64_MAX, 0, 0);
}

TEST(text_that_is_not_an_event_is_refused) {
  static const char *const bad[] = {
      "",      "r",     "0x",  "cycles", "r1g",
      "1a8",   "0x1z8", "r-1", "r 1",    "r+1",
      "0x-1",

      "0x0x1", "cpu",   "-",   "r1a8 ",  "r10000000000000000",
  };
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
    refused(bad[i], EINVAL, bad[i]);
}

TEST(the_message_names_a_missing_pmu) {
  refused("armv8_pmuv3_0/cnt_cycles/", ENOENT, "armv8_pmuv3_0");
}

TEST(the_message_names_a_missing_term) {
  refused("cpu/no-such/", ENOENT, "no-such");
  refused("cpu/event=1,colour=3/", ENOENT, "colour");
  refused("msr/pperf/", ENOENT, "pperf");
}

TEST(a_value_that_is_too_wide_is_refused) {
  refused("cpu/umask=0x100/", ERANGE, "umask");
  refused("cpu/any=2/", ERANGE, "any");
  refused("cpu/event=0x1000/", ERANGE, "event");
}

TEST(a_value_that_is_not_a_number_is_refused) {
  refused("cpu/event=x/", EINVAL, "event");
  refused("cpu/event=/", EINVAL, "event");
  refused("cpu/event=-1/", EINVAL, "event");
  refused("cpu/event=1z/", EINVAL, "event");
  refused("cpu/open/", EINVAL, "event");
}

TEST(text_not_of_the_form_pmu_event_is_refused) {
  static const char *const bad[] = {
      "/",          "cpu/",      "cpu//",   "/cpu-cycles/",     "cpu/a/b/",
      "cpu/,/",     "cpu/any,/", "cpu/=1/", "cpu/cpu-cycles/u", "cpu /any/",
      "cpu/any //",
  };
  struct perf_event event;
  char why[WHY_SIZE];
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    why[0] = 0;
    int status = perf_event_parse(&event, bad[i], &fake->machine, why);
    if (status != -EINVAL || why[0] == 0)
      fail_msg("%s: %d (%s)", bad[i], status, why);
  }
}

TEST(no_name_leads_out_of_the_folder) {
  fake_machine_file(fake, DEVICES "../type", "1\n");
  fake_machine_file(fake, DEVICES "./type", "1\n");
  fake_machine_file(fake, DEVICES "cpu/events/../../secret", "event=1\n");
  fake_machine_file(fake, DEVICES "cpu/events/..", "event=1\n");
  refused("../any/", EINVAL, "..");
  refused("./any/", EINVAL, ".");
  refused("cpu/../", EINVAL, "");
  refused("cpu/../../secret/", EINVAL, "");
}

TEST(a_pmu_type_that_is_not_a_number_is_refused) {
  static const char *const types[] = {"x\n", "-1\n", "4294967296\n", "4 4\n",
                                      "0x4\n"};
  for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
    fake_machine_file(fake, DEVICES "cpu/type", types[i]);
    refused("cpu/any/", EINVAL, "type");
  }
  fake_machine_file(fake, DEVICES "cpu/type", "");
  refused("cpu/any/", ENOENT, "cpu");
}

TEST(an_unknown_format_is_refused) {
  static const char *const formats[] = {
      "config:64\n",
      "config:0-64\n",
      "config:\n",
      "config3:0-7\n",
      "config:7-0\n",
      "config 0-7\n",
      "0-7\n",
      "config:a\n",
      "confi\n",
      "config:0-7;\n",
      "config1\n",
      ":0-7\n",
      "config:0,99999999999999999999\n",
  };
  for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
    fake_machine_file(fake, DEVICES "cpu/format/event", formats[i]);
    refused("cpu/event=1/", EINVAL, "event");
  }
}

/* An event file that names another event, or its own event, must not cause an
 * endless loop. */
TEST(an_event_that_refers_to_events_is_refused) {
  fake_machine_file(fake, DEVICES "cpu/events/self", "self\n");
  fake_machine_file(fake, DEVICES "cpu/events/ping", "pong\n");
  fake_machine_file(fake, DEVICES "cpu/events/pong", "ping\n");
  refused("cpu/self/", ENOENT, "self");
  refused("cpu/ping/", ENOENT, "pong");
}

TEST(text_of_any_length_is_harmless) {
  static char text[9000];
  struct perf_event event;
  char why[WHY_SIZE];
  for (size_t length = 1; length < sizeof text - 1; length += 1 + length / 20) {
    memset(text, 'a', length);
    text[length] = 0;
    assert_true(perf_event_parse(&event, text, &fake->machine, why) < 0);
    assert_true(strlen(why) < sizeof why);
    text[length / 2] = '/';
    assert_true(perf_event_parse(&event, text, &fake->machine, why) < 0);
    if (length > 8) {
      memcpy(text, "cpu/", 4);
      assert_true(perf_event_parse(&event, text, &fake->machine, why) < 0);
    }
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
