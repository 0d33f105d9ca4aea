#!/usr/bin/python3
"""percore regions, top, dump and reset with producers of known counts."""

import bisect
import fcntl
import grp
import json
import os
import pty
import pwd
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import BUILD, Results, Skip, check, is_root, say  # noqa: E402

PERCORE = f"{BUILD}/percore"
PRODUCER = f"{BUILD}/tests/integration/region_producer"
TIMEOUT = 60


class RuntimeDir:
    """A runtime directory of our own, and what ran in it, gone at the end."""

    def __init__(self):
        self.path = tempfile.mkdtemp(prefix="percore-test-")
        self.environment = {**os.environ, "PERCORE_RUNTIME_DIR": self.path,
                            "TERM": "xterm"}
        self.producers = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for producer in self.producers:
            producer.kill()
        shutil.rmtree(self.path, ignore_errors=True)

    def produce(self, *arguments, **options):
        producer = Producer([PRODUCER, *arguments], self.environment,
                            **options)
        self.producers.append(producer)
        return producer

    def run(self, *arguments, **options):
        return subprocess.run(
            [PERCORE, *arguments], capture_output=True, text=True,
            timeout=TIMEOUT, stdin=subprocess.DEVNULL, check=False,
            env=self.environment, **options)

    def succeed(self, *arguments, **options):
        done = self.run(*arguments, **options)
        check(done.returncode == 0,
              f"{arguments}: exit {done.returncode}: {done.stderr}")
        return done.stdout

    def documents(self, *arguments):
        return [json.loads(line) for line
                in self.succeed(*arguments, "--json").splitlines()]

    def dump(self, region):
        return tables_of(self.documents("dump", region)[0])

    def regions(self):
        return {found["name"]: found for found
                in self.documents("regions")[0]["regions"]}

    def fail(self, *arguments, status=1, says="", **options):
        done = self.run(*arguments, **options)
        check(done.returncode == status,
              f"{arguments}: exit {done.returncode}: {done.stderr}")
        check(says in done.stderr, f"{arguments}: {done.stderr}")
        return done.stderr


class Producer:
    """Obeys lines, answers each with one."""

    def __init__(self, command, environment, **options):
        # pylint: disable=consider-using-with
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=environment, **options)
        check(self.process.stdout.readline() == "ready\n",
              "the producer did not start")

    def ask(self, line):
        self.tell(line)
        return self.process.stdout.readline().strip()

    def tell(self, line):
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def log(self):
        """What it had counted on port 0, and when."""
        return [(float(when), int(packets)) for when, packets in
                (look.split() for look in self.ask("log").split(","))]

    def end(self):
        self.process.stdin.close()
        check(self.process.wait(TIMEOUT) == 0, "the producer failed")

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def tables_of(document):
    return {table["name"]: table for table in document["tables"]}


def row_of(table, name):
    rows = [row for row in table["rows"] if row["row"] == name]
    check(len(rows) == 1, f"{len(rows)} rows {name!r}")
    return rows[0]


# ---------------------------------------------------------------------------
# The command line


def test_help():
    """regions, top, dump and reset have --help, and their errors name it"""
    with RuntimeDir() as place:
        for command in ("regions", "top", "dump", "reset"):
            said = place.succeed(command, "--help")
            check(said.startswith(f"Usage: percore {command}"), said)
            place.fail(command, "--nonsense", status=2, says="--help")
        for wrong in (["regions", "x"], ["top"], ["dump"], ["dump", "a", "b"],
                      ["reset", "a"], ["reset", "a", "b", "c", "d"],
                      ["top", "a", "--interval", "0"],
                      ["top", "a", "--count", "none"],
                      ["top", "a", "--rows", "0"], ["dump", "A/../b"],
                      ["dump", "a@../b"], ["top", "\033[2J"]):
            said = place.fail(*wrong, status=2, says="--help")
            check("\033" not in said, repr(said))


