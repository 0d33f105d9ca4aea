#!/usr/bin/python3
"""Tests that documents and scripts agree with the source tree. Needs no daemon."""

import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import BUILD, Skip, check, run_tests  # noqa: E402

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
DOCUMENTS = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "contrib/COMPARISON.md",
             "contrib/collectd/FLEET.md", "contrib/dashboards/README.md")
FOR_ADMINISTRATORS = ("src/plugin/collectd-percore.pod", "src/region/percore-regions.pod")
# What a build makes.
MADE = re.compile(r"^(grafana-|graphite-web\.json|build)|\.lskel\.h$")
FILE = re.compile(r"^[a-z][\w.-]*\.(?:[ch]|hpp|py|mk|pod|conf|md|json|yml|ac|service)$")


def text_of(name):
    with open(os.path.join(ROOT, name), encoding="utf-8") as file:
        return file.read()


def files_of(*folders):
    for folder in folders:
        for path, inside, names in os.walk(os.path.join(ROOT, folder)):
            inside[:] = [each for each in inside if not each.startswith((".", "build"))]
            for name in names:
                yield os.path.relpath(os.path.join(path, name), ROOT)


def named_paths(text):
    """Yields the paths below contrib, src and tests that a text names; a word in capital
    letters stands for any name."""
    for path in re.findall(r"(?<![\w/.-])(?:contrib|src|tests)/[\w./-]*\w", text):
        if not re.search(r"/[A-Z]+(?:\.|/|$)", path):
            yield path


def exists(path, folder=""):
    """Returns whether the path exists; a program may be named without `.c`."""
    found = os.path.join(ROOT, folder, path)
    return any(os.path.exists(found + end) for end in ("", ".c")) or \
        MADE.search(os.path.basename(path)) is not None


def test_security():
    """each test that SECURITY.md names beside an attack exists"""
    rows = [line.split("|")[4] for line in text_of("SECURITY.md").splitlines()
            if line.startswith("| ") and line.count("|") == 6]
    named = set(re.findall(r"\w+", " ".join(rows[1:])))
    check(len(named) > 10, str(named))
    sources = "\n".join(text_of(path) for path in files_of("tests")
                        if path.endswith((".c", ".py", ".mk")))
    for name in named:
        check(re.search(rf"\b(test_)?{name}\b(?!.*SECURITY)", sources),
              f"there is no test {name}")


def test_paths():
    """the files and folders that the documents name exist"""
    for name in DOCUMENTS:
        folder, text = os.path.dirname(name), text_of(name)
        for path in named_paths(text):
            if path.startswith("src/") and "COMPARISON" in name:
                continue  # of other projects, too
            check(exists(path) or exists(path, folder), f"{name} names {path}")
        for path in re.findall(r"\]\((?!https?:)([^)#]+)", text):
            check(exists(path, folder), f"{name} links to {path}")


def test_file_names():
    """the files that CONTRIBUTING names without a folder exist"""
    names = {os.path.basename(path) for path in files_of("src", "tests", "contrib")}
    words = set(re.findall(r"`([^`\s]+)`", text_of("CONTRIBUTING.md")))
    for word in sorted(filter(FILE.match, words)):
        check(word in names or exists(word), word)


def test_folders():
    """CONTRIBUTING lists each folder of src"""
    listed = set(re.findall(r"\bsrc/(\w+)\b", text_of("CONTRIBUTING.md")))
    for folder in next(os.walk(os.path.join(ROOT, "src")))[1]:
        check(folder in listed, f"src/{folder}")


def test_measured():
    """the figures that documents and pictures show are those of the last recorded
    measurement, in which percore kept what it says of its costs"""
    sys.path.insert(0, os.path.join(ROOT, "tests/bench"))
    import peers  # pylint: disable=import-error,import-outside-toplevel
    figures = peers.peers_documents.Figures()
    for name, text in peers.peers_documents.all_written(figures):
        check(text_of(name) == text, f"{name}: run tests/bench/peers.py documents")
    broken = peers.broken_claims(figures.records)
    check(not broken, "; ".join(broken))


def test_compared():
    """of two measurements, peers.py compare names what got worse beyond its spread"""
    sys.path.insert(0, os.path.join(ROOT, "tests/bench"))
    import peers  # pylint: disable=import-error,import-outside-toplevel
    def measured(median, spread, unit="ns"):
        return {("s", "an add", "percore", unit): {
            "median": median, "low": median - spread, "high": median + spread}}
    for before, after, worse in (((10, 1), (13, 1), True), ((10, 1), (11.5, 1), False),
                                 ((10, 1), (7, 1), False), ((10, 0), (10.1, 0), False),
                                 ((10, 1, "% of a core"), (90, 1, "% of a core"), False)):
        said = list(peers.compare(measured(*before), measured(*after)))
        check(bool(said) == worse, f"{before}, {after}: {said}")
    check(list(peers.compare(measured(10, 1), {})), "what is no longer measured is not named")


def test_manuals():
    """the manual pages cite only files that are installed"""
    examples = {os.path.basename(path) for path in files_of("contrib/collectd", "contrib/compare",
                                                            "contrib/wake", "contrib/producers")}
    for path in files_of("src"):
        if not path.endswith(".pod"):
            continue
        text = text_of(path)
        cited = re.findall(r"[FC]<(?:contrib|tests|src)/[^>]*>", text)
        check(not cited, f"{path} cites {cited}")
        for name in re.findall(r"/usr/share/doc/percore/examples/([\w.-]+\w)", text):
            check(name in examples, f"{path} cites the example {name}")
        for target in re.findall(r"C<make bench[^>]*>(?!\s+in\s+a\s+build)", text):
            check(False, f"{path} cites {target} as if it were installed")


