#!/usr/bin/python3
"""Tests percore wake with the real kernel, and with files."""

import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree
from random import Random

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from command import PERCORE, TIMEOUT, documents, run  # noqa: E402
from harness import (Skip, check,  # noqa: E402
                     check_killed_leaves_none, is_root, online_cores, run_tests,
                     say)
from terminal import on_terminal  # noqa: E402
from test_json_schema import obeys, validator  # noqa: E402

BPF_METHODS = ("bpf-timer", "thread", "passive")
PERF_METHODS = ("thread", "passive")
# Prefixes of commands: the first lets a command see tracefs even if this machine has
# not mounted it, and the second keeps a command from loading BPF programs.
WITH_TRACEFS = ["unshare", "--mount", "sh", "-c",
                'mount -t tracefs nodev /sys/kernel/tracing && exec "$@"', "sh"]
WITHOUT_BPF = ["setpriv", "--bounding-set=-bpf,-sys_admin"]
COUNT = 500
SECONDS = 4
USAGE_SHARE = 0.005
USAGE_EDGE = 2  # idle states that began before the measurement, or ended after it
IDLES_MIN = 400  # with fewer, USAGE_EDGE is most of the tolerance
MEDIANS_APART = 0.15
ROUNDS = 10  # the most medians of the thread that are compared with the BPF timer
JUDGED = 6  # the methods differ if JUDGED rounds differ in the same direction
BUSY_MAX = 0.1  # largest busy share of events on a quiet core
MILLION = 1000000
HEADER = "WakeLatency,IntrLatency,SilentTime,IntrOff,ReqCState\n"


def worked(done):
    """Returns whether a measurement succeeded. A measurement without datapoints also
    counts as a success: the core may not have been idle, or perf may not see it."""
    return done.returncode == 0 or "gave no datapoints" in done.stderr


def measure(core, method, *options):
    done = run("wake", str(core), "--method", method, "--count", str(COUNT),
               "--time", str(SECONDS), "--json", *options)
    check(worked(done), done.stderr)
    return json.loads(done.stdout)


def run_as(prefix, *arguments):
    return subprocess.run([*prefix, PERCORE, "wake", *arguments],
                          capture_output=True, text=True, check=False,
                          timeout=TIMEOUT, stdin=subprocess.DEVNULL)


def measure_by_perf(core, method):
    done = run_as(WITH_TRACEFS, str(core), "--method", method, "--source",
                  "perf", "--count", str(COUNT), "--time", str(SECONDS),
                  "--json")
    check(worked(done), done.stderr)
    return json.loads(done.stdout)


def need_perf():
    if not is_root():
        raise Skip("mounting tracefs needs root")
    done = run_as(WITH_TRACEFS, str(online_cores()[0]), "--source", "perf",
                  "--time", "0.1")
    if "tracefs" in done.stderr or "mount:" in done.stderr:
        raise Skip(done.stderr.strip())
    check(worked(done), done.stderr)


def need_bpf():
    if not is_root():
        raise Skip("loading BPF programs needs root")
    done = run("wake", str(online_cores()[0]), "--count", "1", "--time", "0.1",
               "--json")
    if "built without BPF" in done.stderr or "Linux 5.15" in done.stderr:
        raise Skip(done.stderr.strip())
    check(worked(done), done.stderr)


def metric_of(document, name):
    """Returns the metric of the idle state with the most datapoints, or None."""
    found = [metric for state in document["states"]
             for metric in state["metrics"] if metric["metric"] == name]
    return max(found, key=lambda metric: metric["count"], default=None)


