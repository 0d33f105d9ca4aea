/* interrupts: names of interrupts that have no tracepoint. */
#ifndef PERCORE_CYCLES_INTERRUPTS_H
#define PERCORE_CYCLES_INTERRUPTS_H

#include <stddef.h>

/* Appends a name to a list of names that are separated by blanks. Cuts off what
 * does not fit. */
void interrupts_append(char *list, size_t list_size, const char *name,
                       size_t name_length);

/* `text` is /proc/interrupts. Appends to `list`, as interrupts_append does, the
 * interrupts that have occurred and for which there is no tracepoint. */
void interrupts_without_tracepoint(const char *text, char *list,
                                   size_t list_size);

#endif
