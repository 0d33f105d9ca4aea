"""Measures what percore costs a host: the CPU time of collectd with percore's default
configuration, and with Top over a region of a million rows, beside collectd with its
cpu plugin. All daemons run at the same time and discard their values; the CPU time of
a daemon without a read plugin is subtracted.

    agent.py [PERCORE_SO...]     also measures other builds of the plugin
"""

import collections
import contextlib
import os
import shutil
import statistics
import subprocess
import sys
import time

import region_dispatch  # adds the folder of the harness to the path
from harness import Child, Skip, need_collectd
from producers import SESSION, Producer, RuntimeDir
from sysroot import SysRoot

# Interval in seconds; seconds per block; number of blocks. The cost of the start,
# including the proof of the source, is not part of a block.
RUNS = ((1, 5, 9), (10, 20, 5))
START_S = 30
TRACE_S = 20
CORES = 256
TOPS = ((1, 1000000), (64, 100000))  # regions, rows of each
TOP = '<Region "*">\n<Table "session">\nTop 100 "packets"\n</Table>\n</Region>'


class Daemon(region_dispatch.Daemon):
    """collectd without any thread in this process that might disturb the figures."""

    before = ()  # a command that starts collectd

    def __init__(self, percore, interval, *plugins, library=None):
        self.library = library
        super().__init__(percore, interval, (*plugins, "bare"))

    def copy_plugin(self, name):
        if name == "percore" and self.library is not None:
            shutil.copy(self.library, f"{self.directory}/plugins/percore.so")
        else:
            super().copy_plugin(name)

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

    def cpu_s(self):
        """Returns the CPU time of the daemon and of its child processes so far."""
        pids, known = [self.process.pid], 0
        while known < len(pids):
            for thread in os.listdir(f"/proc/{pids[known]}/task"):
                path = f"/proc/{pids[known]}/task/{thread}/children"
                with open(path, encoding="ascii") as file:
                    pids += map(int, file.read().split())
            known += 1
        return sum(time.clock_gettime(~pid << 3 | 2) for pid in pids)

    def parts(self):
        """Returns for each kind of thread its CPU time in seconds, and how often it
        has run, so far."""
        parts, pid = collections.defaultdict(lambda: [0, 0]), self.process.pid
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError):  # the thread has ended
                with open(f"/proc/{pid}/task/{thread}/comm", encoding="utf8") as file:
                    name = file.read().strip().split("#")[0]
                with open(f"/proc/{pid}/task/{thread}/schedstat",
                          encoding="ascii") as file:
                    run_ns, _, runs = map(int, file.read().split())
                if name == "collectd":
                    name = "main" if int(thread) == pid else "sampler"
                parts[name][0] += run_ns / 1e9
                parts[name][1] += runs
        return parts

    def system_calls(self):
        """Returns the number of system calls a second, or None without strace. Those of
        locks are left out: strace delays them, so that threads which use the same lock
        block at every value."""
        if shutil.which("strace") is None:
            return None
        path = f"{self.directory}/strace"
        with Child(["strace", "-f", "-qq", "-o", path, "-p",
                    str(self.process.pid)], stderr=subprocess.DEVNULL) as child:
            time.sleep(TRACE_S)
            child.terminate()
            child.wait()
        with open(path, encoding="utf8", errors="replace") as file:
            return sum("resumed>" not in line and "futex(" not in line and "(" in line
                       for line in file) / TRACE_S


def say(text):
    print(text, flush=True)


