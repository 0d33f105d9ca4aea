#include "unit.h"

#include "tool/text.h"

#define BAD "\xef\xbf\xbd" /* U+FFFD */

static const char *cleaned(const char *bytes, size_t length) {
  static char out[256];
  text_clean(out, sizeof(out), bytes, length);
  return out;
}

#define assert_cleaned(bytes, wanted)                                          \
  assert_string_equal(cleaned(bytes, sizeof(bytes) - 1), wanted)

TEST(plain_text_and_whole_characters_stay_as_they_are) {
  assert_cleaned("eth0: rx_packets", "eth0: rx_packets");
  assert_cleaned("K\xc3\xb6ln \xe2\x82\xac \xf0\x9f\x98\x80",
                 "K\xc3\xb6ln \xe2\x82\xac \xf0\x9f\x98\x80");
  assert_cleaned("", "");
}

TEST(an_escape_sequence_cannot_reach_the_terminal) {
  assert_cleaned("\033[2J", BAD "[2J");
  assert_cleaned("a\nb\tc\r\0d", "a" BAD "b" BAD "c" BAD BAD "d");
  assert_cleaned("\x7f", BAD);
  /* U+009B, the one-character form of ESC [ */
  assert_cleaned("\xc2\x9b"
                 "2J",
                 BAD "2J");
}

TEST(marks_that_change_the_direction_of_text_are_replaced) {
  assert_cleaned("a\xe2\x80\xae"
                 "b",
                 "a" BAD "b");         /* U+202E */
  assert_cleaned("\xe2\x81\xa6", BAD); /* U+2066 */
  assert_cleaned("\xe2\x80\xa8", BAD); /* U+2028 */
  assert_cleaned("\xc2\xa0", BAD);     /* U+00A0 */
}

TEST(ill_formed_bytes_are_replaced_one_by_one) {
  assert_cleaned("\xff", BAD);
  assert_cleaned("\x80\x80", BAD BAD);
  assert_cleaned("\xc3", BAD);                         /* cut */
  assert_cleaned("\xe2\x82", BAD BAD);                 /* cut */
  assert_cleaned("\xc0\xaf", BAD BAD);                 /* overlong / */
  assert_cleaned("\xe0\x80\xaf", BAD BAD BAD);         /* overlong / */
  assert_cleaned("\xed\xa0\x80", BAD BAD BAD);         /* surrogate */
  assert_cleaned("\xf4\x90\x80\x80", BAD BAD BAD BAD); /* beyond U+10FFFF */
  assert_cleaned("a\xc3(b", "a" BAD "(b");
}

TEST(text_that_does_not_fit_is_cut_after_a_whole_character) {
  char out[6];
  assert_int_equal(text_clean(out, 5, "ab\xe2\x82\xac", 5), 2);
  assert_string_equal(out, "ab");
  assert_int_equal(text_clean(out, 6, "ab\xe2\x82\xac", 5), 5);
  assert_string_equal(out, "ab\xe2\x82\xac");
  assert_int_equal(text_clean(out, 1, "a", 1), 0);
  assert_string_equal(out, "");
}

TEST(any_bytes_become_valid_text_of_the_stated_size) {
  unsigned seed = 1;
  for (int round = 0; round < 20000; round++) {
    char bytes[24], once[sizeof(bytes) * TEXT_GROWTH + 1], twice[sizeof(once)];
    for (size_t i = 0; i < sizeof(bytes); i++) {
      seed = seed * 1103515245 + 12345;
      bytes[i] = (char)(seed >> 16);
    }
    size_t length = text_clean(once, sizeof(once), bytes, sizeof(bytes));
    assert_true(length >= sizeof(bytes) / 4);
    /* Cleaning clean text again does not change it. */
    assert_int_equal(text_clean(twice, sizeof(twice), once, length), length);
    assert_string_equal(once, twice);
  }
}

TEST(wrapped_text_breaks_between_words_and_keeps_its_indent) {
  FILE *file = unit_open();
  text_wrap(file, "one two three four", 4, 13);
  text_wrap(file, "unlimited width stays one line", 4, 0);
  text_wrap(file, "averyverylongword x", 4, 10);
  char *out = unit_close();
  assert_string_equal(out, "one two\n    three\n    four\n"
                           "unlimited width stays one line\n"
                           "averyverylongword\n    x\n");
}

TEST(a_list_has_separators_and_is_cut_where_it_does_not_fit) {
  char list[10] = "";
  text_append(list, sizeof(list), ", ", "one");
  assert_string_equal(list, "one");
  text_append(list, sizeof(list), " or ", "three");
  assert_string_equal(list, "one or th");
  text_append(list, sizeof(list), ", ", "four");
  assert_string_equal(list, "one or th");
}

static void assert_shortened(const char *text, int width, const char *wanted) {
  char buffer[64];
  snprintf(buffer, sizeof(buffer), "%s", text);
  text_shorten(buffer, width);
  assert_string_equal(buffer, wanted);
}

TEST(text_that_is_shortened_keeps_both_ends) {
  assert_shortened("10.0.0.1-443", 12, "10.0.0.1-443");
  assert_shortened("10.0.0.1-443", 11, "10.0...-443");
  assert_shortened("10.0.0.1-443", 5, "1...3");
  assert_shortened("\xc3\xa4\xc3\xb6\xc3\xbc\xc3\x9f\xc3\xa9\xc3\xa8", 5,
                   "\xc3\xa4...\xc3\xa8");
}