def test_absent():
    """a region, table, row or field that is not there is an error that says
    what there is"""
    with RuntimeDir() as place:
        place.fail("dump", "demo", says="percore regions")
        producer = place.produce("demo@7")
        place.fail("top", "demo", says="demo@7")
        place.fail("dump", "demo@7", "--table", "no", says="session")
        place.fail("top", "demo@7", "--table", "no", says="session")
        place.fail("top", "demo@7", "--sort", "no", says="rx_packets")
        place.fail("reset", "demo@7", "port", "no", says="percore dump")
        producer.end()
        shutil.rmtree(place.path)
        place.fail("regions", says="PERCORE_RUNTIME_DIR")


# ---------------------------------------------------------------------------
# regions


def leave_socket(path):
    """A socket of somebody who ended without a word."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as left:
        left.bind(path)


def test_regions():
    """regions tells alive, silent, gone and refused ones apart, and why"""
    with RuntimeDir() as place:
        check(place.succeed("regions").startswith("There is no region"), "")
        alive = place.produce("alive", "--rows", "10")
        place.produce("silent@1", "--polled")
        killed = place.produce("killed")
        killed.kill()
        leave_socket(f"{place.path}/left.sock")
        with open(f"{place.path}/plain.sock", "w", encoding="ascii"):
            pass
        with open(f"{place.path}/UPPER.sock", "w", encoding="ascii"):
            pass
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as liar:
            liar.bind(f"{place.path}/liar.sock")
            liar.listen()
            pid = os.fork()
            if pid == 0:  # sends what is no message
                liar.accept()[0].send(b"hello")
                time.sleep(2)
                os._exit(0)
            found = place.regions()
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        states = {name: region["state"] for name, region in found.items()}
        check(states == {"alive": "alive", "silent@1": "silent",
                         "killed": "gone", "left": "gone", "plain": "gone",
                         "UPPER": "refused", "liar": "refused"}, str(found))
        got = found["alive"]
        check(got["pid"] == alive.process.pid and got["uid"] == os.getuid(),
              str(got))
        check(got["tables"] == 4 and got["rows"] == 14, str(got))
        check(got["size"] > 4096 and "why" not in got, str(got))
        for name in states:
            check(name == "alive" or found[name]["why"], str(found[name]))
        check("percore_serve" in found["silent@1"]["why"], str(found))
        check("start it again" in found["killed"]["why"], str(found))
        table = place.succeed("regions").splitlines()
        check(len(table) == 1 + len(found), str(table))


def test_polled_producer():
    """a producer that serves only now and then is silent between, and read
    when it serves"""
    with RuntimeDir() as place:
        producer = place.produce("polled", "--polled")
        said = place.fail("dump", "polled", says="percore_serve")
        check("polled.sock" in said, said)
        producer.tell("serve")
        check(row_of(place.dump("polled")["session"], "10.0.0.3")["values"]
              == {"packets": 9, "bytes": 3000}, "")
        check(producer.process.stdout.readline() == "done\n", "no answer")


# ---------------------------------------------------------------------------
# dump


def test_dump_is_exact():
    """dump's values are exact, to the last of 64 bits"""
    with RuntimeDir() as place:
        producer = place.produce("demo", "--rows", "1000", "--workers", "2")
        time.sleep(0.3)
        producer.ask("stop")
        packets, size = map(int, producer.ask("port").split())
        check(packets > 0, "nothing was counted")
        got = place.dump("demo")
        values = row_of(got["port"], "eth0")["values"]
        check(values["rx_packets"] == packets and values["rx_bytes"] == size,
              f"{values}, not {packets} and {size}")
        histogram = values["latency"]
        check(histogram["count"] == packets // 64 ==
              sum(count for _, count in histogram["buckets"]), str(histogram))
        check(row_of(got["port"], "eth1")["values"]["in_flight"] == -3, "")
        check(row_of(got["odd"], "")["values"]
              == {"errors": 2**64 - 2, "balance": -42}, str(got["odd"]))
        check([row["values"] for row in got["session"]["rows"]]
              == [{"packets": 3 * k, "bytes": 1000 * k} for k in range(1000)],
              "the sessions differ")
        worker = row_of(got["worker"], "")
        check(worker["values"] == {"queue": 11}, str(worker))
        check(sorted(core["link"] for core in worker["cores"].values())
              == ["down", "up"], str(worker))
        check_lines_say_the_same(place, packets, size)
        producer.end()


