#!/usr/bin/python3
"""Compares percore with what others use, on this machine, in at most ten minutes:

    peers.py [--section NAME]... [--json FILE] [--pictures FOLDER] [--record]
    peers.py compare A.json B.json     says what B needs more of than A
    peers.py documents                 writes the figures of peers.json into the documents

--record makes a new peers.json, beside this file, and writes its figures, too.

A section NAME is a module peers_NAME.py beside this file. Its measure(build, seconds) takes
about so many seconds and yields records: dicts with the keys

    what, who   what was done, and with which tool; percore's own begin with "percore"
    unit        every figure is a cost or an error, of which less is better; but
                "% of a core" is the load that a tool shows, or that there was ("truth")
    median, low, high, n   the median and the quartiles of n tries; None: not measured
    note        optional: one sentence

The module's list MISSING names what is not installed, and its list PACKAGES the packages
whose versions matter. Optional: claims(records) yields sentences and whether they are true,
and picture(records) returns the section's picture as SVG."""

import argparse
import datetime
import glob
import importlib
import json
import os
import platform
import subprocess
import sys

import peers_documents
import peers_svg

HERE = os.path.dirname(os.path.abspath(__file__))
SECONDS = {"counters": 60, "seed": 60, "agents": 165, "truth": 175, "growth": 130}
KEYS = ("section", "what", "who", "unit", "median", "low", "high", "n")
ROOM = 1.02  # figures of one try or of instructions have no spread


def say(text):
    print(text, file=sys.stderr, flush=True)


# ---------------------------------------------------------------------------
# Measuring


def output_of(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip()


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
                         "compiler": output_of("c++", "--version").split("\n")[0]}}


def version_of(package):
    return output_of("dpkg-query", "-W", "-f", "${Version}", package)


def measure(names, build):
    """Returns what was measured, as the JSON file has it."""
    found = {**machine(), "missing": [], "records": []}
    for name in names:
        say(f"== {name}, takes about {SECONDS.get(name, 60)} s")
        module = importlib.import_module(f"peers_{name}")
        try:
            for record in module.measure(build, SECONDS.get(name, 60)):
                found["records"].append({"section": name, **record})
        except Exception as error:  # the other sections are still wanted
            found["missing"].append(f"{name}: {type(error).__name__}: {error}")
        found["missing"] += [f"{name}: {each}" for each in getattr(module, "MISSING", ())]
        for package in getattr(module, "PACKAGES", ()):
            found["versions"][package] = version_of(package) or "not installed"
    return found


def sections():
    there = {os.path.basename(path)[6:-3] for path in glob.glob(f"{HERE}/peers_*.py")}
    return [name for name in SECONDS if name in there]


# ---------------------------------------------------------------------------
# Showing


def shown(number):
    return "-" if number is None else f"{number:.3g}" if abs(number) < 100 else f"{number:.0f}"


def table(found):
    """Yields the lines of a text table."""
    head = [f"{key}: {value}" for key, value in found.items()
            if key not in ("records", "missing", "versions")]
    yield "; ".join(head)
    groups = {}
    for record in found["records"]:
        key = record["section"], record["what"], record["unit"]
        groups.setdefault(key, []).append(record)
    for (section, what, unit), records in groups.items():
        yield f"\n{section}: {what} ({unit})"
        for record in records:
            spread = "" if record["low"] is None or record["n"] < 2 else \
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
    broken = []
    for name in dict.fromkeys(record["section"] for record in records):
        claims = getattr(importlib.import_module(f"peers_{name}"), "claims", lambda _: ())
        broken += [f"{name}: {sentence}" for sentence, holds in claims(
            [each for each in records if each["section"] == name]) if not holds]
    return broken


def picture(name, records):
    """Returns a picture of bars, unless the section draws its own."""
    module = importlib.import_module(f"peers_{name}")
    if hasattr(module, "picture"):
        return module.picture(records)
    panels = {}
    for record in records:
        panels.setdefault((record["what"], record["unit"]), []).append(record)
    return peers_svg.bars([(f"{what} ({unit})", rows)
                           for (what, unit), rows in panels.items()])


def write(path, text):
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    say(f"wrote {path}")


def as_json(found):
    """Returns the JSON text, with one record a line, so that differences can be read."""
    head = json.dumps({**found, "records": 0}, indent=1)
    rows = ",\n".join(json.dumps(record) for record in found["records"])
    return head.replace('"records": 0', f'"records": [\n{rows}\n]') + "\n"


def draw(found, folder):
    for name in dict.fromkeys(record["section"] for record in found["records"]):
        records = [each for each in found["records"]
                   if each["section"] == name and each["median"] is not None]
        write(os.path.join(folder, f"{name}.svg"), picture(name, records))


# ---------------------------------------------------------------------------
# Comparing


def by_key(path):
    with open(path, encoding="utf-8") as file:
        return {tuple(record[key] for key in KEYS[:4]): record
                for record in json.load(file)["records"]}


def compare(before, after):
    """Yields a line for each figure that grew by more than its spread, and for each that is
    there no more."""
    for key, old in before.items():
        new = after.get(key)
        if old["median"] is None or key[3] == peers_documents.LOAD:
            continue
        if new is None or new["median"] is None:
            yield f"{': '.join(key[:3])}: {shown(old['median'])} {key[3]}, not measured now"
        elif new["low"] > old["high"] and \
                new["median"] - old["median"] > (ROOM - 1) * abs(old["median"]):
            yield (f"{': '.join(key[:3])}: {shown(old['median'])} -> "
                   f"{shown(new['median'])} {key[3]} ({shown(old['low'])} to "
                   f"{shown(old['high'])}, now {shown(new['low'])} to {shown(new['high'])})")


def main():
    if sys.argv[1:2] == ["compare"]:
        worse = list(compare(*map(by_key, sys.argv[2:4])))
        print("\n".join(worse) or "nothing got worse")
        return 1 if worse else 0
    if sys.argv[1:2] == ["documents"]:
        peers_documents.write()
        return 0
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--section", action="append", choices=sections())
    parser.add_argument("--json", default="peers/peers.json")
    parser.add_argument("--pictures", default="peers")
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    if options.record and options.section:
        parser.error("--record needs all sections")
    build = os.environ.get("PERCORE_BUILD", os.getcwd())
    found = measure(options.section or sections(), build)
    print("\n".join(table(found)))
    write(peers_documents.RECORDED if options.record else options.json, as_json(found))
    draw(found, options.pictures)
    if options.record:
        peers_documents.write()
    return 0


if __name__ == "__main__":
    sys.exit(main())
