"""Tests that a small region is reported in every interval while expensive regions are
read, and that traffic that is spread evenly over all rows creates few new names."""

import os
import re
import statistics
import subprocess
import sys
import threading
import time

from churn import LONG, Churner
from harness import Child, Collectd, check, run_all, say, take_precedence
from producers import ETH0, Producer, RuntimeDir

INTERVAL = 0.5
BESIDE_S = 30 if LONG else 3
GOOD = "percore_host_good_port_packets-all/derive-eth0"
LARGE = "percore_host_large_session_packets-all/derive-other"
TABLES = "\n".join(f'<Table "t{number}">\nTop 1 "c0"\n</Table>'
                   for number in range(250))
# All rows of all regions are read, but few of them are reported.
OPTIONS = f"""MaxValues 10000
<Region "*">
ReportPerCore false
{TABLES}
</Region>
<Region "large">
<Table "session">
Top 10 "packets"
</Table>
</Region>"""
MEBIBYTE = 1 << 20


# ---------------------------------------------------------------------------
# A small region and hostile regions


class Hostile(Child):
    """A process that serves hostile regions (hostile_producer.py)."""

    def __init__(self, runtime, names, **options):
        super().__init__(
            [sys.executable, "-B", f"{os.path.dirname(__file__)}/"
             "hostile_producer.py", runtime.path, "model", ",".join(names),
             *(f"{name}={number}" for name, number in options.items())],
            stdout=subprocess.PIPE, text=True)
        check(self.stdout.readline() == "ok\n", "the hostile regions are not served")


