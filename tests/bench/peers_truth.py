"""What tools show of one core, beside the log of the load that runs on it. All tools run at the
same time on the other cores, one for each window. The log has the time in which the load ran,
not the kernel's work to wake it; the processor time of other tasks on the core is added."""

import bisect
import contextlib
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from bench import record, spread
from harness import (BUILD, CPUACCT, Burner, Child, Collectd, Skip, need_collectd,
                     online_cores, task_time_ns)
from peers_agents import PATH, NodeExporterCpu, get, installed
from peers_documents import LOAD
from softirq import Network, SoftirqBurner

MISSING = []
WINDOWS = (0.2, 1, 10)
START_S, SETTLE_S, END_S = 12, 1, 0.2  # seconds without a load, and of each load not compared
SOURCES = ("mperf", "ref-cycles", "bpf", "idle")
COMPARE = os.path.join(os.path.dirname(__file__), "../../contrib/compare/percore-compare")
METHODS = {"percore": "percore", "cpuidle": "outside of idle states (cpuidle)"}  # of COMPARE
CPU = "<Plugin cpu>\nReportByState false\nValuesPercentage true\n</Plugin>"


# ---------------------------------------------------------------------------
# Tools


class Shown(dict):
    """For each tool and window a list of (begin, end, percent), with the times of
    CLOCK_REALTIME."""

    def add(self, tool, window, *shown):
        self.setdefault((tool, window), []).append(shown)

    def read(self, tool, window, load_of, lines):
        """Reads the lines that a tool prints at the end of each window."""
        last = None
        for line in lines:
            percent, now = load_of(line), time.time()
            if percent is not None:
                if last is not None:
                    self.add(tool, window, last, now, percent)
                last = now

    def read_percore(self, source, window, lines):
        for line in lines:
            found = json.loads(line)
            load, end = found["cores"][0]["load"], found["time"]
            if load is not None:
                self.add(f"percore, source {source}", window, end - found["interval_s"], end,
                         load)

    def read_compared(self, window, lines):
        for line in lines:
            found = json.loads(line)
            for method, name in METHODS.items():
                load = found["cores"][0]["load"][method]
                end = found["time"] + (found["late_s"] if method != "percore" else 0)
                if load is not None:
                    self.add(name, window, end - found["interval_s"], end, load)

    def scrape(self, core, window, port, ended):
        """Computes the loads that two usual queries on node_exporter give."""
        last = None
        while not ended.wait(window - time.time() % window):
            try:
                text = "\n".join(get(port, "/metrics"))
            except OSError:  # it has ended
                return
            modes = {mode: float(seconds) for mode, seconds in re.findall(
                rf'^node_cpu_seconds_total{{cpu="{core}",mode="(\w+)"}} (\S+)', text, re.M)}
            idle = modes["idle"] + modes["iowait"]
            this = time.time(), idle, sum(modes.values()) - idle
            if last is not None:
                passed, idle_s, busy_s = (after - before for before, after in zip(last, this))
                for query, part_s in (("busy", busy_s), ("1 - idle", passed - idle_s)):
                    self.add(f"node_exporter, {query}", window, last[0], this[0],
                             100 * part_s / passed)
            last = this


def less(pattern, whole=100):
    """Returns a function that finds a pattern in a line: `whole` less its groups."""
    def load_of(line):
        found = re.search(pattern, line)
        return found and abs(whole - sum(map(float, found.groups())))
    return load_of


def printers(core, window):
    """Yields the tools that print a line for each core: the name, the command, and how the
    load is found."""
    yield ("top", ["top", "-b", "-1", "-w", "512", "-p", "1", "-d", str(window)],
           less(rf"%Cpu{core} +:[^%]*?([\d.]+) id, +([\d.]+) wa"))
    if window >= 1:  # whole seconds only
        yield ("mpstat", ["mpstat", "-P", str(core), str(window)],
               less(rf"^\S+ +{core} .* ([\d.]+)(?: +[\d.]+){{5}} +([\d.]+)$"))
    yield ("turbostat", ["turbostat", "--quiet", "--show", "CPU,Busy%", "--interval",
                         str(window)], less(rf"^{core}\s+([\d.]+)$", 0))


