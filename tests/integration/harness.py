"""What the integration tests share: the real collectd in directories of its
own, what it prints, and test results in lines that can be counted."""

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
SKIPPED = 77  # the exit status that automake knows
TRIES = 3  # a virtual machine may be halted in the middle of any of them


# ---------------------------------------------------------------------------
# Results


class Skip(Exception):
    """Raised by a test that this machine cannot do; says why."""


class Results:
    """Runs tests and prints one line for each: its sentence and what came."""

    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def run(self, test):
        """The sentence that a test proves is its docstring."""
        sentence = " ".join(test.__doc__.split()).rstrip(".")
        try:
            test()
        except Skip as reason:
            self.skipped += 1
            print(f"ok - {sentence} # SKIP {reason}", flush=True)
        except Exception as error:  # one test must not take the others along
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
    """Ended by a signal, a test ends what it started, too."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))


def run_all(tests):
    try:
        need_collectd()
    except Skip as reason:
        print(f"ok - the tests with the real collectd # SKIP {reason}")
        sys.exit(SKIPPED)
    clean_up_when_ended()
    results = Results()
    for test in tests:
        results.run(test)
    results.finish()


def run_tests(names, what, *programs):
    """Runs what is called test_... among the names of a module, if these
    programs were built."""
    for program in programs:
        if not os.path.exists(program):
            print(f"ok - {what} # SKIP there is no {program}")
            sys.exit(SKIPPED)
    clean_up_when_ended()
    results = Results()
    for name, test in list(names.items()):
        if name.startswith("test_"):
            results.run(test)
    results.finish()


def say(text):
    print(f"# {text}", flush=True)


def check(condition, message):
    if not condition:
        raise AssertionError(message)


def least_of_tries(limit, measure):
    """The least of what TRIES of them measure, or of fewer if one is below the
    limit."""
    measured = []
    while len(measured) < TRIES and min(measured, default=limit) >= limit:
        measured.append(measure())
    return min(measured)


# ---------------------------------------------------------------------------
# The machine


class Child(subprocess.Popen):
    """A process that does not outlive its block, however that is left."""

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
        raise Skip("there is no collectd here: apt-get install collectd-core")
    if not os.path.exists(f"{BUILD}/.libs/percore.so"):
        raise Skip(f"there is no percore.so in {BUILD}/.libs")


def online_cores():
    return sorted(os.sched_getaffinity(0))


def is_root():
    return os.geteuid() == 0


def wait_until_caught(process, number, seconds=30):
    """Waits until a process has a handler of its own for a signal: one that
    came earlier would end it another way."""
    end = time.monotonic() + seconds
    caught = 0
    while not caught >> (number - 1) & 1:
        check(time.monotonic() < end, f"it never caught signal {number}")
        with open(f"/proc/{process.pid}/status", encoding="ascii") as file:
            caught = int(re.search(r"SigCgt:\s*(\w+)", file.read())[1], 16)
        time.sleep(0.01)


class Lateness:
    """How late this machine is, be it that others use it or that it is halted:
    a thread that wants to sleep for 10 ms at a time, and writes down when it
    slept for much longer. What was to be done in time may be as late."""

    STEP_S = 0.01
    LEAST_S = 0.02  # threads of Python wait that long for one another

    def __init__(self, cores=None):
        """cores: where the thread may run, or None for anywhere."""
        self.spans = []  # begin and end of what was overslept
        self.seen = 0.0
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.run, args=[cores],
                                       daemon=True)
        self.thread.start()

    def run(self, cores):
        if cores is not None:
            os.sched_setaffinity(0, cores)  # of this thread alone
        ended = False
        while not ended:
            # Once more after the end, so that all before it is known.
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
        """Seconds between two times of time.monotonic()."""
        while self.seen < end and not self.ended.is_set():
            time.sleep(self.STEP_S)
        return sum(max(0.0, min(span[1], end) - max(span[0], begin))
                   for span in self.spans)

    def of_clock(self, begin, end):
        """The same of time.time(), as values have it."""
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
    """collectd with a configuration of its own, in a temporary directory that
    goes away with it. Values are read while it runs."""

    def __init__(self, percore="", interval=1, plugins=(), extra="",
                 to_files=False, read_threads=5):
        """percore: lines of <Plugin percore>, or None for no percore at all.
        plugins: names of further plugins in the order of loading; "before" and
        "after" are copies of the probe, loaded around percore."""
        self.directory = tempfile.mkdtemp(prefix="percore-test-")
        atexit.register(self.remove)
        os.chmod(self.directory, 0o755)
        os.mkdir(f"{self.directory}/plugins")
        self.values = []
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
        self.write_config(percore, interval, load, extra, to_files,
                          read_threads)

    def copy_plugin(self, name):
        """A regular file: collectd refuses links."""
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
        """What it logged, and what it wrote to stderr before it could."""
        text = ""
        for path in (self.log_file, f"{self.directory}/stderr"):
            if os.path.exists(path):
                with open(path, encoding="utf8", errors="replace") as file:
                    text += file.read()
        return text

    def run(self, *options, before=(), timeout=60):
        """Runs it to its end. Returns the exit status."""
        with open(f"{self.directory}/stderr", "wb") as stderr:
            return subprocess.run(
                self.command(*options, before=before), stdout=stderr,
                stderr=stderr, timeout=timeout, check=False).returncode

    def start(self, before=()):
        """Starts it in the foreground, on no particular core."""
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
                self.values.append(Value(match))

    def stop(self, seconds=20):
        """Kills it after so many seconds. Returns how long it took, but for
        what the machine was late."""
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
        """After stop(): how long percore's own part of it took, of which the
        probes "before" and "after" tell, but for what the machine was late."""
        times = dict(re.findall(r"(\w+): shutdown at ([0-9.]+)", self.log()))
        before, after = float(times["before"]), float(times["after"])
        check(after >= before, "the probes are in another order")
        return after - before - self.lateness.within(before, after)

    def remove(self):
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.remove()

    # ---- looking at values

    def check_grid(self, interval, unknown=lambda time_s: False):
        """Each series of percore has each multiple of the interval once, from
        its first to the last. A snapshot that was taken late by more than 1 %
        of the interval bears its true time, and lateness must say so; one that
        is nearly an interval late stands for the next multiple, too.
        unknown(time): whether there may be no load then. Returns how many
        intervals there were."""
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
        # Stopped while it wrote, collectd may not have come to the lateness.
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
        # The same with the last value itself, which may be left out.
        last = max(ends.values())
        for identifier, end in ends.items():
            check(all(may_lack(identifier, each) for each in
                      range(end + 1, last)),
                  f"{identifier} ends at {end}, others at {last}")
        return max(len(times) for times in of_series.values())

    def check_gaps(self, values, most):
        """No two values are further apart, but for what the machine was
        late."""
        for a, b in zip(values, values[1:]):
            late = self.lateness.of_clock(a.time, b.time)
            check(b.time - a.time - late < most,
                  f"a gap of {b.time - a.time:.2f} s, {late:.2f} s of it late, "
                  f"at {a.time} in {[value.time for value in values]}")

    def of(self, identifier):
        return [value for value in list(self.values)
                if value.identifier == identifier]

    def wait_for(self, condition, seconds, what):
        """Waits until condition() is true, but never for ever."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if condition():
                return
            if self.process is not None and self.process.poll() is not None:
                break
            time.sleep(0.05)
        check(condition(), f"{what} did not come in {seconds} s; the log:\n"
              f"{self.log()}")

    def wait_for_reads(self, count):
        """Waits until collectd has read percore so many times more, however
        busy the machine is."""
        reads = "percore_host-self/gauge-cores_online"
        self.wait_for_value(reads, count=len(self.of(reads)) + count)

    def wait_for_value(self, identifier, seconds=30, count=1):
        self.wait_for(lambda: len(self.of(identifier)) >= count, seconds,
                      f"{count} of {identifier}")
        return self.of(identifier)[-1]


