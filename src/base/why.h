/* why: the reason of a failure, which functions with a parameter `why` write
 * for the user: what failed, why, and what to do. */
#ifndef PERCORE_BASE_WHY_H
#define PERCORE_BASE_WHY_H

#include <stdarg.h>
#include <stdio.h>

#define WHY_SIZE 512

/* Writes the reason, and returns `status`. */
__attribute__((format(printf, 3, 4))) static inline int
why_fails(char why[WHY_SIZE], int status, const char *format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(why, WHY_SIZE, format, list);
  va_end(list);
  return status;
}

#endif
