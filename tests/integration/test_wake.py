#!/usr/bin/python3
"""Tests percore wake with the real kernel."""

import csv
import json
import math
import os
import re
import subprocess
import sys
import tempfile
from random import Random

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from command import PERCORE, TIMEOUT, run  # noqa: E402
from harness import (Burner, Child, Skip, bpf_programs, check,  # noqa: E402
                     check_killed_leaves_none, is_root, online_cores, run_tests,
                     say, wait_for)
from terminal import on_terminal  # noqa: E402
from test_json_schema import obeys, validator  # noqa: E402

METHODS = ("bpf-timer", "thread")
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WULT_RESULT = f"{ROOT}/contrib/wake/wult-result"
COUNT = 500
SECONDS = 4
USAGE_SHARE = 0.005
USAGE_EDGE = 2  # idle states that began before the measurement, or ended after it
IDLES_MIN = 400  # with fewer, USAGE_EDGE is most of the tolerance
MEDIANS_APART = 0.15
ROUNDS = 10  # the most medians of the thread that are compared with the BPF timer
JUDGED = 6  # the methods differ if JUDGED rounds differ in the same direction
BUSY_MAX = 0.1  # largest busy share of events on a quiet core


def worked(done):
    """Returns whether a measurement succeeded. A measurement with too few datapoints also
    counts as a success: the core may not have been idle."""
    return done.returncode == 0 or "too few for a result" in done.stderr


def measure(core, method, *options):
    done = run("wake", str(core), "--method", method, "--count", str(COUNT),
               "--time", str(SECONDS), "--json", *options)
    check(worked(done), done.stderr)
    return json.loads(done.stdout)


def run_as(prefix, *arguments):
    return subprocess.run([*prefix, PERCORE, "wake", *arguments],
                          capture_output=True, text=True, check=False,
                          timeout=TIMEOUT, stdin=subprocess.DEVNULL)


def need_bpf():
    if not is_root():
        raise Skip("loading BPF programs needs root")
    done = run("wake", str(online_cores()[0]), "--count", "1", "--time", "0.1",
               "--json")
    if "built without BPF" in done.stderr or "Linux 5.15" in done.stderr:
        raise Skip(done.stderr.strip())
    check(worked(done), done.stderr)


# ---------------------------------------------------------------------------
# The real kernel


def check_metrics(metrics):
    for metric in metrics:
        check(0 <= metric["min_us"] <= metric["median_us"] <= metric["max_us"],
              str(metric))


def test_every_method_obeys_the_schema():
    """on every core, the documents of all methods obey the schema, no minimum is above
    its median and no median above its maximum, the states add up to all, and datapoints
    and dropped events to the events that were armed"""
    need_bpf()
    schema = validator()
    for core in online_cores():
        for method in METHODS:
            document = measure(core, method, "--time", "1")
            obeys(schema, document)
            check(document["core"] == core and document["method"] == method,
                  str(document))
            check_metrics(document["metrics"])
            for state in document["states"]:
                check_metrics(state["metrics"])
            for metric in document["metrics"]:
                count = sum(other["count"] for state in document["states"]
                            for other in state["metrics"]
                            if other["metric"] == metric["metric"])
                check(metric["count"] == count, str(document))
            check(document["armed"] == document["datapoints"]
                  + sum(document["dropped"].values()), str(document))


def test_idle_states_are_counted_as_by_cpuidle():
    """the BPF programs count as many idle states as cpuidle, within 0.5 %"""
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
        raise Skip("no core was idle often enough to compare")


def test_every_event_has_a_reason():
    """at distances of 1 and 20 us, with 10 000 timers a second of another program on the
    core, the events that were armed are datapoints or were dropped for a reason"""
    need_bpf()
    core = online_cores()[-1]
    with tempfile.TemporaryDirectory(prefix="percore-wake-") as folder:
        burner = Burner(core, "1/100", 60, folder)
        try:
            for method in ("bpf-timer", "thread"):
                for distance in ("1", "20"):
                    done = run("wake", str(core), "--method", method, "--distance",
                               distance, "--count", "100000000", "--time", "0.5", "--json")
                    check(worked(done), done.stderr)
                    document = json.loads(done.stdout)
                    said = (f"{method} {distance}: {document['datapoints']} of "
                            f"{document['armed']}, {document['dropped']}")
                    say(said)
                    check(document["armed"] == document["datapoints"]
                          + sum(document["dropped"].values()), said)
        finally:
            burner.stop()


