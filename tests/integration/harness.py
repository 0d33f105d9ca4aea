"""Helpers for the integration tests: the real collectd in a temporary
directory, the values it prints, and test results with one line for each
test."""

import atexit
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

BUILD = os.environ.get("PERCORE_BUILD", os.getcwd())
TYPES_DB = "/usr/share/collectd/types.db"
SKIPPED = 77  # the exit status of automake for a skipped test
TRIES = 3  # more than one, because a virtual machine may be paused during a try


# ---------------------------------------------------------------------------
# Results


class Skip(Exception):
    """Raised by a test that this machine cannot run. The argument is the reason."""


class Results:
    """Runs tests and prints the sentence and the result of each."""

    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def run(self, test):
        """Runs a test function, and prints its docstring with the result."""
        sentence = " ".join(test.__doc__.split()).rstrip(".")
        try:
            test()
        except Skip as reason:
            self.skipped += 1
            print(f"ok - {sentence} # SKIP {reason}", flush=True)
        except Exception as error:  # the other tests must still run
            self.failed += 1
            for line in f"{type(error).__name__}: {error}".splitlines():
                say(line)
            print(f"not ok - {sentence}", flush=True)
        else:
            self.passed += 1
            print(f"ok - {sentence}", flush=True)

    def finish(self):
        if self.failed:
            sys.exit(1)
        sys.exit(0 if self.passed else SKIPPED)


def clean_up_when_ended():
    """Makes this process exit normally on SIGTERM, so that it also ends its child
    processes."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))


def run_tests(names, what=None, *programs):
    """Runs the functions of a module whose names begin with test_, if these programs
    were built."""
    for program in programs:
        if not os.path.exists(program):
            print(f"ok - {what} # SKIP {program} was not built")
            sys.exit(SKIPPED)
    clean_up_when_ended()
    results = Results()
    for name, test in list(names.items()):
        if name.startswith("test_"):
            results.run(test)
    results.finish()


def run_all(names):
    """Runs the tests of a module, which need collectd."""
    try:
        need_collectd()
    except Skip as reason:
        print(f"ok - the tests with the real collectd # SKIP {reason}")
        sys.exit(SKIPPED)
    run_tests(names)


def say(text):
    print(f"# {text}", flush=True)


def check(condition, message):
    if not condition:
        raise AssertionError(message)


def least_of_tries(limit, measure):
    """Returns the minimum of up to TRIES measurements. Stops at the first measurement
    below the limit."""
    measured = []
    while len(measured) < TRIES and min(measured, default=limit) >= limit:
        measured.append(measure())
    return min(measured)


# ---------------------------------------------------------------------------
# The machine


class Child(subprocess.Popen):
    """A process that is killed at the end of its `with` block."""

    def __exit__(self, *error):
        if self.poll() is None:
            self.kill()
        super().__exit__(*error)


def find_collectd():
    path = os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin"
    return shutil.which("collectd", path=path)


def collectd_plugins():
    said = subprocess.run([find_collectd(), "-h"], capture_output=True,
                          text=True, check=False).stdout
    return re.search(r"^ *Plugin directory *(\S+)", said, re.M).group(1)


def need_collectd():
    if find_collectd() is None:
        raise Skip("collectd is not installed: apt-get install collectd-core")
    if not os.path.exists(f"{BUILD}/.libs/percore.so"):
        raise Skip(f"percore.so was not built in {BUILD}/.libs")


def online_cores():
    return sorted(os.sched_getaffinity(0))


def take_precedence():
    """If permitted, gives this process and its children priority, so that a busy
    machine delays them little."""
    try:
        os.setpriority(os.PRIO_PROCESS, 0, -20)
        if os.path.exists("/proc/self/autogroup"):
            os.setsid()  # otherwise the priority applies only within the session
            with open("/proc/self/autogroup", "w", encoding="ascii") as file:
                file.write("-20")
    except PermissionError:
        pass


def is_root():
    return os.geteuid() == 0


def is_running(pid):
    """Returns whether the process exists and is not a zombie."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def stop(process):
    """Stops a child process, and waits until all of its threads have stopped."""
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED)


