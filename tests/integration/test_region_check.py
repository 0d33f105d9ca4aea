#!/usr/bin/python3
"""Tests of percore regions NAME: it describes a valid region, and names the rule that an
invalid region breaks."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import Skip, check  # noqa: E402
from producers import new_file  # noqa: E402
from region_format import (CORE_TABLE, PAGE, PORT, REGION, RULES,  # noqa: E402
                           SESSION, SLOW, TABLES, WORKER, Region, Served)
from region_harness import RuntimeDir, run_tests  # noqa: E402

EXAMPLE = os.path.join(REGION, "../../contrib/producers/region.c")


def words(*changes, size=4):
    """Returns a function that stores values at offsets in a region. Values and offsets
    may be functions of the region."""
    def change(region):
        for offset, value in changes:
            region.set(offset(region) if callable(offset) else offset,
                       value(region) if callable(value) else value, size)
    return change


def in_table(number, offset, value, size=4):
    return words((lambda region: region.table(number) + offset, value),
                 size=size)


def in_field(table, field, offset, value):
    return words((lambda region: region.field(table, field) + offset, value))


def text(find, offset):
    """Returns a function that replaces the first byte of a string in a region with a
    byte that is invalid in text."""
    def change(region):
        at = region.get(144) + region.get(find(region) + offset, 4)
        region.bytes[at] = 0x07
    return change


def no_end(region):
    region.bytes[region.get(144) + region.get(152) - 1] = ord("x")


def long_names(region):
    """Makes the name of a table so long that it is valid by itself, but too long
    together with the name of the region."""
    name = "x" * 110
    tables = list(TABLES)
    tables[WORKER] = (name,) + TABLES[WORKER][1:]
    region.build("format", tables)


def too_many_strings(region):
    """Makes five fields share a unit text of 1 MiB."""
    fields = [(f"f{n}", "h" * (1 << 20) if n == 0 else "1", 0, {})
              for n in range(5)]
    region.build("format", TABLES[:1] + [
        ("large", 1, 0, 1, 0, 0, fields)], size=2 << 20)
    unit = region.get(region.field(1, 0) + 4, 4)
    for number in range(5):
        region.set(region.field(1, number) + 4, unit, 4)


def named(number, name):
    def change(region):
        tables = list(TABLES)
        tables[number] = (name,) + TABLES[number][1:]
        region.build("format", tables)
    return change


def fields_of(number, change_fields):
    def change(region):
        tables = list(TABLES)
        tables[number] = TABLES[number][:6] + (
            change_fields(list(TABLES[number][6])),)
        region.build("format", tables)
    return change


def named_region(name):
    return lambda region: region.build(name)


def instance(region):
    """Uses the help text of a table, which contains blanks, as the name of the
    instance."""
    region.set(116, region.get(region.table(PORT) + 4, 4), 4)


BREAKS = {
    "magic": words((0, 0x4e524156)),
    "byte-order": words((8, 0x04030201)),
    "version": words((12, 77), size=2),
    "record-sizes": words((20, 124)),
    "region-size": lambda region: region.bytes.extend(bytes(4096)),
    "directory-size": words((40, 1 << 40), size=8),
    "counts": words((168, 0)),
    "region-name": named_region("Format"),
    "instance-name": instance,
    "string-place": no_end,
    "string-sum": too_many_strings,
    "text": text(lambda region: region.field(PORT), 4),
    "core-table": in_table(CORE_TABLE, 36, 24),
    "core-fields": in_field(CORE_TABLE, 3, 12, 1),
    "table-name": named(PORT, "host"),
    "storage": in_table(PORT, 8, 3),
    "key": in_table(SESSION, 40, 4),
    "consistent": in_table(SLOW, 12, 1),
    "row-name-size": in_table(PORT, 36, 16),
    "table-fields": words((lambda region: region.table(SESSION) + 16,
                           lambda region: region.get(
                               region.table(PORT) + 16, 4))),
    "max-rows": in_table(PORT, 32, 0),
    "identifier": long_names,
    "columns": words((lambda region: region.field(PORT, 2) + 28, 8),
                     (lambda region: region.field(PORT, 2) + 32, 64)),
    "row-stride": in_table(SESSION, 28, 16),
    "field-name": fields_of(SESSION, lambda fields: fields[:1] * 2),
    "kind": in_field(PORT, 0, 12, 5),
    "aggregation": in_field(PORT, 0, 16, 1),
    "histogram": in_field(PORT, 2, 32, 65),
    "states": in_field(SLOW, 1, 40, 0),
    "place": words((lambda region: region.table(SESSION) + 64,
                    lambda region: region.get(region.table(PORT) + 56)),
                   size=8),
}
# More ways to break the rule `place`: in the directory, the stride of slot blocks, a part
# outside the region, no births.
MISPLACED = [
    words((136, lambda region: region.get(120)), size=8),
    words((184, 120), size=8),
    in_table(PORT, 80, 1 << 40, size=8),
    in_table(PORT, 64, 0, size=8),
]
# Rules whose faults must also name this table and this field.
SUBJECTS = {
    "text": ("port", "packets"), "core-fields": ("core", "polls"),
    "table-name": ("host", None), "table-fields": ("session", None),
    "place": ("session", None), "aggregation": ("port", "packets"),
    "columns": ("port", None),
}


def look(place, region, name="format"):
    """Publishes the bytes of a region. Returns what percore regions NAME says as JSON and
    as text, and its exit status."""
    with Served(place, name, region.bytes):
        done = place.run("regions", name, "--json")
        shown = place.run("regions", name)
    check(done.returncode == shown.returncode, f"{done} but {shown}")
    check(done.stderr == shown.stderr == "", done.stderr)
    return json.loads(done.stdout)["regions"][0], shown.stdout, done.returncode


def test_rules():
    """the manual lists the rules of the library in the library's order, and this test
    breaks each of them"""
    with open(f"{REGION}/fault.h", encoding="utf-8") as file:
        known = re.findall(r'RULE\([A-Z_]+, "([a-z-]+)"\)', file.read())
    check(RULES == known, f"{RULES} but {known}")
    check(len(RULES) == len(set(RULES)), f"{RULES}")
    check(set(RULES) == set(BREAKS) | {"file-name"}, f"{set(RULES) ^ set(BREAKS)}")


def test_good_region():
    """a region written from the manual is read"""
    with RuntimeDir() as place:
        region = Region()
        found, shown, status = look(place, region)
        check(status == 0 and found["state"] == "alive" and "rule" not in found, shown)
        check("rule" not in shown and "packets" in shown, shown)
        with Served(place, "format", region.bytes):
            port = place.dump("format")["port"]["rows"]
            check([row["row"] for row in port] == ["eth0", "zoë"], str(port))


def test_each_rule():
    """the rule that a region breaks is named, with its table and field"""
    with RuntimeDir() as place:
        for rule, change in BREAKS.items():
            region = Region()
            change(region)
            found, shown, status = look(place, region)
            check(status == 1 and found["state"] == "refused" and found["rule"] == rule,
                  f"{rule}: {shown}")
            check(f"(rule {rule} of percore-region(7))" in shown, f"{rule}: {shown}")
            table, field = SUBJECTS.get(rule, (None, None))
            check(table in (None, found.get("table")) and
                  field in (None, found.get("field")), f"{rule}: {found}")
        for number, change in enumerate(MISPLACED):
            region = Region()
            change(region)
            found, shown, _ = look(place, region)
            check(found.get("rule") == "place", f"place {number}: {shown}")


def test_says_what_readers_say():
    """percore regions NAME refuses a region if and only if percore top cannot read it,
    for the same reason"""
    with RuntimeDir() as place:
        for rule in ("counts", "storage", "place", "states"):
            region = Region()
            BREAKS[rule](region)
            why = look(place, region)[0]["why"].partition(" (rule")[0]
            with Served(place, "format", region.bytes):
                said = place.fail("top", "format")
            check(why in said, f"{why}: {said}")


def test_shrinking_file():
    """a file that shrinks while it is read is refused or read, and kills nothing"""
    content = bytes(Region().bytes)
    with RuntimeDir() as place:
        path = new_file(place.path, "format")
        ended = threading.Event()

        def shrink():
            while not ended.is_set():
                with open(path, "wb") as file:
                    file.write(content)
                os.truncate(path, 100)
        thread = threading.Thread(target=shrink)
        thread.start()
        try:
            codes = {place.run("regions", "format").returncode for _ in range(50)}
        finally:
            ended.set()
            thread.join()
        check(codes <= {0, 1}, str(codes))


def test_file_name():
    """a name that differs from the file's is named"""
    with RuntimeDir() as place:
        found, shown, status = look(place, Region(), "other")
        check(status == 1 and found["rule"] == "file-name", shown)


