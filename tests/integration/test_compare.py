#!/usr/bin/python3
"""Tests contrib/compare/percore-compare while a load of known size runs. Needs a core that
other tasks hardly use."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from command import PERCORE, TIMEOUT, documents  # noqa: E402
from harness import (BUILD, CPUACCT, Child, Lateness, Skip,  # noqa: E402
                     check, is_root, online_cores, run_tests, say, stolen_s,
                     task_time_ns)

HOG = f"{BUILD}/contrib/loads/hog"
HOG_S, LOAD_S = 9, 3  # seconds for which the hog runs and loads are measured
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
COMPARE = [f"{ROOT}/contrib/compare/percore-compare", "--percore", PERCORE]


def compare(*arguments):
    return subprocess.run([*COMPARE, *arguments], capture_output=True, text=True,
                          timeout=TIMEOUT, check=False)


def compared(*arguments):
    """Returns the documents of percore-compare."""
    done = compare("--json", *arguments)
    check(done.returncode == 0, f"exit {done.returncode}: {done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def tasks_while(core, act):
    """Calls act. Returns the share of the core's time that tasks used meanwhile, or None
    where the kernel does not report it, and what act returned."""
    if CPUACCT is None:
        return None, act()
    begin, before = time.monotonic_ns(), task_time_ns()[core]
    result = act()
    used = task_time_ns()[core] - before
    return used / (time.monotonic_ns() - begin), result


def shares(document):
    """Returns the load of the first core by each method, 0 to 1."""
    return {method: percent and percent / 100
            for method, percent in document["cores"][0]["load"].items()}


def compare_under_hog(core):
    """Returns the share of time for which the hog kept the core busy, for how many
    seconds the core was stolen or the machine was paused, and the load of the core by
    each method, as a share."""
    before = stolen_s(core)
    # The thread of Lateness stays off the core: if another task runs there while the
    # hog sleeps, a whole tick is charged as busy.
    others = set(online_cores()) - {core}
    with Lateness(others or None) as lateness, \
            Child([HOG, str(core), str(HOG_S)], stdout=subprocess.PIPE,
                  text=True) as hog:
        time.sleep(0.5)
        begin = time.monotonic()
        load = shares(compared("-n", "1", "-i", str(LOAD_S), "-c", str(core))[0])
        late = lateness.within(begin, time.monotonic())
        said = hog.communicate(timeout=TIMEOUT)[0]
    stolen = stolen_s(core) - before
    truth = float(said.split(" % ")[0].rsplit(" ", 1)[1]) / 100
    say(f"truth {truth:.3f}, stolen {stolen:.3f} s, late {late:.3f} s, {load}")
    return truth, stolen + late, load


def test_compare_shows_the_hog():
    """percore-compare shows a load that evades the tick: the method "percore" measures the
    load, and the busy columns of /proc/stat miss it"""
    if not is_root():
        raise Skip("the hog needs root to keep other tasks off its core")
    report = documents("doctor", "--json")[0]
    idle = next(f for f in report["findings"] if f["name"] == "idle")
    if "tick-sampled" in idle["value"]:
        raise Skip(f"this kernel's idle time is {idle['value']}")
    core = online_cores()[-1]
    # If another task runs while the hog sleeps, a whole tick is charged to that task,
    # and the busy columns may show the load. The measurement is then repeated, but only
    # if the CPU time of tasks proves that other tasks used more than 5 % of the core.
    for _ in range(3):
        tasks, (truth, stolen, load) = tasks_while(
            core, lambda: compare_under_hog(core))
        # Time stolen from the hog is not load.
        check(load["percore"] > truth - 0.02 - stolen / LOAD_S,
              f"percore {load['percore']}")
        if load["percore"] - load["stat_busy"] > 0.3:
            return
        check(tasks is not None and tasks - truth > 0.05,
              f"busy columns {load['stat_busy']} show the load")
    raise Skip(f"other tasks used core {core} in each of 3 tries")


def loads_and_tasks(core, count):
    """Yields for `count` intervals what percore load says of the core, and the share of the
    core's time that tasks used in the interval."""
    command = [PERCORE, "load", "-j", "-n", str(count + 1), "-i", str(LOAD_S / 2), "-c",
               str(core)]
    marks = []
    with Child(command, stdout=subprocess.PIPE, text=True) as percore:
        for line in percore.stdout:
            marks.append((time.monotonic_ns(), task_time_ns()[core]))
            if len(marks) > 1:
                (begin, before), (end, after) = marks[-2:]
                yield json.loads(line)["cores"][0], (after - before) / (end - begin)


