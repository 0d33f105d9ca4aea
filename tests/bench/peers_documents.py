"""Writes what peers.json says into the documents: the picture of the README, and the
paragraph after each mark "measured: NAME", which is a comment in POD and in Markdown."""

import html
import json
import math
import os
import re

from bench import HERE

ROOT = os.path.normpath(os.path.join(HERE, "../.."))
RECORDED = os.path.join(HERE, "peers.json")
DOCUMENTS = ("README.md", "contrib/COMPARISON.md", "src/region/percore.pod",
             "src/plugin/collectd-percore.pod", "src/tool/percore.pod")
PICTURE = "contrib/dashboards/pictures/why.svg"
MARK = re.compile(r"^((?:=for comment measured: |<!-- measured: )(\w+)(?: -->)?\n\n)"
                  r"(?:.+\n)+", re.MULTILINE)
LOAD = "% of a core"


class Figures:
    """The records of a JSON file, and the medians by section, what and who."""

    def __init__(self, path=RECORDED):
        with open(path, encoding="utf-8") as file:
            self.found = json.load(file)
        self.records = self.found["records"]
        self.medians = {(each["section"], each["what"], each["who"]): each["median"]
                        for each in self.records}

    def of(self, section, what, who):
        """Returns the median, or None."""
        return self.medians.get((section, what, who))

    def names(self, section, what):
        return [key[2] for key in self.medians if key[:2] == (section, what)]


def shown(number, unit=""):
    if not number:
        return "-" if number is None else "0" + unit
    return f"{number:.{0 if abs(number) >= 20 else 1 if abs(number) >= 2 else 2}f}{unit}"


# ---------------------------------------------------------------------------
# Tables: each function yields rows. In a document in Markdown, the first is the head.


def patterns(figures):
    """percore(3): the patterns of the DPDK guide."""
    machines = ("here, 1 worker", "here, 2 workers", "DPDK guide: Xeon 6230N, 4 cores",
                "DPDK guide: Xeon 6230N, 20 cores")
    yield " pattern", "1 worker", "2 workers", "lost", "4 cores", "20 cores"
    for way in ("shared, not synchronised", "shared, lock", "shared, atomic",
                "shared, buffered", "percore PER_CORE", "percore section", "per core, lock"):
        one, two, *guide = (shown(figures.of("seed", way, who)) for who in machines)
        lost = shown(figures.of("seed", "counts lost, 2 workers", way), " %")
        name = {"percore PER_CORE": "per core", "percore section": "per core, in a section"}
        yield f" {name.get(way, way)}", one, two, lost, *guide


def rows(figures):
    """percore(3): random rows of large tables."""
    yield " update of a random row", "not prefetched", "prefetched"
    for way in ("plain array", "percore OWNED", "percore OWNED, small pages",
                "percore PER_CORE", "std::atomic"):
        yield f" {way}", *(shown(figures.of("counters", f"random row of a million{how}, "
                                            "1 worker", way), " ns")
                           for how in ("", ", prefetched"))


def counters(figures):
    """COMPARISON.md: an update, beside other libraries."""
    yield "", "1 worker", "2 workers", "counts lost by 2 workers"
    for way in figures.names("counters", "tight loop, 1 worker"):
        yield way, *(shown(figures.of("counters", what, way), unit) for what, unit in (
            ("tight loop, 1 worker", " ns"), ("tight loop, 2 workers", " ns"),
            ("counts lost, 2 workers", " %")))


def growth(figures):
    """collectd-percore(5): how the cost grows."""
    for axis in ("cores", "regions", "rows", "values"):
        sizes = [who.split()[-1] for who in figures.names("growth", axis)
                 if who.startswith("percore")]
        yield (f" {axis}", *(size if int(size) < 10000 else f"1e{len(size) - 1}"
                             for size in sizes))
        yield " ms/s", *(shown(figures.of("growth", axis, f"percore, {size}"))
                         for size in sizes)


def agents(figures):
    """collectd-percore(5): what agents cost."""
    times = [what for what in dict.fromkeys(each["what"] for each in figures.records)
             if what.startswith("processor time,")]
    first = times[0] if times else ""
    where = first.partition(", ")[2]
    yield " agent", *(f"({each})" for each in range(1, 1 + len(times))), "MiB", "calls/s"
    for who in figures.names("agents", first):
        yield f" {who}", *(shown(figures.of("agents", what, who)) for what in (
            *times, f"anonymous memory, {where}", f"system calls, {where}"))


def truth(figures):
    """COMPARISON.md: what tools show of known loads."""
    yield "", *SITUATIONS.values()
    for who in figures.names("truth", next(iter(SITUATIONS))):
        yield who, *(shown(figures.of("truth", what, who)) for what in SITUATIONS)


def machine(figures):
    """Where and when the figures were measured."""
    yield ("{machine}, hypervisor: {hypervisor}, Linux {kernel}, {date}.".format_map(
        figures.found),)


TABLES = {each.__name__: each for each in (patterns, rows, counters, growth, agents, truth,
                                           machine)}


def paragraph(name, figures, markdown):
    lines = list(TABLES[name](figures))
    if markdown and lines[1:]:
        lines.insert(1, ["---"] * len(lines[0]))
        return "".join(f"| {' | '.join(line)} |\n" for line in lines)
    widths = [max(len(line[column]) for line in lines if column < len(line))
              for column in range(max(map(len, lines)))]
    return "".join("  ".join(
        cell.rjust(width) if column else cell.ljust(width)
        for column, (cell, width) in enumerate(zip(line, widths))).rstrip() + "\n"
                   for line in lines)


