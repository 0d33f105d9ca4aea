"""What 100 000 values of a region cost in collectd, against a plugin that does
nothing but dispatch the same values. Both run side by side, half an interval
apart, so that whatever slows the machine down slows both. Prints the CPU time
of the daemons and the median of its ratios over the intervals."""

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
SKIPPED, MEASURED = 2, 9  # intervals of a second
TURNS = 5  # each with daemons of its own: how fast one is is partly chance
COUNTED = re.compile(r"bare: (\d+) values")
MOST = 1.1  # times the CPU time of the bare plugin


class Daemon(Collectd):
    """With the plugin `bare` to take the values in place of csv."""

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
        """By the CPU clock of the process: clock_getcpuclockid(3)."""
        return time.clock_gettime(~self.process.pid << 3 | 2)

    def count_values(self):
        """How many there were so far."""
        seen = len(COUNTED.findall(self.log()))
        self.process.send_signal(signal.SIGUSR1)
        self.wait_for(lambda: len(COUNTED.findall(self.log())) > seen, 5,
                      "the number of values")
        return int(COUNTED.findall(self.log())[-1])


def sleep_to(phase):
    """To that part of a second."""
    time.sleep((phase - time.time()) % 1)


def start_both(stack):
    """The one with regions reads at full seconds, the other one at the half."""
    region = stack.enter_context(Daemon("MaxValues 200000", 1, ("bare",)))
    extra = f"<Plugin bare>\n  Rows {ROWS}\n</Plugin>"
    bare = stack.enter_context(Daemon(None, 1, ("bare",), extra))
    region.start()
    sleep_to(0.5)
    bare.start()
    return region, bare


def measure(daemons):
    """CPU seconds of each interval, and values in all, for each daemon."""
    time.sleep(SKIPPED)
    sleep_to(0.95)
    values = [-daemon.count_values() for daemon in daemons]
    looks = []
    for _ in range(MEASURED + 1):
        looks.append([daemon.cpu_s() for daemon in daemons])
        sleep_to(0.95)
    values = [before + daemon.count_values()
              for before, daemon in zip(values, daemons)]
    spent = [[after - before for before, after in zip(each, each[1:])]
             for each in zip(*looks)]
    return spent, values


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
                spent, values = measure(start_both(stack))
            region_us, bare_us = (
                [each / count * len(cpu_s) * 1e6 for each in cpu_s]
                for cpu_s, count in zip(spent, values))
            ratios += [a / b for a, b in zip(region_us, bare_us)]
            say(f"turn {turn + 1} of {TURNS}: region "
                f"{statistics.median(region_us):.2f} us CPU per value, bare "
                f"{statistics.median(bare_us):.2f}, ratio "
                f"{statistics.median(ratios[-len(bare_us):]):.3f}")
    ratio = statistics.median(ratios)
    say(f"ratio: {ratio:.3f}, at most {MOST} wanted: "
        f"{'ok' if ratio <= MOST else 'TOO MUCH'}")


if __name__ == "__main__":
    main()
