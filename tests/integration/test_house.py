#!/usr/bin/python3
"""Tests that the source tree stays as small as CONTRIBUTING.md says. Needs no daemon."""

import importlib.machinery
import importlib.util
import os
import re
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import check, run_tests  # noqa: E402

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
LINES_AT_MOST = 800


def counter():
    """Returns contrib/lines as a module."""
    sys.dont_write_bytecode = True
    path = os.path.join(ROOT, "contrib/lines")
    loader = importlib.machinery.SourceFileLoader("lines", path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("lines", loader))
    loader.exec_module(module)
    return module


def ceilings():
    """Returns the ceilings of CONTRIBUTING.md by name."""
    with open(os.path.join(ROOT, "CONTRIBUTING.md"), encoding="utf-8") as file:
        section = file.read().split("\n## Ceilings\n")[1].split("\n## ")[0]
    return {name: int(lines) for name, lines in
            re.findall(r"^\| `?([\w /]+?)`? \| (\d+) \|", section, re.MULTILINE)}


def test_ceilings():
    """no folder of src, and not the manual pages, have more lines than CONTRIBUTING allows"""
    allowed, lines = ceilings(), counter().count()
    check(set(lines) == set(allowed), f"the table lacks, or has too much: "
          f"{sorted(set(lines) ^ set(allowed))}")
    for name, ceiling in allowed.items():
        check(lines[name] <= ceiling, f"{name} has {lines[name]} lines, {ceiling} are allowed; "
              "name the promise that the new one replaces")


def test_code():
    """comments, blank lines and the text of literals are told apart from code"""
    with tempfile.NamedTemporaryFile("w", suffix=".c", encoding="utf-8") as file:
        file.write('/* two\nlines */\n\nint a; // one\n'
                   'char *b = "/* no comment";\nchar c = \'"\'; /* a comment\n*/ int d;\n'
                   '// "\nint e; /* \' */\n')
        file.flush()
        check(counter().code_lines(file.name) == 5, str(counter().code_lines(file.name)))


def test_lengths():
    """no C file of src has more than 800 lines"""
    for path, _, names in os.walk(os.path.join(ROOT, "src")):
        for name in names:
            if not name.endswith((".c", ".h")) or name.endswith(".lskel.h"):
                continue
            with open(os.path.join(path, name), encoding="utf-8") as file:
                lines = sum(1 for _ in file)
            check(lines <= LINES_AT_MOST, f"{name} has {lines} lines")


if __name__ == "__main__":
    run_tests(globals())