def measure(daemons, block_s, blocks):
    """Returns for each daemon its CPU microseconds per second in each block, less those
    of the first daemon."""
    for daemon in daemons.values():
        daemon.start()
        time.sleep(0.13)  # so that their reads do not coincide
    time.sleep(START_S)
    found = {name: [] for name in daemons}
    parts = {name: daemon.parts() for name, daemon in daemons.items()}
    before = {name: daemon.cpu_s() for name, daemon in daemons.items()}
    for _ in range(blocks):
        begin = time.monotonic()
        time.sleep(block_s)
        for name, daemon in daemons.items():
            now = daemon.cpu_s()
            found[name].append(
                (now - before[name]) / (time.monotonic() - begin) * 1e6)
            before[name] = now
    for name, daemon in daemons.items():
        daemon.shares = [
            f"{part} {(spent - parts[name][part][0]) / (block_s * blocks) * 1e6:.1f} "
            f"in {(runs - parts[name][part][1]) / (block_s * blocks):.1f} runs"
            for part, (spent, runs) in daemon.parts().items()
            if runs > parts[name][part][1]]
    bare = next(iter(found.values()))
    return {name: [spent - least for spent, least in zip(each, bare)]
            for name, each in found.items()}


def print_default(libraries):
    for interval, block_s, blocks in RUNS:
        with contextlib.ExitStack() as stack:
            daemons = {"bare": Daemon(None, interval),
                       "cpu": Daemon(None, interval, "cpu"),
                       "percore": Daemon("", interval)}
            for library in libraries:
                daemons[library] = Daemon("", interval, library=library)
            for daemon in daemons.values():
                stack.enter_context(daemon)
            found = measure(daemons, block_s, blocks)
            say(f"interval {interval} s, net of collectd alone:")
            for name in list(daemons)[1:]:
                ratio = statistics.median(
                    a / b for a, b in zip(found[name], found["cpu"]))
                line = (f"  {name}: {statistics.median(found[name]):.0f} us CPU a "
                        f"second, {ratio:.2f} x the cpu plugin")
                if interval == 1:
                    values, begin = -daemons[name].count_values(), time.monotonic()
                    time.sleep(10)
                    values += daemons[name].count_values()
                    values /= time.monotonic() - begin
                    line += f", {values:.0f} values a second"
                    calls, alone = (daemons[each].system_calls()
                                    for each in (name, "bare"))
                    if calls is not None:
                        line += (f", {calls - alone:.0f} system calls a second without "
                                 "those of locks")
                say(line)
                say("    by thread, us a second: " +
                    "; ".join(daemons[name].shares))


def print_many():
    """Measures the default configuration on a simulated host of 256 cores. The cpu
    plugin reads the same /proc/stat in a mount namespace, which needs root."""
    with RuntimeDir(), SysRoot(CORES, nodes=2) as root, \
            contextlib.ExitStack() as stack:
        root.write_machine()
        daemons = {"bare": Daemon(None, 1), "cpu": Daemon(None, 1, "cpu"),
                   "percore": Daemon(f'SysRoot "{root.path}"', 1)}
        daemons["cpu"].before = (
            "unshare", "--mount", "sh", "-c",
            f'mount --bind "{root.path}/proc/stat" /proc/stat; exec "$@"', "sh")
        if os.geteuid() != 0:
            del daemons["cpu"]
        for daemon in daemons.values():
            stack.enter_context(daemon)
        found = measure(daemons, 5, 5)
        say(f"{CORES} simulated cores, interval 1 s: " + ", ".join(
            f"{name} {statistics.median(spent):.0f} us CPU a second"
            for name, spent in found.items() if name != "bare"))


def print_top(regions, rows):
    with RuntimeDir(), contextlib.ExitStack() as stack:
        for number in range(regions):
            stack.enter_context(Producer(f"gtpu{number}", "million")).do(
                f"rows {SESSION} 0 {rows}")
        daemons = {"without": Daemon(None, 1), "with": Daemon(TOP, 1)}
        for daemon in daemons.values():
            stack.enter_context(daemon)
        found = measure(daemons, 5, 5)["with"]
        say(f"{regions} x Top 100 of {rows} rows of 4 counters: "
            f"{statistics.median(found) / 1000:.1f} ms CPU an interval")


def main():
    try:
        need_collectd()
    except Skip as reason:
        say(f"skipped: {reason}")
        return
    say(f"takes about five minutes; load average {os.getloadavg()[0]:.1f}")
    print_default(sys.argv[1:])
    print_many()
    for regions, rows in TOPS:
        print_top(regions, rows)


if __name__ == "__main__":
    main()