def quiet_median(core, method):
    """Returns the median of IntrLatency in microseconds, or None if the core is too
    busy."""
    document = measure(core, method)
    busy = document["dropped"]["busy"] / document["armed"]
    metric = next((metric for metric in document["metrics"]
                   if metric["metric"] == "IntrLatency"), None)
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
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        if " hypervisor" in file.read():
            raise Skip("the hypervisor delays their timers by more than that; guests of "
                       "tests/testbed compare the medians in virtual time")
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


def test_only_the_bpf_timer_loads_a_timer():
    """the method thread loads no program that uses a BPF timer, which kernels with
    PREEMPT_RT would refuse"""
    need_bpf()
    core = str(online_cores()[0])
    for method in METHODS:
        before = bpf_programs("wake_expire"), bpf_programs("wake_begin")
        with Child([PERCORE, "wake", core, "--method", method, "--count", "1000000"],
                   stdout=subprocess.DEVNULL) as process:
            wait_for(lambda: bpf_programs("wake_expire") - before[0],
                     "nothing was loaded")
            timer = bpf_programs("wake_begin") - before[1]
            process.kill()
            process.wait()
        check(bool(timer) == (method == "bpf-timer"), f"{method}: {timer}")


def test_without_rights():
    """without rights, nothing is measured, and the message says which are needed"""
    if not is_root():
        raise Skip("becoming another user needs root")
    weak = ["setpriv", "--reuid", "65534", "--clear-groups", "--inh-caps=-all"]
    for options in ([], ["--method", "thread"]):
        done = run_as(weak, str(online_cores()[0]), "--time", "1", *options)
        check(done.returncode == 1 and done.stdout == "", done.stderr)
        for words in ("CAP_BPF and CAP_PERFMON", "as root"):
            check(words in done.stderr or "built without BPF" in done.stderr,
                  done.stderr)


def test_without_one_capability():
    """with only one of CAP_BPF and CAP_PERFMON, the message names the missing
    capability"""
    if not is_root():
        raise Skip("dropping capabilities needs root")
    for missing in ("perfmon", "bpf"):
        done = run_as(["setpriv", f"--bounding-set=-{missing},-sys_admin"],
                      str(online_cores()[0]), "--time", "0.1")
        if "built without BPF" in done.stderr:
            raise Skip(done.stderr.strip())
        check(done.returncode == 1 and "CAP_BPF and CAP_PERFMON: "
              f"CAP_{missing.upper()} is missing;" in done.stderr,
              done.stderr)


def test_cores_that_are_not_there():
    """percore wake refuses a core that does not exist, with every method"""
    absent = str(max(online_cores()) + 1)
    for method in METHODS if is_root() else ():
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
    need_bpf()
    done = run("wake", "--time", "0.2", "--json")
    check(worked(done), done.stderr)
    document = json.loads(done.stdout)
    check(document["core"] == wanted[-1], str(document))


def test_terminal():
    """on a terminal of 80 columns, percore wake tells how many datapoints there are, and
    replaces this by the result, in which no line is wrapped"""
    need_bpf()
    core = str(online_cores()[0])
    written, status, _ = on_terminal([PERCORE, "wake", core, "--time", "2"], 4)
    if "too few for a result" in written:
        raise Skip(f"core {core} was hardly ever idle")
    check(status == 0, written)
    told, end = written.rsplit("\r\033[K", 1)
    check(re.search(r"\r\d+ datapoints in 1\.\d s\r", told), told)
    check("IntrLatency" in end and "median" in end and
          end.startswith(f"core {core}, method"), end)
    check(max(len(line.rstrip("\r")) for line in end.split("\n")) <= 80, end)


# ---------------------------------------------------------------------------
# Results for wult


def measure_for_wult(folder, *options):
    """Writes a result; returns the finished process."""
    return subprocess.run([WULT_RESULT, "--percore", PERCORE, folder,
                           str(online_cores()[0]), *options],
                          capture_output=True, text=True, check=False, timeout=TIMEOUT)


def rows_of(path):
    """Returns the rows of a file, all of which must be complete."""
    with open(path, encoding="ascii") as file:
        text = file.read()
    check(text.endswith("\n"), text[-100:])
    rows = list(csv.DictReader(text.splitlines()))
    check(all(None not in row and None not in row.values() for row in rows), text[-200:])
    return rows


def info_of(folder):
    with open(f"{folder}/info.yml", encoding="ascii") as file:
        return dict(re.findall(r"^(\w+): (.*)$", file.read(), re.M))


