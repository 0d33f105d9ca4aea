"""Tests that one value is reported for each multiple of the interval, while another
plugin blocks collectd's only read thread for random times."""

import statistics
import threading
import time

from harness import TRIES, Collectd, check, run_all, say
from sysroot import TICK_HZ, SysRoot

ENTRIES_PER_S = 100000
IDLE_SHARE = 0.7


def reads_late(collectd):
    """Returns the shortest and the longest interval between collectd's reads, in
    seconds, according to the times of the cpu plugin's values."""
    times = sorted({value.time for value in collectd.values
                    if value.identifier.startswith("cpu-0/")})
    gaps = [b - a for a, b in zip(times, times[1:])]
    return min(gaps), max(gaps)


class KnownCounters:
    """A thread that writes the files of a core whose counters grow at known rates."""

    def __init__(self, root):
        self.root = root
        self.stopping = False
        self.late = {}  # for each second, the longest time without a write
        self.last = time.time()
        self.update()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def update(self):
        now = time.time() % 1000000
        self.root.write_cstate(0, now * ENTRIES_PER_S, now * 1e6 * IDLE_SHARE)
        self.root.write_stat({0: now * IDLE_SHARE})
        written = time.time()
        for second in (int(self.last), int(written)):
            self.late[second] = max(self.late.get(second, 0),
                                    written - self.last)
        self.last = written

    def lateness(self, time_s):
        """Returns by how many seconds the files were written late, at most, around the
        time time_s."""
        second = int(time_s)
        return max(self.late.get(second - 1, 0), self.late.get(second, 0))

    def too_late(self, time_s):
        """Returns true if a load may be missing. If idle time is written late, it may
        exceed the length of the next window, and then no load is reported for this
        window."""
        return self.lateness(time_s) > 0.03

    def run(self):
        while not self.stopping:
            self.update()
            time.sleep(0.002)

    def stop(self):
        self.stopping = True
        self.thread.join()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


JITTER = '<Plugin "after">\nBlockMax {}\n</Plugin>'


def rates_of(collectd, counters, identifier):
    """Yields for each value after the first: the value, its growth per second, and the
    share of the interval by which the writer and the sampling thread were late at both
    ends, according to their own records. The cost of a sample counts as lateness at its
    end."""
    late_s = {}
    for name in ("lateness", "sample_cost"):
        for value in collectd.of(f"percore_host-self/duration-{name}"):
            late_s[value.time] = late_s.get(value.time, 0) + value.value
    values = collectd.of(identifier)
    for a, b in zip(values, values[1:]):
        seconds = b.time - a.time
        late = sum(late_s.get(each.time, 0) + counters.lateness(each.time)
                   for each in (a, b))
        yield b.value, (b.value - a.value) / seconds, late / seconds


def rate_errors(collectd, counters):
    """Returns two sorted lists: the relative errors of the reported rates of entries
    into the idle state, and what remains of each error after lateness is subtracted."""
    off, excess = [], []
    for _, rate, late in rates_of(collectd, counters,
                                  "percore-0/operations-cstate_C1"):
        off.append(abs(rate / ENTRIES_PER_S - 1))
        excess.append(max(0, off[-1] - late))
    return sorted(off), sorted(excess)


def wrong_loads(collectd, counters):
    expected = 100 * (1 - IDLE_SHARE)
    # The limit is wide, because idle time has a resolution of 10 ms and is slightly
    # outdated.
    return [f"a load of {load} instead of {expected}, {late} late" for load, _, late
            in rates_of(collectd, counters, "percore-0/percent-load")
            if abs(load - expected) >= 4 + 100 / TICK_HZ + 100 * late]


def run_under_jitter():
    """Runs collectd while its reads are late. Returns messages about wrong rates and
    loads."""
    with SysRoot(1) as root:
        root.write_machine()
        options = (f'SysRoot "{root.path}"\n'
                   "<Load>\nReportCStates true\n</Load>")
        with KnownCounters(root) as counters, \
                Collectd(options, read_threads=1, plugins=("after", "cpu"),
                         extra=JITTER.format(2.5)).start() as collectd:
            time.sleep(25)
            collectd.stop()
    intervals = collectd.check_grid(1, counters.too_late)
    check(intervals >= 15, f"{intervals} intervals")
    shortest, longest = reads_late(collectd)
    check(longest > 1.5, "collectd's reads were not late enough for this test")
    off, excess = rate_errors(collectd, counters)
    say(f"{intervals} intervals; collectd's reads were {shortest:.2f} to "
        f"{longest:.2f} s apart; rates off by {100 * off[0]:.2f} to "
        f"{100 * off[-1]:.2f} %, median {100 * off[len(off) // 2]:.2f} %")
    wrong = wrong_loads(collectd, counters)
    if excess[-1] > 0.01:
        wrong.append(f"rates off beyond their lateness: {excess}")
    return wrong


def test_interval_1_under_jitter():
    """With Interval 1 and reads that are up to 2.5 s late, one value is reported for
    each multiple of the interval, and rates of DERIVE values are within 1 % of the
    truth after the lateness that percore reports has been subtracted"""
    # A delay of the sampling thread or of the writer between reading the clock and
    # reading a counter is not recorded, so the test is tried several times.
    for number in range(1, TRIES + 1):
        wrong = run_under_jitter()
        if not wrong:
            return
        say(f"try {number} of {TRIES}: {'; '.join(wrong)}")
    raise AssertionError(f"wrong in each of {TRIES} tries")


def test_interval_10_under_jitter():
    """With the default interval of 10 s and reads that are up to 12 s late, one value
    is reported for each multiple of the interval, and the sampling thread uses at most
    0.05 % of a core over a minute"""
    with Collectd(interval=10, read_threads=1, plugins=("after", "cpu"),
                  extra=JITTER.format(12)).start() as collectd:
        time.sleep(88)
        collectd.stop()
        intervals = collectd.check_grid(10)
        check(intervals >= 6, f"{intervals} intervals")
        shortest, longest = reads_late(collectd)
        say(f"collectd's reads were {shortest:.2f} to {longest:.2f} s apart")
        used = [value.value for value in
                collectd.of("percore_host-self/percent-sampler_cpu")][-6:]
        say("the sampling thread used "
            + " ".join(f"{each:.4f}" for each in used) + " % of a core")
        # Use the median, because the CPU time also grows while the machine is paused.
        check(statistics.median(used) <= 0.05, f"{used} %")


if __name__ == "__main__":
    run_all(globals())
