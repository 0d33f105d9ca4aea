#include "unit.h"

#include "tool/messages.h"

#include <stdlib.h>
#include <string.h>

/* Returns the part of the page that shows the messages. */
static char *shown(struct messages *messages, int width) {
  char *out = NULL;
  size_t size;
  FILE *file = open_memstream(&out, &size);
  int lines = messages_show_last(messages, file, width);
  fclose(file);
  assert_int_equal(lines, out[0] != '\0');
  return out;
}

static void a_mark_in_the_table_is_not_also_a_message(void **state) {
  (void)state;
  struct messages *messages = messages_open("load", true);
  struct journal journal = messages_journal(messages);
  journal_say(&journal, JOURNAL_NOTICE, "source idle is unproven: too busy");
  journal_say(&journal, JOURNAL_INFO, "source idle is proven");
  char *out = shown(messages, 80);
  assert_string_equal(out, "");
  free(out);
  messages_close(messages);
}

static void the_newest_warning_is_shown_in_one_line(void **state) {
  (void)state;
  struct messages *messages = messages_open("load", true);
  struct journal journal = messages_journal(messages);
  journal_say(&journal, JOURNAL_WARNING, "the first");
  journal_say(&journal, JOURNAL_WARNING, "the \033[2Jsecond");
  char *out = shown(messages, 12);
  assert_null(strchr(out, '\033'));
  assert_int_equal(strlen(strchr(out, '\n')), 1);
  assert_non_null(strstr(out, "the "));
  assert_null(strstr(out, "first"));
  free(out);
  messages_close(messages);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_mark_in_the_table_is_not_also_a_message),
      cmocka_unit_test(the_newest_warning_is_shown_in_one_line),
  };
  return cmocka_run_group_tests_name("messages", tests, NULL, NULL);
}
