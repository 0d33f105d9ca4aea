#!/usr/bin/python3
"""Tests percore(1) as people and scripts use it, without regions."""

import fcntl
import json
import os
import pwd
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from command import PERCORE, TIMEOUT, documents, run  # noqa: E402
from harness import (BUILD, Child, Lateness, Skip, check, least_of_tries,  # noqa: E402
                     online_cores, run_tests, say)
from region_harness import RuntimeDir  # noqa: E402
from terminal import on_terminal, resize  # noqa: E402

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")


def user():
    return pwd.getpwuid(os.getuid()).pw_name


LIVE = [PERCORE, "load", "--interval", "0.5"]


# ---------------------------------------------------------------------------
# The command line


def test_help_and_version():
    """--help, -h, --version and -V work for percore and every subcommand, and their
    output fits into 80 columns"""
    for command in ([], ["load"], ["doctor"], ["regions"], ["top"], ["clock"], ["wake"],
                    ["pick"]):
        for words in ([*command, "--help"], [*command, "-h"]):
            done = run(*words)
            check(done.returncode == 0, f"{words} failed")
            usage = ["Usage: percore", *command]
            check(done.stdout.startswith(" ".join(usage)), done.stdout)
            check(done.stderr == "", done.stderr)
            check(max(map(len, done.stdout.splitlines())) < 80, done.stdout)
        for option in ("--version", "-V"):
            done = run(*command, option)
            check(done.returncode == 0, f"{command} {option} failed")
            check(done.stdout.startswith("percore "), done.stdout)


def test_usage_errors():
    """percore exits with 2 if the command line is wrong, and the message says what is
    wrong and names --help"""
    wrong = [
        ["no-such-command"], ["--no-such-option"], ["load", "--nonsense"],
        ["load", "extra"], ["load", "--interval", "0"],
        ["load", "--interval", "1s"], ["load", "--interval", "nan"],
        ["load", "--count", "-1"], ["load", "--count", "1.5"],
        ["load", "--cores", "3-1"], ["load", "--cores", ""],
        ["load", "--cores", "99999"], ["load", "--source", "magic"],
        ["load", "--cores", "8000"], ["doctor", "extra"],
        ["clock"], ["clock", "--pin", "--unpin"], ["clock", "--pin", "extra"],
        ["regions", "--maps", "x"], ["pick", "--node", "0"], ["load", "--compare"],
        ["pick", "--cores", "8000"],
        ["load", "--", "true"], ["top", "id:-1"], ["top", "id:4294967296"],
    ]
    for arguments in wrong:
        done = run(*arguments)
        check(done.returncode == 2, f"{arguments}: exit {done.returncode}")
        check(done.stdout == "", f"{arguments}: {done.stdout}")
        check("--help" in done.stderr, f"{arguments}: {done.stderr}")


def test_without_a_command():
    """percore alone prints the loads once, then the regions but percore's own, and what
    the doctor says first"""
    with RuntimeDir() as place:
        text = place.succeed()
        check(text.count("load %") == 2 and "\nregion " not in text, text)
        place.produce("board")
        producer = place.produce("demo")
        os.chmod(place.path, 0o755)
        *_, title, region, doctor = place.succeed().splitlines()
        check(title.startswith("region ") and doctor.startswith("percore doctor: "), title)
        name, _, *producer_of = region.split()[:4]
        check([name, *producer_of] == ["demo", str(producer.process.pid), user()], region)
        producer.kill()
        *_, region, _ = place.succeed().splitlines()
        check(region.split()[:2] == ["demo", "gone"], region)


def test_ended_regions_come_last():
    """percore alone lists regions whose producers have ended after those that count"""
    with RuntimeDir() as place:
        place.produce("early").kill()
        place.produce("late")
        *_, first, second, _ = place.succeed().splitlines()
        check([line.split()[:2] for line in (first, second)] ==
              [["late", "alive"], ["early", "gone"]], f"{first}\n{second}")


def test_without_a_command_on_a_terminal():
    """on a terminal, percore alone is live and shows the regions that there are"""
    with RuntimeDir() as place:
        place.produce("demo")
        written, status, _ = on_terminal([PERCORE], 5, place.environment)
        page = pages_of(written)[-1]
        check(status == 0 and page.count("load %") == 3, page)
        check("\r\ndemo " in page, page)
        check(len(page.split("\r\n")) <= 24, page)


