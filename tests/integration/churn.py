"""Helpers for tests of reused rows: producers, their true counts, and the values that
collectd dispatched."""

import bisect
import mmap
import os
import struct
import threading
import time

from harness import BUILD
from producers import Producer

LONG = os.environ.get("PERCORE_TEST_LONG") == "1"
PACKET = 100  # bytes
WORKERS = 64
WORDS = 8  # 64-bit words of a struct truth in churn_producer.c
STEP_S = 0.005  # seconds between two readings of the producer's counts
STAMP_S = 0.02  # seconds by which a snapshot may differ from its timestamp
ROW_S = 2e-7  # seconds that are added to STAMP_S for each row of the table
EXACT = 0.001  # relative error that is allowed in addition to STAMP_S and ROW_S


class Churner(Producer):
    """A churn_producer process, its options, and its true counts."""

    PROGRAM = f"{BUILD}/tests/integration/churn_producer"

    def __init__(self, runtime, name, **options):
        self.options = options
        path = f"{runtime.path}/{name}-{time.monotonic_ns()}.truth"
        super().__init__(name, path, *(f"{option}={number}" for option, number
                                       in options.items()))
        with open(path, "rb") as file:
            self.memory = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        os.unlink(path)

    def worker(self, number):
        return struct.unpack_from("=6Qq", self.memory, number * WORDS * 8)

    def begun(self, core=None):
        """Returns the number of packets that one worker (`core`) or all workers have
        counted or have begun to count."""
        return sum(sum(self.worker(w)[:2]) for w in self.workers(core))

    def done(self, core=None):
        """Returns the number of packets that one worker (`core`) or all workers have
        certainly counted."""
        return sum(sum(self.worker(w)[2:4]) for w in self.workers(core))

    def done_even(self):
        """Returns the number of packets that have certainly been counted for objects
        with even keys."""
        return sum(self.worker(w)[3] for w in self.workers(None))

    def reuses(self):
        return sum(self.worker(w)[4] for w in self.workers(None))

    def refused(self):
        """Returns how many rows could not be added at the first attempt."""
        return sum(self.worker(w)[5] for w in self.workers(None))

    def held(self):
        """Returns the sum of the gauge `held` over all live objects."""
        return sum(self.worker(w)[6] for w in self.workers(None))

    def of_key(self, key):
        return struct.unpack_from("=Q", self.memory,
                                  (WORKERS * WORDS + key) * 8)[0]

    def workers(self, core):
        return range(WORKERS) if core is None else [core]


class TruthLog:
    """A thread that records every 5 ms how many packets a producer has counted."""

    def __init__(self, producer):
        self.producer = producer
        self.times, self.counts = [], []
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.ended.is_set():
            before = time.time()
            count = self.producer.done()
            after = time.time()
            if after - before < STEP_S:  # otherwise this thread was paused: skip it
                self.times.append((before + after) / 2)
                self.counts.append(count)
            time.sleep(STEP_S)

    def end(self):
        self.ended.set()
        self.thread.join()

    def covers(self, when):
        return self.times[0] <= when <= self.times[-1]

    def at(self, when):
        i = min(max(bisect.bisect(self.times, when), 1), len(self.times) - 1)
        (time_0, time_1) = self.times[i - 1:i + 1]
        (count_0, count_1) = self.counts[i - 1:i + 1]
        return count_0 + (count_1 - count_0) * (when - time_0) / (
            time_1 - time_0)


class Arrived:
    """The values of one counter that collectd has printed: for each row, a series of
    points (time, count)."""

    def __init__(self, series):
        self.series = series

    def total(self):
        """Returns the total count of all series. A series that drops has restarted at
        0, so its count before the drop is added."""
        return sum(points[-1][1] + sum(a for (_, a), (_, b)
                                       in zip(points, points[1:]) if b < a)
                   for points in self.series.values())

    def grown(self):
        """Returns a dictionary that maps each time to the growth of all series since
        their previous points."""
        grown = {}
        for points in self.series.values():
            for (_, a), (when, b) in zip(points, points[1:]):
                grown[when] = grown.get(when, 0) + (b - a if b >= a else b)
        return grown

    def two_point(self):
        """Returns the number of packets that result from adding up the rates between
        successive points."""
        return sum(self.grown().values())

    def times(self):
        return sorted({when for points in self.series.values()
                       for when, _ in points})

    def rates_off(self, log, lateness, interval, begin, end):
        """Returns the relative error of the growth between `begin` and `end`, and the
        largest error that is allowed. Some error is allowed, because snapshots are
        taken a little before or after their timestamps."""
        truth = log.at(end) - log.at(begin)
        got = sum(count for when, count in self.grown().items()
                  if begin < when <= end)
        rows = log.producer.options.get("rows", 0)
        stamps_s = 2 * (STAMP_S + ROW_S * rows) + sum(
            lateness.of_clock(when - interval, when + interval)
            for when in (begin, end))
        return got / truth - 1, EXACT + stamps_s / (end - begin)


def arrived(collectd, region, field="packets", where="all"):
    """Returns the values of a field, as printed by collectd's csv plugin."""
    plugin = "percore_host" if where == "all" else "percore"
    prefix = f"{plugin}_{region}_session_{field}-{where}/derive-"
    return Arrived({
        identifier[len(prefix):]: [(value.time, int(value.value))
                                   for value in list(values)]
        for identifier, values in list(collectd.series.items())
        if identifier.startswith(prefix)})
