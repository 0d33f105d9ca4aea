#!/usr/bin/python3
"""Tests percore regions and percore top --totals with producers of known counts."""

import grp
import json
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import (BUILD, Child, Lateness, Skip, check,  # noqa: E402
                     is_root, online_cores, say, stop)
from producers import new_file  # noqa: E402
from region_harness import (PERCORE, PRODUCER, TIMEOUT,  # noqa: E402
                            Producer, RuntimeDir, row_of, run_tests,
                            tables_of)


# ---------------------------------------------------------------------------
# The command line


def test_help():
    """percore regions and top accept --help, and their error messages name this option"""
    with RuntimeDir() as place:
        for command in ("regions", "top"):
            said = place.succeed(command, "--help")
            check(said.startswith(f"Usage: percore {command}"), said)
            place.fail(command, "--nonsense", status=2, says="--help")
        for wrong in (["regions", "a", "b"], ["regions", "--maps", "a"],
                      ["top", "a", "b"], ["top", "a", "--interval", "0"],
                      ["top", "a", "--count", "none"],
                      ["top", "a", "--rows", "0"], ["top", "A"],
                      ["top", "\033[2J"]):
            said = place.fail(*wrong, status=2, says="--help")
            check("\033" not in said, repr(said))


def test_absent():
    """a region, table, row or field that does not exist is an error that lists the
    existing ones"""
    with RuntimeDir() as place:
        place.fail("top", "demo", says="percore regions")
        place.fail("regions", "demo", says="percore regions")
        producer = place.produce("demo@7")
        place.fail("regions", "demo@8", says="percore regions")
        place.fail("top", "demo@7", "-a", "--table", "no", says="session")
        place.fail("top", "demo@7", "--table", "no", says="session")
        place.fail("top", "demo@7", "--sort", "no", says="rx_packets")
        producer.end()
        shutil.rmtree(place.path)
        place.fail("regions", says="PERCORE_RUNTIME_DIR")


# ---------------------------------------------------------------------------
# regions


def test_regions():
    """percore regions shows which regions are alive, silent, gone and refused, and
    why"""
    with RuntimeDir() as place:
        check(place.succeed("regions").startswith("There is no region"), "")
        alive = place.produce("alive", "--rows", "10")
        killed = place.produce("killed")
        killed.kill()
        for name in ("plain", "UPPER"):
            with open(new_file(place.path, name), "w", encoding="ascii"):
                pass
        os.mkfifo(new_file(place.path, "fifo"))
        with open(f"{place.path}/another", "w", encoding="ascii"):
            pass
        found = place.regions()
        states = {name: region["state"] for name, region in found.items()}
        check(states == {"alive": "alive", "killed": "gone", "plain": "refused",
                         "UPPER": "refused", "fifo": "refused"}, str(found))
        got = found["alive"]
        check(got["pid"] == alive.process.pid and got["uid"] == os.getuid(),
              str(got))
        check(got["tables"] == 4 and got["rows"] == 14, str(got))
        check(got["size"] > 4096 and "why" not in got, str(got))
        for name in ("plain", "UPPER", "fifo"):
            check(found[name]["why"], str(found[name]))
        table = place.succeed("regions").splitlines()
        check(len(table) == 1 + len(found), str(table))
        stop(alive.process)
        state = place.regions()["alive"]["state"]
        alive.process.send_signal(signal.SIGCONT)
        check(state == "silent", f"a stopped producer is {state}")


def test_clean():
    """percore regions --clean removes the files of producers that are gone, and no others"""
    with RuntimeDir() as place:
        place.produce("alive")
        for _ in range(3):
            place.produce("killed").kill()
        said = place.succeed("regions", "--clean")
        check(said.startswith("3 files were removed"), said)
        check([*place.regions()] == ["alive"], str(place.regions()))
        check(place.dump("alive"), "it cannot be read")


def test_files_of_a_name():
    """percore top adds up all files of a name, also those of one instance"""
    with RuntimeDir() as place:
        place.produce("demo@1", "--rows", "1").wait_until_counted(1)
        one = place.dump("demo@1")["session"]["rows"]
        place.produce("demo@1", "--rows", "1").wait_until_counted(1)
        for name in ("demo@1", "demo"):
            both = place.dump(name)["session"]["rows"]
            check([row["values"]["packets"] for row in both] ==
                  [2 * row["values"]["packets"] for row in one], f"{one} {both}")


