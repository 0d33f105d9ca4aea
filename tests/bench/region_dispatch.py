"""Compares the cost of 100 000 values of a region in collectd with that of a plugin
that only dispatches the same values. Two daemons run side by side, half an interval
apart, so that a slow machine slows both. The measurement is repeated in several turns.
Prints the CPU times of the daemons and the median of the ratios of all turns. Each turn
is measured as a whole, because the values of a large table may be dispatched only in
every second interval."""

import contextlib
import os
import re
import shutil
import signal
import statistics
import sys
import time

TESTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path.insert(0, os.path.join(TESTS, "integration"))

from harness import BUILD, Collectd, Skip, need_collectd  # noqa: E402
from producers import SESSION, Producer, RuntimeDir  # noqa: E402

ROWS, FIELDS = 25000, 4
SKIPPED, MEASURED = 2, 9  # intervals of one second
TURNS = 5  # each with new daemons, because their speed varies
COUNTED = re.compile(r"bare: (\d+) values")
MOST = 1.1  # times the CPU time of the bare plugin


class Daemon(Collectd):
    """collectd with `bare` instead of csv as the output plugin."""

    def copy_plugin(self, name):
        if name == "csv":
            return
        if name != "bare":
            super().copy_plugin(name)
            return
        shutil.copy(f"{BUILD}/.libs/bare.so",
                    f"{self.directory}/plugins/bare.so")

    def write_config(self, *arguments):
        super().write_config(*arguments)
        with open(self.config_file, encoding="ascii") as file:
            text = file.read()
        text = re.sub(r"LoadPlugin csv\n<Plugin csv>.*?</Plugin>\n", "", text,
                      flags=re.S)
        with open(self.config_file, "w", encoding="ascii") as file:
            file.write(text)

    def cpu_s(self):
        """Returns the CPU time of the daemon so far; see clock_getcpuclockid(3)."""
        return time.clock_gettime(~self.process.pid << 3 | 2)

    def count_values(self):
        """Returns the number of values dispatched so far."""
        seen = len(COUNTED.findall(self.log()))
        self.process.send_signal(signal.SIGUSR1)
        self.wait_for(lambda: len(COUNTED.findall(self.log())) > seen, 5,
                      "the number of values")
        return int(COUNTED.findall(self.log())[-1])


def sleep_to(phase):
    """Sleeps until the clock is `phase` seconds past a full second."""
    time.sleep((phase - time.time()) % 1)


def start_both(stack):
    """Starts both daemons. Regions are read and dispatched at full seconds. The other
    daemon dispatches half a second later. A region may have half of MaxValues."""
    region = stack.enter_context(Daemon("MaxValues 400000", 1, ("bare",)))
    extra = f"<Plugin bare>\n  Rows {ROWS}\n</Plugin>"
    bare = stack.enter_context(Daemon(None, 1, ("bare",), extra))
    sleep_to(0.1)
    region.start()
    sleep_to(0.6)
    bare.start()
    return region, bare


def measure(daemons):
    """Returns for each daemon the CPU microseconds per value and the values per
    interval."""
    time.sleep(SKIPPED)
    sleep_to(0.05)
    values = [-daemon.count_values() for daemon in daemons]
    spent = [-daemon.cpu_s() for daemon in daemons]
    for _ in range(MEASURED):
        sleep_to(0.05)
    spent = [before + daemon.cpu_s()
             for before, daemon in zip(spent, daemons)]
    values = [before + daemon.count_values()
              for before, daemon in zip(values, daemons)]
    return [(cpu_s / count * 1e6, count / MEASURED)
            for cpu_s, count in zip(spent, values)]


def say(text):
    print(text, flush=True)


def main():
    try:
        need_collectd()
    except Skip as reason:
        say(f"skipped: {reason}")
        return
    say(f"takes about {(SKIPPED + MEASURED + 3) * TURNS} s; load average "
        f"{os.getloadavg()[0]:.1f}")
    ratios = []
    with RuntimeDir(), Producer("gtpu", "many") as producer:
        producer.do(f"rows {SESSION} 0 {ROWS}")
        for turn in range(TURNS):
            with contextlib.ExitStack() as stack:
                region, bare = measure(start_both(stack))
            ratios.append(region[0] / bare[0])
            say(f"turn {turn + 1} of {TURNS}: region {region[0]:.2f} us CPU "
                f"per value ({region[1]:.0f} an interval), bare {bare[0]:.2f} "
                f"({bare[1]:.0f}), ratio {ratios[-1]:.3f}")
    ratio = statistics.median(ratios)
    say(f"ratio: {ratio:.3f}, at most {MOST} wanted: "
        f"{'ok' if ratio <= MOST else 'TOO MUCH'}")


if __name__ == "__main__":
    main()