class Folder:
    """A temporary directory that is removed at the end of its `with` block."""

    def __enter__(self):
        self.path = tempfile.mkdtemp(prefix="percore-wake-")
        self.info("1.3")
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.path)

    def __call__(self, name):
        return os.path.join(self.path, name)

    def info(self, version):
        self.write("info.yml", f"toolname: wult\nformat_version: '{version}'\n")

    def write(self, name, text):
        with open(self(name), "w", encoding="utf-8") as file:
            file.write(text)
        return self(name)

    def points(self, name, count, scale=1.0):
        """Writes a CSV file of `count` datapoints, with latencies of `scale` times 20
        to 40 us and silent times of up to 4 ms."""
        rows = (f"{scale * (20 + i * 7919 % 20000 / 1000):.3f},30.5,"
                f"{i * 104729 % 4000000 / 1000:.3f},True,C6\n"
                for i in range(count))
        with open(self(name), "w", encoding="utf-8") as file:
            file.write(HEADER)
            # The rows are not joined, because that would increase the memory of this
            # process, which the peak memory of a child process includes.
            file.writelines(rows)
        return self(name)


# ---------------------------------------------------------------------------
# The real kernel


def test_every_method_obeys_the_schema():
    """on every core, the documents of all methods obey the schema, and no minimum is
    above its median and no median above its maximum"""
    need_bpf()
    schema = validator()
    for core in online_cores():
        for method in (*BPF_METHODS, "user"):
            document = measure(core, method, "--time", "1")
            obeys(schema, document)
            check(document["core"] == core and document["method"] == method,
                  str(document))
            for state in document["states"]:
                for metric in state["metrics"]:
                    check(0 <= metric["min_us"] <= metric["median_us"] <=
                          metric["max_us"], str(metric))
            check(document["source"] == ("none" if method == "user" else "bpf"),
                  str(document))
            check(("idles" in document) == (method != "user"), str(document))
            if method == "passive":
                check(document["armed"] == 0, str(document))
            else:
                check(document["armed"] > 0, str(document))


def test_perf_obeys_the_schema():
    """with perf instead of BPF, the documents obey the schema, and no minimum is above
    its median and no median above its maximum"""
    need_perf()
    schema = validator()
    for core in online_cores():
        for method in PERF_METHODS:
            document = measure_by_perf(core, method)
            obeys(schema, document)
            check(document["source"] == "perf", str(document))
            check((document["armed"] > 0) == (method == "thread"), str(document))
            for state in document["states"]:
                for metric in state["metrics"]:
                    check(0 <= metric["min_us"] <= metric["median_us"] <=
                          metric["max_us"], str(metric))


def check_idles(measure_core, may_be_blind=False):
    """Checks that the source counts as many idle states as cpuidle on every core.
    may_be_blind: the source may see no idle states at all on some cores, because some
    kernels hide the idle task from it."""
    judged = 0
    for core in online_cores():
        document = measure_core(core)
        seen, usage = document["idles"], document.get("cpuidle_usage")
        if usage is None:
            raise Skip("cpuidle has no driver here")
        said = f"core {core}: {seen} idle states seen, {usage} counted"
        say(said)
        if may_be_blind and seen == 0:
            continue
        check(abs(seen - usage) <= USAGE_SHARE * usage + USAGE_EDGE, said)
        judged += usage >= IDLES_MIN
    if judged == 0:
        raise Skip("no core was idle often enough to compare")


def test_idle_states_are_counted_as_by_cpuidle():
    """the BPF programs count as many idle states as cpuidle, within 0.5 %"""
    need_bpf()
    check_idles(lambda core: measure(core, "bpf-timer"))


def test_perf_counts_idle_states_as_cpuidle():
    """perf counts as many idle states as cpuidle, within 0.5 %, unless the kernel hides
    all idle states from perf"""
    need_perf()
    check_idles(lambda core: measure_by_perf(core, "thread"), may_be_blind=True)


def quiet_median(core, method):
    """Returns the median of IntrLatency in microseconds, or None if the core is too
    busy."""
    document = measure(core, method)
    busy = document["dropped"]["busy"] / document["armed"]
    metric = metric_of(document, "IntrLatency")
    if busy <= BUSY_MAX and metric is not None and metric["count"] >= COUNT / 2:
        say(f"core {core}, {method}: {metric['median_us']:.2f} us")
        return metric["median_us"]
    say(f"core {core}, {method}: busy at {100 * busy:.0f} % of the events, "
        "not compared")
    return None


def are_near(a, b):
    return max(a, b) <= (1 + MEDIANS_APART) * min(a, b)


