#!/usr/bin/python3
"""Tests that percore reports the true useful load of a worker even if other tasks use
its core. The truth is packets x CPU time per packet / wall time, or the CPU time of
workers that work whenever they are awake."""

import bisect
import json
import os
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import (BUILD, Child, Collectd, Skip, TRIES, check,  # noqa: E402
                     is_root, online_cores, run_tests, say,
                     wait_for)
from producers import RuntimeDir  # noqa: E402

LONG = os.environ.get("PERCORE_TEST_LONG") == "1"

WORKER = f"{BUILD}/tests/integration/useful"
INTERVAL = 0.5
SECONDS = 2
POINTS = 3


def run_worker(percent, rivals, *more, seconds=SECONDS):
    """Runs a worker. Returns the percentages that it prints: its share of the core, the
    true useful load, and the useful load according to percore."""
    with tempfile.TemporaryDirectory(prefix="percore-test-") as directory:
        done = subprocess.run(
            [WORKER, str(online_cores()[-1]), str(percent), str(rivals),
             str(seconds), *more], capture_output=True, text=True, check=False,
            timeout=60, env={"PERCORE_RUNTIME_DIR": directory, **os.environ})
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
    for percent in 3, 29:
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
    for percent in 3, 29:
        check_useful(percent, 0)


