#!/usr/bin/python3
"""Compares percore with what others use, on this machine, in at most ten minutes.

A section NAME is a module peers_NAME.py beside this file. Its measure(build, seconds) takes
about so many seconds and yields records: dicts with the keys

    what, who   what was done, and with which tool; percore's own begin with "percore"
    unit        every figure is a cost or an error, of which less is better; but
                "% of a core" is the load that a tool shows, or that there was ("truth")
    median, low, high, n   the median and the quartiles of n tries
    note        optional: one sentence

The module's list MISSING names what is not installed. Optional: claims(records) yields
sentences and whether they are true, and picture(records) returns a script for gnuplot, if bars
would not do."""

import argparse
import datetime
import importlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile

import peers_documents
from bench import HERE, grouped
from harness import Skip, clean_up_when_ended

SECONDS = {"counters": 60, "seed": 50, "agents": 165, "truth": 175, "growth": 130,
           "packets": 75}
ALONE = "packets"  # measured only if it is named
PACKAGES = """libpcp-mmv1-dev libdpdk-dev liblttng-ust-dev lttng-tools liburcu-dev
prometheus-cpp-dev collectd-core prometheus-node-exporter pcp netdata-core strace procps sysstat
linux-cpupower"""  # whose versions matter
KEY = ("section", "what", "who", "unit")
NOT_DRAWN = ("times", "1 = linear", peers_documents.LOAD)
OURS, OTHERS = 0x009e73, 0x999999  # colours of bars
ROOM = 0.02  # figures of one try or of instructions have no spread


def say(text):
    print(text, file=sys.stderr, flush=True)


def module_of(section):
    return importlib.import_module(f"peers_{section}")


# ---------------------------------------------------------------------------
# Measuring


def output_of(*command):
    """Returns what a command prints: nothing if there is no such command."""
    if shutil.which(command[0]) is None:
        return ""
    return subprocess.run(command, capture_output=True, text=True,
                          check=False).stdout.strip()


def machine():
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
        models = [line.split(":")[1].strip() for line in file
                  if line.startswith("model name")]
    return {"machine": f"{models[0] if models else platform.machine()}, "
                       f"{os.cpu_count()} cores",
            "hypervisor": output_of("systemd-detect-virt", "--vm") or "none",
            "kernel": platform.release(),
            "date": datetime.date.today().isoformat(),
            "load_before": round(os.getloadavg()[0], 2),
            "versions": {"percore": output_of("git", "-C", HERE, "describe", "--always",
                                              "--dirty"),
                         "compiler": output_of("c++", "--version").split("\n")[0],
                         **{package: output_of("dpkg-query", "-W", "-f", "${Version}", package)
                            or "not installed" for package in PACKAGES.split()}}}


def measure(sections, build):
    """Returns what was measured, as the JSON file has it."""
    found = {**machine(), "missing": [], "records": []}
    for section in sections:
        module, seconds = module_of(section), SECONDS[section]
        say(f"== {section}, takes about {seconds} s")
        try:
            for record in module.measure(build, seconds):
                found["records"].append({"section": section, **record})
        except Skip as reason:
            found["missing"].append(f"{section}: {reason}")
        except subprocess.CalledProcessError as error:
            found["missing"].append(f"{section}: {error.cmd[0]} has failed")
        except Exception as error:  # the other sections are still wanted
            found["missing"].append(f"{section}: {type(error).__name__}: {error}")
        found["missing"] += [f"{section}: {each}" for each in module.MISSING]
    return found


# ---------------------------------------------------------------------------
# Showing


def shown(number):
    return f"{number:.3g}" if abs(number) < 100 else f"{number:.0f}"


def table(found):
    """Yields the lines of a text table."""
    yield "; ".join(f"{key}: {value}" for key, value in found.items()
                    if key not in ("records", "missing", "versions"))
    for (section, what, unit), records in grouped(found["records"], "section", "what",
                                                  "unit").items():
        yield f"\n{section}: {what} ({unit})"
        for record in records:
            spread = "" if record["n"] < 2 else \
                f"{shown(record['low'])} to {shown(record['high'])}"
            yield (f"  {record['who']:32} {shown(record['median']):>8}  {spread:18} "
                   f"{record.get('note', '')}").rstrip()
    for title, lines in (("claims that do not hold", broken_claims(found["records"])),
                         ("not measured", found["missing"])):
        if lines:
            yield f"\n{title}:"
            yield from (f"  {each}" for each in lines)


def broken_claims(records):
    """Returns what the sections say of percore, and their records do not."""
    return [f"{section}: {sentence}" for (section,), own in grouped(records, "section").items()
            for sentence, holds in getattr(module_of(section), "claims", lambda _: ())(own)
            if not holds]


