#!/usr/bin/python3
"""percore(1) as people and scripts use it, on this machine."""

import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import (BUILD, Results, Skip, check, is_root,  # noqa: E402
                     online_cores, say)

PERCORE = f"{BUILD}/percore"
HOG = f"{BUILD}/contrib/loads/hog"
TIMEOUT = 30


def run(*arguments, **options):
    return subprocess.run([PERCORE, *arguments], capture_output=True, text=True,
                          timeout=TIMEOUT, stdin=subprocess.DEVNULL,
                          check=False, **options)


def documents(*arguments):
    done = run(*arguments)
    check(done.returncode == 0, f"exit {done.returncode}: {done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()]


# ---------------------------------------------------------------------------
# The command line


def test_help_and_version():
    """--help, -h, --version and -V work for percore and every subcommand"""
    for command in ([], ["load"], ["doctor"]):
        for option in ("--help", "-h"):
            done = run(*command, option)
            check(done.returncode == 0, f"{command} {option} failed")
            check(done.stdout.startswith("Usage: percore"), done.stdout)
            check(done.stderr == "", done.stderr)
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


def test_json():
    """percore load --json prints one document per snapshot, for every core"""
    got = documents("load", "--json", "--count", "2", "--interval", "0.5")
    check(len(got) == 2, f"{len(got)} documents")
    for document in got:
        cores = {core["core"]: core for core in document["cores"]}
        check(set(online_cores()) <= set(cores), f"cores {list(cores)}")
        for core in cores.values():
            check(core["load"] is None or 0 <= core["load"] <= 1, str(core))
        check(document["aggregates"][0]["name"] == "all",
              str(document["aggregates"]))
    step = got[1]["time"] - got[0]["time"]
    check(abs(step - 0.5) < 0.01, f"{step} s from one to the next")


def test_selected_cores():
    """--cores shows these cores alone"""
    core = online_cores()[-1]
    got = documents("load", "-j", "-n", "1", "-i", "0.5", "-c", str(core))
    check([c["core"] for c in got[0]["cores"]] == [core], str(got[0]["cores"]))


def ends_at(number):
    with subprocess.Popen([PERCORE, "load", "--interval", "0.5"],
                          stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.PIPE) as process:
        process.stdout.readline()
        begin = time.monotonic()
        process.send_signal(number)
        _, stderr = process.communicate(timeout=TIMEOUT)
        took = time.monotonic() - begin
        check(process.returncode == 0,
              f"{number.name}: exit {process.returncode}, {stderr}")
        check(took < 1, f"{number.name}: took {took:.2f} s")


def test_signals():
    """SIGINT and SIGTERM end it with exit 0 within a second"""
    ends_at(signal.SIGINT)
    ends_at(signal.SIGTERM)


def test_reader_gone():
    """a reader that goes away (| head) ends it quietly with exit 0"""
    with subprocess.Popen([PERCORE, "load", "--interval", "0.2"],
                          stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.PIPE) as process:
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


def on_terminal(rows, columns, seconds, then=None):
    """Everything `percore load` writes to a terminal of this size, and its
    exit status. then(pid, descriptor) is called after half of the time."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "xterm"
        time.sleep(0.2)  # until the size is set
        os.execv(PERCORE, [PERCORE, "load", "--interval", "0.5"])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ,
                struct.pack("HHHH", rows, columns, 0, 0))
    written = b""
    begin = time.monotonic()
    ended = False
    while True:
        passed = time.monotonic() - begin
        if then is not None and passed > seconds / 2:
            then(pid, terminal)
            then = None
        if passed > seconds and not ended:
            os.write(terminal, b"\003")  # Ctrl-C
            ended = True
        if passed > seconds + 10:
            os.kill(pid, signal.SIGKILL)
        if select.select([terminal], [], [], 0.1)[0]:
            try:
                data = os.read(terminal, 65536)
            except OSError:
                data = b""
            if not data:
                break
            written += data
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    return written.decode(), os.waitstatus_to_exitcode(status)


def test_terminal():
    """on a terminal it redraws in place and puts all in order at Ctrl-C"""
    written, status = on_terminal(24, 80, 4)
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
    def shrink(_, terminal):
        fcntl.ioctl(terminal, termios.TIOCSWINSZ,
                    struct.pack("HHHH", 6, 30, 0, 0))

    written, status = on_terminal(24, 80, 4, shrink)
    check(status == 0, f"exit {status}")
    pages = written.split("\033[?25h")[0].split("\033[H")
    lines = pages[-1].replace("\033[K", "").replace("\033[J", "").split("\r\n")
    check(len(lines) <= 6, f"{len(lines)} lines")
    check(all(len(line) <= 30 for line in lines), str(lines))


# ---------------------------------------------------------------------------
# --compare


def compare_under_hog(core):
    """What each method says of a core, and how busy the hog on it was."""
    with subprocess.Popen([HOG, str(core), "12"], stdout=subprocess.PIPE,
                          text=True) as hog:
        try:
            time.sleep(0.5)
            load = documents("load", "--compare", "-j", "-n", "1", "-i", "5",
                             "-c", str(core))[0]["cores"][0]["load"]
            said = hog.communicate(timeout=TIMEOUT)[0]
        finally:
            hog.kill()
    truth = float(said.split(" % ")[0].rsplit(" ", 1)[1]) / 100
    say(f"truth {truth:.3f} {load}")
    return truth, load


def test_compare_shows_the_hog():
    """--compare: under a tick-evading load busy columns miss what percore shows
    """
    if not is_root():
        raise Skip("without root the hog cannot keep other work off its core")
    report = documents("doctor", "--json")[0]
    tick = next(f for f in report["findings"] if f["name"] == "tick")
    if "sampled at the tick" in tick["value"]:
        raise Skip(f"this kernel's tick: {tick['value']}")
    core = online_cores()[-1]
    # Whatever else runs while the hog sleeps is charged a whole tick.
    for _ in range(3):
        truth, load = compare_under_hog(core)
        check(load["percore"] > truth - 0.02, f"percore {load['percore']}")
        check(abs(load["task_clock"] - 1) < 0.01,
              f"task clock {load['task_clock']}")
        if load["percore"] - load["stat_busy"] > 0.3:
            return
    check(False, f"busy columns {load['stat_busy']} were not fooled")


def test_compare_footnotes():
    """--compare: a method that this machine lacks is null and says why"""
    got = documents("load", "--compare", "-j", "-n", "1", "-i", "0.5")[0]
    for method in got["methods"]:
        loads = [core["load"][method["name"]] for core in got["cores"]]
        if all(load is None for load in loads):
            check(method.get("unavailable"), f"{method} does not say why")


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
    if not os.path.exists(PERCORE):
        print(f"ok - percore(1) # SKIP there is no {PERCORE}")
        sys.exit(77)
    results = Results()
    for test in [value for name, value in list(globals().items())
                 if name.startswith("test_")]:
        results.run(test)
    results.finish()