class Workers:
    """A process that runs workers.c."""

    def __init__(self, number, core, seconds, threads):
        self.name = f"worker{number}"
        self.times = []  # pairs: the time, and the CPU time of all threads until then
        self.process = subprocess.Popen(
            [f"{BUILD}/tests/integration/workers", self.name, str(core),
             str(seconds), *threads],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def wait_until_end(self):
        for line in self.process.stdout:
            if line == "end\n":
                return
            self.times.append(tuple(float(word) for word in line.split()))

    def cpu(self, time_s):
        """Returns the CPU time until `time_s`, interpolated."""
        at = max(bisect.bisect_left(self.times, (time_s, 0)), 1)
        (before, cpu), (after, more) = self.times[at - 1:at + 1]
        return cpu + (more - cpu) * (time_s - before) / (after - before)

    def useful(self, begin, end):
        return 100 * (self.cpu(end) - self.cpu(begin)) / (end - begin)


def watch_workers(seconds, programs):
    """Runs programs, each a list of threads for workers.c, on one core. Returns pairs
    of what collectd reports of the core and the truth, and of what `percore top` shows
    of each program and the truth, in percent."""
    core = online_cores()[-1]
    with RuntimeDir() as place, Collectd(interval=INTERVAL).start() as collectd:
        workers = [Workers(number, core, seconds, threads)
                   for number, threads in enumerate(programs)]
        for each in workers:
            wait_for(lambda name=each.name: place.files(name), "a region")
        tops = [subprocess.Popen(
            [f"{BUILD}/percore", "top", each.name, "-j", "-n", "1", "-t", "core",
             "-i", str(seconds - 1.5)], stdout=subprocess.PIPE, text=True)
            for each in workers]
        for each in workers:
            each.wait_until_end()
        shown = [json.loads(top.communicate()[0]) for top in tops]
        collectd.wait_for_reads(1)
        begin = max(each.times[0][0] for each in workers)
        end = min(each.times[-1][0] for each in workers)
        values = [each for each in collectd.of(f"percore-{core}/percent-useful")
                  if begin + 2 * INTERVAL < each.time < end]
        for each in workers:
            each.process.communicate("")
    check(len(values) >= 2, f"{values}")
    begin, end = values[0].time - INTERVAL, values[-1].time
    yield (sum(each.value for each in values) / len(values),
           sum(each.useful(begin, end) for each in workers))
    for each, top in zip(workers, shown):
        end = top["time"]
        yield (sum(worker["useful"] or 0 for worker in top["workers"]),
               each.useful(end - (seconds - 1.5), end))


def check_workers(seconds, *programs):
    for attempt in range(TRIES):
        pairs = list(watch_workers(seconds, programs))
        say("; ".join(f"{shown:.1f}, truth {truth:.1f}" for shown, truth in pairs))
        if all(abs(shown - truth) <= POINTS for shown, truth in pairs):
            return
    check(False, f"{pairs} in the last of {attempt + 1} tries")


def mean_room(collectd, core, begin, end):
    values = [each.value for each in collectd.of(f"percore-{core}/percent-room")
              if begin + 3 * INTERVAL < each.time < end]
    check(len(values) >= 3, f"{len(values)} values")
    return sum(values) / len(values)


def measure_room(percent, rivals):
    """Returns the room that collectd reports of a core on which a worker polls, and the
    truth: the worker's CPU time without packets."""
    with RuntimeDir(), Collectd(interval=INTERVAL).start() as collectd:
        collectd.wait_for_reads(3)
        begin = time.time()
        got = run_worker(percent, rivals, seconds=6)
        return (mean_room(collectd, online_cores()[-1], begin + 0.5, time.time()),
                got["core"] - got["truth"])


def test_room():
    """only polls that find nothing leave room on a busy core, alone or beside other
    tasks"""
    for percent, rivals in (29, 0), (15, 2):
        for attempt in range(TRIES):
            room, truth = measure_room(percent, rivals)
            say(f"room {room:.1f}, truth {truth:.1f}")
            if abs(room - truth) <= 2 * POINTS:
                break
        else:
            check(False, f"in the last of {attempt + 1} tries")


def busy_loop(core):
    return ["taskset", "-c", str(core), "sh", "-c", "while :; do :; done"]


def test_no_room_beside_sleeper():
    """a core that other tasks fill has no room while a worker sleeps on it"""
    core = online_cores()[-1]
    with RuntimeDir(), Collectd(interval=INTERVAL).start() as collectd, \
            Child(busy_loop(core)):
        sleeper = Workers(0, core, 5, [CONTROLS])
        begin = time.time()
        sleeper.wait_until_end()
        room = mean_room(collectd, core, begin + 1, time.time())
        sleeper.process.communicate("")
        collectd.wait_for_value("percore_host-all/percent-room_min")
        least = collectd.of("percore_host-all/percent-room_min")[-2].value
    say(f"room {room:.1f}, least room {least:.1f}")
    check(room < 2 * POINTS, f"{room} % is room")
    check(least <= room + POINTS, f"{least} % is the least room")


WORKS = "1000:0"  # always
CONTROLS = "0:500000"  # wakes twice a second


def test_control_threads():
    """the useful load of a core with one working thread is within 3 points of the
    truth, however many threads of the same program sleep on it"""
    for count in range(4) if LONG else (0, 3):
        check_workers(3, [WORKS, *[CONTROLS] * count])


def test_shared_core():
    """the useful load of a core is the sum over the threads and the programs that work
    on it, even if one of them sleeps most of the time"""
    check_workers(3, [WORKS, WORKS])
    check_workers(4, ["10000:20000"], ["10000:300000"])


def test_long_sleep():
    """a thread that sleeps for longer than the interval is idle in the intervals in
    which it sleeps"""
    check_workers(8, ["10000:300000"])
    check_workers(8.1, ["500000:1500000"])


def test_sleep_inside_round():
    """work before a sleep in the same round is useful"""
    for work, sleep in (5000, 100), (900, 50):
        check_workers(3, [f"{work}:{sleep}:inside"])


BURSTS = "20:30:rival"  # 20 of each 50 us, at a higher priority


def test_blocking_loops():
    """the useful load of a loop that blocks is its CPU time, whether it tells percore of
    its sleep or not, alone, beside another task, and beside short real-time bursts"""
    loops = ["5:50", "20:20:silent", "5:20:inside"]
    for loop in loops:
        check_workers(3, [loop])
    for loop in loops if LONG else loops[1:2]:
        with Child(busy_loop(online_cores()[-1])):
            check_workers(3, [loop])
    for loop in loops if LONG else loops[2:]:
        if is_root():
            check_workers(3, [loop, BURSTS])


def test_bursts_leave_no_room():
    """the room of a core on which real-time bursts interrupt a worker without packets is
    the worker's CPU time"""
    if not is_root():
        raise Skip("real-time threads need root")
    core = online_cores()[-1]
    for attempt in range(TRIES):
        with RuntimeDir(), Collectd(interval=INTERVAL).start() as collectd:
            collectd.wait_for_reads(3)
            worker = Workers(0, core, 4, ["0:0:empty", BURSTS])
            worker.wait_until_end()
            begin, end = worker.times[0][0] + 0.5, worker.times[-1][0]
            room = mean_room(collectd, core, begin, end)
            worker.process.communicate("")
        truth = worker.useful(begin, end)
        say(f"room {room:.1f}, truth {truth:.1f}")
        if abs(room - truth) <= POINTS:
            return
    check(False, f"in the last of {attempt + 1} tries")


run_tests(globals(), "useful load", WORKER, f"{BUILD}/percore")
