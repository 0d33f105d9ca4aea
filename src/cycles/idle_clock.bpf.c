/* The idle clock: how long each core has been halted, kept by the kernel in one
 * word per core:
 *
 *   word >= 0  the core is awake; it has been halted for `word` nanoseconds
 *   word < 0   the core is halted; it has been halted for `word` + now
 *   word == 0  the clock has not run on this core
 *
 * `now` is CLOCK_MONOTONIC of the initial time namespace. A halt begins when
 * the core enters an idle state, and ends with the first interrupt, because
 * every interrupt ends HLT: the handler and the softirq after it run while the
 * kernel still considers the core idle.
 *
 * Each change is one store of one word, so no lock and no nesting counter are
 * needed. A core changes only its own word. on_interrupt may interrupt on_idle
 * between any two instructions; the kernel skips a program that interrupts
 * itself. So that no time is lost in either order, end_halt takes the time
 * first and then reads the word again. If an interrupt has ended the halt
 * between these two steps, end_halt stores nothing. If an interrupt ends the
 * halt after the second step, end_halt overwrites the interrupt's word with a
 * word in which the halt ends slightly earlier.
 *
 * tests/unit/test_idle_clock_program.c compiles this file for the host and
 * interrupts it at every instruction that touches the word. */
struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, __s64);
} idle_clock SEC(".maps");

/* The state number that the tracepoint cpu_idle reports at the end of an idle
 * period. */
#define IDLE_EXIT ((__u32)-1)

static __always_inline __s64 *word_of_this_core(void) {
  __u32 key = 0;
  return bpf_map_lookup_elem(&idle_clock, &key);
}

static __always_inline void begin_halt(__s64 *word) {
  __s64 now = (__s64)bpf_ktime_get_ns();
  __s64 halted = READ_ONCE(*word);
  if (halted >= 0)
    WRITE_ONCE(*word, halted - now);
}

static __always_inline void end_halt(__s64 *word) {
  if (READ_ONCE(*word) >= 0)
    return;
  __s64 now = (__s64)bpf_ktime_get_ns();
  __s64 since = READ_ONCE(*word);
  if (since < 0)
    WRITE_ONCE(*word, since + now);
}

static __always_inline int change_state(__u32 state, __u32 first_halt) {
  __s64 *word = word_of_this_core();
  if (word == 0)
    return 0;
  if (state == IDLE_EXIT)
    end_halt(word);
  else if (state >= first_halt)
    begin_halt(word);
  return 0;
}

/* Used on machines where idle state 0 polls: x86, and any machine without an
 * idle driver. */
SEC("raw_tp/cpu_idle")
int on_idle(struct bpf_raw_tracepoint_args *tracepoint) {
  return change_state((__u32)tracepoint->args[0], 1);
}

/* Used on machines where idle state 0 halts: arm64 with an idle driver. */
SEC("raw_tp/cpu_idle")
int on_idle_without_poll(struct bpf_raw_tracepoint_args *tracepoint) {
  return change_state((__u32)tracepoint->args[0], 0);
}

/* Ends the halt. Attached to the tracepoints of all kinds of interrupts that
 * have tracepoints. */
SEC("raw_tp/irq_handler_entry")
int on_interrupt(void *tracepoint) {
  (void)tracepoint;
  __s64 *word = word_of_this_core();
  if (word != 0)
    end_halt(word);
  return 0;
}

/* This program is never attached. BPF_PROG_TEST_RUN runs it on a core after the
 * other programs are attached. The core is awake while the program runs, so its
 * word is correct from then on, even if the core never halts. A word of one
 * nanosecond marks the clock as started. */
SEC("raw_tp/irq_handler_entry")
int on_start(void *tracepoint) {
  (void)tracepoint;
  __s64 *word = word_of_this_core();
  if (word != 0 && READ_ONCE(*word) == 0)
    WRITE_ONCE(*word, 1);
  return 0;
}
