"""What 100 000 values of a region cost in collectd, against a plugin that does
nothing but dispatch the same values. Prints CPU time of the whole daemon, and
the ratio; the figures are those of one machine in one hour."""

import os
import re
import shutil
import statistics
import sys
import time

TESTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path.insert(0, os.path.join(TESTS, "integration"))

from harness import BUILD, Collectd, Skip, need_collectd  # noqa: E402
from producers import SESSION, Producer, RuntimeDir  # noqa: E402

ROWS, FIELDS = 25000, 4
SKIPPED, MEASURED = 4, 10  # intervals of a second
TURNS = 3
TICK = os.sysconf("SC_CLK_TCK")


class Daemon(Collectd):
    """With the plugin `bare` to take the values in place of csv."""

    def copy_plugin(self, name):
        if name == "csv":
            return
        if name != "bare":
            super().copy_plugin(name)
            return
        shutil.copy(f"{BUILD}/.libs/bare.so", f"{self.directory}/plugins/bare.so")

    def write_config(self, *arguments):
        super().write_config(*arguments)
        with open(self.config_file, encoding="ascii") as file:
            text = file.read()
        text = re.sub(r"LoadPlugin csv\n<Plugin csv>.*?</Plugin>\n", "", text,
                      flags=re.S)
        with open(self.config_file, "w", encoding="ascii") as file:
            file.write(text)

    def cpu_s(self):
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as file:
            words = file.read().rsplit(")", 1)[1].split()
        return (int(words[11]) + int(words[12])) / TICK


def measure(percore, rows):
    """CPU seconds of an interval, and values of an interval."""
    extra = f"<Plugin bare>\n  Rows {rows}\n</Plugin>"
    with Daemon(percore, 1, ("bare",), extra) as daemon:
        daemon.start()
        time.sleep(SKIPPED)
        before, begin = daemon.cpu_s(), time.monotonic()
        time.sleep(MEASURED)
        cpu_s = (daemon.cpu_s() - before) / (time.monotonic() - begin)
        daemon.stop()
        values = int(re.search(r"bare: (\d+) values", daemon.log()).group(1))
        return cpu_s, values / (SKIPPED + MEASURED)


def main():
    try:
        need_collectd()
    except Skip as reason:
        print(f"skipped: {reason}")
        return
    plain, region, nothing, bare = [], [], [], []
    counts = {}
    with RuntimeDir():
        for _ in range(TURNS):
            plain.append(measure("MaxValues 200000", 0)[0])
            nothing.append(measure(None, 0)[0])
            with Producer("gtpu", "many") as producer:
                producer.do(f"rows {SESSION} 0 {ROWS}")
                cpu_s, counts["region"] = measure("MaxValues 200000", 0)
            region.append(cpu_s)
            cpu_s, counts["bare"] = measure(None, ROWS)
            bare.append(cpu_s)
    region_s = statistics.median(region) - statistics.median(plain)
    bare_s = statistics.median(bare) - statistics.median(nothing)
    print(f"values per interval: region {counts['region']:.0f}, "
          f"bare {counts['bare']:.0f}")
    print(f"region: {region_s * 1e3:.1f} ms CPU per interval, "
          f"{region_s / ROWS / FIELDS * 1e6:.3f} us per value "
          f"({[round(each * 1e3) for each in region]} ms, less "
          f"{[round(each * 1e3) for each in plain]})")
    print(f"bare:   {bare_s * 1e3:.1f} ms CPU per interval, "
          f"{bare_s / ROWS / FIELDS * 1e6:.3f} us per value "
          f"({[round(each * 1e3) for each in bare]} ms, less "
          f"{[round(each * 1e3) for each in nothing]})")
    print(f"ratio:  {region_s / bare_s:.3f}")


if __name__ == "__main__":
    main()