def medians_agree(median):
    """Returns whether two methods agree, or None if this cannot be decided because the
    core was busy, or so noisy that the thread was sometimes faster and sometimes
    slower. Measures median("bpf-timer") and median("thread") alternately. Load of a
    hypervisor changes latencies by more than the bound. So a median of the thread is
    used only if the medians of the timer before and after it agree, and the methods
    differ only if the thread always differs in the same direction."""
    sides = []
    before = median("bpf-timer")
    for _ in range(ROUNDS):
        thread = before and median("thread")
        after = thread and median("bpf-timer")
        if after is None:
            return None
        if are_near(before, after):
            if are_near(thread, before) or are_near(thread, after):
                return True
            sides.append(thread > after)
            if len(set(sides)) > 1:
                return None
            if len(sides) == JUDGED:
                return False
        before = after
    return None


def test_thread_and_bpf_timer_agree():
    """on a quiet core, the medians with a thread and with a BPF timer differ by at
    most 15 %"""
    need_bpf()
    agree = [medians_agree(lambda method, core=core: quiet_median(core, method))
             for core in online_cores()]
    check(False not in agree, f"by core: {agree}")
    if True not in agree:
        raise Skip("no core was quiet for long enough")


def test_medians_are_compared_in_noise():
    """noise without a true difference never makes the comparison of medians fail, and a
    true difference of 40 % makes it fail"""
    random = Random(1)

    def verdicts(factor, spread):
        def median(method):
            noise = math.exp(random.gauss(0, spread))
            return 20 * noise * (factor if method == "thread" else 1)
        return [medians_agree(median) for _ in range(200)]

    for spread in (0.01, 0.1, 0.3, 1):
        check(False not in verdicts(1, spread), f"noise of {spread} makes it fail")
    for factor in (0.6, 1.4):
        check(set(verdicts(factor, 0.01)) == {False},
              f"a factor of {factor} was not found")
        check(False in verdicts(factor, 0.1),
              f"a factor of {factor} was never found in noise")


def test_killed():
    """a percore wake that is killed leaves no BPF program in the kernel"""
    need_bpf()
    check_killed_leaves_none("wake_expire",
                             [PERCORE, "wake", str(online_cores()[0]),
                              "--count", "1000000"])


def test_without_capability():
    """without rights, only UserLatency is measured, and the message says which rights
    are needed to measure more"""
    if not is_root():
        raise Skip("becoming another user needs root")
    core = str(online_cores()[0])
    weak = ["setpriv", "--reuid", "65534", "--clear-groups", "--inh-caps=-all"]
    for options, status in ((["--method", "thread"], 1), ([], 0)):
        done = run_as(weak, core, "--time", "1", *options)
        check(done.returncode == status, done.stderr)
        for words in ("CAP_BPF and CAP_PERFMON", "as root"):
            check(words in done.stderr or "built without BPF" in done.stderr,
                  done.stderr)
        check("neither source works. bpf: " in done.stderr and "; perf: " in
              done.stderr, done.stderr)
    check("method user" in done.stdout and "UserLatency" in done.stdout,
          done.stdout)
    done = run_as(weak, core, "--time", "1", "--method", "user")
    check(done.returncode == 0 and done.stderr == "", done.stderr)


def test_without_one_capability():
    """with only one of CAP_BPF and CAP_PERFMON, the message names the missing
    capability"""
    if not is_root():
        raise Skip("dropping capabilities needs root")
    for missing in ("perfmon", "bpf"):
        done = run_as(["setpriv", f"--bounding-set=-{missing},-sys_admin"],
                      str(online_cores()[0]), "--source", "bpf", "--time", "0.1")
        if "built without BPF" in done.stderr:
            raise Skip(done.stderr.strip())
        check(done.returncode == 1 and "CAP_BPF and CAP_PERFMON: "
              f"CAP_{missing.upper()} is missing;" in done.stderr,
              done.stderr)


