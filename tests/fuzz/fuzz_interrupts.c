/* Fuzz target: /proc/softirqs and /proc/interrupts. If a core has a column,
 * every core before it must also have one. The list of interrupts must fit into
 * its buffer and contain only known names. */
#include "cycles/interrupts.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char *text = malloc(size + 1);
  uint64_t count;
  memcpy(text, data, size);
  text[size] = '\0';
  for (int column = 1; column < 4; column++)
    if (interrupts_add_softirqs(text, column, &count) &&
        !interrupts_add_softirqs(text, column - 1, &count))
      abort();
  for (size_t room = 1; room < 40; room++) {
    char *list = calloc(1, room);
    interrupts_without_tracepoint(text, list, room);
    if (strlen(list) >= room || strspn(list, "NMIHYPREVSW ") != strlen(list))
      abort();
    free(list);
  }
  free(text);
  return 0;
}
