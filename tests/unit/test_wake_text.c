/* Tests the text that `percore wake` prints. */
#include "tool/wake.h"

#include "unit.h"

#include <stdlib.h>
#include <string.h>

static char *text_of(const struct wake_run *run) {
  char *text = NULL;
  size_t size;
  FILE *out = open_memstream(&text, &size);
  assert_int_equal(wake_write_text(out, run), 0);
  fclose(out);
  return text;
}

static void a_core_that_went_offline_is_said_to_be_offline(void **state) {
  (void)state;
  static const struct wake_points none;
  struct wake_run run = {.points = &none,
                         .method = "thread",
                         .status = {.source = WAKE_BPF, .usage = -1}};
  char *text = text_of(&run);
  assert_non_null(strstr(text, "no cpuidle driver"));
  free(text);
  run.status.is_offline = true;
  text = text_of(&run);
  assert_non_null(strstr(text, "went offline"));
  assert_null(strstr(text, "driver"));
  free(text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_core_that_went_offline_is_said_to_be_offline),
  };
  return cmocka_run_group_tests_name("wake_text", tests, NULL, NULL);
}