def test_without_bpf():
    """without rights for BPF, percore wake refuses the method "bpf-timer" and uses the
    method "thread" with perf"""
    need_perf()
    core = str(online_cores()[0])
    weak = [*WITH_TRACEFS, *WITHOUT_BPF]
    done = run_as(weak, core, "--time", "1")
    check(worked(done) and "method thread, source perf" in done.stdout
          and "method thread is used" in done.stderr, done.stderr)
    for options in (["--method", "bpf-timer"], ["--source", "bpf"],
                    ["--method", "bpf-timer", "--source", "perf"]):
        done = run_as(weak, core, "--time", "1", *options)
        check(done.returncode == 1 and "BPF" in done.stderr, done.stderr)


def test_cores_that_are_not_there():
    """percore wake refuses a core that does not exist, with every method"""
    absent = str(max(online_cores()) + 1)
    for method in ("user", *(BPF_METHODS if is_root() else ())):
        done = run("wake", absent, "--method", method)
        check(done.returncode == 1 and
              (f"core {absent}: it does not exist" in done.stderr or
               "BPF" in done.stderr), done.stderr)
    for word in ("-1", "8192", "0x", "", "two"):
        done = run("wake", "--", word)
        check(done.returncode == 2 and "is not a core" in done.stderr,
              done.stderr)


def test_default_core():
    """if no core is given, the last core that is not isolated is measured"""
    isolated = set()
    with open("/sys/devices/system/cpu/isolated", encoding="ascii") as file:
        for part in filter(None, file.read().strip().split(",")):
            first, _, last = part.partition("-")
            isolated.update(range(int(first), int(last or first) + 1))
    wanted = [core for core in online_cores() if core not in isolated]
    document = documents("wake", "--method", "user", "--time", "0.2",
                         "--json")[0]
    check(document["core"] == wanted[-1], str(document))


def test_terminal():
    """on a terminal of 80 columns, no line is cut, and the histogram is shown once
    after the end"""
    core = str(online_cores()[0])
    written, status, _ = on_terminal(
        [PERCORE, "wake", core, "--method", "user", "--time", "2"], 4)
    check(status == 0, written)
    end = written.rsplit("\033[H", 1)[-1]
    check(end.count("UserLatency, us") == 1 and "median" in end, end)
    pages = re.sub(r"\033\[[?0-9;]*[A-Za-z]", "", written)
    widths = [len(line.rstrip("\r")) for line in pages.split("\n")]
    check(max(widths) <= 80, pages)


# ---------------------------------------------------------------------------
# Files


def test_csv_comes_back():
    """percore wake --from prints the same summary for a file that --csv has written as
    the measurement that wrote the file"""
    core = str(online_cores()[0])
    with Folder() as folder:
        path = folder("datapoints.csv")
        method = "bpf-timer" if is_root() else "user"
        measured = measure(core, method, "--csv", path)
        for file in (path, folder.path):
            read = documents("wake", "--from", file, "--json")[0]
            obeys(validator(), read)
            check(read["datapoints"] == measured["datapoints"], str(read))
            for name in ("WakeLatency", "IntrLatency", "UserLatency"):
                one, two = metric_of(measured, name), metric_of(read, name)
                check((one is None) == (two is None), f"{name}: {one}, {two}")
                if one is not None:
                    for figure, value in one.items():
                        check(value == two[figure] or
                              abs(value - two[figure]) < 0.002,
                              f"{name} {figure}: {value}, {two[figure]}")


def test_convert_a_file():
    """percore wake --from with --csv writes the datapoints that pass the filters"""
    with Folder() as folder, Folder() as other:
        path = folder.points("a.csv", 1000)
        done = run("wake", "--from", path, "--include", "SilentTime > 2000",
                   "--csv", other("b.csv"))
        check(done.returncode == 0, done.stderr)
        read = documents("wake", "--from", other("b.csv"), "--json")[0]
        check(0 < read["datapoints"] < 1000, str(read))
        check(metric_of(read, "SilentTime")["min_us"] > 2000, str(read))
        with open(other("info.yml"), encoding="utf-8") as info:
            check("cpu:" not in info.read(), "the core is named, but not known")


