"""Tests the board with real samplers, real readers, and users with and without
rights."""

import contextlib
import grp
import json
import os
import random
import re
import signal
import struct
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

from harness import (BUILD, Child, Collectd, Skip, check, is_root, run_all, say,
                     stop, wait_for)
from producers import Published, new_file
from region_harness import PERCORE, RuntimeDir

LONG = os.environ.get("PERCORE_TEST_LONG") == "1"
CLIENT = f"{BUILD}/tests/integration/board_client"
INTERVAL_S = 0.5
DEAD_S = 2 * INTERVAL_S  # after this time without a picture, no load is known
LATE_S = 0.15  # two steps of the client, and what a busy machine adds
KILLS = 1000 if LONG else 10
PLACES = 10 if LONG else 2  # in which samplers are killed at the same time
GROUP = grp.getgrgid(1)  # daemon
READER = 64126
GET_NS, UPDATE_NS = 50, 2000
STEP_S = 0.010
READERS = 100
LIES = 100
# The board is tried again every 10 s: so many reads see two attempts.
SECOND_READS = 25


class Place(RuntimeDir):
    """A runtime directory with samplers and clients."""

    def __init__(self, mode=0o3770):
        super().__init__()
        if is_root():
            os.chown(self.path, 0, GROUP.gr_gid)
            os.chmod(self.path, mode)

    def sample(self):
        """Starts a sampler, and waits for its board."""
        sampler = Child([PERCORE, "load", "--publish", "-i", str(INTERVAL_S), "-j"],
                        env=self.environment, stdout=subprocess.DEVNULL,
                        stderr=subprocess.PIPE, text=True)
        wait_for(lambda: self.run("pick", "--by", "load_1m").returncode == 0,
                 "no board", 20)
        return sampler


