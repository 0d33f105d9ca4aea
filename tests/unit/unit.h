/* Every unit test includes this file: cmocka and the headers that cmocka
 * requires. */
#ifndef PERCORE_UNIT_H
#define PERCORE_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>
#include <math.h>

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