def test_a_region_is_described():
    """percore regions NAME shows each instance, and every table and field"""
    with RuntimeDir() as place:
        for instance in ("demo@east", "demo@west", "other"):
            place.produce(instance)
        text = place.succeed("regions", "demo")
        check("demo@east " in text and "demo@west " in text and "other" not in text, text)
        for word in ("rx_packets", "received packets", "down, up", "gauge, max",
                     "port (per core, 2 live of at most 8 rows): one row for each port"):
            check(word in text, f"{word}: {text}")
        check("demo@west" not in place.succeed("regions", "demo@east"), "not one")
        found = place.documents("regions", "demo")[0]["regions"]
        check([region["name"] for region in found] == ["demo@east", "demo@west"],
              str(found))


def test_top_takes_the_only_region():
    """percore top without a name takes the only region whose producer is alive, with all
    its instances, and otherwise names those that there are"""
    with RuntimeDir() as place:
        place.fail("top", "-a", says="percore regions")
        place.produce("gone").kill()
        place.produce("board")
        check(place.documents("top", "-a")[0]["region"] == "board", "not the board")
        place.produce("demo@east")
        place.produce("demo@west")
        got = place.documents("top", "-a")[0]
        check(got["region"] == "demo" and got["instances"] == 2, str(got)[:200])
        place.produce("other")
        said = place.fail("top", "-a", status=2, says="demo@east, demo@west, other")
        check("gone" not in said and "board" not in said, said)


# ---------------------------------------------------------------------------
# Totals


def test_hot_reload():
    """while an old process and its successor count, dump shows the sum of both, and
    afterwards the counts of the successor"""
    with RuntimeDir() as place:
        old = place.produce("demo")
        for end in ("end", "kill"):
            new = place.produce("demo")
            for process in (old, new):
                process.wait_until_counted(1000)
                process.ask("stop")
            counts = [int(process.ask("port").split()[0]) for process in (old, new)]
            for expected in (sum(counts), counts[1]):
                values = row_of(place.dump("demo")["port"], "eth0")["values"]
                check(values["rx_packets"] == expected, f"{values}, not {counts}")
                getattr(old, end)()
            old = place.produce("demo")
            new.kill()


def test_totals_are_exact():
    """percore top --totals prints values exactly, to all 64 bits"""
    with RuntimeDir() as place:
        producer = place.produce("demo", "--rows", "1000", "--workers", "2")
        producer.wait_until_counted(64 * 64)
        worker = row_of(place.dump("demo")["worker"], "")
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
        check(row_of(got["worker"], "")["values"] == {"queue": 0},
              "the gauge of a thread that has ended counts")
        check(worker["values"] == {"queue": 11}, str(worker))
        links = sorted(core["link"] for core in worker["cores"].values())
        # If there is only one core, only one of two workers is shown.
        check(links == ["down", "up"] or
              len(online_cores()) == 1 and links in (["down"], ["up"]),
              str(worker))
        check_lines_say_the_same(place, packets, size)
        producer.end()


