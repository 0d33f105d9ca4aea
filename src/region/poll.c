/* poll.c: accounts for long rounds of a polling loop. A round normally takes
 * microseconds. While a thread is off its CPU, packets wait for it, so the
 * current round will handle some of them and would count as busy. After a long
 * round the library asks the kernel how much CPU time the thread has received
 * since the last check; the rest of the time was not work.
 *
 * A check is a system call (about 0.5 us), so it costs less than 1 % even if
 * all rounds are long. Absences shorter than 100 us are not detected, but
 * schedulers use longer time slices. */
#include "percore_config.h"

#include "writer.h"

#include "base/clock.h"

/* If a tsc precedes last_tsc by more than MAX_ROUNDS_BACK long rounds (1 s),
 * the clock has restarted. */
enum { LONG_ROUND_NS = 100000, MAX_ROUNDS_BACK = 10000 };

uint64_t region_poll_absence(struct percore_slot_head *head, uint64_t tsc,
                             uint64_t cpu_ns, uint64_t hz) {
  uint64_t awake =
      tsc - head->checked_tsc - (head->sleep_cycles - head->checked_sleep);
  double ran = (double)(cpu_ns - head->checked_cpu_ns) * 1e-9 * (double)hz;
  head->checked_tsc = tsc;
  head->checked_cpu_ns = cpu_ns;
  head->checked_sleep = head->sleep_cycles;
  return (double)awake > ran ? (uint64_t)((double)awake - ran) : 0;
}

/* Advances last_tsc and returns the time since the old value. */
static uint64_t advance_to(struct percore_slot_head *head, uint64_t tsc) {
  uint64_t elapsed = tsc - head->last_tsc, back = head->last_tsc - tsc;
  if ((int64_t)elapsed < 0 && back <= MAX_ROUNDS_BACK * head->long_round)
    return 0; /* the caller read the clock before it slept */
  __atomic_store_n(&head->last_tsc, tsc, __ATOMIC_RELAXED);
  /* The clock goes back if it restarts, as it may after a suspend. */
  return (int64_t)elapsed < 0 ? 0 : elapsed;
}

void region_poll_long(struct percore_slot_head *head, uint64_t tsc, uint64_t n,
                      uint64_t absence) {
  uint64_t elapsed = advance_to(head, tsc);
  uint64_t ran = absence < elapsed ? elapsed - absence : 0;
  percore_own_add_(&head->total_cycles, elapsed);
  percore_own_add_(&head->busy_cycles, n > 0 ? ran : 0);
  percore_own_add_(&head->absent_cycles, elapsed - ran);
  percore_own_add_(&head->polls, 1);
  percore_own_add_(&head->empty_polls, n == 0);
  percore_own_add_(&head->items, n);
  percore_quiescent((percore_slot_t){head});
}

/* Returns for how many ticks the thread was awake but off its CPU between the
 * last check and tsc. If the thread was off its CPU between tsc and this call,
 * that time counts in the next check, because the CPU time did not grow during
 * it. */
static uint64_t check_cpu(struct percore_slot_head *head, uint64_t tsc) {
  struct timespec cpu;
  /* The slot is a sink, or a seccomp filter refuses the call. Do not check
   * again. */
  if (head->long_round == 0 ||
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu) != 0) {
    head->long_round = UINT64_MAX;
    return 0;
  }
  uint64_t cpu_ns = (uint64_t)cpu.tv_sec * NS_PER_S + (uint64_t)cpu.tv_nsec;
  return region_poll_absence(head, tsc, cpu_ns, region_tsc_hz());
}

void region_poll_begin(struct percore_slot_head *head) {
  uint64_t tsc = percore_tsc();
  head->long_round = region_tsc_hz() / (NS_PER_S / LONG_ROUND_NS);
  (void)check_cpu(head, tsc);
  __atomic_store_n(&head->last_tsc, tsc, __ATOMIC_RELAXED);
}

/* The time that the caller passed is not of this clock, or the caller slept for
 * long after it had read the clock: see MAX_ROUNDS_BACK. */
static bool is_unusable(const struct percore_slot_head *head, uint64_t tsc,
                        uint64_t now) {
  return now - tsc > MAX_ROUNDS_BACK * head->long_round;
}

void percore_poll_long_(percore_slot_t slot, uint64_t tsc, uint64_t n) {
  uint64_t now = percore_tsc();
  if (is_unusable(slot.head, tsc, now))
    tsc = now;
  region_poll_long(slot.head, tsc, n, check_cpu(slot.head, tsc));
}

/* Takes time off the CPU out of the round, which goes on. */
void region_poll_absent(struct percore_slot_head *head, uint64_t tsc,
                        uint64_t absence) {
  uint64_t round = tsc - head->last_tsc;
  if (absence > round)
    absence = round;
  percore_own_add_(&head->total_cycles, absence);
  percore_own_add_(&head->absent_cycles, absence);
  __atomic_store_n(&head->last_tsc, head->last_tsc + absence, __ATOMIC_RELAXED);
}

void percore_check_cpu_(percore_slot_t slot, uint64_t tsc) {
  region_poll_absent(slot.head, tsc, check_cpu(slot.head, tsc));
}