def check_lines_say_the_same(place, packets, size):
    lines = [line.split() for line
             in place.succeed("dump", "demo").splitlines()
             if not line.startswith("#")]
    for line in (["port", "eth0", "all", "rx_packets", str(packets),
                  "packets"],
                 ["port", "eth0", "all", "rx_bytes", str(size), "bytes"],
                 ["odd", "-", "all", "errors", str(2**64 - 2), "errors"],
                 ["session", "10.0.3.231", "all", "bytes", "999000", "bytes"]):
        check(lines.count(line) == 1, f"{lines.count(line)} of {line}")
    count = int(next(line[4] for line in lines
                     if line[3] == "latency_count" and line[1] == "eth0"))
    check(count == packets // 64, f"{count} latencies")


def test_dump_per_core():
    """with --per-core the cores of a row come to its total"""
    with RuntimeDir() as place:
        producer = place.produce("demo", "--workers", "2")
        time.sleep(0.2)
        producer.ask("stop")
        got = tables_of(place.documents("dump", "demo", "--per-core")[0])
        row = row_of(got["port"], "eth0")
        counts = [core["rx_packets"] for core in row["cores"].values()]
        check(len(counts) == min(2, len(os.sched_getaffinity(0))), str(row))
        check(sum(counts) == row["values"]["rx_packets"] > 0, str(row))


def test_dump_removed_rows():
    """a removed row is not dumped, and one that takes its place starts at 0"""
    with RuntimeDir() as place:
        producer = place.produce("demo", "--rows", "5")
        producer.ask("remove 2")
        table = place.dump("demo")["session"]
        check([row["row"] for row in table["rows"]]
              == ["10.0.0.0", "10.0.0.1", "10.0.0.3", "10.0.0.4"], str(table))
        producer.ask("add 9")
        table = place.dump("demo")["session"]
        check(row_of(table, "10.0.0.9")["values"]
              == {"packets": 0, "bytes": 0}, str(table))


def peak_memory(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        for line in file:
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) << 10
    return 0


def test_dump_streams():
    """a dump of a million rows uses no memory for them"""
    rows = 1000000
    with RuntimeDir() as place:
        place.produce("large", "--rows", str(rows))
        for arguments in (["--json"], []):
            begin = time.monotonic()
            with subprocess.Popen([PERCORE, "dump", "large", *arguments],
                                  stdout=subprocess.PIPE,
                                  env=place.environment) as process:
                size = peak = looks = 0
                for block in iter(lambda: process.stdout.read(1 << 16), b""):
                    if looks % 64 == 0:
                        peak = max(peak, peak_memory(process.pid))
                    looks += 1
                    size += len(block)
                check(process.wait(TIMEOUT) == 0, "dump failed")
            say(f"dump {' '.join(arguments)}: {size >> 20} MiB in "
                f"{time.monotonic() - begin:.1f} s, anonymous memory "
                f"{peak >> 10} KiB")
            check(size > 20 * rows, f"only {size} bytes")
            check(0 < peak < 24 << 20, f"{peak} bytes")


def test_reader_gone():
    """a reader that goes away (| head) ends dump and top quietly"""
    with RuntimeDir() as place:
        place.produce("demo", "--rows", "100000")
        for command in (["dump", "demo"], ["dump", "demo", "--json"],
                        ["top", "demo", "-i", "0.1"]):
            with subprocess.Popen([PERCORE, *command], text=True,
                                  stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE,
                                  env=place.environment) as process:
                process.stdout.read(100)
                process.stdout.close()
                status = process.wait(TIMEOUT)
                said = process.stderr.read()
                check(status == 0 and said == "", f"{command}: {status} {said}")


# ---------------------------------------------------------------------------
# Hostile bytes


def has_control_bytes(text):
    return any((ord(c) < 32 and c != "\n") or 127 <= ord(c) < 160
               or c in "\u202e\u2028" for c in text)


def test_hostile_names():
    """names of rows, threads and states with escape sequences, quotes and
    broken UTF-8 harm neither terminal nor JSON"""
    with RuntimeDir() as place:
        place.produce("hostile", "--hostile")
        with open(f"{place.path}/\033[2J\n.sock".encode() + b"\xff.sock", "w",
                  encoding="ascii"):
            pass
        for command in (["dump", "hostile"], ["regions"],
                        ["top", "hostile", "-n", "1", "-i", "0.1"]):
            text = place.succeed(*command)
            check(not has_control_bytes(text), repr(text))
            for document in place.documents(*command):
                check(not has_control_bytes(
                    json.dumps(document, ensure_ascii=False)), str(document))
        got = place.dump("hostile")
        names = [row["row"] for row in got["port"]["rows"]]
        check(len(names) == 2 and 'a"b\\c' in names[1], str(names))


# ---------------------------------------------------------------------------
# top


def counted(log, begin, end):
    """How much was counted between two times, by the producer's log."""
    times = [when for when, _ in log]

    def at(when):
        i = min(max(bisect.bisect(times, when), 1), len(log) - 1)
        (time_0, count_0), (time_1, count_1) = log[i - 1], log[i]
        return count_0 + (count_1 - count_0) * (when - time_0) / (
            time_1 - time_0)

    return at(end) - at(begin)


def rates_and_truth(producer, documents):
    """Of each interval on port 0: packets per second by top, by the log."""
    log = producer.log()
    for document in documents:
        table = tables_of(document)["port"]
        end, interval = document["time"], table["interval_s"]
        rate = row_of(table, "eth0")["values"]["rx_packets"]
        yield rate, counted(log, end - interval, end) / interval


def test_rates_are_right():
    """top's rates are those by which the producer counted"""
    with RuntimeDir() as place:
        producer = place.produce("demo", "--workers", "2")
        got = place.documents("top", "demo", "-i", "0.5", "-n", "5", "-p")
        pairs = list(rates_and_truth(producer, got))
        # Half a step of the log at either end of an interval.
        errors = [abs(rate / truth - 1) for rate, truth in pairs]
        say(f"rates {[f'{rate:.0f}' for rate, _ in pairs]}, off by "
            f"{[f'{100 * error:.2f} %' for error in errors]}")
        check(sorted(errors)[-2] < 0.03, str(pairs))
        for document in got:
            row = row_of(tables_of(document)["port"], "eth0")
            values, cores = row["values"], row["cores"].values()
            check(abs(values["rx_bytes"] / values["rx_packets"] - 100) < 1e-3,
                  str(values))
            total = sum(core["rx_packets"] for core in cores)
            check(abs(total / values["rx_packets"] - 1) < 1e-4, str(row))
        steps = [after["time"] - before["time"]
                 for before, after in zip(got, got[1:])]
        check(all(abs(step - 0.5) < 0.1 for step in steps), str(steps))


def test_reset():
    """reset makes values start at 0 and never enters a rate"""
    with RuntimeDir() as place:
        producer = place.produce("demo", "--rows", "10")
        with subprocess.Popen(
                [PERCORE, "top", "demo", "-i", "0.3", "-n", "6", "--json"],
                stdout=subprocess.PIPE, text=True,
                env=place.environment) as top:
            for _ in range(8):
                time.sleep(0.2)
                place.succeed("reset", "demo", "port")
            said = top.communicate(timeout=TIMEOUT)[0]
        pairs = list(rates_and_truth(
            producer, [json.loads(line) for line in said.splitlines()]))
        say(f"{[f'{rate / truth:.3f}' for rate, truth in pairs]} of the truth "
            "under 8 resets")
        errors = sorted(abs(rate / truth - 1) for rate, truth in pairs)
        check(errors[-2] < 0.05, str(pairs))
        check_values_after_reset(place, producer)


def check_values_after_reset(place, producer):
    producer.ask("stop")
    before = int(producer.ask("port").split()[0])
    place.succeed("reset", "demo", "port", "eth0")
    row = row_of(place.dump("demo")["port"], "eth0")
    check(row["values"]["rx_packets"] == row["values"]["latency"]["count"]
          == 0 < before, str(row))
    place.succeed("reset", "demo", "session", "10.0.0.3")
    sessions = place.dump("demo")["session"]
    check([row["values"]["packets"] for row in sessions["rows"]]
          == [0, 3, 6, 0, 12, 15, 18, 21, 24, 27], str(sessions))
    place.succeed("reset", "demo", "odd")
    check(row_of(place.dump("demo")["odd"], "")["values"]
          == {"errors": 0, "balance": -42}, "a gauge was reset")


def test_useful_load_and_stuck():
    """top shows the useful load of a polling thread, and marks one that is
    stuck, but not one that sleeps"""
    with RuntimeDir() as place:
        producer = place.produce("demo")

        def look(seconds="1.2"):
            got = place.documents("top", "demo", "-t", "core", "-n", "1", "-i",
                                  seconds)[0]["workers"]
            check(len(got) == 1, str(got))
            return got[0]

        worker = look()
        check(0.35 < worker["useful"] < 0.65 and not worker["stuck"],
              str(worker))
        check(abs(worker["empty"] - 0.5) < 0.01, str(worker))
        producer.ask("stick")
        time.sleep(0.1)
        worker = look()
        check(worker["stuck"] and worker["useful"] is None, str(worker))
        text = place.succeed("top", "demo", "-n", "1", "-i", "1.2")
        check("STUCK" in text, text)
        producer.ask("go")
        producer.ask("sleep")
        time.sleep(0.1)
        worker = look()
        check(worker["asleep"] and not worker["stuck"], str(worker))
        check(worker["slept"] == 1 and worker["useful"] == 0, str(worker))


def test_top_survives_restart():
    """top waits for a producer that is gone and goes on with the next one,
    without an absurd rate"""
    with RuntimeDir() as place:
        producer = place.produce("demo", "--rows", "3")
        with subprocess.Popen(
                [PERCORE, "top", "demo", "-i", "0.2", "--json"],
                stdout=subprocess.PIPE, text=True,
                env=place.environment) as top:
            states, rates, deadline = [], [], time.monotonic() + TIMEOUT
            for line in top.stdout:
                got = json.loads(line)
                states.append(got["state"])
                if got["state"] == "alive":
                    values = row_of(tables_of(got)["port"], "eth0")["values"]
                    rates.append(values["rx_packets"])
                if len(states) == 3:
                    producer.kill()
                elif states.count("gone") == 3 and states[-1] == "gone":
                    place.produce("demo", "--rows", "7", "--workers", "2")
                if (states[-4:] == ["alive"] * 4 and "gone" in states
                        or time.monotonic() > deadline):
                    break
            top.send_signal(signal.SIGTERM)
            top.communicate(timeout=TIMEOUT)
            check(top.returncode == 0, f"exit {top.returncode}")
        check("gone" in states and states[-1] == "alive", str(states))
        known = [rate for rate in rates if rate is not None]
        check(None in rates and all(0 <= rate < 1e6 for rate in known),
              str(rates))


def on_terminal(place, arguments, seconds):
    """Everything that percore writes to a terminal of 24 lines until Ctrl-C,
    its exit status, and how long it took to end."""
    pid, terminal = pty.fork()
    if pid == 0:
        time.sleep(0.2)  # until the size is set
        os.execve(PERCORE, [PERCORE, *arguments], place.environment)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ,
                struct.pack("HHHH", 24, 80, 0, 0))
    written = b""
    begin = time.monotonic()
    interrupted = None
    while True:
        if interrupted is None and time.monotonic() - begin > seconds:
            os.write(terminal, b"\003")
            interrupted = time.monotonic()
        if time.monotonic() - begin > seconds + 10:
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
    return (written.decode(), os.waitstatus_to_exitcode(status),
            time.monotonic() - interrupted)