def test_hostile_argument():
    """an argument with escape sequences cannot control the terminal through an error
    message"""
    done = run("load", "--cores", "\033]0;x\007\033[2J")
    check(done.returncode == 2, f"exit {done.returncode}")
    check("\033" not in done.stderr and "\007" not in done.stderr,
          repr(done.stderr))


# ---------------------------------------------------------------------------
# percore load


def look_at_json():
    """Checks the documents of two snapshots. Returns by how many seconds the second
    snapshot was early or late, minus the machine's delays."""
    with Lateness() as lateness:
        got = documents("load", "--json", "--count", "2", "--interval", "0.5")
    check(len(got) == 2, f"{len(got)} documents")
    for document in got:
        cores = {core["core"]: core for core in document["cores"]}
        check(set(online_cores()) <= set(cores), f"cores {list(cores)}")
        for core in cores.values():
            check(core["load"] is None or 0 <= core["load"] <= 100, str(core))
        check(document["sets"][0]["name"] == "all", str(document["sets"]))
    first, second = (document["time"] for document in got)
    late = lateness.of_clock(first - 0.5, second)
    say(f"{second - first} s from one to the next, late by {late}")
    return abs(second - first - 0.5) - late


def test_json():
    """percore load --json prints a document for each snapshot, and each document
    contains every core"""
    # Other tasks may delay percore without delaying this process, so only the best try
    # counts.
    off_s = least_of_tries(0.25, look_at_json)
    check(off_s < 0.25, f"snapshots were early or late by {off_s} s")


def test_selected_cores():
    """percore load --cores shows only the given cores"""
    core = online_cores()[-1]
    got = documents("load", "-j", "-n", "1", "-i", "0.5", "-c", str(core))
    check([c["core"] for c in got[0]["cores"]] == [core], str(got[0]["cores"]))


def test_named_source_without_rights():
    """if the source that the user has named cannot be used, percore load says why, also
    to users without rights"""
    if os.geteuid() != 0:
        raise Skip("only root can become another user")
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        shutil.copy(f"{BUILD}/.libs/percore"
                    if os.path.exists(f"{BUILD}/.libs/percore") else PERCORE,
                    f"{place}/percore")
        for source in ("mperf", "ref-cycles", "bpf"):
            done = subprocess.run(
                [f"{place}/percore", "load", "-s", source, "-n", "1", "-i",
                 "0.2"], user=65534, group=65534, extra_groups=[],
                capture_output=True, text=True, timeout=TIMEOUT, check=False)
            check(done.returncode == 0, done.stderr)
            check(re.search(rf" {source}\b", done.stdout)
                  or f"source {source} is " in done.stderr,
                  f"{done.stdout}{done.stderr}")


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
    """SIGINT and SIGTERM end percore load with exit status 0 within a second"""
    ends_at(signal.SIGINT)
    ends_at(signal.SIGTERM)


