#!/usr/bin/python3
"""percore(1) as people and scripts use it, on this machine."""

import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from command import PERCORE, TIMEOUT, documents, run  # noqa: E402
from harness import (Child, Lateness, check, least_of_tries,  # noqa: E402
                     online_cores, run_tests, say)
from terminal import on_terminal, resize  # noqa: E402

LIVE = [PERCORE, "load", "--interval", "0.5"]


# ---------------------------------------------------------------------------
# The command line


def test_help_and_version():
    """--help, -h, --version and -V work for percore and every subcommand, in 80
    columns"""
    for command in ([], ["load"], ["doctor"], ["regions"], ["top"], ["dump"],
                    ["reset"], ["clock"], ["soak"]):
        for option in ("--help", "-h"):
            done = run(*command, option)
            check(done.returncode == 0, f"{command} {option} failed")
            check(done.stdout.startswith("Usage: percore"), done.stdout)
            check(done.stderr == "", done.stderr)
            check(max(map(len, done.stdout.splitlines())) < 80, done.stdout)
        for option in ("--version", "-V"):
            done = run(*command, option)
            check(done.returncode == 0, f"{command} {option} failed")
            check(done.stdout.startswith("percore "), done.stdout)


def test_usage_errors():
    """a wrong command line exits 2, says what is wrong and where the help is"""
    wrong = [
        [], ["no-such-command"], ["--no-such-option"], ["load", "--nonsense"],
        ["load", "extra"], ["load", "--interval", "0"],
        ["load", "--interval", "1s"], ["load", "--interval", "nan"],
        ["load", "--count", "-1"], ["load", "--count", "1.5"],
        ["load", "--cores", "3-1"], ["load", "--cores", ""],
        ["load", "--cores", "99999"], ["load", "--source", "magic"],
        ["load", "--source", "event"], ["load", "--denominator", "x"],
        ["load", "--base-frequency", "fast"],
        ["load", "--source", "idle", "--event", "r1"], ["doctor", "extra"],
        ["clock"], ["clock", "--pin", "--unpin"], ["clock", "--pin", "extra"],
        ["soak"], ["soak", "x"], ["soak", "0.5"], ["soak", "-1"],
        ["soak", "0", "0"], ["soak", "0", "1", "2"],
    ]
    for arguments in wrong:
        done = run(*arguments)
        check(done.returncode == 2, f"{arguments}: exit {done.returncode}")
        check(done.stdout == "", f"{arguments}: {done.stdout}")
        check("--help" in done.stderr, f"{arguments}: {done.stderr}")


def test_hostile_argument():
    """an argument with escape sequences cannot steer the terminal"""
    done = run("load", "--cores", "\033]0;x\007\033[2J")
    check(done.returncode == 2, f"exit {done.returncode}")
    check("\033" not in done.stderr and "\007" not in done.stderr,
          repr(done.stderr))


# ---------------------------------------------------------------------------
# percore load


def look_at_json():
    """Returns by how much one snapshot was too early or too late after another,
    but for what the machine was late."""
    with Lateness() as lateness:
        got = documents("load", "--json", "--count", "2", "--interval", "0.5")
    check(len(got) == 2, f"{len(got)} documents")
    for document in got:
        cores = {core["core"]: core for core in document["cores"]}
        check(set(online_cores()) <= set(cores), f"cores {list(cores)}")
        for core in cores.values():
            check(core["load"] is None or 0 <= core["load"] <= 1, str(core))
        check(document["aggregates"][0]["name"] == "all",
              str(document["aggregates"]))
    first, second = (document["time"] for document in got)
    late = lateness.of_clock(first - 0.5, second)
    say(f"{second - first} s from one to the next, late by {late}")
    return abs(second - first - 0.5) - late


def test_json():
    """percore load --json prints one document per snapshot, for every core"""
    # Others may hold percore alone.
    off_s = least_of_tries(0.25, look_at_json)
    check(off_s < 0.25, f"snapshots were off their time by {off_s} s")


def test_selected_cores():
    """--cores shows these cores alone"""
    core = online_cores()[-1]
    got = documents("load", "-j", "-n", "1", "-i", "0.5", "-c", str(core))
    check([c["core"] for c in got[0]["cores"]] == [core], str(got[0]["cores"]))


def ends_at(number):
    with Lateness() as lateness, Child(
            [PERCORE, "load", "--interval", "0.5"], stdout=subprocess.PIPE,
            text=True, stderr=subprocess.PIPE) as process:
        process.stdout.readline()
        begin = time.monotonic()
        process.send_signal(number)
        _, stderr = process.communicate(timeout=TIMEOUT)
        end = time.monotonic()
        took = end - begin - lateness.within(begin, end)
        check(process.returncode == 0,
              f"{number.name}: exit {process.returncode}, {stderr}")
        check(took < 1, f"{number.name}: took {took:.2f} s")


def test_signals():
    """SIGINT and SIGTERM end it with exit 0 within a second"""
    ends_at(signal.SIGINT)
    ends_at(signal.SIGTERM)


def test_reader_gone():
    """a reader that goes away (| head) ends it quietly with exit 0"""
    with Child([PERCORE, "load", "--interval", "0.2"], text=True,
               stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.readline()
        process.stdout.close()
        check(process.wait(timeout=TIMEOUT) == 0,
              f"exit {process.returncode}")
        stderr = process.stderr.read()
        check("write" not in stderr, stderr)


def test_full_disk():
    """output that cannot be written is exit 1 with a message"""
    with open("/dev/full", "w", encoding="ascii") as full:
        for arguments in (["--help"], ["load", "-n", "1", "-i", "0.2"],
                          ["doctor"]):
            done = subprocess.run([PERCORE, *arguments], stdout=full,
                                  stderr=subprocess.PIPE, text=True,
                                  timeout=TIMEOUT, check=False)
            check(done.returncode == 1, f"{arguments}: {done.returncode}")
            check("cannot write" in done.stderr, done.stderr)


def test_terminal():
    """on a terminal it redraws in place and puts all in order at Ctrl-C"""
    written, status, _ = on_terminal(LIVE, 4)
    check(status == 0, f"exit {status}")
    check(written.startswith("\033[?1049h\033[?25l"), repr(written[:40]))
    check(written.count("\033[H") >= 3, "hardly drawn anew")
    check(written.count("\033[?1049h") == written.count("\033[?1049l") == 1,
          "the alternate screen was not left as often as entered")
    check(written.count("\033[?25h") == 1, "the cursor stays hidden")
    last = written.split("\033[?1049l")[1]
    check("load %" in last, f"the last table is gone: {last!r}")


def test_resize():
    """a terminal that becomes small gets a page that fits"""
    written, status, _ = on_terminal(
        LIVE, 4, halfway=lambda terminal: resize(terminal, 6, 30))
    check(status == 0, f"exit {status}")
    pages = written.split("\033[?25h")[0].split("\033[H")
    lines = pages[-1].replace("\033[K", "").replace("\033[J", "").split("\r\n")
    check(len(lines) <= 6, f"{len(lines)} lines")
    check(all(len(line) <= 30 for line in lines), str(lines))


# ---------------------------------------------------------------------------
# percore doctor


def test_doctor():
    """percore doctor exits 0 where a source works and advises what is missing"""
    report = documents("doctor", "--json")[0]
    check(report["works"] is True, str(report))
    for finding in report["findings"]:
        check(finding["verdict"] == "ok" or finding.get("advice"),
              f"no advice: {finding}")
    done = run("doctor")
    check("Loads come from" in done.stdout, done.stdout)


if __name__ == "__main__":
    run_tests(globals(), "percore(1)", PERCORE)
