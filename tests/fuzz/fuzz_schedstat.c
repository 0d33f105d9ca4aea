/* Fuzz target: /proc/schedstat. A text of a supported version must be accepted
 * if and only if it contains a row for a core. */
#include "cycles/schedstat.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char *text = malloc(size + 1);
  memcpy(text, data, size);
  text[size] = '\0';
  struct schedstat stat = {0};
  int status = schedstat_parse(&stat, text);
  int rows = core_set_count(&stat.cores);
  if (status != -EPROTONOSUPPORT && (status == 0) != (rows > 0))
    abort();
  schedstat_free(&stat);
  free(text);
  return 0;
}