def test_terminal():
    """on a terminal top redraws in place, and Ctrl-C ends it at once with the
    terminal as it was and exit 0"""
    with RuntimeDir() as place:
        place.produce("demo", "--rows", "500")
        written, status, took = on_terminal(
            place, ["top", "demo", "-i", "0.5"], 3)
        check(status == 0 and took < 1, f"exit {status} after {took:.2f} s")
        check(written.startswith("\033[?1049h\033[?25l"), repr(written[:40]))
        check(written.count("\033[H") >= 4, "hardly drawn anew")
        check(written.count("\033[?1049l") == written.count("\033[?25h") == 1,
              "the terminal was not given back")
        page = written.split("\033[?1049l")[1]
        check("rx_packets" in page and "useful %" in page, repr(page))
        check(len(page.splitlines()) <= 24, f"{len(page.splitlines())} lines")


def test_signals():
    """SIGINT and SIGTERM end top with exit 0 within a second when piped"""
    with RuntimeDir() as place:
        place.produce("demo")
        for number in (signal.SIGINT, signal.SIGTERM):
            with subprocess.Popen([PERCORE, "top", "demo", "-i", "10"],
                                  stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True,
                                  env=place.environment) as process:
                time.sleep(0.3)
                begin = time.monotonic()
                process.send_signal(number)
                said = process.communicate(timeout=TIMEOUT)[1]
                took = time.monotonic() - begin
                check(process.returncode == 0 and said == "" and took < 1,
                      f"{number}: exit {process.returncode} after {took} s")


