"""What happens while a store takes no values for minutes: collectd's csv plugin writes into
a pipe that nobody reads. It takes seven minutes, with PERCORE_TEST_LONG=1."""

import os
import threading
import time

from harness import Collectd, Skip, check, run_all, say
from producers import ETH0, PACKETS, PORT, SESSION, Producer, RuntimeDir

LONG = os.environ.get("PERCORE_TEST_LONG") == "1"
BLOCKED_S = 180
ROWS = 20
COUNT = "percore_host_good_port_packets-all/derive-eth0"
LOAD = "percore-0/load"
LATENESS = "percore_host-self/duration-lateness"


class Stalled(Collectd):
    """collectd whose output is not read while `goes_on` is not set."""

    def __init__(self, **options):
        self.goes_on = threading.Event()
        self.goes_on.set()
        super().__init__(**options)

    def read_values(self):
        output = self.process.stdout

        class Gated:
            """The lines of the output, when they may be read."""

            def __init__(self, goes_on):
                self.goes_on = goes_on

            def __iter__(self):
                for line in output:
                    self.goes_on.wait()
                    yield line

            def close(self):
                output.close()

        self.process.stdout = Gated(self.goes_on)
        super().read_values()

    def threads(self):
        return len(os.listdir(f"/proc/{self.process.pid}/task"))

    def memory_mib(self):
        with open(f"/proc/{self.process.pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def count_while_blocked(collectd, producer):
    """Blocks the store, and counts once a second. Returns what was counted in all, and by
    how many MiB collectd grew."""
    collectd.wait_for_value(COUNT, count=3)
    collectd.wait_for_value(LOAD)
    threads, before = collectd.threads(), collectd.memory_mib()
    collectd.goes_on.clear()
    counted = 0
    for _ in range(BLOCKED_S):
        producer.do(f"add {PORT} 0 {PACKETS} 17 0")
        counted += 17
        time.sleep(1)
    grown = collectd.memory_mib() - before
    check(collectd.threads() <= threads, "collectd has more threads")
    collectd.goes_on.set()
    collectd.wait_for(lambda: collectd.of(COUNT)[-1].value == counted, 30,
                      f"the value {counted}")
    return counted, grown


def play(extra, say_what):
    if not LONG:
        raise Skip(f"takes {BLOCKED_S} s: PERCORE_TEST_LONG=1 runs it")
    with RuntimeDir(), Producer("good") as producer, \
            Stalled(extra=extra) as collectd:
        producer.do("core 0", ETH0, f"rows {SESSION} 0 {ROWS}")
        collectd.start()
        counted, grown = count_while_blocked(collectd, producer)
        collectd.wait_for_value(LOAD, count=len(collectd.of(LOAD)) + 3)
        say(f"{say_what}: {len(collectd.values)} values, {grown:.1f} MiB more")
        late = max(value.value for value in collectd.of(LATENESS))
        check(late < 1, f"a sample was {late} s late")
        collectd.goes_on.set()
        collectd.stop()
    return collectd, counted, grown


def test_without_a_limit():
    """A store that blocks for three minutes delays no sample; afterwards, it gets every
    interval, and counts are exact. Until then, collectd's memory grows"""
    collectd, counted, grown = play("", "no limit")
    for identifier in (LOAD, COUNT):  # a series of counts begins before its first round
        collectd.check_gaps(collectd.of(identifier)[1:], 2)
    check(collectd.of(COUNT)[-1].value == counted, "counts are missing")
    check(grown > 1, f"collectd grew by {grown} MiB only: the store did not block")


def test_with_a_limit():
    """With WriteQueueLimitHigh, collectd's memory stays limited while a store blocks for
    three minutes, and samples go on. Afterwards, the count is exact in the next point"""
    collectd, counted, grown = play("WriteQueueLimitHigh 1000", "at most 1000 values")
    values = collectd.of(COUNT)
    check(values[-1].value == counted, "counts are missing")
    check(all(a.value <= b.value for a, b in zip(values, values[1:])), "a step back")
    check(len(values) < BLOCKED_S, "collectd dropped no value")
    check(grown < 4, f"collectd grew by {grown} MiB")


if __name__ == "__main__":
    run_all(globals())
