/* programs: the tracepoints of BPF programs. */
#ifndef PERCORE_CYCLES_PROGRAMS_H
#define PERCORE_CYCLES_PROGRAMS_H

/* The kinds of interrupts of a core itself that have tracepoints NAME_entry and
 * NAME_exit. They are listed by name: a pattern would also match tracepoints
 * that run for every packet. Interrupts of devices have irq_handler_entry and
 * irq_handler_exit; on processors other than x86, all interrupts do. */
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

/* Runs a program at a tracepoint until *link is closed. Returns 0 or -errno,
 * and *link is negative; -ENOENT: this kernel has no such tracepoint. */
int programs_attach(int *link, const char *tracepoint, int program);

#endif