def test_datapoints():
    """--csv writes each datapoint as a row with a value of the right type in each column,
    and the figures are those of --json"""
    need_bpf()
    types = {"IntrOff": {"True": True, "False": False}.__getitem__, "ReqCState": str}
    for method in METHODS:
        with tempfile.TemporaryDirectory(prefix="percore-wake-") as above:
            document = measure(online_cores()[0], method, "--csv", f"{above}/rows")
            if document["datapoints"] == 0:
                raise Skip("the core was never idle")
            rows = rows_of(f"{above}/rows")
        check(len(rows) == document["datapoints"], str(len(rows)))
        check({"IntrLatency", "WakeLatency", "SilentTime", "LDist", "IntrOff",
               "ReqCState"} <= rows[0].keys(), str(rows[0]))
        check(("UserLatency" in rows[0]) == (method == "thread"), str(rows[0]))
        for row in rows:
            for name, value in row.items():
                value = types.get(name, float)(value)
                check(value == value and value not in ("", math.inf), str(row))
        for metric in document["metrics"]:
            values = [float(row[metric["metric"]]) for row in rows
                      if metric["metric"] != "WakeLatency" or row["IntrOff"] == "True"]
            check(len(values) == metric["count"] and
                  abs(min(values) - metric["min_us"]) < 0.001 and
                  abs(max(values) - metric["max_us"]) < 0.01, str(metric))


def test_wult_reads_the_result():
    """contrib/wake/wult-result writes what wult reads: info.yml has the keys of format 1.3,
    and a row of datapoints.csv is a datapoint"""
    need_bpf()
    with tempfile.TemporaryDirectory(prefix="percore-wake-") as above:
        done = measure_for_wult(f"{above}/result", "--count", "200", "--time", "5")
        if not os.path.exists(f"{above}/result"):
            raise Skip("the core was never idle")
        rows, info = rows_of(f"{above}/result/datapoints.csv"), info_of(f"{above}/result")
    check(info["toolname"] == "wult" and info["format_version"] == "'1.3'" and
          info["cpu"] == str(online_cores()[0]) and
          info["devid"] in METHODS and info["datapoints"] == str(len(rows)) and
          {"toolver", "reportid", "date", "devdescr", "resolution", "duration"}
          <= info.keys(), str(info))
    check(info["ended"] == f"'exit status {done.returncode}'", str(info))


def test_results_are_not_overwritten():
    """a directory or a file that exists, or that cannot be made, is refused before anything
    is measured"""
    long = ["--time", "3600", "--count", "100000000"]
    with tempfile.TemporaryDirectory(prefix="percore-wake-") as folder:
        done = measure_for_wult(folder, *long)
        check(done.returncode == 1 and "never overwritten" in done.stderr, done.stderr)
        with open(f"{folder}/rows", "w", encoding="ascii") as file:
            file.write("mine\n")
        for where, said in ((f"{folder}/rows", "File exists"),
                            (f"{folder}/rows/x", "Not a directory"),
                            (f"{folder}/none/x", "No such file")):
            done = run("wake", str(online_cores()[0]), *long, "--csv", where)
            check(done.returncode == 1 and said in done.stderr and where in done.stderr
                  and done.stdout == "", done.stderr)
        with open(f"{folder}/rows", encoding="ascii") as file:
            check(file.read() == "mine\n", "overwritten")


def test_no_datapoints():
    """a measurement without datapoints fails, says what to do, and writes no result"""
    need_bpf()
    with tempfile.TemporaryDirectory(prefix="percore-wake-") as above:
        done = measure_for_wult(f"{above}/result", "--pause", "60000", "--time", "0.1")
        check(done.returncode == 1 and "gave 0 datapoints of 1 events" in done.stderr,
              done.stderr)
        check(not os.listdir(above), "a result without datapoints")


def begin_result(folder):
    """Starts a long measurement, and waits for its first datapoints."""
    process = Child([WULT_RESULT, "--percore", PERCORE, folder, str(online_cores()[0]),
                     "--time", "60", "--count", "1000000"],
                    stderr=subprocess.PIPE, text=True)
    path = f"{folder}/datapoints.csv"
    try:
        wait_for(lambda: os.path.exists(path) and os.path.getsize(path) > 100,
                 "no datapoints")
    except AssertionError:
        process.terminate()
        process.communicate()
        raise Skip("the core was never idle") from None
    return process


