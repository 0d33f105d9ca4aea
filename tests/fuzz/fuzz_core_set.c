/* Fuzz target: lists of cores, as in sysfs and in options. If an accepted list
 * is formatted and parsed again, the result must be the same set or, if the
 * text was truncated, a part of the set. */
#include "base/core_set.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_cut(const struct core_set *set, size_t size) {
  struct core_set part;
  char *text = malloc(size);
  size_t length = core_set_format(set, text, size);
  if (length >= size || strlen(text) != length ||
      core_set_parse(&part, text) != 0)
    abort();
  core_set_subtract(&part, set);
  if (core_set_count(&part) != 0)
    abort();
  free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static char list[CORES_MAX * 5];
  struct core_set set, again;
  char *text = malloc(size + 1);
  memcpy(text, data, size);
  text[size] = '\0';
  int status = core_set_parse(&set, text);
  free(text);
  if (status != 0)
    return status == -EINVAL || status == -ERANGE ? 0 : (abort(), 0);
  core_set_format(&set, list, sizeof(list));
  if (core_set_parse(&again, list) != 0 || !core_set_equal(&set, &again))
    abort();
  int count = 0, last = -1;
  core_set_for_each(core, &set) {
    if (core <= last || !core_set_has(&set, core))
      abort();
    last = core;
    count++;
  }
  if (count != core_set_count(&set))
    abort();
  check_cut(&set, 1 + size % 64);
  return 0;
}
