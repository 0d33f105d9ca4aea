#include "number.h"

#include <ctype.h>

bool number_next(const char **text, uint64_t *value) {
  const char *p = *text;
  while (*p == ' ' || *p == '\t')
    p++;
  if (!isdigit((unsigned char)*p))
    return false;
  uint64_t sum = 0;
  for (; isdigit((unsigned char)*p); p++)
    if (__builtin_mul_overflow(sum, 10, &sum) ||
        __builtin_add_overflow(sum, (uint64_t)(*p - '0'), &sum))
      return false;
  *value = sum;
  *text = p;
  return true;
}