def test_width():
    """the tables of the manual pages fit a terminal of 80 columns"""
    indent = 7  # of man(1)
    for path in files_of("src"):
        for block in text_of(path).split("\n\n") if path.endswith(".pod") else ():
            if block.startswith(" ") and not block.lstrip().startswith("$ "):
                wide = [line for line in block.splitlines() if
                        re.search(r"\S  +\S", line) and indent + len(line) > 80]
                check(not wide, "\n".join([f"{path} is too wide:", *wide]))


def test_symbols():
    """the library exports what libpercore.map and the Debian package list, and what
    percore.h declares"""
    library = f"{BUILD}/.libs/libpercore.so.1"
    if not os.path.exists(library):
        raise Skip("the library is not built")
    said = subprocess.run(["nm", "-D", "--defined-only", library], check=True,
                          capture_output=True, text=True).stdout
    exported = {line.split()[-1].replace("@@", "@") for line in said.splitlines()}
    exported = {symbol for symbol in exported if not symbol.startswith("PERCORE_")}
    releases = re.findall(r"^(PERCORE_\w+) \{(.*?)^\}", text_of("src/libpercore.map"),
                          re.MULTILINE | re.DOTALL)
    listed = {f"{name}@{release}" for release, names in releases
              for name in re.findall(r"^\t(\w+);", names, re.MULTILINE)}
    packaged = set(re.findall(r"^ (percore_\w+@\w+) ",
                              text_of("contrib/debian/libpercore1.symbols"), re.MULTILINE))
    check(exported == listed, f"{sorted(exported ^ listed)}")
    check(exported == packaged, f"{sorted(exported ^ packaged)}")
    headers = "".join(text_of(f"src/percore{part}.h")
                      for part in ("", "_tune", "_load", "_reader"))
    headers = re.sub(r"/\*.*?\*/", "", headers, flags=re.DOTALL)
    inline = set(re.findall(r"^(?:template .*)?static inline [^;{]*?\b(percore_\w+)\(", headers,
                            re.MULTILINE))
    declared = set(re.findall(r"^[\w ]+[ *\n](percore_\w+)\(", headers, re.MULTILINE))
    declared -= inline | {"percore_whole_"}  # which only makes fractions fail to compile
    check(len(declared) > 35, f"{sorted(declared)}")
    missing = declared - {symbol.split("@")[0] for symbol in exported}
    check(not missing, f"{sorted(missing)}")


def test_dashboards():
    """the dashboards show only values that the administrator's pages list"""
    sys.dont_write_bytecode = True
    sys.path.insert(0, os.path.join(ROOT, "contrib/dashboards"))
    import shown  # pylint: disable=import-error,import-outside-toplevel
    manual = "".join(map(text_of, FOR_ADMINISTRATORS))
    panels = [panel for dashboard in shown.DASHBOARDS for row in dashboard.rows
              for panel in row.panels]
    for panel in panels:
        for series in panel.series:
            names = series.type_instance
            for name in names if isinstance(names, tuple) else (names,):
                # The manual lists classes of time as a pattern.
                of_class = name.removesuffix("_mean") in shown.CLASSES
                if not series.is_region and not of_class and not name.startswith("$"):
                    check(re.sub(r"_(mean|min|max|stddev)$", "", name) in manual,
                          f"{panel.title}: {name}")


def test_one_unit_test():
    """make check with the name of one unit test builds no other program"""
    one = "tests/unit/test_loadavg"
    alone = {name: value for name, value in os.environ.items() if "MAKE" not in name}
    said = subprocess.run(["make", "-n", "-C", BUILD, "check", f"TESTS={one}"], check=True,
                          capture_output=True, text=True, env=alone).stdout
    check(f"p='{one}'" in said, said)
    others = set(re.findall(r"tests/\w+/(?:test|replay)_\w+", said)) - {one}
    check(not others and "percore.la" not in said, str(sorted(others)) + said)


SCRIPT = """
set -euo pipefail
. "$1/contrib/setup.sh"
configure_tree "$2/source" "$2/build" "$2/log" --some-option
touch "$2/build/kept"
configure_tree "$2/source" "$2/build" "$2/log" --some-option
[ -e "$2/build/kept" ]
install -m 755 /dev/null "$2/bin/clang"
configure_tree "$2/source" "$2/build" "$2/log" --some-option
[ ! -e "$2/build/kept" ]
"""


def test_configured_again():
    """contrib/demo and contrib/check configure a build again if a tool that configure looks
    for has been installed, and only then"""
    with tempfile.TemporaryDirectory() as folder:
        for name in "source", "bin":
            os.mkdir(os.path.join(folder, name))
        with open(os.path.join(folder, "source/configure"), "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\n: >Makefile\n")
        os.chmod(file.name, 0o755)
        for name in "Makefile.in", "log":
            open(os.path.join(folder, "source", name), "w", encoding="utf-8").close()
        for program in ("bash", "cat", "install", "ls", "mkdir", "rm", "tail", "touch", "sh"):
            path = subprocess.run(["sh", "-c", f"command -v {program}"], check=True,
                                  capture_output=True, text=True).stdout.strip()
            os.symlink(path, os.path.join(folder, "bin", program))
        done = subprocess.run(["bash", "-c", SCRIPT, "bash", ROOT, folder], text=True,
                              capture_output=True, check=False,
                              env={"PATH": os.path.join(folder, "bin")})
        check(done.returncode == 0, done.stdout + done.stderr)


if __name__ == "__main__":
    run_tests(globals())