# ---------------------------------------------------------------------------
# Others' producers


def test_other_users():
    """another user is refused with advice, one of the socket's group reads,
    and neither of them may reset"""
    if not is_root():
        raise Skip("only root can be another user")
    nobody = pwd.getpwnam("nobody")
    group = grp.getgrnam("daemon").gr_gid
    with RuntimeDir() as place:
        os.chmod(place.path, 0o755)
        place.produce("demo")
        os.chown(f"{place.path}/demo.sock", 0, group)
        # The build may lie where only root may look.
        tool = f"{place.path}/percore"
        shutil.copy(f"{BUILD}/.libs/percore"
                    if os.path.exists(f"{BUILD}/.libs/percore") else PERCORE,
                    tool)

        def run(groups, *arguments):
            return subprocess.run(
                [tool, *arguments], user=nobody.pw_uid, group=nobody.pw_gid,
                extra_groups=groups, capture_output=True, text=True,
                timeout=TIMEOUT, check=False, env=place.environment, cwd="/")

        done = run([], "dump", "demo")
        check(done.returncode == 1 and "group" in done.stderr, done.stderr)
        found = json.loads(run([], "regions", "--json").stdout)["regions"][0]
        check(found["state"] == "refused" and "denied" in found["why"],
              str(found))
        done = run([group], "dump", "demo", "--json")
        check(done.returncode == 0, done.stderr)
        check(json.loads(done.stdout)["user"] == "root", done.stdout[:200])
        done = run([group], "reset", "demo", "port")
        check(done.returncode == 1 and "only root" in done.stderr,
              f"{done.returncode} {done.stderr}")


