#include "unit.h"

#include "cycles/journal.h"
#include "cycles/source_kind.h"
#include "fake_machine.h"

TEST(a_source_is_parsed_from_the_name_that_is_printed) {
  static const struct {
    enum source_kind source;
    const char *name;
  } names[] = {{SOURCE_AUTO, "auto"},
               {SOURCE_MPERF, "mperf"},
               {SOURCE_REF_CYCLES, "ref-cycles"},
               {SOURCE_EVENT, "event"},
               {SOURCE_BPF, "bpf"},
               {SOURCE_IDLE, "idle"}};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    enum source_kind source = SOURCE_NONE;
    assert_string_equal(source_name(names[i].source), names[i].name);
    assert_int_equal(source_parse(&source, names[i].name), 0);
    assert_int_equal(source, names[i].source);
  }
  assert_string_equal(source_name(SOURCE_NONE), "none");
}

TEST(every_source_and_proof_has_a_name_of_its_own) {
  for (int a = SOURCE_AUTO; a < SOURCES; a++)
    for (int b = SOURCE_AUTO; b < a; b++)
      assert_string_not_equal(source_name(a), source_name(b));
  for (int a = PROOF_PENDING; a <= PROOF_REFUTED; a++)
    for (int b = PROOF_PENDING; b < a; b++)
      assert_string_not_equal(proof_name(a), proof_name(b));
}

TEST(the_source_none_cannot_be_configured) {
  enum source_kind source;
  static const char *const bad[] = {"none",   "",      "ref_cycles", "mper",
                                    "mperf ", "aperf", "?"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
    assert_int_equal(source_parse(&source, bad[i]), -EINVAL);
}

TEST(isolated_cores_are_idle_hardware_or_skip) {
  enum isolated_cores isolated;
  assert_int_equal(isolated_cores_parse(&isolated, "idle"), 0);
  assert_int_equal(isolated, ISOLATED_CORES_IDLE);
  assert_int_equal(isolated_cores_parse(&isolated, "hardware"), 0);
  assert_int_equal(isolated, ISOLATED_CORES_HARDWARE);
  assert_int_equal(isolated_cores_parse(&isolated, "skip"), 0);
  assert_int_equal(isolated, ISOLATED_CORES_SKIP);
  assert_int_equal(isolated_cores_parse(&isolated, "auto"), -EINVAL);
}

TEST(a_journal_receives_whole_lines_with_their_level) {
  struct fake_journal journal;
  fake_journal_open(&journal);
  journal_say(&journal.journal, JOURNAL_WARNING, "core %d %s", 7, "is gone");
  assert_int_equal(journal.lines_len, 1);
  assert_int_equal(journal.line[0].level, JOURNAL_WARNING);
  assert_string_equal(journal.line[0].text, "core 7 is gone");
}

TEST(a_journal_without_a_writer_drops_all_lines) {
  const struct journal journal = {0};
  journal_say(&journal, JOURNAL_ERROR, "%s", "no journal receives this");
}

TEST(a_line_too_long_is_cut) {
  static char text[4096];
  struct fake_journal journal;
  fake_journal_open(&journal);
  memset(text, 'x', sizeof text - 1);
  journal_say(&journal.journal, JOURNAL_INFO, "%s", text);
  assert_int_equal(journal.lines_len, 1);
}
