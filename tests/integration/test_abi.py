#!/usr/bin/python3
"""Tests that structures which programs and producers have compiled in keep their layout,
unless the number changes by which libpercore and readers know them.

    tests/integration/test_abi.py --record     after a number has changed"""

import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import Skip, check, run_tests  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SRC = f"{ROOT}/src"
RECORD = f"{ROOT}/tests/integration/abi"
# percore_create and percore_status pass the sizes of these to the library.
SIZED = ("percore_options", "percore_table", "percore_field", "percore_region_status")


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def numbers():
    """Returns the version of the ABI, and that of the format of regions."""
    abi = re.search(r"^PERCORE_(\d+) {", read(f"{SRC}/libpercore.map"), re.MULTILINE)
    major = re.search(r"^#define REGION_MAJOR (\d+)",
                      read(f"{SRC}/region/layout.h"), re.MULTILINE)
    return [f"ABI {abi[1]}", f"format {major[1]}"]


def layouts():
    """Returns a line for each member of each structure of the public headers and layout.h: the
    structure, the offset in bytes or in byte:bits, and the declaration. Members that are
    reserved may be given names, so they have no lines, and the size of a structure that
    may grow at its end (percore.h, percore-region(7)) has none."""
    if shutil.which("clang") is None:
        raise Skip("clang is missing")
    said = subprocess.run(
        ["clang", "-D_GNU_SOURCE", "-DPERCORE_BUILDING", f"-I{SRC}", "-fsyntax-only",
         "-Xclang", "-fdump-record-layouts-complete", "-x", "c", "-"],
        input='#include "percore_load.h"\n#include "region/layout.h"\n', capture_output=True, text=True,
        check=True).stdout
    lines = []
    for block in said.split("*** Dumping AST Record Layout")[1:]:
        name = re.search(r"\| (?:struct|union) (\S+)", block)[1]
        if not re.match(r"(percore|region)_", name):
            continue
        members = re.findall(r"^ +([\d:-]+) \|   (\S.*)$", block, re.MULTILINE)
        lines += [f"{name} {offset} {text}" for offset, text in members
                  if "reserved" not in text]
        if name.startswith("percore_") and members[0][1] != "size_t size" \
                and name not in SIZED:
            lines.append(f"{name} {re.search(r'sizeof=[0-9]+', block)[0]}")
    return sorted(set(lines))


def test_layouts():
    """a structure that programs or producers have compiled in keeps its layout, unless the
    version of the ABI or of the format changes"""
    recorded = read(RECORD).splitlines()
    gone = sorted(set(recorded[2:]) - set(layouts()))
    if numbers() == recorded[:2]:
        check(not gone, "these members are gone or have moved. Add 1 to the version that "
              "libpercore.map, percore.h, handles.c, version-info and "
              "contrib/debian have, or to REGION_MAJOR (layout.h), and run "
              f"{__file__} --record: {gone}")
    else:
        check(False, f"{recorded[:2]} became {numbers()}: run {__file__} --record")


if __name__ == "__main__":
    if sys.argv[1:] == ["--record"]:
        with open(RECORD, "w", encoding="utf-8") as out:
            out.write("\n".join(numbers() + layouts()) + "\n")
        sys.exit()
    run_tests(globals(), "ABI and format")