def wait_until_caught(process, number, seconds=30):
    """Waits until a process has installed a handler for a signal that would otherwise
    end the process."""
    end = time.monotonic() + seconds
    caught = 0
    while not caught >> (number - 1) & 1:
        check(time.monotonic() < end,
              f"no handler for signal {number} within {seconds} s")
        with open(f"/proc/{process.pid}/status", encoding="ascii") as file:
            caught = int(re.search(r"SigCgt:\s*(\w+)", file.read())[1], 16)
        time.sleep(0.01)


def wait_for(condition, what, seconds=10):
    """Waits until condition() is true, for at most `seconds` seconds. Fails with the
    message `what` if it is still false."""
    end = time.monotonic() + seconds
    while not condition():
        check(time.monotonic() < end, what)
        time.sleep(0.1)


def bpf_programs(name):
    """Returns the ids of the BPF programs with this name in the kernel."""
    tool = shutil.which("bpftool", path=f"{os.environ['PATH']}:/usr/sbin")
    if tool is None:
        raise Skip("bpftool is missing")
    shown = subprocess.run([tool, "prog", "show"], capture_output=True,
                           text=True, check=True).stdout
    return set(re.findall(rf"^(\d+):.* name {name} ", shown, re.M))


def check_killed_leaves_none(name, command):
    """Starts a command that loads BPF programs, kills it, and checks that its program
    with this name is gone from the kernel."""
    before = bpf_programs(name)
    with Child(command, stdout=subprocess.DEVNULL) as process:
        wait_for(lambda: bpf_programs(name) - before, "nothing was loaded")
        loaded = bpf_programs(name) - before
        process.kill()
        process.wait()
    wait_for(lambda: not bpf_programs(name) & loaded,
             f"{loaded} are still there")


class Lateness:
    """Measures delays of this machine, which may be busy or paused: a thread sleeps for
    10 ms at a time and records when it slept for much longer. Other processes may have
    been delayed for as long."""

    STEP_S = 0.01
    LEAST_S = 0.02  # ignore shorter delays: Python's threads wait for each other

    def __init__(self, cores=None):
        """cores: the cores on which the thread may run, or None for all cores."""
        self.spans = []  # begin and end of each delay
        self.seen = 0.0
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.run, args=[cores],
                                       daemon=True)
        self.thread.start()

    def run(self, cores):
        if cores is not None:
            os.sched_setaffinity(0, cores)  # sets the affinity of this thread only
        ended = False
        while not ended:
            # Sleep once more after the end, so that all earlier delays are recorded.
            ended = self.ended.is_set()
            due = time.monotonic() + self.STEP_S
            time.sleep(self.STEP_S)
            now = time.monotonic()
            if now - due > self.LEAST_S:
                self.spans.append((due, now))
            self.seen = now

    def end(self):
        self.ended.set()
        self.thread.join()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def within(self, begin, end):
        """Returns the seconds of delay between two times of time.monotonic()."""
        while self.seen < end and not self.ended.is_set():
            time.sleep(self.STEP_S)
        return sum(max(0.0, min(span[1], end) - max(span[0], begin))
                   for span in self.spans)

    def of_clock(self, begin, end):
        """Returns the seconds of delay between two times of time.time(), the clock of
        collectd's values."""
        ahead = time.time() - time.monotonic()
        return self.within(begin - ahead, end - ahead)


# ---------------------------------------------------------------------------
# collectd


class Value:
    """One PUTVAL line of the csv plugin."""

    PATTERN = re.compile(
        r"PUTVAL [^/]*/([^/ ]+)/([^ ]+) interval=([0-9.]+) ([0-9.]+):(\S+)$")

    def __init__(self, match):
        self.identifier = f"{match[1]}/{match[2]}"
        self.interval = float(match[3])
        self.time = float(match[4])
        self.values = [float(value) for value in match[5].split(":")]

    @property
    def value(self):
        return self.values[0]


