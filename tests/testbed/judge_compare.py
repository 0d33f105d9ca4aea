"""Checks the output of percore load --compare from a guest with the msr
module and a hog (a load that sleeps while each tick fires) on its core. Each JSON
document is one line of the console."""

import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../integration"))
from harness import Results, check, say  # noqa: E402

documents = [json.loads(line)
             for line in open(sys.argv[1], errors="replace").read().split("\n")
             if line.startswith('{"')]


def last():
    check(documents, "nothing was printed")
    return documents[-1]


def load(method):
    return next(core["load"][method] for core in last()["cores"]
                if core["core"] == 0)


def two_tables():
    """percore load --compare prints the requested number of documents"""
    check(len(documents) == 2, f"{len(documents)}")
    for method in last()["methods"]:
        value = load(method["name"])
        say(f'{method["title"]:<42}'
            + (method["unavailable"] if value is None else f"{value:8.2f}"))


def the_tick_is_blind():
    """The busy columns of /proc/stat miss a hog that the idle columns and percore
    show"""
    check(load("stat_busy") < 20, load("stat_busy"))
    for method in ("stat_not_idle", "percore"):
        check(70 < load(method) < 100, load(method))


results = Results()
for test in (two_tables, the_tick_is_blind):
    results.run(test)
