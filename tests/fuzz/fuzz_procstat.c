/* Fuzz target: /proc/stat. Every core of the set must have a row, and no row
 * may contain numbers from a text that was parsed before. */
#include "cycles/procstat.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int parse(struct procstat *stat, const uint8_t *data, size_t size) {
  char *text = malloc(size + 1);
  memcpy(text, data, size);
  text[size] = '\0';
  int status = procstat_parse(stat, text, 10000000);
  free(text);
  return status;
}

static void check_rows(const struct procstat *stat) {
  if (stat->running < -1 || stat->blocked < -1)
    abort();
}

static void check_same(const struct procstat *a, const struct procstat *b) {
  if (!core_set_equal(&a->cores, &b->cores) || a->running != b->running ||
      a->blocked != b->blocked)
    abort();
  core_set_for_each(
      core, &a->cores) if (memcmp(a->rows[core].ns, b->rows[core].ns,
                                  sizeof(a->rows[core].ns)) != 0) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct procstat fresh = {0}, used = {0};
  size_t half = size / 2;
  int status = parse(&fresh, data + half, size - half);
  if (status != 0 && status != -EINVAL)
    abort();
  check_rows(&fresh);
  if ((status == 0) != (core_set_count(&fresh.cores) > 0))
    abort();
  parse(&used, data, half);
  check_rows(&used);
  if (parse(&used, data + half, size - half) != status)
    abort();
  check_same(&fresh, &used);
  procstat_free(&fresh);
  procstat_free(&used);
  return 0;
}