class Collectd:
    """collectd in a temporary directory. A thread reads the values that it prints."""

    def __init__(self, percore="", interval=1, plugins=(), extra="",
                 to_files=False, read_threads=5, report_self=True):
        """percore: the lines of <Plugin percore>, or None if percore is not loaded.
        plugins: other plugins, in the order in which they are loaded. "before" and
        "after" are copies of the plugin probe; they are loaded before and after
        percore. report_self: whether all figures of percore itself are reported, which
        say how late values are."""
        self.directory = tempfile.mkdtemp(prefix="percore-test-")
        atexit.register(self.remove)
        os.chmod(self.directory, 0o755)
        os.mkdir(f"{self.directory}/plugins")
        self.values = []
        self.series = {}  # the values of each identifier
        self.process = None
        self.reader = None
        self.lateness = None
        load = []
        if "before" in plugins:
            load.append("before")
        load += ["percore"] if percore is not None else []
        load += [name for name in plugins if name != "before"]
        for name in ["csv", "logfile"] + load:
            self.copy_plugin(name)
        if percore is not None and report_self:
            percore += "\n<Load>\nReportSelf true\n</Load>"
        self.write_config(percore, interval, load, extra, to_files,
                          read_threads)

    def copy_plugin(self, name):
        """Copies the plugin to the temporary directory. A symbolic link would not do,
        because collectd refuses to load it."""
        source = {"percore": f"{BUILD}/.libs/percore.so",
                  "before": f"{BUILD}/.libs/probe.so",
                  "after": f"{BUILD}/.libs/probe.so"}.get(
                      name, f"{collectd_plugins()}/{name}.so")
        shutil.copy(source, f"{self.directory}/plugins/{name}.so")

    def write_config(self, percore, interval, load, extra, to_files,
                     read_threads):
        data = f"{self.directory}/csv" if to_files else "stdout"
        lines = [
            'Hostname "host"',
            f'BaseDir "{self.directory}"',
            f'PIDFile "{self.directory}/pid"',
            f'PluginDir "{self.directory}/plugins"',
            f'TypesDB "{TYPES_DB}"',
            f"Interval {interval}",
            f"ReadThreads {read_threads}",
            "WriteThreads 1",
            "LoadPlugin logfile",
            "<Plugin logfile>",
            '  LogLevel "info"',
            f'  File "{self.log_file}"',
            "  Timestamp false",
            "</Plugin>",
            "LoadPlugin csv",
            "<Plugin csv>",
            f'  DataDir "{data}"',
            "</Plugin>",
        ]
        lines += [f'LoadPlugin "{name}"' for name in load]
        if percore is not None:
            lines += ["<Plugin percore>", percore, "</Plugin>"]
        lines.append(extra)
        with open(self.config_file, "w", encoding="ascii") as file:
            file.write("\n".join(lines) + "\n")

    @property
    def log_file(self):
        return f"{self.directory}/log"

    @property
    def config_file(self):
        return f"{self.directory}/collectd.conf"

    def command(self, *options, before=()):
        return [*before, find_collectd(), "-C", self.config_file, *options]

    def log(self):
        """Returns the text of the log file, followed by what collectd wrote to stderr
        before it opened the log file."""
        text = ""
        for path in (self.log_file, f"{self.directory}/stderr"):
            if os.path.exists(path):
                with open(path, encoding="utf8", errors="replace") as file:
                    text += file.read()
        return text

    def run(self, *options, before=(), timeout=60):
        """Runs collectd until it ends, and returns the exit status."""
        with open(f"{self.directory}/stderr", "wb") as stderr:
            return subprocess.run(
                self.command(*options, before=before), stdout=stderr,
                stderr=stderr, timeout=timeout, check=False).returncode

    def start(self, before=()):
        """Starts collectd in the foreground."""
        with open(f"{self.directory}/stderr", "wb") as stderr:
            self.process = subprocess.Popen(
                self.command("-f", before=before), stdout=subprocess.PIPE,
                stderr=stderr, text=True)
        self.reader = threading.Thread(target=self.read_values, daemon=True)
        self.reader.start()
        self.lateness = Lateness()
        return self

    def read_values(self):
        for line in self.process.stdout:
            match = Value.PATTERN.match(line.strip())
            if match:
                value = Value(match)
                self.values.append(value)
                self.series.setdefault(value.identifier, []).append(value)

    def stop(self, seconds=20):
        """Ends collectd, and kills it if that takes more than `seconds` seconds.
        Returns how many seconds collectd took to end, minus the machine's delays."""
        if self.process is None:
            return 0
        begin = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        end = time.monotonic()
        late = self.lateness.within(begin, end)
        self.lateness.end()
        self.reader.join(10)
        self.process.stdout.close()
        self.process = None
        return end - begin - late

    def own_shutdown(self):
        """Returns how many seconds percore's shutdown took, according to the probes
        "before" and "after", minus the machine's delays. Call this after stop()."""
        times = dict(re.findall(r"(\w+): shutdown at ([0-9.]+)", self.log()))
        before, after = float(times["before"]), float(times["after"])
        check(after >= before, "the probes are in the wrong order")
        return after - before - self.lateness.within(before, after)

    def remove(self):
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.remove()

    # ---- values

    def check_grid(self, interval, unknown=lambda time_s: False):
        """Checks that each series of percore contains a value for each multiple of the
        interval, from its first value to its last. There are two exceptions: a snapshot
        that was taken late by more than 1 % of the interval is stamped with its true
        time, and `lateness` must show the delay; and a snapshot that was nearly an
        interval late also replaces the next snapshot. unknown(time): whether loads may
        be missing at that time. Returns the number of intervals."""
        lateness = self.of("percore_host-self/duration-lateness")
        late = {value.time for value in lateness
                if value.value > 0.0099 * interval}

        def may_lack(identifier, point):
            if "percore_host-self/" not in identifier and \
                    unknown(point * interval):
                return True
            late_s = self.lateness.of_clock((point - 1) * interval,
                                            (point + 1) * interval)
            return late_s > 0.85 * interval

        of_series = {}
        for value in self.values:
            if value.identifier.startswith("percore"):
                of_series.setdefault(value.identifier, []).append(value.time)
        check(of_series, "no values at all")
        # collectd may have been stopped before it printed the lateness of the newest
        # values, so they may be off the grid.
        newest = max(max(times) for times in of_series.values())
        if newest not in {value.time for value in lateness}:
            late.add(newest)
        ends = {}
        for identifier, times in of_series.items():
            points = [int(each // interval) for each in times]
            for time_s, point in zip(times, points):
                check(time_s == point * interval or time_s in late,
                      f"{identifier} is off the grid at {time_s}")
            for a, b in zip(points, points[1:]):
                check(a < b and all(may_lack(identifier, each) for each in
                                    range(a + 1, b)),
                      f"{identifier} steps by {b - a}: {times}")
            ends[identifier] = points[-1]
        # The last values of a series may be missing, but only if may_lack allows it.
        last = max(ends.values())
        for identifier, end in ends.items():
            check(all(may_lack(identifier, each) for each in
                      range(end + 1, last)),
                  f"{identifier} ends at {end}, others at {last}")
        return max(len(times) for times in of_series.values())

    def check_gaps(self, values, most):
        """Checks that successive values are less than `most` seconds apart, not
        counting the machine's delays."""
        for a, b in zip(values, values[1:]):
            late = self.lateness.of_clock(a.time, b.time)
            check(b.time - a.time - late < most,
                  f"a gap of {b.time - a.time:.2f} s, {late:.2f} s of it delays, "
                  f"at {a.time} in {[value.time for value in values]}")

    def of(self, identifier):
        return list(self.series.get(identifier, []))

    def wait_for(self, condition, seconds, what):
        """Waits until condition() is true, for at most `seconds` seconds."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if condition():
                return
            if self.process is not None and self.process.poll() is not None:
                break
            time.sleep(0.05)
        check(condition(), f"{what} did not happen within {seconds} s; the log:\n"
              f"{self.log()}")

    def wait_for_reads(self, count):
        """Waits until collectd has read percore `count` more times."""
        reads = "percore_host-self/gauge-cores_online"
        self.wait_for_value(reads, count=len(self.of(reads)) + count)

    def wait_for_value(self, identifier, seconds=30, count=1):
        self.wait_for(lambda: len(self.of(identifier)) >= count, seconds,
                      f"{count} of {identifier}")
        return self.of(identifier)[-1]


class Burner:
    """A process that produces a known load on one core."""

    def __init__(self, core, pattern, seconds, directory):
        self.log_file = f"{directory}/burner-{pattern.replace('/', '-')}"
        self.core = core
        self.process = subprocess.Popen(
            [f"{BUILD}/tests/integration/burner", str(core), pattern,
             str(seconds), self.log_file])
        atexit.register(self.stop)
        self.spans = []
        self.facts = {}

    def own_cpu_ns(self):
        """Returns the CPU time that the burner has used so far, including kernel
        time."""
        with open(f"/proc/{self.process.pid}/schedstat",
                  encoding="ascii") as file:
            return int(file.read().split()[0])

    def finish(self):
        check(self.process.wait() == 0, "the burner has failed")
        with open(self.log_file, encoding="ascii") as file:
            for line in file:
                words = line.split()
                if words[0] == "#":
                    self.facts[words[1]] = int(words[2])
                else:
                    self.spans.append((int(words[0]), int(words[1])))

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def busy(self, begin_s, end_s):
        """Returns the share of the time from begin_s to end_s for which the burner was
        busy, in percent."""
        begin, end = int(begin_s * 1e9), int(end_s * 1e9)
        busy = sum(max(0, min(span[1], end) - max(span[0], begin))
                   for span in self.spans)
        return 100 * busy / (end - begin)


# ---------------------------------------------------------------------------
# Other tasks on the same core


def find_cpuacct():
    """Returns the path of the file with the CPU time of tasks on each core, or None if
    this machine does not mount it."""
    with open("/proc/mounts", encoding="utf8") as file:
        for line in file:
            words = line.split()
            if words[2] == "cgroup" and "cpuacct" in words[3].split(","):
                path = f"{words[1]}/cpuacct.usage_percpu"
                return path if os.path.exists(path) else None
    return None


CPUACCT = find_cpuacct()


def task_time_ns():
    """Returns the CPU time of tasks on each core since boot, in nanoseconds. Must not
    be called if CPUACCT is None."""
    with open(CPUACCT, encoding="ascii") as file:
        return [int(word) for word in file.read().split()]


def stolen_s(core):
    """Returns how many seconds a hypervisor has stolen from a core since boot. Stolen
    time is not load, but it keeps tasks from running just as load does."""
    with open("/proc/stat", encoding="ascii") as file:
        for line in file:
            if line.startswith(f"cpu{core} "):
                return int(line.split()[8]) / os.sysconf("SC_CLK_TCK")
    return 0.0


def wait_for_quiet(core, limit, seconds=20):
    """Waits until tasks have used less than `limit` percent of the core for a second.
    Gives up after `seconds` seconds."""
    if CPUACCT is None:
        return
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        before = task_time_ns()[core]
        begin = time.monotonic()
        time.sleep(1)
        used = (task_time_ns()[core] - before) / 1e9
        if used / (time.monotonic() - begin) * 100 < limit:
            return
    if seconds > 0:
        say(f"other tasks have used core {core} for {seconds:.0f} s")


def root_mean_square(numbers):
    return math.sqrt(sum(number * number for number in numbers) / len(numbers))
