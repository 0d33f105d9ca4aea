/* The softirq clock: how long each core has been in hard interrupts and in
 * softirqs, in the words of softirq_words.h.
 *
 * Hard interrupts run with interrupts off, so their programs are not
 * interrupted. Softirqs do not interrupt softirqs, so their programs are
 * interrupted only by hard interrupts. The programs of hard interrupts write
 * `hard`, and the programs of softirqs write all other words, so no word has
 * two writers.
 *
 * tests/unit/test_softirq_program.c compiles this file for the host and
 * interrupts it at every instruction that touches a word or the clock.
 */
#include "softirq_words.h"

struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, struct softirq_words);
} softirq_clock SEC(".maps");

static __always_inline struct softirq_words *words_of_this_core(void) {
  __u32 key = 0;
  return bpf_map_lookup_elem(&softirq_clock, &key);
}

/* ---------------------------------------------------------------------------
 * Hard interrupts
 */

SEC("raw_tp/irq_handler_entry")
int on_hard_entry(void *tracepoint) {
  (void)tracepoint;
  struct softirq_words *words = words_of_this_core();
  if (words != 0 && words->hard >= 0)
    WRITE_ONCE(words->hard, words->hard - (__s64)bpf_ktime_get_ns());
  return 0;
}

SEC("raw_tp/irq_handler_exit")
int on_hard_exit(void *tracepoint) {
  (void)tracepoint;
  struct softirq_words *words = words_of_this_core();
  if (words != 0 && words->hard < 0)
    WRITE_ONCE(words->hard, words->hard + (__s64)bpf_ktime_get_ns());
  return 0;
}

/* ---------------------------------------------------------------------------
 * Softirqs
 */

/* Returns the time minus `hard`. A hard interrupt between the two readings of
 * `hard` makes them differ; the time is then taken again. The verifier requires
 * a limited number of tries; hard interrupts in three successive tries are
 * practically impossible. */
static __always_inline __s64
time_outside_hard_interrupts(const struct softirq_words *words) {
  __s64 time = 0;
  for (int i = 0; i < 3; i++) {
    __s64 hard = READ_ONCE(words->hard);
    time = (__s64)bpf_ktime_get_ns() - hard;
    if (READ_ONCE(words->hard) == hard)
      break;
  }
  return time;
}

/* Returns the context of a softirq that runs now. ksoftirqd can be recognized
 * only by the name of the task. */
static __always_inline enum softirq_context context_of_this_core(void) {
  union {
    char text[16];
    __u64 first8;
  } name, ksoftirqd = {"ksoftirqd/"};
  if ((__u32)bpf_get_current_pid_tgid() == 0)
    return SOFTIRQ_IDLE;
  if (bpf_get_current_comm(name.text, sizeof(name.text)) == 0 &&
      name.first8 == ksoftirqd.first8 && name.text[8] == 'd' &&
      name.text[9] == '/')
    return SOFTIRQ_KSOFTIRQD;
  return SOFTIRQ_TASKS;
}

SEC("raw_tp/softirq_entry")
int on_softirq_entry(struct bpf_raw_tracepoint_args *tracepoint) {
  __u64 vector = tracepoint->args[0];
  struct softirq_words *words = words_of_this_core();
  if (words == 0 || vector >= SOFTIRQ_VECTORS || words->open != 0)
    return 0;
  __u32 word = context_of_this_core() * SOFTIRQ_VECTORS + (__u32)vector;
  words->open = word + 1;
  WRITE_ONCE(words->softirq[word],
             words->softirq[word] - time_outside_hard_interrupts(words));
  return 0;
}

SEC("raw_tp/softirq_exit")
int on_softirq_exit(void *tracepoint) {
  (void)tracepoint;
  struct softirq_words *words = words_of_this_core();
  if (words == 0)
    return 0;
  __u64 word = (__u64)words->open - 1;
  if (word >= SOFTIRQ_CONTEXTS * SOFTIRQ_VECTORS)
    return 0;
  WRITE_ONCE(words->softirq[word],
             words->softirq[word] + time_outside_hard_interrupts(words));
  words->open = 0;
  return 0;
}