def test_reader_gone():
    """a closed pipe (| head) ends percore load with exit status 0 and no message"""
    with Child([PERCORE, "load", "--interval", "0.2"], text=True,
               stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.readline()
        process.stdout.close()
        check(process.wait(timeout=TIMEOUT) == 0,
              f"exit {process.returncode}")
        stderr = process.stderr.read()
        check("write" not in stderr, stderr)


def test_output_that_nobody_reads():
    """every command whose output is closed ends with exit status 0 and no message"""
    with tempfile.TemporaryDirectory() as place:
        for command in (["--help"], ["--version"], ["load", "--help"], ["pick"],
                        ["load", "-n", "1", "-i", "0.2"], ["regions"], ["doctor"]):
            reader, writer = os.pipe()
            os.close(reader)
            done = subprocess.run([PERCORE, *command], stdout=writer,
                                  stderr=subprocess.PIPE, text=True, check=False,
                                  env={**os.environ, "PERCORE_RUNTIME_DIR": place},
                                  timeout=TIMEOUT)
            os.close(writer)
            check(done.returncode == 0, f"{command}: exit {done.returncode}")
            check("write" not in done.stderr, f"{command}: {done.stderr}")


def test_full_disk():
    """if the output cannot be written, percore exits with 1 and a message"""
    with open("/dev/full", "w", encoding="ascii") as full:
        for arguments in (["--help"], ["load", "-n", "1", "-i", "0.2"],
                          ["doctor"]):
            done = subprocess.run([PERCORE, *arguments], stdout=full,
                                  stderr=subprocess.PIPE, text=True,
                                  timeout=TIMEOUT, check=False)
            check(done.returncode == 1, f"{arguments}: {done.returncode}")
            check("cannot write" in done.stderr, done.stderr)


def test_closed_output():
    """if stdout is closed, percore exits with 1 and a message"""
    for arguments in (["--help"], ["load", "-n", "1", "-i", "0.2"], ["pick"]):
        done = subprocess.run(["sh", "-c", 'exec "$@" >&-', "sh", PERCORE, *arguments],
                              stderr=subprocess.PIPE, text=True, timeout=TIMEOUT,
                              check=False)
        check(done.returncode == 1, f"{arguments}: {done.returncode}")
        check("cannot write: Bad file descriptor" in done.stderr, done.stderr)


def test_publish_without_directory():
    """percore load --publish says why it cannot publish the board"""
    with tempfile.TemporaryDirectory() as place:
        done = run("load", "--publish", "-n", "2", "-i", "0.3", env={
            **os.environ, "PERCORE_RUNTIME_DIR": f"{place}/none"})
    check(done.returncode == 0, f"exit {done.returncode}")
    check("the board is not published: " in done.stderr and
          f"{place}/none" in done.stderr, done.stderr)


def test_time():
    """percore load --time shows where the time of each core goes"""
    title = run("load", "--time", "-n", "1", "-i", "0.5").stdout.splitlines()[1]
    for column in ("user %", "system %", "irq %", "softirq %"):
        check(column in title, title)
    check("user %" not in run("load", "-n", "1", "-i", "0.2").stdout, "not asked for")


def test_unknown_columns():
    """a first table has no column of load averages, which nobody knows yet"""
    with RuntimeDir() as place:
        title = place.succeed("load", "-n", "1", "-i", "0.2").splitlines()[1]
    check("load %" in title and "trough %" in title and "1m %" not in title, title)


def test_terminal():
    """on a terminal, percore load redraws in place, and the last table stays"""
    written, status, _ = on_terminal(LIVE, 4)
    check(status == 0, f"exit {status}")
    check(written.startswith("\033[2J\033[H"), repr(written[:40]))
    check(written.count("\033[H") >= 3, "the table was hardly redrawn")
    check("load %" in pages_of(written)[-1], repr(written[-400:]))


def pages_of(written):
    pages = written.split("\033[H")[1:]
    return [re.sub("\033\\[[0-9;]*[mKJ]", "", page) for page in pages]


def test_last_page():
    """a page that waits for a slow terminal when Ctrl-C is typed is shown whole"""
    def interrupt(terminal):
        waits = bytearray(4)
        deadline = time.monotonic() + TIMEOUT
        while int.from_bytes(waits, sys.byteorder) < 4000:
            check(time.monotonic() < deadline, "too little was written")
            time.sleep(0.1)
            fcntl.ioctl(terminal, termios.FIONREAD, waits)
        time.sleep(1)  # pages that the terminal's side has no room for
        os.write(terminal, b"\003")

    written, status, _ = on_terminal(
        [PERCORE, "load", "--interval", "0.1"], 1, halfway=interrupt)
    check(status == 0, f"exit {status}")
    check("\033[J" in written[written.rindex("\033[H"):], repr(written[-400:]))


def test_resize():
    """after the terminal becomes smaller, percore load makes its page fit into the
    terminal"""
    written, status, _ = on_terminal(
        LIVE, 4, halfway=lambda terminal: resize(terminal, 6, 30))
    check(status == 0, f"exit {status}")
    lines = pages_of(written)[-1].split("\r\n")
    check(len(lines) <= 6, f"{len(lines)} lines")
    check(all(len(line) <= 30 for line in lines), str(lines))


def typed(*keys):
    """Returns a function that types these keys, and pauses after each key so that
    percore can draw a page."""
    def type_them(terminal):
        for key in keys:
            os.write(terminal, key)
            time.sleep(0.6)
    return type_them


def test_keys():
    """in percore load, > sorts by a column, r reverses the order, and q ends the
    command with exit status 0"""
    written, status, _ = on_terminal(LIVE, 3, halfway=typed(b">", b"r", b"q"))
    check(status == 0, f"exit {status}")
    check(", by load %" in pages_of(written)[-1], "not sorted")


def test_pause():
    """in percore load, space stops redrawing, and the page says so until space is
    typed again"""
    written, status, _ = on_terminal(
        LIVE, 3, halfway=typed(b" ", b"", b"", b" ", b"", b"q"))
    check(status == 0, f"exit {status}")
    pages = pages_of(written)
    paused = [page.startswith("paused") for page in pages]
    # Without the pause, there would be a page for each of three intervals.
    check(paused.count(True) == 1, f"{paused.count(True)} pages while paused")
    check(not paused[-1] and len(pages) > paused.index(True) + 2, str(paused))


def test_terminal_modes():
    """after percore load ends, the terminal echoes again"""
    script = (f"{PERCORE} load -i 0.5 -n 1; stty -a")
    written, _, _ = on_terminal(["/bin/sh", "-c", script], 8)
    modes = written.rsplit("\033[J", 1)[1]
    check(" icanon" in modes and " echo " in modes, modes)


def test_suspended():
    """while percore load is stopped by Ctrl-Z the terminal echoes, and afterwards it
    goes on and obeys keys"""
    script = f"set -m; {PERCORE} load -i 0.5; stty -a; echo stopped; fg; echo ended"
    written, status, _ = on_terminal(
        ["/bin/sh", "-c", script], 6,
        halfway=typed(b"\x1a", b"", b"", b"", b"q", b""))
    modes, _, after = written.partition("stopped\r\n")
    modes = modes.rsplit("\033[J", 1)[1]
    check(" icanon" in modes and " echo " in modes, modes)
    check("\033[H" in after and "ended" in after, repr(after[-300:]))
    check(status == 0, f"exit {status}")


def test_colour():
    """percore load uses colours on a terminal, but not with NO_COLOR or in a pipe"""
    painted, _, _ = on_terminal(LIVE, 2)
    check("\033[1m" in painted, "no colour on a terminal")
    plain, _, _ = on_terminal(LIVE, 2, {**os.environ, "NO_COLOR": "1"})
    check(not re.search("\033\\[[0-9;]*m", plain), "colour with NO_COLOR")
    piped = run("load", "-n", "1", "-i", "0.2").stdout
    check("\033" not in piped, "colour in a pipe")


def test_measured_interval():
    """percore load -n 1 covers one interval, and interval_s is the measured length of
    the interval"""
    with Lateness() as lateness:
        got = documents("load", "--json", "-n", "1", "-i", "1")[0]
        late = lateness.of_clock(got["time"] - 1, got["time"])
    check(got["interval_s"] != 1, "interval_s is not the measured length")
    check(0.98 < got["interval_s"] < 1.05 + late, str(got["interval_s"]))


def ignoring(number):
    return lambda: signal.signal(number, signal.SIG_IGN)


def test_ignored_signals_stay_ignored():
    """what was ignored when percore began stays ignored"""
    with Child([PERCORE, "load", "-i", "0.2"], stdout=subprocess.PIPE, text=True,
               preexec_fn=ignoring(signal.SIGHUP)) as process:
        process.stdout.readline()
        process.send_signal(signal.SIGHUP)
        for _ in range(40):
            check(process.stdout.readline() != "", "it ended")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=TIMEOUT)
        check(process.returncode == 0, f"exit {process.returncode}")


