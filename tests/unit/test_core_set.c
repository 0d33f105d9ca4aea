#include "unit.h"

#include "base/core_set.h"

static const char *round_trip(const char *list) {
  static char text[CORES_MAX * 5];
  struct core_set set;
  assert_int_equal(core_set_parse(&set, list), 0);
  core_set_format(&set, text, sizeof text);
  return text;
}

TEST(a_list_of_numbers_and_ranges_is_read) {
  struct core_set set;
  assert_int_equal(core_set_parse(&set, "0-3,8,10-11"), 0);
  static const int members[] = {0, 1, 2, 3, 8, 10, 11};
  size_t found = 0;
  core_set_for_each(core, &set) {
    assert_true(found < sizeof members / sizeof members[0]);
    assert_int_equal(core, members[found++]);
  }
  assert_int_equal(found, 7);
  assert_int_equal(core_set_count(&set), 7);
}

TEST(parsing_replaces_the_old_members) {
  struct core_set set;
  memset(&set, 0xff, sizeof set);
  assert_int_equal(core_set_parse(&set, "5"), 0);
  assert_int_equal(core_set_count(&set), 1);
}

TEST(an_empty_list_is_the_empty_set) {
  struct core_set set;
  static const char *const empty[] = {"", " ", "\n", " \t\n "};
  for (size_t i = 0; i < sizeof empty / sizeof empty[0]; i++) {
    memset(&set, 0xff, sizeof set);
    assert_int_equal(core_set_parse(&set, empty[i]), 0);
    assert_int_equal(core_set_count(&set), 0);
  }
}

TEST(blanks_around_numbers_do_not_matter) {
  assert_string_equal(round_trip(" 1 , 3 - 5 ,\t7\n"), "1,3-5,7");
}

TEST(order_and_overlaps_do_not_matter) {
  assert_string_equal(round_trip("9,4-6,5-7,0,4"), "0,4-7,9");
}

TEST(a_stride_takes_the_first_few_of_each_group) {
  assert_string_equal(round_trip("0-14:2/4"), "0-1,4-5,8-9,12-13");
  assert_string_equal(round_trip("1-9:1/3"), "1,4,7");
  assert_string_equal(round_trip("3-6:2/2"), "3-6");
  assert_string_equal(round_trip("2-3:1/100"), "2");
}

TEST(text_that_is_not_a_list_is_refused) {
  static const char *const bad[] = {
      "x",      "1,",      ",1",     "1,,2",   "-",       "-1",      "1-",
      "1--2",   "1-2-3",   "0x1",    "1 2",    "1;2",     "1.5",     "+1",
      "(null)", "0-7:1",   "0-7:/2", "0-7:1/", "0-7:1/0", "0-7:3/2", "5:1/2",
      "1,\n,2", "0-3,a-b", "0-3 x",  "\x80",   "1\x01",
  };
  struct core_set set;
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
    if (core_set_parse(&set, bad[i]) != -EINVAL)
      fail_msg("\"%s\" was not refused", bad[i]);
}

TEST(a_range_that_runs_backwards_is_refused) {
  struct core_set set;
  assert_int_equal(core_set_parse(&set, "3-2"), -EINVAL);
  assert_int_equal(core_set_parse(&set, "0-1,8191-0"), -EINVAL);
}

TEST(core_8191_is_the_highest_that_is_accepted) {
  struct core_set set;
  assert_int_equal(core_set_parse(&set, "0-8191"), 0);
  assert_int_equal(core_set_count(&set), CORES_MAX);
  assert_int_equal(core_set_next(&set, 8190), 8191);
  assert_int_equal(core_set_next(&set, 8191), -1);
  static const char *const beyond[] = {"8192",
                                       "0-8192",
                                       "1,9000-9001",
                                       "4294967296",
                                       "18446744073709551616",
                                       "99999999999999999999999999999999"};
  for (size_t i = 0; i < sizeof beyond / sizeof beyond[0]; i++)
    assert_int_equal(core_set_parse(&set, beyond[i]), -ERANGE);
}

TEST(a_set_is_written_as_the_shortest_list) {
  assert_string_equal(round_trip("0,1"), "0-1");
  assert_string_equal(round_trip("0,2,4"), "0,2,4");
  assert_string_equal(round_trip("62,63,64,65"), "62-65");
  assert_string_equal(round_trip("0-8191"), "0-8191");
  assert_string_equal(round_trip(""), "");
}

TEST(the_longest_possible_list_survives_a_round_trip) {
  struct core_set set, again;
  static char text[CORES_MAX * 5];
  core_set_clear(&set);
  for (int core = 0; core < CORES_MAX; core += 2)
    core_set_add(&set, core);
  size_t length = core_set_format(&set, text, sizeof text);
  assert_int_equal(length, strlen(text));
  assert_int_equal(core_set_parse(&again, text), 0);
  assert_true(core_set_equal(&set, &again));
}

TEST(a_list_that_does_not_fit_is_cut_after_a_whole_range) {
  struct core_set set;
  core_set_parse(&set, "0-3,10-12,100");
  static const struct {
    size_t size;
    const char *list;
  } cuts[] = {{14, "0-3,10-12,100"},
              {13, "0-3,10-12"},
              {10, "0-3,10-12"},
              {9, "0-3"},
              {4, "0-3"},
              {3, ""},
              {1, ""}};
  for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
    char text[32];
    memset(text, '#', sizeof text);
    assert_int_equal(core_set_format(&set, text, cuts[i].size),
                     strlen(cuts[i].list));
    assert_string_equal(text, cuts[i].list);
    assert_int_equal(text[cuts[i].size], '#');
  }
  char untouched = '#';
  assert_int_equal(core_set_format(&set, &untouched, 0), 0);
  assert_int_equal(untouched, '#');
}

TEST(impossible_core_numbers_are_never_members) {
  struct core_set set;
  core_set_clear(&set);
  core_set_add(&set, -1);
  core_set_add(&set, CORES_MAX);
  core_set_add(&set, INT32_MAX);
  assert_int_equal(core_set_count(&set), 0);
  assert_false(core_set_has(&set, -1));
  assert_false(core_set_has(&set, CORES_MAX));
  assert_int_equal(core_set_next(&set, CORES_MAX + 5), -1);
}

TEST(the_next_member_is_found_after_a_gap) {
  struct core_set set;
  core_set_clear(&set);
  for (int core = 60; core < 70; core++)
    if (core != 63 && core != 64)
      core_set_add(&set, core);
  assert_int_equal(core_set_next(&set, 62), 65);
  assert_false(core_set_has(&set, 64));
  assert_int_equal(core_set_count(&set), 8);
}

TEST(union_intersection_and_difference_follow_set_theory) {
  struct core_set a, b, set;
  char text[64];
  core_set_parse(&a, "0-3,64-67");
  core_set_parse(&b, "2-5,66,8191");
  set = a;
  core_set_union(&set, &b);
  core_set_format(&set, text, sizeof text);
  assert_string_equal(text, "0-5,64-67,8191");
  set = a;
  core_set_intersect(&set, &b);
  core_set_format(&set, text, sizeof text);
  assert_string_equal(text, "2-3,66");
  set = a;
  core_set_subtract(&set, &b);
  core_set_format(&set, text, sizeof text);
  assert_string_equal(text, "0-1,64-65,67");
  assert_false(core_set_equal(&a, &b));
}
