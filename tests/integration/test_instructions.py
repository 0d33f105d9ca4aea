#!/usr/bin/python3
"""Counts the instructions of what is run often (instructions.c), which do not depend on
the load of this machine, and compares them with those in instructions.json.

    test_instructions.py --record     writes the numbers of this build into that file"""

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import BUILD, Skip, check, run_tests  # noqa: E402
from sysroot import SysRoot  # noqa: E402

PROGRAM = f"{BUILD}/tests/integration/instructions"
RECORD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "instructions.json")
ROOM = 1.02
# Without them, the C library has the same functions on each processor.
TUNABLES = "glibc.cpu.hwcaps=" + ",".join(
    "-" + feature for feature in ("SSSE3 SSE4_1 SSE4_2 AVX AVX2 AVX512F AVX512VL AVX512BW FMA "
                                  "FMA4 BMI1 BMI2 LZCNT POPCNT MOVBE ERMS FSRM RTM").split())
PLAYED_CORES = 64


def build_name():
    """Returns what the numbers of instructions depend on: compiler, options, C library."""
    said = subprocess.run(["readelf", "--debug-dump=info", "--dwarf-depth=1", PROGRAM],
                          check=True, capture_output=True, text=True).stdout
    compiler = re.search(r"DW_AT_producer.*: (.*)", said)
    return ", ".join([compiler[1] if compiler else "a compiler without -g",
                      " ".join(platform.libc_ver()), platform.machine()])


def count():
    """Returns the instructions of one step of each path."""
    if shutil.which("valgrind") is None:
        raise Skip("valgrind is missing: apt-get install valgrind")
    with SysRoot(PLAYED_CORES, nodes=2) as root, tempfile.TemporaryDirectory() as folder:
        root.write_machine()
        out = f"{folder}/callgrind"
        with subprocess.Popen(
                ["valgrind", "--quiet", "--tool=callgrind",
                 f"--callgrind-out-file={out}.%p", PROGRAM, root.path],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                env={**os.environ, "GLIBC_TUNABLES": TUNABLES}) as process:
            said, errors = process.communicate(timeout=300)
        check(process.returncode == 0, said + errors)
        steps = dict(re.findall(r"^path_(\w+) (\d+)$", said, re.M))
        table = subprocess.run(
            ["callgrind_annotate", "--inclusive=yes", "--auto=no", "--threshold=100",
             f"{out}.{process.pid}"], check=True, capture_output=True, text=True).stdout
    found = {}
    for spent, name in re.findall(r"^ *([\d,]+) \(.*:path_(\w+)(?: |$)", table, re.M):
        found.setdefault(name, round(int(spent.replace(",", "")) / int(steps[name]), 2))
    check(found.keys() == steps.keys(), table)
    return found


def test_instructions():
    """an update, a poll, a sample, a scanned cell and a put value take at most 2 % more
    instructions than recorded"""
    with open(RECORD, encoding="ascii") as file:
        wanted = json.load(file).get(build_name())
    if wanted is None:
        raise Skip(f"no numbers are recorded for {build_name()}")
    found = count()
    check(found.keys() == wanted.keys(), f"{found}: record them with --record")
    grown = []
    for name, instructions in found.items():
        print(f"# {name}: {instructions} instructions, {wanted[name]} recorded")
        if instructions > ROOM * wanted[name]:
            grown.append(name)
    check(not grown, f"{', '.join(grown)}: more instructions than recorded: make it cheaper, "
          "or say in the commit why not, and use --record")


if __name__ == "__main__":
    if sys.argv[1:] == ["--record"]:
        with open(RECORD, encoding="ascii") as record:
            numbers = json.load(record) | {build_name(): dict(sorted(count().items()))}
        with open(RECORD, "w", encoding="ascii") as record:
            json.dump(numbers, record, indent=2)
            record.write("\n")
    else:
        run_tests(globals(), "instructions of what is run often", PROGRAM)