# ---------------------------------------------------------------------------
# Burner


class Burner:
    """A load of known size on one core, in the background."""

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
        """CPU time so far, with what the kernel does for it."""
        with open(f"/proc/{self.process.pid}/schedstat",
                  encoding="ascii") as file:
            return int(file.read().split()[0])

    def finish(self):
        check(self.process.wait() == 0, "the burner failed")
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
        """Share of that time for which it was busy, in percent."""
        begin, end = int(begin_s * 1e9), int(end_s * 1e9)
        busy = sum(max(0, min(span[1], end) - max(span[0], begin))
                   for span in self.spans)
        return 100 * busy / (end - begin)


# ---------------------------------------------------------------------------
# Others on the same core


def find_cpuacct():
    """The file that tells how long tasks ran on each core, or None."""
    with open("/proc/mounts", encoding="utf8") as file:
        for line in file:
            words = line.split()
            if words[2] == "cgroup" and "cpuacct" in words[3].split(","):
                path = f"{words[1]}/cpuacct.usage_percpu"
                return path if os.path.exists(path) else None
    return None


CPUACCT = find_cpuacct()


def task_time_ns():
    """How long tasks ran on each core since boot; needs CPUACCT."""
    with open(CPUACCT, encoding="ascii") as file:
        return [int(word) for word in file.read().split()]


def stolen_s(core):
    """For how long a hypervisor has kept a core waiting since boot. That is no
    load, but for whoever was to run there it is no different from one."""
    with open("/proc/stat", encoding="ascii") as file:
        for line in file:
            if line.startswith(f"cpu{core} "):
                return int(line.split()[8]) / os.sysconf("SC_CLK_TCK")
    return 0.0


def wait_for_quiet(core, limit, seconds=20):
    """Waits until others use less than `limit` percent of the core for a
    second, but no longer than `seconds`."""
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
        say(f"others went on using core {core} for {seconds:.0f} s")


def root_mean_square(numbers):
    return math.sqrt(sum(number * number for number in numbers) / len(numbers))