def percore(core, source, window, *command):
    return [*(command or (f"{BUILD}/percore", "load")), "-s", source, "-c", str(core), "-i",
            str(window), "-j"]


def working_sources(core):
    for source in SOURCES:
        done = subprocess.run([*percore(core, source, 0.2), "-n", "1"], capture_output=True,
                              text=True, check=False)
        found = done.stdout and json.loads(done.stdout)["cores"][0]["source"]
        if source == found:
            yield source
        else:
            MISSING.append(done.stderr.partition("\n")[0])


def start_tools(stack, shown, core):
    """Starts every tool for every window. Returns the daemons collectd by window."""
    def start(command, read, *arguments):
        child = stack.enter_context(Child(
            ["stdbuf", "-oL", *command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
            env={**os.environ, "S_TIME_FORMAT": "ISO", "LC_ALL": "C"}))
        thread = threading.Thread(target=read, args=(*arguments, child.stdout), daemon=True)
        thread.start()
        stack.callback(thread.join, 5)  # before the pipe is closed
        stack.callback(child.kill)
        return child
    sources, children, daemons = list(working_sources(core)), {}, {}
    for window in WINDOWS:
        for tool, command, load_of in printers(core, window):
            if shutil.which(command[0], path=PATH):
                children[tool] = start(command, shown.read, tool, window, load_of)
            elif window == 1:
                MISSING.append(f"{tool}: not installed")
        start(percore(core, "auto", window, COMPARE, "--percore", f"{BUILD}/percore"),
              shown.read_compared, window)
        for source in sources:
            start(percore(core, source, window), shown.read_percore, source, window)
        daemons[window] = stack.enter_context(
            Collectd(None, window, plugins=("cpu",), extra=CPU)).start()
    if installed(NodeExporterCpu):
        exporter = stack.enter_context(NodeExporterCpu(3600))
        exporter.start()
        ended = threading.Event()
        stack.callback(ended.set)
        time.sleep(2)
        for window in WINDOWS:
            threading.Thread(target=shown.scrape, args=(core, window, exporter.port, ended),
                             daemon=True).start()
    else:
        MISSING.append("node_exporter: prometheus-node-exporter is not installed")
    time.sleep(START_S)
    MISSING.extend(f"{tool}: {child.stderr.read().strip()}"
                   for tool, child in children.items() if child.poll() is not None)
    return daemons


# ---------------------------------------------------------------------------
# Loads. Each function runs a load, and returns its log, two curves of times and of seconds: in
# which the load had run, and in which other tasks had. Or it returns a sentence.


def burn(core, seconds, pattern):
    times, others = [], []
    with tempfile.TemporaryDirectory() as directory:
        burner = Burner(core, pattern, seconds, directory)
        with contextlib.suppress(OSError, IndexError):  # the burner has ended
            while burner.process.poll() is None:
                own_s = burner.own_cpu_ns() / 1e9
                others.append(task_time_ns()[core] / 1e9 - own_s if CPUACCT else 0)
                times.append(time.time())
                time.sleep(0.02)
        burner.finish()
    edges, ran = [0], [0]
    for begin, end in burner.spans:
        edges += [begin / 1e9, end / 1e9]
        ran += [ran[-1], ran[-1] + (end - begin) / 1e9]
    return (edges + [time.time()], ran + ran[-1:]), (times, others)


def burn_beside(core, seconds, pattern):
    """Keeps the other cores fully busy meanwhile."""
    with contextlib.ExitStack() as stack:
        for other in set(online_cores()) - {core}:
            stack.enter_context(Child(["taskset", "-c", str(other), sys.executable, "-c",
                                       "while True: pass"]))
        return burn(core, seconds, pattern)


def interrupt(core, seconds, period_us, spin_us):
    """A timer, whose softirq spins."""
    with SoftirqBurner(core, period_us, spin_us) as timer:
        time.sleep(seconds)
        ahead = time.time() - time.monotonic()
        times, spun, tasks, _ = zip(*timer.log)
    times = [at + ahead for at in times]
    return (times, spun), (times, tasks)


def receive(core, seconds, packets_per_s):
    """Packets, which are received in softirq. Nothing logs how long that takes."""
    if core in online_cores():
        raise Skip("there is one core only")
    with Network(core) as network, network.flood(packets_per_s, seconds) as flood:
        return f"{float(flood.communicate()[0]):.0f} packets a second"


LOADS = {"busy between ticks": (burn, "hog"),
         "busy around ticks": (burn, "antihog"),
         "1 of 2 ms, in step with the tick": (burn, "tick"),
         "37 of 61 ms": (burn, "37000/61000"),
         "37 of 61 ms, other cores busy": (burn_beside, "37000/61000"),
         "softirq, 0.6 of 1.7 ms": (interrupt, 1700, 600),
         "timer interrupts, 0.3 of 1 ms": (interrupt, 1000, 300),
         "200000 packets a second": (receive, 200000)}


def at(curve, when):
    """Returns the value of a curve at a time: between those that are known, a line."""
    times, sums = curve
    after = min(max(bisect.bisect(times, when), 1), len(times) - 1)
    part = (when - times[after - 1]) / (times[after] - times[after - 1])
    return sums[after - 1] + part * (sums[after] - sums[after - 1])


def truth(log, begin, end):
    """Returns the load and the part of other tasks, in percent."""
    load, others = (100 * (at(curve, end) - at(curve, begin)) / (end - begin)
                    for curve in log)
    return min(100, load + max(0, others)), others


def compare(shown, what, begin, end, log, errors):
    """Yields the records of a load, and adds the errors of each tool and window. log: what
    was logged, or a sentence."""
    logged, note = not isinstance(log, str), log
    if logged:
        load, others = zip(*(truth(log, second, second + 1)
                             for second in range(int(begin) + 1, int(end))))
        yield record(what, "truth", LOAD, spread(load),
                     f"{statistics.median(others):.1f} of it other tasks")
    for (tool, window), windows in sorted(
            shown.items(), key=lambda item: (not item[0][0].startswith("percore"), item[0])):
        inside = [each for each in windows if begin <= each[0] and each[1] <= end]
        if logged and inside:
            off = [abs(percent - truth(log, *times)[0]) for *times, percent in inside]
            errors.setdefault((window, tool), []).extend(off)
            note = f"off by {statistics.median(off):.1f} points, at most {max(off):.1f}"
        if window == 1 and inside:
            yield record(what, tool, LOAD, spread([percent for *_, percent in inside]), note)


def measure(_build, seconds, loads=LOADS):
    need_collectd()
    cores = online_cores()
    core = cores[-1]
    os.sched_setaffinity(0, {*cores[:-1]} or {core})
    each_s = (seconds - START_S) / len(loads)
    shown, logs, errors = Shown(), {}, {}
    with contextlib.ExitStack() as stack:
        stack.callback(os.sched_setaffinity, 0, cores)
        daemons = start_tools(stack, shown, core)
        for what, (load, *arguments) in loads.items():
            begin = time.time()
            try:
                log = load(core, each_s, *arguments)
                logs[what] = begin + SETTLE_S, begin + each_s - END_S, log
            except Skip as reason:
                MISSING.append(f"{what}: {reason}")
    for window, daemon in daemons.items():
        values = daemon.of(f"cpu-{core}/percent-active")
        for last, this in zip(values, values[1:]):
            shown.add("collectd cpu", window, last.time, this.time, this.value)
    for what, log in logs.items():
        yield from compare(shown, what, *log, errors)
    for window, tool in sorted(errors, key=lambda key: key[0]):
        off = errors[window, tool]
        yield record(f"error in windows of {window} s, all loads with a log", tool, "points",
                     spread(off), f"at most {max(off):.1f}")


def claims(records):
    for each in records:
        if each["unit"] == "points" and each["who"].startswith("percore") and \
                "0.2 s" not in each["what"]:
            yield f"{each['who']}: {each['what']}: {each['median']} points", each["median"] <= 2
