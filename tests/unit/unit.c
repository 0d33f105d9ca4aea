#include "unit.h"

#include <glob.h>

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

int unit_count_threads(void) {
  glob_t found;
  assert_int_equal(glob("/proc/self/task/*", 0, NULL, &found), 0);
  int threads = (int)found.gl_pathc;
  globfree(&found);
  return threads;
}

struct unit_test unit_tests[UNIT_TESTS_MAX];

__attribute__((weak)) const struct unit_fixtures unit_fixtures = {NULL};

static int call(void (*fixture)(void)) {
  if (fixture != NULL)
    fixture();
  return 0;
}

static int before_all(void **state) {
  (void)state;
  return call(unit_fixtures.before_all);
}

static int after_all(void **state) {
  (void)state;
  return call(unit_fixtures.after_all);
}

static bool has_own(const struct unit_test *test) {
  return test->set_up != NULL || test->tear_down != NULL;
}

static int before_each(void **state) {
  const struct unit_test *test = *state;
  return call(has_own(test) ? test->set_up : unit_fixtures.before_each);
}

static int after_each(void **state) {
  const struct unit_test *test = *state;
  return call(has_own(test) ? test->tear_down : unit_fixtures.after_each);
}

/* An argument is a pattern of the names of the tests to run. */
int main(int argc, char **argv) {
  struct CMUnitTest tests[UNIT_TESTS_MAX] = {{NULL, NULL, NULL, NULL, NULL}};
  setenv("TZ", "UTC", 1);
  if (argc > 1)
    cmocka_set_test_filter(argv[1]);
  for (int i = 0; i < UNIT_TESTS_MAX; i++)
    tests[i] =
        (struct CMUnitTest){unit_tests[i].sentence, unit_tests[i].function,
                            before_each, after_each, &unit_tests[i]};
  return cmocka_run_group_tests(tests, before_all, after_all);
}
