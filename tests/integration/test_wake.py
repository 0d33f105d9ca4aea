#!/usr/bin/python3
"""percore wake with the real kernel, and with files."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from command import PERCORE, TIMEOUT, documents, run  # noqa: E402
from harness import (TRIES, Skip, check,  # noqa: E402
                     check_killed_leaves_none, is_root, online_cores, run_tests,
                     say)
from terminal import on_terminal  # noqa: E402
from test_json_schema import obeys, validator  # noqa: E402

BPF_METHODS = ("bpf-timer", "thread", "passive")
COUNT = 500
SECONDS = 6
USAGE_SHARE = 0.005
USAGE_EDGE = 2  # idle states that began before the measurement, or ended after it
IDLES_MIN = 400  # the fewest idle states for which the edge is within the allowed share
MEDIANS_APART = 0.15
BUSY_MAX = 0.1  # share of the events of a quiet core that may be `busy`
MILLION = 1000000
HEADER = "WakeLatency,IntrLatency,SilentTime,IntrOff,ReqCState\n"


def measure(core, method, *options):
    return documents("wake", str(core), "--method", method, "--count",
                     str(COUNT), "--time", str(SECONDS), "--json", *options)[0]


def need_bpf():
    if not is_root():
        raise Skip("loading BPF programs needs root")
    done = run("wake", str(online_cores()[0]), "--count", "1", "--time", "0.1",
               "--json")
    if "built without BPF" in done.stderr or "Linux 5.15" in done.stderr:
        raise Skip(done.stderr.strip())
    check(done.returncode == 0, done.stderr)


def metric_of(document, name):
    """Returns the metric of the state with the most datapoints, or None."""
    found = [metric for state in document["states"]
             for metric in state["metrics"] if metric["metric"] == name]
    return max(found, key=lambda metric: metric["count"], default=None)


class Folder:
    """A new folder that is removed at the end of its `with` block."""

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
        """Writes latencies of 20 to 40 us and silent times of up to 4 ms."""
        rows = (f"{scale * (20 + i * 7919 % 20000 / 1000):.3f},30.5,"
                f"{i * 104729 % 4000000 / 1000:.3f},True,C6\n"
                for i in range(count))
        with open(self(name), "w", encoding="utf-8") as file:
            file.write(HEADER)
            file.writelines(rows)  # little memory: a child's peak includes this process's
        return self(name)


# ---------------------------------------------------------------------------
# The real kernel


def test_every_method_obeys_the_schema():
    """on every core, the documents of all methods obey the schema, and their
    datapoints are in a possible order"""
    need_bpf()
    schema = validator()
    for core in online_cores():
        for method in (*BPF_METHODS, "user"):
            document = measure(core, method, "--time", "2")
            obeys(schema, document)
            check(document["core"] == core and document["method"] == method,
                  str(document))
            for state in document["states"]:
                for metric in state["metrics"]:
                    check(0 <= metric["min_us"] <= metric["median_us"] <=
                          metric["max_us"], str(metric))
            check(("idles" in document) == (method != "user"), str(document))
            if method == "passive":
                check(document["armed"] == 0, str(document))
            else:
                check(document["armed"] > 0, str(document))


def test_idle_states_are_counted_as_by_cpuidle():
    """the programs see the idle states that cpuidle counts, within 0.5 %"""
    need_bpf()
    judged = 0
    for core in online_cores():
        document = measure(core, "bpf-timer")
        seen, usage = document["idles"], document.get("cpuidle_usage")
        if usage is None:
            raise Skip("cpuidle has no driver here")
        said = f"core {core}: {seen} idle states seen, {usage} counted"
        say(said)
        check(abs(seen - usage) <= USAGE_SHARE * usage + USAGE_EDGE, said)
        judged += usage >= IDLES_MIN
    if judged == 0:
        raise Skip("no core was idle often enough to judge")


def quiet_median(core, method):
    """Returns the median of IntrLatency, or None if the core is too busy."""
    document = measure(core, method)
    busy = document["dropped"]["busy"] / document["armed"]
    metric = metric_of(document, "IntrLatency")
    if busy <= BUSY_MAX and metric is not None and metric["count"] >= COUNT / 2:
        return metric["median_us"]
    say(f"core {core}, {method}: busy at {100 * busy:.0f} % of the events, "
        "not judged")
    return None


def are_near(a, b):
    return max(a, b) <= (1 + MEDIANS_APART) * min(a, b)


def medians_agree(core):
    """Returns None if the core cannot be judged, because it was busy or its latencies
    changed. A hypervisor's load changes latencies by more than the bound, so the
    thread is measured between two measurements with a BPF timer. It is judged only
    if these two agree, and has failed only if it never agreed with them."""
    judged = None
    for _ in range(TRIES):
        medians = []
        for method in ("bpf-timer", "thread", "bpf-timer"):
            medians.append(quiet_median(core, method))
            if medians[-1] is None:
                return None
        before, thread, after = medians
        say(f"core {core}: {before:.2f} and {after:.2f} us by BPF timer, "
            f"{thread:.2f} by thread")
        if not are_near(before, after):
            continue
        if are_near(thread, before) or are_near(thread, after):
            return True
        judged = False
    return judged


def test_thread_and_bpf_timer_agree():
    """on a quiet core, the medians with a thread and with a BPF timer differ by at
    most 15 %"""
    need_bpf()
    agree = [medians_agree(core) for core in online_cores()]
    check(False not in agree, f"by core: {agree}")
    if True not in agree:
        raise Skip("no core was quiet and as fast before as after")


def test_killed():
    """a command that is killed leaves no program in the kernel"""
    need_bpf()
    check_killed_leaves_none("wake_expire",
                             [PERCORE, "wake", str(online_cores()[0]),
                              "--count", "1000000"])


def test_without_capability():
    """without rights, the message says what to do, and --method user works"""
    if not is_root():
        raise Skip("becoming another user needs root")
    core = str(online_cores()[0])
    weak = ["setpriv", "--reuid", "65534", "--clear-groups", "--inh-caps=-all",
            PERCORE, "wake", core, "--time", "1"]
    done = subprocess.run(weak, capture_output=True, text=True, check=False,
                          timeout=TIMEOUT)
    check(done.returncode == 1, done.stdout)
    for words in ("CAP_BPF and CAP_PERFMON", "--method user", "as root"):
        check(words in done.stderr or "built without BPF" in done.stderr,
              done.stderr)
    done = subprocess.run([*weak, "--method", "user"], capture_output=True,
                          text=True, check=False, timeout=TIMEOUT)
    check(done.returncode == 0 and "UserLatency" in done.stdout, done.stderr)


def test_cores_that_are_not_there():
    """every method refuses a core that does not exist"""
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


def test_terminal():
    """on a terminal of 80 columns, no line is cut, and the histogram is shown once
    after the end"""
    core = str(online_cores()[0])
    written, status, _ = on_terminal(
        [PERCORE, "wake", core, "--method", "user", "--time", "2"], 4)
    check(status == 0, written)
    end = written.rsplit("\033[?1049l", 1)[-1]
    check(end.count("UserLatency, us") == 1 and "median" in end, end)
    pages = re.sub(r"\033\[[?0-9;]*[A-Za-z]", "", written)
    widths = [len(line.rstrip("\r")) for line in pages.split("\n")]
    check(max(widths) <= 80, pages)


# ---------------------------------------------------------------------------
# Files


def test_csv_comes_back():
    """a file that --csv wrote gives the same summary as the measurement"""
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
    """--from with --csv writes the datapoints that pass the filters"""
    with Folder() as folder, Folder() as other:
        path = folder.points("a.csv", 1000)
        done = run("wake", "--from", path, "--include", "SilentTime > 2000",
                   "--csv", other("b.csv"))
        check(done.returncode == 0, done.stderr)
        read = documents("wake", "--from", other("b.csv"), "--json")[0]
        check(0 < read["datapoints"] < 1000, str(read))
        check(metric_of(read, "SilentTime")["min_us"] > 2000, str(read))
        with open(other("info.yml"), encoding="utf-8") as info:
            check("cpu:" not in info.read(), "a core that is not known")


def test_compare():
    """--compare shows the change of each figure, and says if cores were idle for
    different times"""
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
    """the table of a file fits in 80 columns, and unknown figures are left out"""
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
              "refused with its unit")


def test_options_that_do_nothing():
    """options that would have no effect are refused"""
    for arguments in (["0", "--include", "SilentTime > 1"], ["0", "--unit", "us"],
                      ["--compare", "a", "b", "--json"],
                      ["--compare", "a", "b", "--plot", "c"], ["0", "1"],
                      ["--from", "a", "0"], ["--compare", "a"], []):
        done = run("wake", *arguments)
        check(done.returncode == 2, f"{arguments}: {done.stderr}")


def test_a_million():
    """a million datapoints are summarised in 2 s of CPU time and 200 MB"""
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
        # This file has no silent times, and its latencies are all the same.
        user = folder.write("user.csv", "UserLatency\n" + "7\n" * 100)
        done = run("wake", "--from", user, "--plot", path)
        check(done.returncode == 0 and done.stderr == "", done.stderr)
        done = run("wake", "--from", points, "--plot", folder("none/a.svg"))
        check(done.returncode == 1 and "none/a.svg" in done.stderr,
              done.stderr)


def test_plot_without_gnuplot():
    """without gnuplot, the message says to install it"""
    with Folder() as folder:
        done = run("wake", "--from", folder.points("a.csv", 3), "--plot",
                   folder("a.svg"), env={**os.environ, "PATH": folder.path})
        check(done.returncode == 1 and "gnuplot" in done.stderr and
              "installed" in done.stderr, done.stderr)


if __name__ == "__main__":
    run_tests(globals(), "percore wake", PERCORE)
