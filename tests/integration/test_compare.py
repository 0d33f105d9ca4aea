#!/usr/bin/python3
"""Tests percore load --compare while a load of known size runs. Needs a core that
other tasks hardly use."""

import contextlib
import json
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from command import PERCORE, TIMEOUT, documents  # noqa: E402
from harness import (BUILD, CPUACCT, Child, Lateness, Skip,  # noqa: E402
                     check, is_root, online_cores, run_tests, say, stolen_s,
                     task_time_ns)

HOG = f"{BUILD}/contrib/loads/hog"
HOG_S, LOAD_S = 6, 3  # seconds for which the hog runs and loads are measured


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
        load = shares(documents("load", "--compare", "-j", "-n", "1", "-i", str(LOAD_S),
                                "-c", str(core))[0])
        late = lateness.within(begin, time.monotonic())
        said = hog.communicate(timeout=TIMEOUT)[0]
    stolen = stolen_s(core) - before
    truth = float(said.split(" % ")[0].rsplit(" ", 1)[1]) / 100
    say(f"truth {truth:.3f}, stolen {stolen:.3f} s, late {late:.3f} s, {load}")
    return truth, stolen + late, load


def test_compare_shows_the_hog():
    """percore load --compare shows a load that evades the tick: the method "percore"
    measures the load, and the busy columns of /proc/stat miss it"""
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


def compare_with_tasks(core, count):
    """Yields the load of the core by each method for `count` intervals, each with the
    share of the core's time that tasks used in the interval, and the titles of the
    methods."""
    command = [PERCORE, "load", "--compare", "-j", "-n", str(count + 1), "-i",
               str(LOAD_S / 2), "-c", str(core)]
    marks = []
    with Child(command, stdout=subprocess.PIPE, text=True) as compare:
        for line in compare.stdout:
            marks.append((time.monotonic_ns(), task_time_ns()[core]))
            document = json.loads(line)
            if len(marks) > 1:
                (begin, before), (end, after) = marks[-2:]
                yield (shares(document),
                       (after - before) / (end - begin),
                       [method["title"] for method in document["methods"]])


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
        got = list(compare_with_tasks(core, 2))
        steal = (stolen_s(core) - before) / (LOAD_S / 2)
    check(len(got) == 2, f"{len(got)} intervals")
    if "percore, source idle" not in got[-1][2]:
        raise Skip("loads here do not come from the source idle")
    for load, tasks, _ in got:
        say(f"tasks {tasks:.3f}, load {load['percore']:.3f}, "
            f"steal at most {steal:.3f}")
        check(load["percore"] >= tasks - 0.01,
              "the load is below the CPU time of tasks")
        # Interrupts are load, but are not part of the CPU time of any task.
        check(load["percore"] - steal <= tasks + 0.1,
              "the lower bound is above the CPU time of tasks")


def test_compare_footnotes():
    """percore load --compare shows null and a reason for a method that this machine
    lacks"""
    got = documents("load", "--compare", "-j", "-n", "1", "-i", "0.5")[0]
    for method in got["methods"]:
        loads = [core["load"][method["name"]] for core in got["cores"]]
        if all(load is None for load in loads):
            check(method.get("unavailable"), f"{method} has no reason")


if __name__ == "__main__":
    run_tests(globals(), "percore(1)", PERCORE)
