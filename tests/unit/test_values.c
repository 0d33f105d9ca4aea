#include "unit.h"

#include "tool/target.h"
#include "tool/values.h"

static const char *const states[] = {"down", "up"};

static void assert_value(enum percore_kind kind, uint64_t cell,
                         const char *wanted) {
  struct region_field layout = {.kind = kind, .cells = 1, .state_count = 2};
  struct percore_field described = {
      .kind = kind, .states = states, .state_count = 2};
  char text[VALUE_TEXT_SIZE];
  value_text(text, (struct field_ref){&layout, &described}, &cell);
  assert_string_equal(text, wanted);
}

TEST(counters_are_unsigned_and_up_down_counters_and_gauges_signed) {
  assert_value(PERCORE_COUNTER, UINT64_MAX, "18446744073709551615");
  assert_value(PERCORE_GAUGE, UINT64_MAX, "-1");
  assert_value(PERCORE_UPDOWN, UINT64_MAX, "-1");
}

TEST(json_has_the_sign_of_a_gauge) {
  static const struct region_field layout = {.kind = PERCORE_GAUGE, .cells = 1};
  static const struct percore_field described = {.kind = PERCORE_GAUGE};
  uint64_t cell = (uint64_t)-40;
  FILE *out = unit_open();
  struct json *json = json_begin(out, "top");
  value_json(json, "celsius", (struct field_ref){&layout, &described}, &cell);
  json_end(json);
  assert_non_null(strstr(unit_close(), "\"celsius\":-40"));
}

TEST(states_have_names_and_unknown_states_are_numbers) {
  assert_value(PERCORE_STATE, 1, "up");
  assert_value(PERCORE_STATE, 2, "2");
  assert_value(PERCORE_STATE, UINT64_MAX, "18446744073709551615");
}

static const struct region_field histogram_layout = {
    .kind = PERCORE_HISTOGRAM, .cells = 8, .sub_bits = 1, .max_bits = 4};
static const struct percore_field histogram_described = {
    .name = "latency", .kind = PERCORE_HISTOGRAM, .sub_bits = 1, .max_bits = 4};
static const struct field_ref histogram = {&histogram_layout,
                                           &histogram_described};

static char *json_of(const uint64_t *buckets) {
  FILE *out = unit_open();
  struct json *json = json_begin(out, "top");
  value_json(json, "latency", histogram, buckets);
  json_end(json);
  return unit_close();
}

TEST(a_histogram_is_summarised_by_count_and_percentiles) {
  uint64_t buckets[8] = {[1] = 98, [3] = 2};
  char text[VALUE_TEXT_SIZE];
  value_text(text, histogram, buckets);
  assert_string_equal(text, "100");
  assert_non_null(strstr(json_of(buckets),
                         "{\"count\":100,\"p50\":1,\"p90\":1,\"p99\":3,"
                         "\"p999\":3,\"max\":3,"));
}

TEST(an_empty_histogram_has_no_percentiles) {
  uint64_t buckets[8] = {0};
  assert_non_null(strstr(json_of(buckets),
                         "{\"count\":0,\"p50\":null,\"p90\":null,\"p99\":null,"
                         "\"p999\":null,\"max\":null,\"buckets\":[]}"));
}

TEST(json_has_every_bucket_and_every_digit) {
  uint64_t buckets[8] = {[0] = 1, [7] = UINT64_MAX - 1};
  FILE *out = unit_open();
  struct json *json = json_begin(out, "top");
  value_json(json, "latency", histogram, buckets);
  json_unsigned(json, "n", UINT64_MAX);
  json_end(json);
  char *text = unit_close();
  assert_non_null(
      strstr(text, "\"buckets\":[[0,1],[12,18446744073709551614]]"));
  assert_non_null(strstr(text, "\"n\":18446744073709551615"));
}

TEST(sizes_have_binary_units) {
  static const struct {
    uint64_t bytes;
    const char *wanted;
  } cases[] = {{0, "0 B"},
               {1023, "1023 B"},
               {1536, "1.5 KiB"},
               {544768, "532 KiB"},
               {(uint64_t)3 << 30, "3.0 GiB"},
               {UINT64_MAX, "16384 PiB"}};
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    char text[SIZE_TEXT_SIZE];
    size_text(text, cases[i].bytes);
    assert_string_equal(text, cases[i].wanted);
  }
}
