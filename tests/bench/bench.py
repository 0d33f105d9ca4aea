"""What the benchmarks share: records of figures, the cost of processes, and the real collectd
with an output that discards values."""

import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../integration"))

from harness import BUILD, Collectd  # noqa: E402

COUNTED = re.compile(r"bare: (\d+) values")
TOP = '<Region "*">\n<Table "session">\nTop 100 "packets"\n</Table>\n</Region>'


def spread(numbers):
    """Returns the median and the quartiles of a list, and its length."""
    low, median, high = statistics.quantiles(numbers, n=4, method="inclusive") \
        if len(numbers) > 1 else numbers * 3
    return median, low, high, len(numbers)


def record(what, who, unit, numbers, note=""):
    """Returns a record as peers.py describes it. numbers: what spread() returns."""
    median, low, high, n = numbers
    return {"what": what, "who": who, "unit": unit, "median": round(median, 3),
            "low": round(low, 3), "high": round(high, 3), "n": int(n),
            **({"note": note} if note else {})}


def grouped(records, *keys):
    """Returns lists of records, by the values of these keys."""
    groups = {}
    for each in records:
        groups.setdefault(tuple(each[key] for key in keys), []).append(each)
    return groups


class Processes:
    """What a process and its children cost. `process` is a Popen."""

    def pids(self):
        pids, known = [self.process.pid], 0
        while known < len(pids):
            for thread in os.listdir(f"/proc/{pids[known]}/task"):
                path = f"/proc/{pids[known]}/task/{thread}/children"
                with open(path, encoding="ascii") as file:
                    pids += map(int, file.read().split())
            known += 1
        return pids

    def cpu_s(self):
        """Returns the CPU time so far; see clock_getcpuclockid(3)."""
        return sum(time.clock_gettime(~pid << 3 | 2) for pid in self.pids())


def loads(processes, blocks, block_s):
    """Returns for each of a dict of Processes its CPU seconds a second in each block."""
    found = {key: [] for key in processes}
    for _ in range(blocks):
        before = {key: (time.monotonic(), each.cpu_s()) for key, each in processes.items()}
        time.sleep(block_s)
        for key, each in processes.items():
            begin, cpu_s = before[key]
            found[key].append((each.cpu_s() - cpu_s) / (time.monotonic() - begin))
    return found


class Daemon(Processes, Collectd):
    """collectd with `bare` instead of csv as the output plugin, and without any thread in this
    process that might disturb the figures."""

    before = ()  # a command that starts collectd

    def __init__(self, percore, interval, plugins=(), extra=""):
        super().__init__(percore, interval, (*plugins, "bare"), extra)
        self.interval = interval

    def copy_plugin(self, name):
        if name == "bare":
            shutil.copy(f"{BUILD}/.libs/bare.so", f"{self.directory}/plugins")
        else:
            super().copy_plugin(name)

    def write_config(self, *arguments):
        super().write_config(*arguments)
        with open(self.config_file, "r+", encoding="ascii") as file:
            text = re.sub(r"LoadPlugin csv\n<Plugin csv>.*?</Plugin>\n", "", file.read(),
                          flags=re.S)
            file.truncate(0)
            file.seek(0)
            file.write(text)

    def start(self):
        """Without PERCORE_RUNTIME_DIR, each daemon has a directory of its own, because only
        one can publish the board in a directory; the others would try again and again."""
        runtime = os.environ.get("PERCORE_RUNTIME_DIR", f"{self.directory}/run")
        os.makedirs(runtime, exist_ok=True)
        with open(f"{self.directory}/stderr", "wb") as stderr:
            self.process = subprocess.Popen(
                self.command("-f", before=self.before), stdout=stderr, stderr=stderr,
                env={**os.environ, "PERCORE_RUNTIME_DIR": runtime})
        return self

    def stop(self, seconds=20):
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(seconds)
            finally:
                self.process.kill()
            self.process = None

    def count(self):
        """Begins to count numbers. Returns how many have been dispatched so far."""
        seen = len(COUNTED.findall(self.log()))
        self.process.send_signal(signal.SIGUSR1)
        self.wait_for(lambda: len(COUNTED.findall(self.log())) > seen, 5,
                      "the number of values")
        self.counted = time.monotonic(), int(COUNTED.findall(self.log())[-1])
        return self.counted[1]

    def numbers(self):
        """Returns how many numbers an interval had since count()."""
        begin, before = self.counted
        return (self.count() - before) / max(1, round((time.monotonic() - begin) /
                                                      self.interval))
