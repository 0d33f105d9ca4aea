#include "interrupts.h"

#include "base/number.h"

#include <stdio.h>
#include <string.h>

/* Returns the start of the next line, or NULL after the last line. */
static const char *next_line(const char *text) {
  const char *end = strchr(text, '\n');
  return end != NULL && end[1] != '\0' ? end + 1 : NULL;
}

static bool has_occurred(const char *counts) {
  uint64_t number;
  while (number_next(&counts, &number))
    if (number > 0)
      return true;
  return false;
}

void interrupts_append(char *list, size_t list_size, const char *name,
                       size_t name_length) {
  size_t length = strlen(list);
  snprintf(list + length, list_size - length, "%s%.*s", length > 0 ? " " : "",
           (int)name_length, name);
}

void interrupts_without_tracepoint(const char *text, char *list,
                                   size_t list_size) {
  /* These interrupts have no tracepoint: non-maskable interrupts, interrupts of
   * hypervisors, and interrupts posted for guests. */
  static const char *const names[] = {"NMI", "HYP", "HRE", "HVS",
                                      "PIN", "NPI", "PIW", "PMN"};
  while ((text = next_line(text)) != NULL) {
    const char *name = text + strspn(text, " ");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
      if (strncmp(name, names[i], 3) == 0 && name[3] == ':' &&
          has_occurred(name + 4))
        interrupts_append(list, list_size, name, 3);
  }
}
