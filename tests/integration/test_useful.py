#!/usr/bin/python3
"""Tests that percore reports the true useful load of a worker even if other tasks use
its core. The truth is packets x CPU time per packet / wall time."""

import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import (BUILD, Skip, TRIES, check, is_root,  # noqa: E402
                     online_cores, run_tests, say)

WORKER = f"{BUILD}/tests/integration/useful"
SECONDS = 2
POINTS = 3


def run_worker(percent, rivals, *more):
    """Runs a worker. Returns the percentages that it prints: its share of the core, the
    true useful load, and the useful load according to percore."""
    with tempfile.TemporaryDirectory(prefix="percore-test-") as directory:
        done = subprocess.run(
            [WORKER, str(online_cores()[-1]), str(percent), str(rivals),
             str(SECONDS), *more], capture_output=True, text=True, check=False,
            timeout=60, env={**os.environ, "PERCORE_RUNTIME_DIR": directory})
    if "sched_setscheduler" in done.stderr:
        raise Skip(f"real-time threads are unavailable: {done.stderr.strip()}")
    check(done.returncode == 0, done.stderr)
    say(done.stdout.strip())
    words = done.stdout.split()
    return {name: float(value) for name, value in zip(words[::2], words[1::2])}


def check_useful(percent, rivals, *more):
    """Checks that percore is right in one of several tries, because the truth is
    measured wrongly while the machine is paused."""
    for attempt in range(TRIES):
        got = run_worker(percent, rivals, *more)
        if abs(got["useful"] - got["truth"]) <= POINTS:
            return
    check(False, f"{got} in the last of {attempt + 1} tries")


def test_two_rivals():
    """the useful load of a worker is within 3 points of the truth while other tasks use
    two thirds of its core"""
    for percent in 3, 15, 29:
        check_useful(percent, 2)


def test_throttled():
    """the useful load of a throttled SCHED_FIFO worker is within 3 points of the
    truth"""
    if not is_root():
        raise Skip("real-time threads need root")
    for percent in 3, 29:
        check_useful(percent, 1, "fifo")


def test_own_core():
    """the useful load of a worker is within 3 points of the truth if no other task runs
    on its core"""
    for percent in 3, 15, 29:
        check_useful(percent, 0)


run_tests(globals(), "useful load", WORKER)
