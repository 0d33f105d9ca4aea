#!/usr/bin/python3
"""Checks the models of what threads share (src/*/*.pml) with spin: in all orders in
which their steps can happen, and with all values that the memory of C11 lets a load
return. A model is wrong without any one of its WITHOUT_..., so it can tell."""

import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import Skip, check, run_tests  # noqa: E402

SOURCE = os.path.realpath(f"{os.path.dirname(os.path.abspath(__file__))}/../../src")


def errors_of(model, without=None):
    """Returns how many errors spin finds (at most one), and what it printed."""
    defined = [f"-DWITHOUT_{without}"] if without else []
    with tempfile.TemporaryDirectory() as folder:
        for command in (["spin", "-a", *defined, model],
                        ["gcc", "-O0" if without else "-O1", "-w", "-DSAFETY", "-DNOCLAIM",
                         "-o", "pan", "pan.c"],
                        ["./pan", "-m100000", "-n"]):
            said = subprocess.run(command, cwd=folder, check=True, text=True, timeout=600,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout
    check("max search depth too small" not in said and "out of memory" not in said, said)
    return int(re.search(r"errors: (\d+)", said)[1]), said


def test_of(model, text):
    def test():
        for tool in ("spin", "gcc"):
            if shutil.which(tool) is None:
                raise Skip(f"{tool} is missing: apt-get install {tool}")
        errors, said = errors_of(model)
        check(errors == 0, said)
        for without in sorted(set(re.findall(r"WITHOUT_([A-Z]\w+)", text))):
            check(errors_of(model, without)[0] > 0, f"without {without}, no error is found")
    shown = re.search(r"Shows: (.*?)\.\n", text, re.S)[1]
    test.__doc__ = re.sub(r"\s+\*\s+", " ", shown)
    return test


def tests():
    found = {}
    for model in sorted(glob.glob(f"{SOURCE}/*/*.pml")):
        with open(model, encoding="ascii") as file:
            text = file.read()
        if "\ninit {" in text:
            found[f"test_{os.path.basename(model)}"] = test_of(model, text)
    return found


if __name__ == "__main__":
    run_tests(tests())