def empty_intervals(collectd, identifier, begin, end):
    """Returns the number of intervals without a value, and the length of the longest
    run of such intervals. Intervals in which the machine was late do not count."""
    found = {int(value.time // INTERVAL) for value in collectd.of(identifier)}
    row = longest = count = 0
    for point in range(int(begin // INTERVAL) + 1, int(end // INTERVAL)):
        late_s = collectd.lateness.of_clock((point - 1) * INTERVAL,
                                            (point + 1) * INTERVAL)
        empty = point not in found and late_s < 0.85 * INTERVAL
        row = row + 1 if empty else 0
        count += empty
        longest = max(longest, row)
    return count, longest


def check_fair(collectd, what, seconds):
    """Checks that the small region is reported in every interval, and that the large
    region is missing in at most 6 successive intervals."""
    begin = time.time()
    time.sleep(seconds)
    end = time.time()
    collectd.wait_for(lambda: all(
        collectd.of(identifier)[-1].time > end for identifier in
        (GOOD, LARGE)), 60, f"{what}: further values")
    small, _ = empty_intervals(collectd, GOOD, begin, end)
    _, large = empty_intervals(collectd, LARGE, begin, end)
    say(f"{what}: {small} of {seconds / INTERVAL:.0f} intervals without the "
        f"small region, at most {large} in a row without the large one")
    check(small == 0, f"{what}: {small} intervals without the small region")
    check(large <= 6, f"{what}: {large} intervals without the large region")


def read_fairly(names, **options):
    """Serves hostile regions while the small region is read, then kills their producer
    while they are being read. Returns the log of collectd."""
    with RuntimeDir() as runtime, Producer("good") as good, \
            Churner(runtime, "large", rows=200000, live=190000,
                    packets=20000) as large, \
            Churner(runtime, "model", rows=4, live=1), \
            Collectd(OPTIONS, INTERVAL) as collectd:
        good.do("core 0", ETH0, "run 0 1000")
        large.do("run")
        collectd.start()
        collectd.wait_for_value(GOOD)
        collectd.wait_for_value(LARGE)
        with Hostile(runtime, names, **options) as hostile:
            check_fair(collectd, "while they run", BESIDE_S)
            hostile.kill()
        check_fair(collectd, "after their end", BESIDE_S)
        with open(f"/proc/{collectd.process.pid}/statm",
                  encoding="ascii") as file:
            resident = int(file.read().split()[1]) * 4096 / MEBIBYTE
        said = [line for line in collectd.log().splitlines()
                if line.startswith("percore: ") and
                any(f" {name} " in line or f" {name}:" in line
                    for name in names)]
        say(f"{resident:.0f} MiB resident, {len(said)} lines in the log, the last: "
            f"{said[-1:]}")
        # At most three lines per region, such as that it needs memory, is refused or is
        # gone.
        check(len(said) <= 3 * len(names), "\n".join(said))
        check(collectd.stop() < 1, "collectd did not stop in time")
        return collectd.log()


def names_of(count):
    return [f"bad{chr(ord('a') + number)}" for number in range(count)]


def test_many_tables():
    """While 20 regions of 250 tables each are read, and when they end, a small region
    is reported in every interval"""
    read_fairly(names_of(20), tables=250, rows=200)


def test_many_tables_on_one_place():
    """While 20 regions whose tables all claim the same memory are refused with a
    message that names a table, a small region is reported in every interval"""
    log = read_fairly(names_of(20), tables=250, rows=4000, overlap=1)
    for name in names_of(20):
        said = [line for line in log.splitlines()
                if f"region {name} is not read" in line]
        check(len(said) == 1, f"{name} is refused {len(said)} times")
        check(re.search(r"\bt\d+\b", said[0]), f"no table in: {said[0]}")


def test_cells_on_one_place():
    """While a region that claims 400 million cells in 32 MB is read, and when it ends,
    a small region is reported in every interval"""
    read_fairly(["bad"], tables=100, rows=25000, counters=160, overlap=1)


def test_cells_in_a_hole():
    """While a region of 96 million cells, most of them not backed by memory, is read,
    and when it ends, a small region is reported in every interval"""
    read_fairly(["bad"], tables=4, rows=100000, counters=240, touch=1 << 18)


def test_cells_of_memory():
    """While a region of 50 million cells, all backed by memory, is read, and when it
    ends, a small region is reported in every interval"""
    read_fairly(["bad"], tables=50, rows=10000, counters=100)


# ---------------------------------------------------------------------------
# Uniform traffic

# With PERCORE_TEST_SECONDS=3600, the long test shows whether memory grows in an hour.
SHOWN, REGIONS, ROWS, SECONDS = (
    100, 64, 100000, int(os.environ.get("PERCORE_TEST_SECONDS", 600))) \
    if LONG else (50, 4, 3000, 8)
NEW_SHARE = 0.1  # share of the shown rows that may be new in an interval


class Resident:
    """A thread that records the memory of a process once a second, without that of
    regions, which are mapped or not."""

    def __init__(self, pid):
        self.sizes = []
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.run, args=[pid], daemon=True)
        self.thread.start()

    def run(self, pid):
        while not self.ended.wait(1):
            with open(f"/proc/{pid}/statm", encoding="ascii") as file:
                _, resident, shared, *_ = map(int, file.read().split())
            self.sizes.append((resident - shared) * 4096 / MEBIBYTE)

    def end(self):
        self.ended.set()
        self.thread.join()


def test_uniform_traffic():
    """If traffic is spread evenly over all rows, Top keeps showing the same rows: few
    names are new in each interval, and memory does not grow"""
    names = [f"even{chr(ord('a') + n // 26)}{chr(ord('a') + n % 26)}"
             for n in range(REGIONS)]
    options = "\n".join(
        f'<Region "{name}">\n<Table "session">\nField "packets"\n'
        f'Top {SHOWN} "packets"\n</Table>\n</Region>' for name in names)
    interval = 1 if LONG else INTERVAL
    with RuntimeDir() as runtime, Collectd(options, interval) as collectd:
        producers = [Churner(runtime, name, rows=ROWS, live=ROWS, packets=20000,
                             tick=20000, seed=number + 1)
                     for number, name in enumerate(names)]
        for producer in producers:
            producer.do("run")
        collectd.start()
        resident = Resident(collectd.process.pid)
        time.sleep(SECONDS)
        resident.end()
        for producer in producers:
            producer.kill()
        first = {}
        for value in list(collectd.values):
            if "_session_packets-" in value.identifier:
                first.setdefault(value.identifier, value.time)
        times = sorted({value.time for value in collectd.values})
        warm = times[0] + 6 * interval
        new = sum(when > warm for when in first.values())
        intervals = (times[-1] - warm) / interval
        shown = SHOWN * REGIONS
        third = len(resident.sizes) // 3
        middle, last = (statistics.median(resident.sizes[begin:begin + third])
                        for begin in (third, 2 * third))
        say(f"{len(first)} names in all, {new / intervals:.0f} new ones in "
            f"each of {intervals:.0f} intervals, {shown} rows shown; "
            f"{middle:.0f} MiB resident in the second third of the time, "
            f"{last:.0f} in the last")
        check(len(first) >= shown, f"only {len(first)} names")
        check(new / intervals <= NEW_SHARE * shown,
              f"{new / intervals:.0f} new names in an interval")
        if LONG:
            check(last <= 1.02 * middle + 8,
                  f"resident memory grows: {resident.sizes[::30]}")


if __name__ == "__main__":
    take_precedence()
    run_all(globals())
