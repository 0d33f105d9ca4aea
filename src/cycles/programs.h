/* programs: BPF programs at tracepoints, and the map in which they keep a value
 * for each core. The idle clock and the softirq clock consist of such programs
 * and their map.
 *
 * Functions return 0 or -errno. Functions with the parameter `why` write the
 * reason for a failure to it. */
#ifndef PERCORE_CYCLES_PROGRAMS_H
#define PERCORE_CYCLES_PROGRAMS_H

#include <stddef.h>

/* The kinds of interrupts, other than those of devices, that have tracepoints
 * NAME_entry and NAME_exit. They are listed by name: a pattern would also match
 * tracepoints that run for every packet. Interrupts of devices use
 * irq_handler_entry and irq_handler_exit; on processors other than x86, all
 * interrupts use these. */
#if defined(__x86_64__)
#define PROGRAMS_EACH_INTERRUPT(EACH)                                          \
  EACH(local_timer)                                                            \
  EACH(reschedule)                                                             \
  EACH(call_function)                                                          \
  EACH(call_function_single)                                                   \
  EACH(irq_work)                                                               \
  EACH(x86_platform_ipi)                                                       \
  EACH(spurious_apic)                                                          \
  EACH(error_apic)                                                             \
  EACH(thermal_apic)                                                           \
  EACH(threshold_apic)                                                         \
  EACH(deferred_error_apic)
#else
#define PROGRAMS_EACH_INTERRUPT(EACH)
#endif

#define PROGRAMS_LINKS_MAX 32
#define PROGRAMS_WHY_SIZE 256

struct programs {
  int map;                       /* -1: none */
  int links[PROGRAMS_LINKS_MAX]; /* attached tracepoints; -1: not attached */
};

/* Initialises programs that are not loaded. Closing them is allowed. */
void programs_init(struct programs *programs);

/* Detaches and unloads the programs, unless they are pinned. */
void programs_close(struct programs *programs);

/* Writes the message to `why`, and returns `status`. */
int programs_fail(char why[PROGRAMS_WHY_SIZE], int status, const char *format,
                  ...) __attribute__((format(printf, 3, 4)));

/* Fails with -EPERM if this process lacks a capability. The message advises
 * granting the capabilities and ends with `alternative`, such as ", or run as
 * root". */
int programs_check_rights(const char *alternative, char why[PROGRAMS_WHY_SIZE]);

/* Explains the errno with which the kernel refused to load programs (0 if it is
 * unknown), and returns it as -errno. */
int programs_refused(int error, char why[PROGRAMS_WHY_SIZE]);

/* Writes that percore was built without the programs, and returns -ENOSYS. */
int programs_not_built(char why[PROGRAMS_WHY_SIZE]);

/* Sets *copy to a duplicate of `fd`, a descriptor of a skeleton, so that the
 * duplicate stays open when the skeleton is destroyed. */
int programs_keep(int *copy, int fd, char why[PROGRAMS_WHY_SIZE]);

/* Runs a program at a tracepoint until links[link] is closed. -ENOENT: this
 * kernel has no such tracepoint. */
int programs_attach(struct programs *programs, int link, const char *tracepoint,
                    int program, char why[PROGRAMS_WHY_SIZE]);

/* Reads the map: the values of all possible cores, in ascending order. Each
 * value takes `size` bytes and begins with an int64_t that is never INT64_MIN.
 * `values` must have room for CORES_MAX + 1 values. -EINVAL: `cores` is not the
 * number of possible cores. */
int programs_read(const struct programs *programs, void *values, size_t size,
                  int cores);

#endif
