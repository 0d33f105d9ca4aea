/* Tests how the names of rows are cleaned: they are untrusted bytes. */
#include "plugin/regions.h"

#include "unit.h"

static void assert_clean(const char *name, const char *expected) {
  char clean[120];
  region_name_clean(clean, sizeof(clean), name);
  assert_string_equal(clean, expected);
}

TEST(a_plain_name_stays_as_it_is) {
  assert_clean("eth0", "eth0");
  assert_clean("02:00:00:00:00:01", "02:00:00:00:00:01");
  assert_clean("10.0.0.1-vip_{a}", "10.0.0.1-vip_{a}");
}

TEST(characters_that_backends_interpret_become_underscores) {
  assert_clean("a/b", "a_b");
  assert_clean("a b\tc\nd", "a_b_c_d");
  assert_clean("a;b=c\"d", "a_b_c_d");
  assert_clean("\x01\x1f\x7f", "___");
}

TEST(utf8_characters_are_kept_and_other_bytes_are_not) {
  assert_clean("zo\xc3\xab\xe2\x82\xac\xf0\x9f\x98\x80",
               "zo\xc3\xab\xe2\x82\xac\xf0\x9f\x98\x80");
  assert_clean("\xff\xc3", "__");
  assert_clean("\xc0\xaf", "__");           /* an overlong `/` */
  assert_clean("\xed\xa0\x80", "___");      /* half a surrogate pair */
  assert_clean("\xf4\x90\x80\x80", "____"); /* beyond Unicode */
}

TEST(marks_that_reverse_or_hide_text_become_an_underscore) {
  assert_clean("a\xe2\x80\xae"
               "b",
               "a_b");                     /* U+202E */
  assert_clean("\xe2\x81\xa6x", "_x");     /* U+2066 */
  assert_clean("a\xe2\x80\xa8", "a_");     /* U+2028 */
  assert_clean("\xef\xbb\xbfx", "_x");     /* U+FEFF */
  assert_clean("a\xf3\xa0\x80\xa1", "a_"); /* U+E0021, a tag character */
  assert_clean("\xc2\x85x", "_x");         /* U+0085, a control character */
}

TEST(an_empty_name_becomes_an_underscore) { assert_clean("", "_"); }

TEST(a_name_that_does_not_fit_is_cut_after_a_character) {
  char clean[4];
  region_name_clean(clean, sizeof(clean), "abcdef");
  assert_string_equal(clean, "abc");
  region_name_clean(clean, sizeof(clean), "ab\xc3\xab");
  assert_string_equal(clean, "ab");
}
