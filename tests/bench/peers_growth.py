"""How the processor time of collectd with percore grows with cores (played), rows, regions
and values. The slope is that of the logarithms: 1 is linear."""

import contextlib
import math
import os
import re
import statistics
import tempfile
import time

import agent  # adds the folder of the harness to the path
import peers_svg
from harness import need_collectd
from peers_counters import record
from producers import SESSION, Producer
from sysroot import SysRoot

MISSING = []
PACKAGES = ("collectd-core",)
CORES = (2, 8, 32, 128, 512, 2048, 4096)
ROWS = (10 ** 3, 10 ** 4, 10 ** 5, 10 ** 6, 10 ** 7)
REGIONS = (1, 4, 16, 64, 256)
VALUES = (10 ** 2, 10 ** 3, 10 ** 4, 10 ** 5, 10 ** 6)
BLOCKS, FIELDS = 7, 4
NEEDED = 8 << 30  # bytes, for 1e7 rows and for 1e6 values in collectd's caches
LINEAR = 1.1  # a slope of more is explained in WHY
WHY = {}


def available():
    with open("/proc/meminfo", encoding="ascii") as file:
        return int(re.search(r"MemAvailable:\s+(\d+)", file.read())[1]) << 10


class Places:
    """For each size, a runtime directory with producers, and what the daemon there reads."""

    def __init__(self, stack):
        self.stack, self.daemons = stack, {}

    def daemon(self, size, options, interval, directory=None):
        directory = directory or self.directory()
        with runtime(directory):
            self.daemons[size] = self.stack.enter_context(agent.Daemon(options, interval))
            self.daemons[size].start()

    def directory(self):
        return self.stack.enter_context(
            tempfile.TemporaryDirectory(prefix="percore-growth-"))

    def producer(self, directory, name, rows):
        with runtime(directory):
            self.stack.enter_context(Producer(name, "keys")).do(f"keys {SESSION} 0 {rows}")


@contextlib.contextmanager
def runtime(directory):
    os.environ["PERCORE_RUNTIME_DIR"] = directory
    try:
        yield
    finally:
        del os.environ["PERCORE_RUNTIME_DIR"]


def cores(places, size):
    root = places.stack.enter_context(SysRoot(size))
    root.write_machine()
    root.write("/sys/kernel/uevent_seqnum", "1\n")  # no core comes or goes
    places.daemon(size, f'SysRoot "{root.path}"', 1)


def rows(places, size):
    directory = places.directory()
    places.producer(directory, "rows", size)
    places.daemon(size, agent.TOP, 1, directory)


def regions(places, size):
    directory = places.directory()
    for number in range(size):
        places.producer(directory, f"region{number}", 10)
    places.daemon(size, "", 1, directory)


def values(places, size):
    directory = places.directory()
    places.producer(directory, "values", size // FIELDS)
    places.daemon(size, f"MaxValues {4 * size + 1000}", 10, directory)


AXES = {"cores": (cores, CORES, 1), "rows": (rows, ROWS, 1), "regions": (regions, REGIONS, 1),
        "values": (values, VALUES, 10)}


def slope(points):
    """Returns the slope of the line through the logarithms."""
    across = [math.log(x) for x, _ in points]
    up = [math.log(max(y, 1e-9)) for _, y in points]
    return statistics.linear_regression(across, up)[0]


def measure(_, seconds):
    need_collectd()
    for axis, (build, sizes, interval) in AXES.items():
        end = time.monotonic() + seconds / len(AXES)
        if available() < NEEDED and axis in ("rows", "values"):
            MISSING.append(f"{sizes[-1]} {axis}: needs {NEEDED >> 30} GiB of free memory")
            sizes = sizes[:-1]
        with contextlib.ExitStack() as stack:
            places = Places(stack)
            for size in sizes:
                build(places, size)
            bare = stack.enter_context(agent.Daemon(None, interval)).start()
            daemons = {**places.daemons, 0: bare}
            time.sleep(interval + 6)  # the first reads, which cost more
            block = max(interval, (end - time.monotonic()) / BLOCKS)
            spent = {size: [daemon.cpu_s()] for size, daemon in daemons.items()}
            for _ in range(BLOCKS if interval == 1 else 2):
                time.sleep(block)
                for size, daemon in daemons.items():
                    spent[size].append(daemon.cpu_s())
        points = []
        for size in sizes:
            each = sorted((after - before) / block * 1e3
                          for before, after in zip(spent[size], spent[size][1:]))
            least = statistics.median(after - before for before, after in
                                      zip(spent[0], spent[0][1:])) / block * 1e3
            each = [max(one - least, 1e-3) for one in each]
            points.append((size, statistics.median(each)))
            yield record(axis, f"percore, {size}", "ms/s",
                         (statistics.median(each), each[len(each) // 4],
                          each[len(each) * 3 // 4], len(each)))
        steepest = slope(points[-3:])
        yield record("slope of the logarithms", f"percore, {axis}", "1 = linear",
                     (steepest,) * 3 + (1,), WHY.get(axis, ""))


def claims(records):
    for each in records:
        if each["unit"] == "1 = linear":
            yield f"{each['who']}: slope {each['median']}", \
                each["median"] <= LINEAR or "note" in each


def picture(records):
    lines = {}
    for each in records:
        if each["unit"] == "ms/s":
            lines.setdefault(each["what"], []).append(
                (int(each["who"].split()[-1]), each["median"]))
    return peers_svg.curves("Processor time of collectd with percore, ms a second, by number of",
                            lines)
