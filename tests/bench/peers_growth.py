"""How the processor time of collectd with percore grows with cores (played), rows, regions
and values. The slope is that of the logarithms: 1 is linear."""

import contextlib
import math
import os
import re
import statistics
import tempfile
import time
from unittest import mock

from bench import TOP, Daemon, grouped, loads, record, spread
from harness import need_collectd
from producers import SESSION, Producer
from sysroot import SysRoot

MISSING = []
FIELDS, BLOCKS = 4, 7
DISPATCHED = 100000  # values, by a plugin that only dispatches
NEEDED = 8 << 30  # bytes, for 1e7 rows and for 1e6 values in collectd's caches
LINEAR = 1.1  # a slope of more is explained in WHY
WHY = {}


def available():
    with open("/proc/meminfo", encoding="ascii") as file:
        return int(re.search(r"MemAvailable:\s+(\d+)", file.read())[1]) << 10


def produce(stack, name, rows):
    stack.enter_context(Producer(name, "keys")).do(f"keys {SESSION} 0 {rows}")


# ---------------------------------------------------------------------------
# Each function makes what a daemon reads, and returns the daemon's options.


def cores(stack, size):
    root = stack.enter_context(SysRoot(size))
    root.write_machine()
    root.write("/sys/kernel/uevent_seqnum", "1\n")  # no core comes or goes
    return f'SysRoot "{root.path}"'


def rows(stack, size):
    produce(stack, "rows", size)
    return TOP


def regions(stack, size):
    for number in range(size):
        produce(stack, f"region{number}", 10)
    return ""


def values(stack, size):
    produce(stack, "values", size // FIELDS)
    return f"MaxValues {4 * size + 1000}"


AXES = {cores: ((2, 8, 32, 128, 512, 2048, 4096), 1),  # sizes, interval
        rows: ((10 ** 3, 10 ** 4, 10 ** 5, 10 ** 6, 10 ** 7), 1),
        regions: ((1, 4, 16, 64, 256), 1),
        values: ((10 ** 2, 10 ** 3, 10 ** 4, 10 ** 5, 10 ** 6), 10)}


def costs(axis, sizes, interval, seconds):
    """Returns for each daemon the ms a second in each block, less those of collectd alone."""
    end = time.monotonic() + seconds
    with mock.patch.dict(os.environ), contextlib.ExitStack() as stack:
        def start(who, *arguments):
            daemons[who] = stack.enter_context(Daemon(*arguments)).start()
        daemons = {}
        for size in sizes:
            os.environ["PERCORE_RUNTIME_DIR"] = stack.enter_context(
                tempfile.TemporaryDirectory(prefix="percore-growth-"))
            start(f"percore, {size}", axis(stack, size), interval)
        if axis is values:
            start(f"a plugin that only dispatches, {DISPATCHED}", None, interval, (),
                  f"<Plugin bare>\nRows {DISPATCHED // FIELDS}\n</Plugin>")
        start("alone", None, interval)
        time.sleep(interval + 6)  # the first reads, which cost more
        spent = loads(daemons, BLOCKS if interval == 1 else 2,
                      max(interval, (end - time.monotonic()) / BLOCKS))
    alone = statistics.median(spent.pop("alone"))
    return {who: [1e3 * max(load - alone, 1e-6) for load in found]
            for who, found in spent.items()}


def measure(_build, seconds):
    need_collectd()
    for axis, (sizes, interval) in AXES.items():
        name = axis.__name__
        if available() < NEEDED and axis in (rows, values):
            MISSING.append(f"{sizes[-1]} {name}: needs {NEEDED >> 30} GiB of free memory")
            sizes = sizes[:-1]
        found = costs(axis, sizes, interval, seconds / len(AXES))
        for who, ms in found.items():
            yield record(name, who, "ms/s", spread(ms))
        slope, _ = statistics.linear_regression(
            *zip(*((math.log(size), math.log(statistics.median(found[f"percore, {size}"])))
                   for size in sizes[-3:])))
        yield record("slope of the logarithms", f"percore, {name}", "1 = linear",
                     spread([slope]), WHY.get(name, ""))


def claims(records):
    for each in records:
        if each["unit"] == "1 = linear":
            yield f"{each['who']}: slope {each['median']}", \
                each["median"] <= LINEAR or "note" in each


def picture(records):
    """Returns a script for gnuplot."""
    points, curves = [], []
    for (axis,), sizes in grouped(records, "what").items():
        points += [f"${axis} << END", *(
            f"{each['who'].split()[-1]} {each['median']}" for each in sizes
            if each["who"].startswith("percore")), "END"]
        curves.append(f"${axis} with linespoints linewidth 2 pointtype 7 title '{axis}'")
    return "\n".join((
        *points, "set terminal svg size 860,450; set logscale xy; set grid; set key left top",
        'set title "Processor time of collectd with percore, ms a second, by number of"',
        f"plot {', '.join(curves)}\n"))