def test_compare():
    """percore wake --compare shows the change of each figure, and warns if the cores
    were idle for different times"""
    with Folder() as folder:
        a = folder.points("a.csv", 2000)
        b = folder.points("b.csv", 2000, 1.5)
        done = run("wake", "--compare", a, b)
        check(done.returncode == 0, done.stderr)
        for figure in ("min", "median", "99 %"):
            check(re.search(rf"^  {figure} .* \+50\.0$", done.stdout, re.M),
                  done.stdout)
        check(max(map(len, done.stdout.splitlines()[2:])) <= 80, done.stdout)
        check("idle for different" not in done.stdout, done.stdout)
        c = folder.write("c.csv", HEADER + "20,30,99999,True,C6\n" * 20 +
                         "20,30,9,True,C1\n")
        done = run("wake", "--compare", a, c)
        check("idle for different" in done.stdout, done.stdout)
        check("C1 only in B" in done.stdout, done.stdout)


def test_summary_fits():
    """the table that percore wake --from prints fits in 80 columns, and unknown figures
    are left out"""
    with Folder() as folder:
        done = run("wake", "--from", folder.points("a.csv", 20000))
        check(done.returncode == 0, done.stderr)
        check(max(map(len, done.stdout.splitlines()[1:])) <= 80, done.stdout)
        for words, wanted in (("99.9 %", True), ("99.99 %", False),
                              ("UserLatency", False), ("SilentTime", True)):
            check((words in done.stdout) == wanted, f"{words}: {done.stdout}")


def test_bad_files():
    """bad files of every kind are refused, and the message names the file"""
    with Folder() as folder:
        row = "1,2,3,True,C6\n"
        bad = {
            "empty": "",
            "header": "a,b\n1,2\n",
            "short": HEADER + row + "1,2\n",
            "long": HEADER + row + "1,2,3,True,C6,7\n",
            "type": HEADER + row + "1,two,3,True,C6\n",
            "flag": HEADER + row + "1,2,3,maybe,C6\n",
            "endless": HEADER + "1" * 100000 + "\n",
            "binary": "WakeLatency\0\n",
        }
        paths = [folder.write(name, text) for name, text in bad.items()]
        os.mkdir(folder("none"))
        for path in (*paths, "/dev/urandom", folder("none"), folder("absent")):
            done = run("wake", "--from", path)
            check(done.returncode == 1 and path in done.stderr and
                  done.stdout == "", f"{path}: {done.stderr}{done.stdout}")
        folder.info("2.0")
        good = folder.points("good.csv", 3)
        done = run("wake", "--from", good)
        check(done.returncode == 1 and "format_version 2.0 is unknown" in done.stderr,
              done.stderr)
        check(run("wake", "--from", good, "--unit", "us").returncode == 0,
              "the file is refused although --unit is given")


def test_options_that_do_nothing():
    """percore wake refuses options that would have no effect"""
    measuring = (["--method", "user"], ["--source", "bpf"], ["--count", "3"],
                 ["--time", "60"], ["--distance", "4000"], ["--pause", "0"])
    for arguments in (["0", "1"], ["--from", "a", "0"], ["--compare", "a"],
                      ["0", "--method", "user", "--source", "perf"]):
        done = run("wake", *arguments)
        check(done.returncode == 2, f"{arguments}: {done.stderr}")
    for words, options in ((["0"], (["--include", "SilentTime > 1"],
                                    ["--exclude", "SilentTime > 1"],
                                    ["--unit", "us"])),
                           (["--from", "a"], measuring),
                           (["--compare", "a", "b"],
                            (*measuring, ["--json"], ["--plot", "c"],
                             ["--csv", "c"], ["--from", "c"]))):
        for option in options:
            done = run("wake", *words, *option)
            check(done.returncode == 2 and f" {option[0]} " in done.stderr,
                  f"{words} {option}: {done.stderr}")


def test_a_million():
    """percore wake --from needs less than 2 s of CPU time and 200 MB of memory to
    summarise a million datapoints"""
    with Folder() as folder:
        path = folder.points("million.csv", MILLION)
        with subprocess.Popen([PERCORE, "wake", "--from", path, "--json"],
                              stdout=subprocess.PIPE) as process:
            document = json.load(process.stdout)
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        seconds = used.ru_utime + used.ru_stime
        said = f"{seconds:.2f} s, {used.ru_maxrss / 1000:.0f} MB"
        say(said)
        check(process.returncode == 0, said)
        check(document["datapoints"] == MILLION, str(document))
        check(metric_of(document, "WakeLatency")["p99_999_us"] is not None,
              str(document))
        check(seconds < 2 and used.ru_maxrss < 200000, said)