def program(heading):
    """Returns a program of the manual."""
    block = re.search(rf"^=head1 {heading}\n\n.*?\n\n((?:  .*\n|\n)+)", PAGE,
                      re.MULTILINE)
    return re.sub("^  ", "", block.group(1), flags=re.MULTILINE)


def count_with(place, command):
    """Runs a producer of the manual until it is killed, and checks what readers read."""
    process = subprocess.Popen(command, env=place.environment)
    end = time.monotonic() + 20
    while place.run("top", "demo", "-a").returncode != 0 and time.monotonic() < end:
        time.sleep(0.05)
    counts = [place.dump("demo")["request"]["rows"][0]["values"] for _ in range(2)]
    requests, size = ([count[name] for count in counts] for name in ("requests", "bytes"))
    check(place.regions()["demo"]["state"] == "alive", "it is not alive")
    check(place.run("regions", "demo").returncode == 0, "it breaks a rule")
    process.kill()
    process.wait()
    check(place.regions()["demo"]["state"] == "gone", "it is not gone")
    check(0 < requests[0] < requests[1] and 512 * requests[0] <= size[0] + 512, f"{counts}")
    for file in os.listdir(place.path):
        os.unlink(f"{place.path}/{file}")


def test_producers_of_the_manual():
    """the producers of percore-region(7), in Python without ctypes and at most 60 lines,
    and its example in C, are alive, counted, and gone when they are killed"""
    with RuntimeDir() as place, tempfile.TemporaryDirectory() as directory:
        python = program("A PRODUCER IN PYTHON")
        check(len(python.strip().splitlines()) <= 60 and "ctypes" not in python, python)
        count_with(place, [sys.executable, "-c", python])
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            raise Skip("a C compiler is missing")
        subprocess.run([compiler, "-Wall", "-Wextra", "-Werror", "-O2", "-o",
                        f"{directory}/demo", EXAMPLE], check=True)
        count_with(place, [f"{directory}/demo"])


def test_own_regions():
    """a region of the library is read, even while rows are added and removed and
    workers count"""
    with RuntimeDir() as place:
        producer = place.produce("demo", "--rows", "1000", "--workers", "2")
        producer.wait_until_counted(64)
        for row in range(100):
            producer.ask(f"remove {row}")
        for _ in range(5):
            done = place.run("regions", "demo")
            check(done.returncode == 0, done.stdout)


if __name__ == "__main__":
    run_tests(globals())