def check_lines_say_the_same(place, packets, size):
    lines = [line.split() for line
             in place.succeed("top", "demo", "--totals").splitlines()]
    for line in (["eth0", str(packets), str(size), "0", str(packets // 64)],
                 ["-", str(2**64 - 2), "-42"], ["10.0.3.231", "2997", "999000"]):
        found = [got for got in lines if got[:len(line)] == line]
        check(len(found) == 1, f"{len(found)} of {line} in {lines}")


def test_totals_per_core():
    """with --per-core, the values of a row for each core add up to its total"""
    with RuntimeDir() as place:
        producer = place.produce("demo", "--workers", "2")
        producer.wait_until_counted(64 * 64)
        producer.ask("stop")
        got = tables_of(place.documents("top", "demo", "-a", "--per-core")[0])
        row = row_of(got["port"], "eth0")
        counts = [core["rx_packets"] for core in row["cores"].values()]
        check(len(counts) == min(2, len(os.sched_getaffinity(0))), str(row))
        check(sum(counts) == row["values"]["rx_packets"] > 0, str(row))


def added_up(dumps, table, row, field):
    return sum(row_of(dump[table], row)["values"][field] for dump in dumps)


def test_instances():
    """without an instance, percore top adds up the rows of all instances, and with
    --each it tells them apart"""
    names = ["demo@east", "demo@west", "demo@north"]
    with RuntimeDir() as place:
        producers = [place.produce(name, "--rows", str(rows))
                     for rows, name in enumerate(names, 3)]
        for producer in producers:
            producer.wait_until_counted(64)
            producer.ask("stop")
        dumps = [place.dump(name) for name in names]
        for option in [], ["--per-core"]:
            got = tables_of(place.documents("top", "demo", "-a", *option)[0])
            for field in "rx_packets", "rx_bytes":
                check(row_of(got["port"], "eth0")["values"][field]
                      == added_up(dumps, "port", "eth0", field) > 0, str(got["port"]))
            check(row_of(got["port"], "eth1")["values"]["in_flight"]
                  == added_up(dumps, "port", "eth1", "in_flight") < 0, str(got["port"]))
            check(row_of(got["odd"], "")["values"]
                  == {"errors": 2**64 - 6, "balance": -126}, str(got["odd"]))
            check(row_of(got["session"], "10.0.0.2")["values"]
                  == {"packets": 18, "bytes": 6000}, str(got["session"]))
            check(len(got["session"]["rows"]) == 5, str(got["session"]))
        each = tables_of(place.documents("top", "demo", "-a", "--each")[0])
        for dump, name in zip(dumps, names):
            instance = name.removeprefix("demo")
            check(row_of(each["port"], f"eth0{instance}")["values"]
                  == row_of(dump["port"], "eth0")["values"], str(each["port"]))
        top = place.documents("top", "demo", "-n", "2", "-i", "0.2")
        check(row_of(tables_of(top[1])["port"], "eth0")["values"]["rx_packets"] == 0,
              str(top[1]))


def test_removed_rows():
    """a removed row is neither shown nor counted in the heading, and the row that
    replaces it starts at 0"""
    with RuntimeDir() as place:
        producer = place.produce("demo", "--rows", "5")
        producer.ask("remove 2")
        table = place.dump("demo")["session"]
        check([row["row"] for row in table["rows"]]
              == ["10.0.0.0", "10.0.0.1", "10.0.0.3", "10.0.0.4"], str(table))
        text = place.run("top", "demo", "-a").stdout
        check("\nsession: 4 rows\n" in text, text)
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


def test_totals_need_no_memory():
    """the totals of 300 000 rows need no more memory than those of few rows"""
    rows = 300000
    with RuntimeDir() as place:
        place.produce("large", "--rows", str(rows))
        for arguments in (["--json"], []):
            begin = time.monotonic()
            with Child([PERCORE, "top", "large", "--totals", *arguments],
                       stdout=subprocess.PIPE,
                       env=place.environment) as process:
                size = peak = looks = 0
                for block in iter(lambda: process.stdout.read(1 << 16), b""):
                    if looks % 64 == 0:
                        peak = max(peak, peak_memory(process.pid))
                    looks += 1
                    size += len(block)
                check(process.wait(TIMEOUT) == 0, "it failed")
            say(f"top --totals {' '.join(arguments)}: {size >> 20} MiB in "
                f"{time.monotonic() - begin:.1f} s, anonymous memory "
                f"{peak >> 10} KiB")
            check(size > 20 * rows, f"only {size} bytes")
            check(0 < peak < 8 << 20, f"{peak} bytes")


def test_reader_gone():
    """if the output is closed (| head), top ends quietly"""
    with RuntimeDir() as place:
        place.produce("demo", "--rows", "100000")
        for command in (["top", "demo", "-a"], ["top", "demo", "-a", "--json"],
                        ["top", "demo", "-i", "0.1"]):
            with Child([PERCORE, *command], text=True, stdout=subprocess.PIPE,
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
    return any((ord(c) < 32 and c not in "\n\t") or 127 <= ord(c) < 160
               or c in "\u202e\u2028" for c in text)


def check_clean(place, *command, **options):
    done = place.run(*command, **options)
    check(not has_control_bytes(done.stdout + done.stderr), f"{command}: {done}")


def test_hostile_names():
    """escape sequences, quotes and broken UTF-8 in names of rows, threads, states, files
    and arguments harm neither the terminal nor JSON"""
    with RuntimeDir() as place:
        place.produce("hostile", "--hostile")
        with open(new_file(place.path, "\033[2J\n@").encode("utf-8"), "w",
                  encoding="ascii"):
            pass
        for command in (["top", "hostile", "-a"], ["regions"], ["regions", "hostile"],
                        ["top", "hostile", "-n", "1", "-i", "0.1"]):
            text = place.succeed(*command)
            check(not has_control_bytes(text), repr(text))
            for document in place.documents(*command):
                check(not has_control_bytes(
                    json.dumps(document, ensure_ascii=False)), str(document))
        for command in (["doctor"], ["top", "hostile", "--table", HOSTILE]):
            check_clean(place, *command)
        got = place.dump("hostile")
        names = [row["row"] for row in got["port"]["rows"]]
        check(len(names) == 2 and 'a"b\\c' in names[1], str(names))


HOSTILE = "\033[2J\u202e"

# What each command may print of its arguments, beside what it says of an unknown option,
# of a wrong operand, and of a wrong value of each of its options.
ARGUMENTS = {
    "load": [["--source", HOSTILE], [HOSTILE]],
    "pick": [["-c", "0", HOSTILE]],
    "regions": [["--maps", HOSTILE]],
    "top": [["hostile", "-t", HOSTILE], ["hostile", "-s", HOSTILE], [f"/{HOSTILE}"],
            [f"id:{HOSTILE}"], ["/dev/null", "-t", HOSTILE]],
    "wake": [["0", "--csv", f"{HOSTILE}/{HOSTILE}"], ["0", HOSTILE]],
    "clock": [["--pin", HOSTILE]],
    "doctor": [["--check", HOSTILE]],
}
ENDS = {"load": ["--count", "1", "--interval", "0.1"],
        "wake": ["--count", "1", "--time", "0.1"]}


def test_hostile_arguments():
    """no command prints control characters of an operand, of an option, of a value of an
    option or of a file's name"""
    with RuntimeDir() as place:
        place.produce("hostile", "--hostile")
        check_clean(place, HOSTILE)
        commands = re.findall(r"^  ([a-z]+)", place.succeed("--help"), re.MULTILINE)
        check(commands == list(ARGUMENTS), f"{commands}")
        for command, arguments in ARGUMENTS.items():
            valued = re.findall(r"(--[a-z-]+) [A-Z]", place.succeed(command, "--help"))
            for more in [[HOSTILE], [f"--{HOSTILE}"], *arguments,
                         *([option, HOSTILE] for option in valued)]:
                check_clean(place, command, *ENDS.get(command, []), *more,
                            cwd=place.path)


# ---------------------------------------------------------------------------
# Producers of other users


def test_other_users():
    """another user is refused with advice, and a member of the file's group can read"""
    if not is_root():
        raise Skip("only root can be another user")
    nobody = pwd.getpwnam("nobody")
    group = grp.getgrnam("daemon").gr_gid
    with RuntimeDir() as place:
        os.chmod(place.path, 0o755)
        place.produce("demo")
        [file] = [name for name in os.listdir(place.path) if name.startswith("demo.")]
        os.chown(f"{place.path}/{file}", 0, group)
        # Only root may be able to enter the build directory, so copy the program.
        tool = f"{place.path}/percore"
        shutil.copy(f"{BUILD}/.libs/percore"
                    if os.path.exists(f"{BUILD}/.libs/percore") else PERCORE,
                    tool)

        def run(groups, *arguments):
            return subprocess.run(
                [tool, *arguments], user=nobody.pw_uid, group=nobody.pw_gid,
                extra_groups=groups, capture_output=True, text=True,
                timeout=TIMEOUT, check=False, env=place.environment, cwd="/")

        place.produce("other@a")
        for name in ("demo", "other", "other@a"):
            done = run([], "top", name, "-a")
            check(done.returncode == 1 and "group" in done.stderr, done.stderr)
        found = json.loads(run([], "regions", "demo", "--json").stdout)["regions"][0]
        check(found["state"] == "refused" and "denied" in found["why"],
              str(found))
        done = run([group], "top", "demo", "-a", "--json")
        check(done.returncode == 0, done.stderr)
        check(json.loads(done.stdout)["uid"] == 0, done.stdout[:200])
        done = run([group], "regions", "demo")
        check(done.returncode == 0 and "rx_packets" in done.stdout, str(done))


def test_root_reads_others():
    """root reads the region of another user, and sees the region's owner"""
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
        check(len(place.dump("theirs")["session"]["rows"]) == 3, "not read")


def test_top_of_a_stopped_producer():
    """if a producer is stopped, percore top still reads its memory"""
    with RuntimeDir() as place:
        producer = place.produce("demo")
        with Child([PERCORE, "top", "demo", "-i", "0.2", "-n", "9"],
                   stdout=subprocess.PIPE, text=True, env=place.environment) as top:
            top.stdout.readline()
            stop(producer.process)
            top.communicate(timeout=TIMEOUT)
            check(top.wait(TIMEOUT) == 0, "top failed")
        producer.process.send_signal(signal.SIGCONT)


if __name__ == "__main__":
    run_tests(globals())