def bars(records):
    """Returns a script for gnuplot, which draws bars with quartiles on one scale."""
    least = min((each["median"] for each in records if each["median"] > 0), default=1) / 2
    titles, rows, y = [], [], 0
    for (what, unit), group in grouped(records, "what", "unit").items():
        titles.append(f"set label {json.dumps(f'{what} ({unit})')} at screen 0.01, first {y}")
        for y, each in enumerate(group, y + 1):
            ours = each["who"].startswith(("percore", "here"))
            costs = (max(each[key], least) for key in ("low", "median", "high"))
            rows.append(" ".join(map(str, (
                json.dumps(each["who"]), y, *costs, OURS if ours else OTHERS,
                shown(each["median"])))))
        y += 2
    return "\n".join((*titles, "$rows << END", *rows, "END", f"""
set terminal svg size 860,{16 * y + 60} noenhanced
set logscale x; set xrange [{least}:]; set yrange [{y}:-1]
set grid xtics; set ytics scale 0; set lmargin 40; set rmargin 8; unset key
plot $rows using 4:2:({least}):4:($2-0.4):($2+0.4):6:ytic(1) with boxxyerror \\
  fillstyle solid noborder linecolor rgb variable, \\
  $rows using 4:2:3:5 with xerrorbars linecolor black pointtype 0, \\
  $rows using 5:2:7 with labels left offset 1"""))


def draw(records, folder):
    """Draws a picture of each section. That of the README shows loads."""
    if shutil.which("gnuplot") is None:
        say("no pictures: gnuplot is not installed: apt-get install gnuplot-nox")
        return
    drawn = [each for each in records if each["unit"] not in NOT_DRAWN]
    for (section,), own in grouped(drawn, "section").items():
        script = getattr(module_of(section), "picture", bars)(own)
        path = os.path.join(folder, f"{section}.svg")
        with open(path, "w", encoding="utf-8") as file:
            subprocess.run(["gnuplot"], input=script, text=True, stdout=file, check=False)
        say(f"wrote {path}")


def as_json(found):
    """Returns the JSON text, with one record a line, so that differences can be read."""
    head = json.dumps({**found, "records": 0}, indent=1)
    rows = ",\n".join(json.dumps(record) for record in found["records"])
    return head.replace('"records": 0', f'"records": [\n{rows}\n]') + "\n"


# ---------------------------------------------------------------------------
# Comparing


def records_in(path):
    """Returns the records of a JSON file by what was measured."""
    try:
        with open(path, encoding="utf-8") as file:
            return {tuple(record[key] for key in KEY): record
                    for record in json.load(file)["records"]}
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise argparse.ArgumentTypeError(f"{path} is no peers.json: {error}") from error


def compare(before, after):
    """Yields a line for each figure that grew by more than its spread, and for each that is
    there no more."""
    for key, old in before.items():
        what, unit, new = ": ".join(key[:3]), key[3], after.get(key)
        if unit == peers_documents.LOAD:
            continue
        if new is None:
            yield f"{what}: {shown(old['median'])} {unit}, not measured now"
        elif new["low"] > old["high"] and \
                new["median"] - old["median"] > ROOM * abs(old["median"]):
            yield (f"{what}: {shown(old['median'])} -> {shown(new['median'])} {unit} "
                   f"({shown(old['low'])} to {shown(old['high'])}, now {shown(new['low'])} to "
                   f"{shown(new['high'])})")


# ---------------------------------------------------------------------------
# The command


def parse():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--section", action="append", choices=SECONDS,
                        help=f"measure this section; default: all but {ALONE}")
    parser.add_argument("--to", default="peers", metavar="FOLDER",
                        help="where peers.json and the pictures go; default: peers")
    parser.add_argument("--record", action="store_true",
                        help="replace the peers.json beside this file, and write its figures "
                        "into the documents")
    commands = parser.add_subparsers(dest="command", title="instead of measuring")
    comparing = commands.add_parser("compare", help="say what AFTER needs more of than BEFORE")
    for name in "before", "after":
        comparing.add_argument(name, metavar=f"{name.upper()}.json", type=records_in)
    commands.add_parser("documents", help="write the figures of the peers.json beside this "
                        "file into the documents")
    options = parser.parse_args()
    if options.record and options.section:
        parser.error("--record needs all sections: leave out --section")
    if options.command is None:
        try:
            os.makedirs(options.to, exist_ok=True)
            tempfile.TemporaryFile(dir=options.to).close()
        except OSError as error:
            parser.error(f"cannot write to {options.to}: {error.strerror}; name another "
                         "folder with --to")
    return options


def main():
    options = parse()
    clean_up_when_ended()
    if options.command == "compare":
        worse = list(compare(options.before, options.after))
        print("\n".join(worse) or "nothing got worse")
        return 1 if worse else 0
    if options.command == "documents":
        peers_documents.write()
        return 0
    sections = options.section or [each for each in SECONDS if each != ALONE]
    found = measure(sections, os.environ.get("PERCORE_BUILD", os.getcwd()))
    print("\n".join(table(found)))
    complete = len(grouped(found["records"], "section")) == len(sections)
    path = peers_documents.RECORDED if options.record and complete else \
        os.path.join(options.to, "peers.json")
    with open(path, "w", encoding="utf-8") as file:
        file.write(as_json(found))
    say(f"wrote {path}")
    draw(found["records"], options.to)
    if options.record:
        if not complete:
            sys.exit("not recorded: a section has no figures")
        peers_documents.write()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted")