def test_result_can_be_read_while_it_is_written():
    """while a result is being written, its rows are complete and info.yml says that it has
    no end yet; a signal ends the measurement and keeps what was measured"""
    need_bpf()
    with tempfile.TemporaryDirectory(prefix="percore-wake-") as above:
        folder = f"{above}/result"
        process = begin_result(folder)
        for _ in range(300):
            rows = rows_of(f"{folder}/datapoints.csv")
            check(rows and info_of(folder)["ended"] == "'running'", f"{len(rows)}")
        process.terminate()
        process.communicate(timeout=30)
        rows = rows_of(f"{folder}/datapoints.csv")
        info = info_of(folder)
        check(info["datapoints"] == str(len(rows)) and "exit status" in info["ended"],
              str(info))


def test_full_disk():
    """on a disk that becomes full, a measurement ends, says so, and leaves whole rows"""
    need_bpf()
    with tempfile.TemporaryDirectory(prefix="percore-wake-") as above:
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24k", "small", above],
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Skip(done.stderr.strip())
        try:
            folder = f"{above}/it's"
            process = begin_result(folder)
            _, said = process.communicate(timeout=90)
            if "too few for a result" in said:
                raise Skip("the core was hardly ever idle")
            check(process.returncode == 1 and "No space left on device" in said, said)
            rows = rows_of(f"{folder}/datapoints.csv")
            check(len(rows) > 50, str(len(rows)))
        finally:
            subprocess.run(["umount", above], check=False)


def test_time_namespace():
    """in a time namespace whose CLOCK_MONOTONIC differs, in either direction, the latencies
    are those of the core"""
    need_bpf()
    for offset in ("100000", "-50"):
        inside = ["unshare", "--time", "--monotonic", offset, "--fork"]
        if subprocess.run([*inside, "true"], check=False, capture_output=True).returncode:
            raise Skip("no time namespaces here")
        done = run_as(inside, str(online_cores()[0]), "--method", "thread", "--count", "100",
                      "--time", "4", "--json")
        check(worked(done), done.stderr)
        metrics = {metric["metric"]: metric
                   for metric in json.loads(done.stdout)["metrics"]}
        if not metrics.get("UserLatency", {}).get("count"):
            raise Skip("the core was never idle")
        check(0 < metrics["UserLatency"]["median_us"] < 10000, str(metrics))


SLEEPS = "230" if os.uname().machine == "x86_64" else "115"  # clock_nanosleep


def test_signals():
    """a measurement that a signal ends while it takes datapoints shows its result"""
    need_bpf()
    for _ in range(8):
        process = Child([PERCORE, "wake", str(online_cores()[0]), "--time", "20", "--json"],
                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        with open(f"/proc/{process.pid}/syscall", encoding="ascii") as file:
            def is_asleep(file=file):
                file.seek(0)
                return file.read().split()[0] == SLEEPS
            wait_for(lambda: sum(is_asleep() for _ in range(100)) == 100, "never asleep")
            while is_asleep():
                pass
            process.terminate()
        written, _ = process.communicate(timeout=20)
        check(json.loads(written or "{}").get("seconds", 20) < 20, f"wrote '{written}'")


def test_threshold():
    """--threshold ends the measurement at the first wake above it, with exit status 1, and
    says which state, time and interrupt it was"""
    need_bpf()
    done = run("wake", str(online_cores()[0]), "--threshold", "0.1", "--time", "20",
               "--json")
    if "too few for a result" in done.stderr:
        raise Skip("the core was never idle")
    document = json.loads(done.stdout)
    check(done.returncode == 1 and document["seconds"] < 19, done.stderr)
    check(re.search(r"woke after \S+ us at \S+ s of CLOCK_MONOTONIC; it had been in "
                    r"\S+ for \S+ us, and interrupt \d+ woke it", done.stderr), done.stderr)
    obeys(validator(), document)


def test_latency_limit():
    """a limit that a process sets is named, and how to find the process"""
    need_bpf()
    try:
        with open("/dev/cpu_dma_latency", "wb", buffering=0) as file:
            file.write((0).to_bytes(4, "little"))
            done = run("wake", str(online_cores()[0]), "--time", "0.2", "--json")
    except OSError as error:
        raise Skip(str(error)) from None
    check(worked(done), done.stderr)
    document = json.loads(done.stdout)
    obeys(validator(), document)
    check(document["limit_us"] == 0 and "fuser -v" in document["limit_by"],
          str(document["limit_by"]))


def test_words():
    """percore wake refuses a second core"""
    done = run("wake", "0", "1")
    check(done.returncode == 2, done.stderr)


if __name__ == "__main__":
    run_tests(globals(), "percore wake", PERCORE)