# ---------------------------------------------------------------------------
# Plots


def boxes(root):
    """Returns the x coordinates of each filled polygon of the histogram."""
    return [[float(x) for x in re.findall(r"([\d.]+),[\d.]+", node.get("points"))]
            for node in root.iter("{http://www.w3.org/2000/svg}polygon")
            if node.get("fill-opacity")]


def test_plot():
    """a plot is an SVG with three diagrams, whatever the name of its file"""
    if shutil.which("gnuplot") is None:
        raise Skip("gnuplot is missing")
    with Folder() as folder:
        path = folder("o'clock.svg")
        points = folder.points("a.csv", 3000)
        done = run("wake", "--from", points, "--plot", path)
        check(done.returncode == 0, done.stderr)
        text = "".join(xml.etree.ElementTree.parse(path).getroot().itertext())
        for words in ("datapoints", "percent of datapoints", "SilentTime, us",
                      "WakeLatency, us"):
            check(words in text, text)
        check("a.csv, C6: 3000 datapoints" in text, text)
        # All bars have the same width, although most of the range is empty.
        rows = "".join(f"{us},1,9,True,C6\n" for us in [*[20, 60] * 999, 900])
        rare = folder.write("rare.csv", HEADER + rows)
        done = run("wake", "--from", rare, "--plot", path)
        root = xml.etree.ElementTree.parse(path).getroot()
        check("above 60.4 us: 1 datapoint, not shown" in
              "".join(root.itertext()), "".join(root.itertext()))
        widths = [max(xs) - min(xs) for xs in boxes(root)]
        check(len(widths) == 2 and max(widths) < 20, str(widths))
        # This file contains no silent times, and its latencies are all the same.
        user = folder.write("user.csv", "UserLatency\n" + "7\n" * 100)
        done = run("wake", "--from", user, "--plot", path)
        check(done.returncode == 0 and done.stderr == "", done.stderr)
        done = run("wake", "--from", points, "--plot", folder("none/a.svg"))
        check(done.returncode == 1 and "none/a.svg" in done.stderr,
              done.stderr)


def test_no_datapoints():
    """a measurement without datapoints fails and says what to do"""
    done = run("wake", str(online_cores()[0]), "--method", "user", "--pause",
               "60000", "--time", "0.1")
    check(done.returncode == 1 and "gave no datapoints; measure longer" in
          done.stderr, done.stderr)


def test_outputs_are_checked_first():
    """a file that cannot be written, or a missing gnuplot, is refused before
    anything is measured"""
    core = str(online_cores()[0])
    with Folder() as folder:
        nowhere = folder("none/x")
        without = {**os.environ, "PATH": folder.path}
        for option, path, env, said in (
                ("--csv", nowhere, None, f"--csv: cannot write {nowhere}: No such file"),
                ("--plot", nowhere, None, f"--plot: cannot write {nowhere}: No such file"),
                ("--csv", folder.path, None, "Is a directory"),
                ("--plot", folder("a.svg"), without,
                 "--plot: gnuplot is not installed; apt-get install gnuplot-nox")):
            # A measurement that began without this check would exceed the time limit of
            # run().
            done = run("wake", core, "--method", "user", "--time", "3600",
                       "--count", "100000000", option, path, env=env)
            check(done.returncode == 1 and said in done.stderr and
                  done.stdout == "", done.stderr)


def test_plot_without_gnuplot():
    """without gnuplot, the message says to install it"""
    with Folder() as folder:
        done = run("wake", "--from", folder.points("a.csv", 3), "--plot",
                   folder("a.svg"), env={**os.environ, "PATH": folder.path})
        check(done.returncode == 1 and "gnuplot" in done.stderr and
              "installed" in done.stderr, done.stderr)


if __name__ == "__main__":
    run_tests(globals(), "percore wake", PERCORE)
