"""Checks the output of percore load from a guest with the msr module and a hog (a load
that sleeps while each tick fires) on its core. Each JSON document is one line of the
console."""

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


def two_tables():
    """percore load prints the requested number of documents"""
    check(len(documents) == 2, f"{len(documents)}")


def the_tick_is_blind():
    """The busy columns of /proc/stat miss a hog that percore shows"""
    core = next(core for core in last()["cores"] if core["core"] == 0)
    busy = sum(share for name, share in core["time"].items() if name != "iowait")
    say(f"load {core['load']:.2f}, source {core['source']}, busy columns {busy:.2f}")
    check(busy < 20, busy)
    check(70 < core["load"] < 100, core["load"])


results = Results()
for test in (two_tables, the_tick_is_blind):
    results.run(test)