def test_root_reads_and_resets_others():
    """root reads and resets the region of another user, and sees whose it is
    """
    if not is_root():
        raise Skip("only root can be another user")
    nobody = pwd.getpwnam("nobody")
    with RuntimeDir() as place:
        os.chmod(place.path, 0o777)
        program = f"{place.path}/producer"
        shutil.copy(PRODUCER, program)
        producer = Producer([program, "theirs", "--rows", "3"],
                            place.environment, user=nobody.pw_uid,
                            group=nobody.pw_gid, extra_groups=[], cwd="/")
        place.producers.append(producer)
        check(place.regions()["theirs"]["user"] == "nobody",
              str(place.regions()))
        place.succeed("reset", "theirs", "session")
        check(all(row["values"]["packets"] == 0 for row
                  in place.dump("theirs")["session"]["rows"]), "not reset")


def test_reset_without_answer():
    """a reset that a stopped producer does not answer fails within 3 s and
    says so"""
    with RuntimeDir() as place:
        producer = place.produce("demo")
        with subprocess.Popen([PERCORE, "top", "demo", "-i", "0.2", "-n", "9"],
                              stdout=subprocess.DEVNULL,
                              env=place.environment) as top:
            time.sleep(0.3)
            producer.process.send_signal(signal.SIGSTOP)
            begin = time.monotonic()
            place.fail("reset", "demo", "port", says="does not answer")
            check(time.monotonic() - begin < 3, "took too long")
            # What is mapped can be read all the same.
            check(top.wait(TIMEOUT) == 0, "top failed")
        producer.process.send_signal(signal.SIGCONT)


if __name__ == "__main__":
    if not os.path.exists(PERCORE) or not os.path.exists(PRODUCER):
        print(f"ok - regions and percore(1) # SKIP there is no {PERCORE} or "
              f"{PRODUCER}")
        sys.exit(77)
    results = Results()
    for test in [value for name, value in list(globals().items())
                 if name.startswith("test_")]:
        results.run(test)
    results.finish()
