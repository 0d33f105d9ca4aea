/* interrupts: the kernel's counts of interrupts and softirqs. */
#ifndef PERCORE_CYCLES_INTERRUPTS_H
#define PERCORE_CYCLES_INTERRUPTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Adds up one column of /proc/softirqs: the softirqs of one core. Possible
 * cores have columns, in rising numbers from 0. Returns false if there is no
 * such column. */
bool interrupts_add_softirqs(const char *text, int column, uint64_t *count);

/* Lists the interrupts in /proc/interrupts that have occurred and that no
 * tracepoint shows, separated by blanks. Cuts what does not fit. */
void interrupts_without_tracepoint(const char *text, char *list,
                                   size_t list_size);

#endif
