/* Fuzz target: BTF. Whatever the file claims about its sections, only bytes of
 * the file may be read, and a name may be reported as found only if the file
 * contains it. */
#include "cycles/btf.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char *const names[] = {"idle_stealtime", "rq", ""};
  bool found[3];
  const char *btf = (const char *)data;
  int status = btf_search(btf, size, names, found, 3);
  if (status != 0 && status != -EINVAL)
    abort();
  for (size_t i = 0; i < 3; i++)
    if (found[i] && (status != 0 ||
                     memmem(btf, size, names[i], strlen(names[i]) + 1) == NULL))
      abort();
  return 0;
}