def test_the_hog_beside_busy_neighbours():
    """With the source "idle", the CPU time of tasks is between the lower bound of the
    load and the load, even while a hypervisor steals time"""
    if CPUACCT is None:
        raise Skip("this kernel does not report the CPU time of tasks (cpuacct)")
    core = online_cores()[-1]
    with contextlib.ExitStack() as hogs:
        for each in online_cores()[-2:]:
            hogs.enter_context(Child([HOG, str(each), str(HOG_S)],
                                     stdout=subprocess.DEVNULL))
        before = stolen_s(core)
        got = list(loads_and_tasks(core, 2))
        steal = (stolen_s(core) - before) / (LOAD_S / 2)
    check(len(got) == 2, f"{len(got)} intervals")
    if got[-1][0]["source"] != "idle":
        raise Skip("loads here do not come from the source idle")
    for figures, tasks in got:
        load = figures["load"] / 100
        say(f"tasks {tasks:.3f}, load {load:.3f}, steal at most {steal:.3f}")
        check(load >= tasks - 0.01, "the load is below the CPU time of tasks")
        # Interrupts are load, but are not part of the CPU time of any task.
        check(load - steal <= tasks + 0.1, "the lower bound is above the CPU time of tasks")


def test_windows():
    """percore-compare prints as many documents as asked for, of the windows of percore load;
    the other figures are read after percore's, and a method without figures has a reason"""
    got = compared("-n", "2", "-i", "0.5")
    check(len(got) == 2, f"{len(got)} documents")
    for document in got:
        check(0 < document["late_s"] < 0.5, f"late by {document['late_s']} s")
        check(0.2 < document["interval_s"] < 1, f"over {document['interval_s']} s")
        for method in document["methods"]:
            loads = [core["load"][method["name"]] for core in document["cores"]]
            check(("unavailable" in method) == all(load is None for load in loads), str(method))
    check(abs(got[1]["time"] - got[1]["interval_s"] - got[0]["time"]) < 0.01, "windows overlap")


def test_table():
    """the table has a letter for each method and a line for each core that is online, a dash
    for a figure that is unknown, and the reason beside the title"""
    interval = {"time": 0, "interval_s": 2, "cores": [
        {"core": 8190, "online": True, "source": "idle", "load": 12.34},
        {"core": 8191, "online": False, "source": "none", "load": None}]}
    with tempfile.TemporaryDirectory() as directory:
        percore = f"{directory}/percore"
        with open(percore, "w", encoding="ascii") as file:
            file.write(f"#!/bin/sh\nfor i in 1 2; do echo '{json.dumps(interval)}'; done\n")
        os.chmod(percore, 0o700)
        done = compare("-n", "1", "--percore", percore)
    check(done.stdout.split("\n")[1:] == [
        "A  /proc/stat busy columns / wall: /proc/stat has no row of these cores",
        "B  /proc/stat busy / sum (as top does): /proc/stat has no row of these cores",
        "C  1 - (idle+iowait) / wall: /proc/stat has no row of these cores",
        "D  1 - cpuidle time: this machine has no cpuidle driver",
        "E  percore, source idle",
        "load %       A      B      C      D      E",
        "   8190      -      -      -      -   12.3", "", ""], done.stdout + done.stderr)


def test_wrong_options():
    """an option that percore load refuses has its message and its exit status"""
    done = compare("--source", "magic")
    check(done.returncode == 2 and "'magic' is unknown" in done.stderr, str(done))


def test_no_table():
    """percore-compare refuses to end after less than one table"""
    for count in "0", "-1":
        done = compare("--count", count)
        check(done.returncode == 2 and "--count: give a number" in done.stderr, str(done))


def test_no_command():
    """without the command percore, percore-compare says so, and how it is named"""
    done = compare("--percore", "/nonexistent/percore")
    check(done.returncode == 1 and done.stdout == "" and done.stderr ==
          "cannot run /nonexistent/percore: No such file or directory; name it with "
          "--percore\n", str(done))


def test_end():
    """percore-compare ends with success at Ctrl-C, and leaves no percore load"""
    with Child([*COMPARE, "-i", "0.5", "--json"], stdout=subprocess.PIPE, text=True) as child:
        check(child.stdout.readline().startswith('{"time"'), "nothing is shown")
        with open(f"/proc/{child.pid}/task/{child.pid}/children", encoding="ascii") as file:
            percore = int(file.read())
        child.send_signal(signal.SIGINT)
        check(child.wait(TIMEOUT) == 0, f"exit {child.returncode}")
        check(not os.path.exists(f"/proc/{percore}"), "percore load goes on")


if __name__ == "__main__":
    run_tests(globals(), "percore(1)", PERCORE)
