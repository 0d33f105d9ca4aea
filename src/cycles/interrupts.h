/* interrupts: the kernel's counts of interrupts and softirqs. */
#ifndef PERCORE_CYCLES_INTERRUPTS_H
#define PERCORE_CYCLES_INTERRUPTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Sets *count to the sum of one column of `text`, the contents of
 * /proc/softirqs: the number of softirqs that one core has run. The columns are
 * those of all possible cores, in ascending order; the first column is 0.
 * Returns false if the column does not exist. */
bool interrupts_add_softirqs(const char *text, int column, uint64_t *count);

/* Appends a name to a list of names that are separated by blanks. Cuts off what
 * does not fit. */
void interrupts_append(char *list, size_t list_size, const char *name,
                       size_t name_length);

/* `text` is /proc/interrupts. Appends to `list`, as interrupts_append does, the
 * interrupts that have occurred and for which there is no tracepoint. */
void interrupts_without_tracepoint(const char *text, char *list,
                                   size_t list_size);

#endif
