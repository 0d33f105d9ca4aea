/* Every unit test includes this file: cmocka, the headers of C that most tests
 * need, and the definition of a test, which main() in unit.c runs. */
#ifndef PERCORE_UNIT_H
#define PERCORE_UNIT_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The names of cmocka 1.1, which cmocka 2 has, too. */
#define CMOCKA_DISABLE_DEPRECATION_WARNINGS
#include <cmocka.h>
#include <math.h>

/* TEST(what_is_true) { ... } defines a test. */
#define TEST(sentence) TEST_BETWEEN(NULL, NULL, sentence)

/* A test with a set-up and a tear-down of its own. */
#define TEST_BETWEEN(set_up, tear_down, sentence)                              \
  static void sentence(void **state);                                          \
  __attribute__((constructor)) static void list_##sentence(void) {             \
    unit_tests[__COUNTER__] =                                                  \
        (struct unit_test){#sentence, sentence, set_up, tear_down};            \
  }                                                                            \
  static void sentence(void **state __attribute__((unused)))

/* Returns how many threads there are. A sanitizer may have one of its own. */
int unit_count_threads(void);

enum { UNIT_TESTS_MAX = 128 };
extern struct unit_test {
  const char *sentence;
  CMUnitTestFunction function;
  void (*set_up)(void), (*tear_down)(void);
} unit_tests[UNIT_TESTS_MAX];

/* What is called before and after all tests of a program, and each test that
 * has neither a set-up nor a tear-down of its own. A program without these has
 * no such object. */
struct unit_fixtures {
  void (*before_all)(void), (*after_all)(void);
  void (*before_each)(void), (*after_each)(void);
};
extern const struct unit_fixtures unit_fixtures;

/* Opens a file in memory. unit_close closes the last of them, and returns its
 * text, which is valid until seven more have been opened. */
FILE *unit_open(void);
char *unit_close(void);

#define assert_near(value, wanted, within)                                     \
  unit_assert_near((value), (wanted), (within), #value, __FILE__, __LINE__)
#define assert_nan(value) unit_assert_nan((value), #value, __FILE__, __LINE__)

static inline void unit_assert_near(double value, double wanted, double within,
                                    const char *what, const char *file,
                                    int line) {
  if (fabs(value - wanted) <= within)
    return;
  print_error("%s is %.9g, not %.9g within %g\n", what, value, wanted, within);
  _fail(file, line);
}

static inline void unit_assert_nan(double value, const char *what,
                                   const char *file, int line) {
  if (isnan(value))
    return;
  print_error("%s is %.9g, not unknown\n", what, value);
  _fail(file, line);
}

#endif