# ---------------------------------------------------------------------------
# Completion


def options_in_help(command):
    return set(re.findall(r"^  -\w, (--[\w-]+)", run(command, "--help").stdout,
                          re.MULTILINE))


REGIONS = {"left.0123456789abcdef", "left.fedcba9876543210", "right@a.0123456789abcdef",
           ".lock"}  # files of a runtime directory


def complete_in_bash(line):
    """Returns the completions that bash offers at the end of a line."""
    script = f"""
        . {SOURCE}/src/tool/completion/percore
        COMP_LINE={shlex.quote(line)} COMP_POINT={len(line)} _percore
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = in_runtime_dir("bash", "-c", script)
    return set(done.stdout.split())


def in_runtime_dir(*command):
    with tempfile.TemporaryDirectory() as directory:
        for name in REGIONS:
            with open(f"{directory}/{name}", "w", encoding="ascii"):
                pass
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT,
                              env={**os.environ, "PERCORE_RUNTIME_DIR": directory}, check=True)
    check(done.stderr == "", done.stderr)
    return done


def test_completion():
    """bash completes subcommands, the options that --help lists, the choices of an option,
    and regions"""
    for command in ("load", "regions", "top", "doctor", "pick", "wake"):
        offered = complete_in_bash(f"{PERCORE} {command} --")
        listed = options_in_help(command)
        check(offered == listed and len(listed) > 1,
              f"{command}: {offered} is not {listed}")
    check(complete_in_bash(f"{PERCORE} d") == {"doctor"}, "commands")
    for line, offered in (("load --source i", {"idle"}),
                          ("wake -m ", {"bpf-timer", "thread"}),
                          ("pick --by load_1", {"load_1m", "load_15m"}),
                          ("load --count -", set()), ("load --cores ", set()),
                          ("load --json --so", {"--source"}), ("load x", set()),
                          ("top ", {"left", "right@a"}), ("regions l", {"left"}),
                          ("top --sort ", set()), ("top --each r", {"right@a"})):
        found = complete_in_bash(f"{PERCORE} {line}")
        check(found == offered, f"{line}: {found}")
    check("--sort" in complete_in_bash(f"{PERCORE} top /pin --"), "top of a map")


def test_zsh_completion():
    """zsh offers subcommands and the options that --help lists, with their descriptions, the
    choices of an option, and regions"""
    if shutil.which("zsh") is None:
        raise Skip("zsh is not installed")

    def complete(*words):
        script = f"""
            words=({PERCORE} {shlex.join(words)}) CURRENT={len(words) + 1}
            _describe() {{ print -l -- $candidates }}
            _default() {{ }}
            . {SOURCE}/src/tool/completion/_percore
        """
        return in_runtime_dir("zsh", "-fc", script).stdout.splitlines()
    check("pick:print the cores that have room" in complete(""), str(complete("")))
    offered = dict(line.split(":", 1) for line in complete("load", "--"))
    check(set(offered) == options_in_help("load"), str(offered))
    check(offered["--count"] == "end after N tables", str(offered))
    for words, expected in ((["wake", "--method", ""], ["bpf-timer", "thread"]),
                            (["wake", "-m", ""], ["bpf-timer", "thread"]),
                            (["load", "--count", ""], []), (["load", ""], []),
                            (["top", ""], ["left", "right@a"])):
        found = complete(*words)
        check(found == expected, f"{words}: {found}")


# ---------------------------------------------------------------------------
# percore doctor


def test_doctor():
    """percore doctor exits with 0 if a source works, and gives advice on everything
    that is missing"""
    report = documents("doctor", "--json")[0]
    check(report["works"] is True, str(report))
    for finding in report["findings"]:
        check(finding["verdict"] == "ok" or finding.get("advice"),
              f"no advice: {finding}")
    done = run("doctor")
    check(re.search(r"in use on \d+ of \d+ cores", done.stdout), done.stdout)


def test_doctor_check():
    """percore doctor --check exits with 0 only if nothing is missing, and otherwise
    prints only the first thing to do"""
    done = run("doctor", "--check", "--json")
    report = json.loads(done.stdout)
    missing = [finding for finding in report["findings"]
               if finding["verdict"] == "missing"]
    check(report["reports"] is (not missing), str(report))
    check(done.returncode == (1 if missing else 0), f"exit {done.returncode}")
    done = run("doctor", "--check")
    check(done.returncode == (1 if missing else 0), f"exit {done.returncode}")
    check(done.stdout.count("  missing  ") == (1 if missing else 0),
          done.stdout)
    check("  note  " not in done.stdout, done.stdout)


if __name__ == "__main__":
    run_tests(globals(), "percore(1)", PERCORE)
