"""The real collectd with percore and an output that discards values, for benchmarks. Run as a
program, measures the processor time of Top over a million rows, beside a daemon without Top."""

import contextlib
import os
import statistics
import subprocess
import time

import region_dispatch  # adds the folder of the harness to the path
from harness import Skip, need_collectd
from producers import SESSION, Producer, RuntimeDir

START_S, BLOCK_S, BLOCKS = 30, 5, 5  # the start, with the proof of loads, is not measured
TOPS = ((1, 1000000), (64, 100000))  # regions, rows of each
TOP = '<Region "*">\n<Table "session">\nTop 100 "packets"\n</Table>\n</Region>'


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


class Daemon(Processes, region_dispatch.Daemon):
    """collectd without any thread in this process that might disturb the figures."""

    before = ()  # a command that starts collectd

    def __init__(self, percore, interval, *plugins, extra=""):
        super().__init__(percore, interval, (*plugins, "bare"), extra)

    def start(self, before=()):
        """Without a RuntimeDir, each daemon has one of its own, because only one can
        publish the board in a directory; the others would try again and again."""
        runtime = os.environ.get("PERCORE_RUNTIME_DIR", f"{self.directory}/run")
        os.makedirs(runtime, exist_ok=True)
        with open(f"{self.directory}/stderr", "wb") as stderr:
            self.process = subprocess.Popen(
                self.command("-f", before=before or self.before), stdout=stderr,
                stderr=stderr, env={**os.environ, "PERCORE_RUNTIME_DIR": runtime})
        return self

    def stop(self, seconds=20):
        if self.process is not None:
            self.process.terminate()
            self.process.wait(seconds)
            self.process = None


def say(text):
    print(text, flush=True)


def print_top(regions, rows):
    with RuntimeDir(), contextlib.ExitStack() as stack:
        for number in range(regions):
            stack.enter_context(Producer(f"gtpu{number}", "million")).do(
                f"rows {SESSION} 0 {rows}")
        bare, top = (stack.enter_context(Daemon(options, 1)) for options in (None, TOP))
        for daemon in (bare, top):
            daemon.start()
        time.sleep(START_S)
        found = []
        for _ in range(BLOCKS):
            before = top.cpu_s() - bare.cpu_s()
            time.sleep(BLOCK_S)
            found.append((top.cpu_s() - bare.cpu_s() - before) / BLOCK_S)
        say(f"{regions} x Top 100 of {rows} rows of 4 counters: "
            f"{statistics.median(found) * 1000:.1f} ms CPU an interval")


def main():
    try:
        need_collectd()
    except Skip as reason:
        say(f"skipped: {reason}")
        return
    say(f"takes about two minutes; load average {os.getloadavg()[0]:.1f}")
    for regions, rows in TOPS:
        print_top(regions, rows)


if __name__ == "__main__":
    main()
