#include "unit.h"

/* The last files that unit_open returned. */
static struct {
  FILE *file;
  char *text;
  size_t size;
} texts[8];
static unsigned opened;

FILE *unit_open(void) {
  unsigned i = ++opened % 8;
  free(texts[i].text);
  texts[i].text = NULL;
  texts[i].file = open_memstream(&texts[i].text, &texts[i].size);
  assert_non_null(texts[i].file);
  return texts[i].file;
}

char *unit_close(void) {
  fclose(texts[opened % 8].file);
  return texts[opened % 8].text;
}

struct CMUnitTest unit_tests[UNIT_TESTS_MAX];

__attribute__((weak)) const struct unit_fixtures unit_fixtures = {NULL};

int main(void) {
  setenv("TZ", "UTC", 1);
  for (struct CMUnitTest *test = unit_tests; test < unit_tests + UNIT_TESTS_MAX;
       test++) {
    if (test->setup_func != NULL || test->teardown_func != NULL)
      continue;
    test->setup_func = unit_fixtures.before_each;
    test->teardown_func = unit_fixtures.after_each;
  }
  return cmocka_run_group_tests(unit_tests, unit_fixtures.before_all,
                                unit_fixtures.after_all);
}