def written(document, figures):
    """Returns the text of a document with the paragraphs that the figures make."""
    return MARK.sub(lambda mark: mark[1] + paragraph(mark[2], figures, mark[1][0] == "<"),
                    document)


# ---------------------------------------------------------------------------
# The picture of the README

SITUATIONS = {  # of the section truth: what the picture calls them
    "busy between ticks": "sleeps at each tick",
    "busy around ticks": "wakes at ticks",
    "1 of 2 ms, in step with the tick": "in step with ticks",
    "37 of 61 ms": "37 of 61 ms",
    "softirq, 0.6 of 1.7 ms": "softirq"}
OURS, OTHERS = "#009e73", "#999999"
TOOLS = {"top": "#d55e00", "mpstat": "#e69f00", "collectd cpu": "#cc79a7",
         "node_exporter, busy": "#0072b2"}
WAYS = ("percore PER_CORE", "plain array", "rseq", "userspace-rcu section", "PCP MMV",
        "std::atomic", "prometheus-cpp Counter", "LTTng-UST event", "DPDK rte_metrics")
LEFT, RIGHT, TOP, STEP = 160, 470, 88, 37  # of the loads
BARS, WIDTH = 670, 130  # of the prices


def text(x, y, words, **options):
    more = "".join(f' {key.replace("_", "-")}="{value}"' for key, value in options.items())
    return f'<text x="{x:.0f}" y="{y:.0f}"{more}>{html.escape(str(words), False)}</text>'


def circle(x, y, radius, colour):
    return f'<circle cx="{x}" cy="{y}" r="{radius}" fill="{colour}"/>'


def loads(figures):
    """Yields a line for each situation, with the true load and what tools say."""
    def at(load):
        return LEFT + (RIGHT - LEFT) * min(100, load) / 100
    yield text(10, 22, "How busy is the core?", font_weight="bold", font_size=15)
    x, drawn = 10, {**TOOLS, "percore": OURS}
    for name in ("true load", "percore", *TOOLS):
        yield circle(x + 4, 42, 6 if name == "percore" else 4, drawn[name]) \
            if name in drawn else f'<rect x="{x}" y="35" width="4" height="14"/>'
        yield text(x + 13, 46, name, font_size=11)
        x += 24 + 6.1 * len(name)
    for load in (0, 50, 100):
        yield f'<path d="M{at(load):.0f} 64V{TOP + STEP * len(SITUATIONS) - 8}" stroke="#ddd"/>'
        yield text(at(load), 62, f"{load} %", text_anchor="middle", fill="#666")
    for y, (what, title) in zip(range(TOP, 1000, STEP), SITUATIONS.items()):
        yield text(150, y + 4, title, text_anchor="end")
        yield f'<path d="M{LEFT} {y}H{RIGHT}" stroke="#ddd"/>'
        for place, (name, colour) in enumerate(drawn.items()):
            load = figures.of("truth", what, name)
            if load is not None:
                yield circle(f"{at(load):.1f}", *((y, 8) if name == "percore" else
                                                  (y + 7 * (place - 1.5), 4.5)), colour)
        there = figures.of("truth", what, "truth")
        if there is not None:
            yield f'<rect x="{at(there) - 2:.1f}" y="{y - 15}" width="4" height="30"/>'


def prices(figures):
    """Yields bars of the price of an update with two workers, and what they lose."""
    found = {way: figures.of("counters", "tight loop, 2 workers", way) for way in WAYS}
    found = {way: price for way, price in found.items() if price}
    low = math.floor(math.log10(min(found.values())))
    high = math.ceil(math.log10(max(found.values())))
    yield text(520, 22, "What does a counter cost?", font_weight="bold", font_size=15)
    yield text(520, 46, "ns for an add, while another core counts, too", font_size=11)
    for number, (way, price) in enumerate(found.items()):
        y, width = 62 + 22 * number, WIDTH * (math.log10(price) - low) / (high - low)
        lost = figures.of("counters", "counts lost, 2 workers", way) or 0
        yield text(BARS - 6, y + 12, way.replace(" PER_CORE", "").replace(" section", ""),
                   text_anchor="end")
        yield (f'<rect x="{BARS}" y="{y}" width="{width:.1f}" height="16" '
               f'fill="{OURS if way.startswith("percore") else OTHERS}"/>')
        yield text(BARS + width + 5, y + 12, shown(price))
        if lost > 0.5:
            yield text(BARS + width - 4, y + 12, f"loses {lost:.0f} %", text_anchor="end",
                       fill="white", font_size=11)


def picture(figures):
    lines = "\n".join([*loads(figures), *prices(figures)])
    return ('<svg xmlns="http://www.w3.org/2000/svg" width="860" height="270" '
            'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" '
            f'fill="white"/>\n{lines}\n</svg>\n')


def all_written(figures):
    """Yields the path and the text of each document, as it should be."""
    for name in DOCUMENTS:
        with open(os.path.join(ROOT, name), encoding="utf-8") as file:
            yield name, written(file.read(), figures)
    yield PICTURE, picture(figures)


def write():
    for name, content in all_written(Figures()):
        with open(os.path.join(ROOT, name), "w", encoding="utf-8") as file:
            file.write(content)
