/* Fuzz target: /proc/interrupts. The list of interrupts must fit into its
 * buffer and contain only known names. */
#include "cycles/interrupts.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char *text = malloc(size + 1);
  memcpy(text, data, size);
  text[size] = '\0';
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
