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

/* If a tsc precedes the last poll by more than MAX_ROUNDS_BACK long rounds (1
 * s), the clock has restarted. */
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

/* From now on, total_cycles has the thread's time up to tsc. */
static void begin_at(struct percore_slot_head *head, uint64_t tsc) {
  percore_own_set_(&head->origin_tsc, tsc - head->total_cycles);
}

/* Returns the time since the last poll. */
static uint64_t time_until(struct percore_slot_head *head, uint64_t tsc) {
  uint64_t elapsed = tsc - percore_polled_(head);
  if ((int64_t)elapsed >= 0)
    return elapsed;
  /* Either the caller read the clock before it slept, or the clock went back,
   * because it restarted, as it may after a suspend. */
  if (-elapsed > MAX_ROUNDS_BACK * head->long_round)
    begin_at(head, tsc);
  return 0;
}

void region_poll_long(struct percore_slot_head *head, uint64_t tsc, uint64_t n,
                      uint64_t absence) {
  uint64_t elapsed = time_until(head, tsc);
  uint64_t ran = absence < elapsed ? elapsed - absence : 0;
  percore_own_add_(&head->total_cycles, elapsed);
  percore_own_add_(&head->busy_cycles, n > 0 ? ran : 0);
  percore_own_add_(&head->absent_cycles, elapsed - ran);
  percore_own_add_(&head->empty_polls, n == 0);
  percore_own_add_(&head->items, n);
  percore_pass_(&head->polls);
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
  begin_at(head, tsc);
}

/* A poll, too, chooses the slot of a thread that attached for the core on which
 * it runs. Returns whether it did. */
static bool decides(percore_slot_t slot) {
  struct seat *seat = (struct seat *)slot.seat;
  if (seat->handle.head != &region_undecided)
    return false;
  region_decide(seat);
  return true;
}

void percore_poll_long_(percore_slot_t slot, uint64_t tsc, uint64_t n) {
  if (decides(slot)) {
    percore_poll(slot, n, 0);
    return;
  }
  uint64_t now = percore_tsc();
  /* The time that the caller passed is not of this clock, or the caller slept
   * for long after it had read the clock. */
  struct percore_slot_head *head = slot.seat->head;
  if (now - tsc > MAX_ROUNDS_BACK * head->long_round)
    tsc = now;
  region_poll_long(head, tsc, n, check_cpu(head, tsc));
}

/* Takes time off the CPU out of the round, which goes on. */
void region_poll_absent(struct percore_slot_head *head, uint64_t tsc,
                        uint64_t absence) {
  uint64_t round = tsc - percore_polled_(head);
  if (absence > round)
    absence = round;
  percore_own_add_(&head->total_cycles, absence);
  percore_own_add_(&head->absent_cycles, absence);
}

void percore_check_cpu_(percore_slot_t slot, uint64_t tsc) {
  struct percore_slot_head *head = slot.seat->head;
  if (head != &region_undecided)
    region_poll_absent(head, tsc, check_cpu(head, tsc));
}