class Client(Child):
    """Reads the lines of a board_client."""

    def __init__(self, place, mode, before=(), after=()):
        super().__init__([*before, CLIENT, mode, *after], env=place.environment,
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def look(self):
        """Returns the next line that tells the present."""
        while True:
            line = self.stdout.readline()
            check(line, "the client has ended")
            when, board, first, second, source, status, found, core = line.split()
            if time.monotonic() - float(when) < 0.05:
                # -1 while there is no fresh board.
                check(status in ("0", "1") or float(first) == float(second) == -1, line)
                check((found == "1") == (core != "-1"), line)
                check(all(load == -1 or 0 <= load <= 1 for load in
                          (float(first), float(second))), line)
                return {"board": board == "1", "source": source, "found": found == "1",
                        "loads": (float(first), float(second))}

    def wait(self, timeout=None, wanted=None):
        """Waits until wanted(look()) and returns how long that took."""
        if wanted is None:
            return super().wait(timeout)
        begin = time.monotonic()
        while not wanted(self.look()):
            check(time.monotonic() < begin + 20, "waited for 20 s")
        return time.monotonic() - begin


def is_known(look):
    return look["board"] and look["loads"][0] >= 0


def is_dead(look):
    return look["loads"] == (-1, -1) and not look["found"]


# ---------------------------------------------------------------------------
# Tests


def test_board_is_taken():
    """percore pick and percore_load_open take their loads from the board"""
    with Place() as place, place.sample(), Client(place, "board") as client:
        client.wait(wanted=is_known)
        check(client.look()["source"] != "none", "no source")
        done = place.run("pick", "-n", "99")
        cores = sorted(map(int, done.stdout.strip().split(",")))
        check(cores == sorted(os.sched_getaffinity(0)), done.stdout)
        check(place.run("pick", "--cores", "0").stdout == "0\n", "not core 0")
        done = place.run("pick", "--cores", "8000")
        check(done.returncode == 2 and "has only the cores" in done.stderr,
              done.stderr)


def picture_of(place):
    """Returns the bytes of the board's region and its rows, both of one picture."""
    [name] = [name for name in os.listdir(place.path) if name.startswith("board.")]
    rows, before = None, None
    while before is None or rows != before:
        before = place.dump("board")["cores"]["rows"]
        with open(f"{place.path}/{name}", "rb") as file:
            content = file.read()
        rows = place.dump("board")["cores"]["rows"]
    return content, rows


def loads_of(content):
    """Returns the loads in the bytes of a board, found as percore-region(7) says."""
    def number(at, kind="I"):
        return struct.unpack_from(f"={kind}", content, at)[0]
    pool = number(144, "Q")
    table = number(120, "Q") + number(20)  # the first table is `core`
    for field in range(number(table + 16), number(table + 16) + number(table + 20)):
        record = number(136, "Q") + field * number(24)
        if content[pool + number(record):].startswith(b"load\0"):
            # A sequence counter precedes the columns.
            first = number(table + 80, "Q") + 8 + 8 * number(record + 20)
    rows = number(number(table + 48, "Q"), "Q")
    return [number(first + row * number(table + 28), "Q") for row in range(1, rows)]  # row 0 is the sink


def test_another_language_reads_it():
    """a reader that knows only percore-region(7) finds the loads"""
    with Place() as place, place.sample():
        content, rows = picture_of(place)
        loads = loads_of(content)
        wanted = {int(row["row"]): row["values"]["load"] for row in rows}
        check({core: loads[core] for core in wanted} == wanted, f"{loads} {wanted}")


def test_usual_commands_read_it():
    """top and regions read the board as any other region"""
    with Place() as place, place.sample():
        check("load_peak" in place.succeed("top", "board", "-n", "1", "-i", "0.2"),
              "no load_peak")
        rows = place.dump("board")["cores"]["rows"]
        check([row["row"] for row in rows] ==
              [str(core) for core in sorted(os.sched_getaffinity(0))], str(rows))
        check(all(row["values"]["load_trough"] <= row["values"]["load"] <=
                  row["values"]["load_peak"] <= 1000000 for row in rows), str(rows))
        place.succeed("regions", "board")


def averages_of(place):
    """Returns the averages over a minute on the board, by core."""
    return {int(row["row"]): row["values"]["load_1m"] / 1e6
            for row in place.dump("board")["cores"]["rows"]}


def test_averages_of_a_first_table():
    """the load averages of a first table of percore load are those of the board"""
    with Place() as place, place.sample():
        before, same = averages_of(place), False
        while not same:  # no new average was written meanwhile
            got = place.documents("load", "-n", "1", "-i", "0.2")[0]
            after = averages_of(place)
            same, before = before == after, after
        for core in got["cores"]:
            check(abs(core["load_1m"] - 100 * after[core["core"]]) < 1e-4,
                  f"{core['load_1m']}, {after}")
        check(abs(got["host"]["load_1m"] - 100 * sum(after.values()) / len(after)) < 1e-3,
              str(got["host"]))
        check(" 15m % " in place.succeed("load", "-n", "1", "-i", "0.2"), "no averages")


def kill_samplers(count):
    """Kills `count` samplers one after another. Returns for how many seconds loads were
    known at most afterwards."""
    slowest = 0
    with Place() as place:
        sampler = place.sample()
        with Client(place, "board") as client:
            for _ in range(count):
                client.wait(wanted=is_known)
                sampler.kill()
                sampler.wait()
                slowest = max(slowest, client.wait(wanted=is_dead))
                sampler = place.sample()
            sampler.kill()
            sampler.wait()
    return slowest


def test_killed_sampler():
    """after kill -9 of the sampler, no load is known within two intervals, and the next
    sampler's loads are read"""
    with ThreadPoolExecutor(PLACES) as pool:
        slowest = max(pool.map(kill_samplers, [KILLS // PLACES] * PLACES))
    say(f"{KILLS} times: at most {slowest:.3f} s, interval {INTERVAL_S} s")
    check(slowest < DEAD_S + LATE_S, f"{slowest} s")


def test_frozen_sampler():
    """two intervals after the sampler was stopped, no load is known; when it goes on,
    they are"""
    with Place() as place, place.sample() as sampler, Client(place, "board") as client:
        client.wait(wanted=is_known)
        stop(sampler)
        took = client.wait(wanted=is_dead)
        check(took < DEAD_S + LATE_S, f"{took} s")
        sampler.send_signal(signal.SIGCONT)
        client.wait(wanted=is_known)


def test_without_a_board():
    """without a board, a program that wants it is told so, and one that measures has
    loads"""
    with Place() as place:
        done = subprocess.run([CLIENT, "board"], env=place.environment, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, check=False)
        check(done.returncode == 1 and "No such file" in done.stderr, done.stderr)
        with Client(place, "own") as client:
            client.wait(wanted=lambda look: look["loads"][0] >= 0)
            check(not client.look()["board"], "a board?")


def test_board_of_another_user():
    """a board of another user than root and the reader's own is not believed"""
    if not is_root():
        raise Skip("becoming another user needs root")
    user = ["setpriv", f"--reuid={READER}", f"--regid={READER}", f"--groups={GROUP.gr_gid}"]
    with Place() as place:
        with Child([*user, PERCORE, "load", "--publish", "-i", str(INTERVAL_S), "-j"],
                   env=place.environment, stdout=subprocess.DEVNULL):
            wait_for(lambda: "board" in place.run("regions").stdout, "no board", 20)
            with Client(place, "board", user) as client:
                client.wait(wanted=is_known)
            done = subprocess.run([CLIENT, "board"], env=place.environment, text=True,
                                  stdin=subprocess.DEVNULL, capture_output=True,
                                  check=False)
            check(done.returncode == 1 and "No such file" in done.stderr, done.stderr)


def test_second_sampler():
    """while either of two samplers lives, a reader has the loads of the board"""
    with Place() as place, place.sample() as first, place.sample() as second, \
            Client(place, "board") as client:
        client.wait(wanted=is_known)
        second.terminate()
        second.wait()
        client.wait(wanted=is_known)
        first.terminate()
        first.wait()
        client.wait(wanted=lambda look: not is_known(look))


def test_rights():
    """a reader without rights reads the board in the group of the runtime directory, and
    not outside it"""
    if not is_root():
        raise Skip("becoming another user needs root")
    user = ["setpriv", f"--reuid={READER}", f"--regid={READER}"]
    with Place() as place, place.sample():
        inside = [*user, f"--groups={GROUP.gr_gid}"]
        with Client(place, "board", inside) as client:
            client.wait(wanted=is_known)
        done = subprocess.run([*user, "--clear-groups", CLIENT, "board"],
                              env=place.environment, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, check=False)
        check(done.returncode == 1 and "No such file" in done.stderr, done.stderr)


def test_plugin():
    """collectd publishes the board to the group, to all or not at all, and does not
    report it as a region"""
    if not is_root():
        raise Skip("becoming another user needs root")
    outside = ["setpriv", f"--reuid={READER}", f"--regid={READER}", "--clear-groups"]
    for readers in ("group", "all", "off"):
        with Place(0o3775) as place:
            os.environ["PERCORE_RUNTIME_DIR"] = place.path
            load = f'<Load>\nBoard "{readers}"\n</Load>'
            with Collectd(load, INTERVAL_S).start() as collectd:
                collectd.wait_for_reads(4)

                def is_board(name):
                    return name.startswith("board.")
                if readers != "off":
                    wait_for(lambda: place.run("pick", "--by", "load_1m").returncode == 0,
                             "no board", 20)
                check(any(map(is_board, os.listdir(place.path))) == (readers != "off"),
                      collectd.log())
                if readers != "off":
                    with Client(place, "board") as client:
                        client.wait(wanted=is_known)
                if readers == "all":
                    with Client(place, "board", outside) as client:
                        client.wait(wanted=is_known)
                check(not [name for name in collectd.series if "_board_" in name],
                      str(list(collectd.series)))
                check("board" not in collectd.log(), collectd.log())
            check(place.run("pick", "--by", "1min").returncode != 0, "the board has not ended")
    del os.environ["PERCORE_RUNTIME_DIR"]


def test_cost():
    """a load is read in less than 50 ns; an update without new loads takes less than
    2 us and makes no system call"""
    with Place() as place, place.sample():
        done = subprocess.run([CLIENT, "cost"], env=place.environment, text=True,
                              capture_output=True, check=True)
        say(done.stdout.strip())
        figures = dict(re.findall(r"(\w+) ([\d.]+)", done.stdout))
        check(float(figures["get"]) < GET_NS, done.stdout)
        check(float(figures["update"]) < UPDATE_NS, done.stdout)
        check("no system call" in done.stdout, done.stdout)


def test_step_of_load():
    """a step of real load changes the answer within one interval and 10 ms"""
    if os.cpu_count() < 2:
        raise Skip("needs two cores")
    with Place() as place, place.sample():
        try:
            done = subprocess.run([CLIENT, "step"], env=place.environment, text=True,
                                  capture_output=True, check=True, timeout=120)
        except subprocess.TimeoutExpired as error:
            raise Skip("other tasks kept core 1 busy for 120 s") from error
        times = sorted(map(float, done.stdout.split()))
        say(f"after {times[0]:.3f} to {times[-1]:.3f} s, interval {INTERVAL_S} s")
        check(times[-1] <= INTERVAL_S + STEP_S, str(times))


def test_hostile_board():
    """no board makes a reader crash, hang, or tell a load that cannot be"""
    with Place() as place:
        with place.sample():
            content, rows = picture_of(place)
        time_ns = struct.pack("=Q", rows[0]["values"]["time"])
        directory = content.index(b"load_1m")
        begin = content.index(time_ns)
        check(content.count(time_ns) >= len(os.sched_getaffinity(0)), "no times")
        boards = 0
        for _ in range(LIES):
            now = struct.pack("=Q", time.monotonic_ns())
            changed = bytearray(content.replace(time_ns, now))
            for _ in range(random.randrange(1, 9)):
                at = random.randrange(begin - 64, begin + 512)
                at = random.choice((at, random.randrange(directory + 512)))
                changed[at] = random.choice((0, 1, 255, random.randrange(256)))
            with Published(new_file(place.path, "board"), changed) as board:
                with Client(place, "board") as client:
                    line = client.stdout.readline()  # none if the board is refused
                    boards += line.split()[1:2] == ["1"]
            os.unlink(board.path)
        say(f"{boards} of {LIES} boards were read")
        check(0 < boards < LIES, str(boards))


def test_many_readers():
    """100 programs that open the board at the same moment all read it"""
    with Place() as place, place.sample(), contextlib.ExitStack() as stack:
        start = str(int(time.monotonic()) + 4)
        clients = [stack.enter_context(Client(place, "board", after=[start]))
                   for _ in range(READERS)]
        lines = [client.stdout.readline() for client in clients]
        counters = [line for line in lines if line.split()[1:2] != ["1"]]
        check(not counters, f"{len(counters)} have counters: {counters[:3]}")


if __name__ == "__main__":
    run_all(globals())
