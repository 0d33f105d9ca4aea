"""Writes what peers.json says into the documents: the picture of the README, and the
paragraph after each mark "measured: NAME", which is a comment in POD and in Markdown."""

import json
import os
import re

import peers_svg
from peers_svg import text

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.normpath(os.path.join(HERE, "../.."))
RECORDED = os.path.join(HERE, "peers.json")
DOCUMENTS = ("README.md", "contrib/COMPARISON.md", "src/region/percore.pod",
             "src/plugin/collectd-percore.pod", "src/tool/percore.pod")
PICTURE = "contrib/dashboards/pictures/why.svg"
MARK = re.compile(r"^(?:=for comment measured: (\S+)|<!-- measured: (\S+) -->)\n\n"
                  r"((?:.+\n)+)", re.MULTILINE)


class Figures:
    """The records of a JSON file."""

    def __init__(self, path=RECORDED):
        with open(path, encoding="utf-8") as file:
            self.found = json.load(file)
        self.records = self.found["records"]

    def of(self, section, what, who, unit=None):
        """Returns the median, or None."""
        for each in self.records:
            if (each["section"], each["what"], each["who"]) == (section, what, who) and \
                    unit in (None, each["unit"]):
                return each["median"]
        return None

    def names(self, section, what, unit=None):
        return list(dict.fromkeys(each["who"] for each in self.records
                                  if (each["section"], each["what"]) == (section, what) and
                                  unit in (None, each["unit"])))


def shown(number, unit=""):
    if not number:
        return "-" if number is None else "0" + unit
    return f"{number:.{0 if abs(number) >= 20 else 1 if abs(number) >= 2 else 2}f}{unit}"


# ---------------------------------------------------------------------------
# Tables


def patterns(figures):
    """percore(3): the patterns of the DPDK guide."""
    yield (" pattern", "1 worker", "2 workers", "lost", "guide, 4 cores", "guide, 20 cores")
    for way, pattern in (("shared, not synchronised",) * 2, ("shared, lock",) * 2,
                         ("shared, atomic",) * 2, ("shared, buffered",) * 2,
                         ("percore PER_CORE", "per core"),
                         ("percore section", "per core, sequence counter"),
                         ("per core, lock",) * 2):
        one, two, *guide = (shown(figures.of("seed", way, who)) for who in (
            "here, 1 worker", "here, 2 workers", "DPDK guide: Xeon 6230N, 4 cores",
            "DPDK guide: Xeon 6230N, 20 cores"))
        yield (f" {pattern}", one, two,
               shown(figures.of("seed", "counts lost, 2 workers", way), " %"), *guide)


def rows(figures):
    """percore(3): random rows of large tables."""
    yield (" update of a random row", "not prefetched", "prefetched")
    for way in ("plain array", "percore OWNED", "percore OWNED, small pages",
                "percore PER_CORE", "std::atomic"):
        yield (f" {way}", *(shown(figures.of("counters", f"random row of a million{how}, "
                                             "1 worker", way), " ns")
                            for how in ("", ", prefetched")))


def counters(figures):
    """COMPARISON.md: an update, beside other libraries."""
    yield ("", "1 worker", "2 workers", "counts lost by 2 workers")
    yield ("---", "---", "---", "---")
    for way in figures.names("counters", "tight loop, 1 worker", "ns"):
        yield (way, *(shown(figures.of("counters", f"tight loop, {workers}", way, "ns"), " ns")
                      for workers in ("1 worker", "2 workers")),
               shown(figures.of("counters", "counts lost, 2 workers", way), " %"))


def growth(figures):
    """collectd-percore(5): how the cost grows."""
    for axis in ("cores", "regions", "rows", "values"):
        sizes = [who.split()[-1] for who in figures.names("growth", axis)]
        yield (f" {axis}", *(size if int(size) < 10000 else f"1e{len(size) - 1}" for size in sizes))
        yield (" ms/s", *(shown(figures.of("growth", axis, f"percore, {size}"))
                          for size in sizes))


def agents(figures):
    """collectd-percore(5): what agents cost."""
    machines = [what.partition(", ")[2] for what in dict.fromkeys(
        each["what"] for each in figures.records if each["section"] == "agents")
        if what.startswith("processor time,")]
    yield (" agent", *(f"({each})" for each in range(1, 1 + len(machines))), "MiB", "calls/s")
    for who in figures.names("agents", f"processor time, {machines[0]}") if machines else ():
        yield (f" {who}", *(shown(figures.of("agents", f"processor time, {each}", who))
                            for each in machines),
               *(shown(figures.of("agents", f"{what}, {machines[0]}", who))
                 for what in ("anonymous memory", "system calls")))


def truth(figures):
    """COMPARISON.md: what tools show of known loads."""
    yield ("", *SITUATIONS.values())
    yield ("---",) * (1 + len(SITUATIONS))
    for who in figures.names("truth", next(iter(SITUATIONS)), LOAD):
        yield (who, *(shown(figures.of("truth", what, who, LOAD)) for what in SITUATIONS))


def machine(figures):
    """Where and when the figures were measured."""
    found = figures.found
    yield (f"{found['machine']}, hypervisor: {found['hypervisor']}, Linux {found['kernel']}, "
           f"{found['date']}.",)


TABLES = {each.__name__: each for each in (patterns, rows, counters, growth, agents, truth,
                                           machine)}


def paragraph(name, figures):
    lines = list(TABLES[name](figures))
    if lines[1:] and lines[1][0] == "---":
        return "".join("| " + " | ".join(line) + " |\n" for line in lines)
    widths = [max(map(len, column)) for column in zip(*(
        line + ("",) * (max(map(len, lines)) - len(line)) for line in lines))]
    return "".join("  ".join([line[0].ljust(widths[0]), *(
        cell.rjust(width) for cell, width in zip(line[1:], widths[1:]))]).rstrip() + "\n"
                   for line in lines)


def written(document, figures):
    """Returns the text of a document with the paragraphs that the figures make."""
    return MARK.sub(lambda match: match[0][:match.start(3) - match.start()] +
                    paragraph(match[1] or match[2], figures), document)


# ---------------------------------------------------------------------------
# The picture of the README

LOAD = "% of a core"
SITUATIONS = {  # of the section truth: what the picture calls them
    "busy between ticks": "sleeps at each tick",
    "busy around ticks": "wakes at ticks",
    "1 of 2 ms, in step with the tick": "in step with ticks",
    "37 of 61 ms": "37 of 61 ms",
    "softirq, 0.6 of 1.7 ms": "softirq"}
TOOLS = {"top": "#d55e00", "mpstat": "#e69f00", "collectd cpu": "#cc79a7",
         "node_exporter, busy": "#0072b2"}
WAYS = ("percore PER_CORE", "plain array", "rseq", "userspace-rcu section", "PCP MMV",
        "std::atomic", "prometheus-cpp Counter", "LTTng-UST event", "DPDK rte_metrics")
NAMES, LEFT, RIGHT, TOP, STEP = 150, 160, 470, 88, 37


def loads_of(figures):
    """Returns for each situation what there was and what the tools showed."""
    found = {title: {who: figures.of("truth", what, who, LOAD)
                     for who in ("truth", "percore", *TOOLS)}
             for what, title in SITUATIONS.items()}
    return {title: loads for title, loads in found.items() if loads["truth"] is not None}


def loads(figures):
    """Yields a line for each situation, with the true load and what tools say."""
    situations = loads_of(figures)
    def at(load):
        return LEFT + (RIGHT - LEFT) * min(100, load) / 100
    yield text(10, 22, "How busy is the core?", font_weight="bold", font_size=15)
    legend = {"true load": "black", "percore": peers_svg.OURS, **TOOLS}
    x = 10
    for name, colour in legend.items():
        yield (f'<rect x="{x}" y="35" width="4" height="14"/>' if colour == "black" else
               f'<circle cx="{x + 4}" cy="42" r="{6 if name == "percore" else 4}" '
               f'fill="{colour}"/>')
        yield text(x + 13, 46, name, font_size=11)
        x += 24 + 6.1 * len(name)
    for load in (0, 50, 100):
        yield f'<path d="M{at(load):.0f} 64V{TOP + STEP * len(situations) - 8}" stroke="#ddd"/>'
        yield text(at(load), 62, f"{load} %", text_anchor="middle", fill="#666")
    for number, (title, shown_by) in enumerate(situations.items()):
        y = TOP + STEP * number
        yield text(NAMES, y + 4, title, text_anchor="end")
        yield f'<path d="M{LEFT} {y}H{RIGHT}" stroke="#ddd"/>'
        for place, (name, colour) in enumerate(TOOLS.items()):
            if shown_by[name] is not None:
                yield (f'<circle cx="{at(shown_by[name]):.1f}" cy="{y + 7 * (place - 1.5)}" '
                       f'r="4.5" fill="{colour}"/>')
        if shown_by["percore"] is not None:
            yield (f'<circle cx="{at(shown_by["percore"]):.1f}" cy="{y}" r="8" '
                   f'fill="{peers_svg.OURS}"/>')
        yield f'<rect x="{at(shown_by["truth"]) - 2:.1f}" y="{y - 15}" width="4" height="30"/>'


def prices(figures):
    """Yields bars of the price of an update with two workers, and what they lose."""
    what = "tight loop, 2 workers"
    found = {way: figures.of("counters", what, way, "ns") for way in WAYS}
    found = {way: price for way, price in found.items() if price is not None}
    axis = peers_svg.scale(found.values(), 670, 800)
    yield text(520, 22, "What does a counter cost?", font_weight="bold", font_size=15)
    yield text(520, 46, "ns for an add, while another core counts, too", font_size=11)
    for number, (way, price) in enumerate(found.items()):
        y = 62 + 22 * number
        colour = peers_svg.OURS if way.startswith("percore") else peers_svg.OTHERS
        lost = figures.of("counters", "counts lost, 2 workers", way) or 0
        yield text(664, y + 12, way.replace(" PER_CORE", "").replace(" section", ""),
                   text_anchor="end")
        yield (f'<rect x="670" y="{y}" width="{axis.at(price) - 670:.1f}" height="16" '
               f'fill="{colour}"/>')
        yield text(axis.at(price) + 5, y + 12, shown(price))
        if lost > 0.5:
            yield text(axis.at(price) - 4, y + 12, f"loses {lost:.0f} %", text_anchor="end",
                       fill="white", font_size=11)


def picture(figures):
    return peers_svg.page(270, [*(loads(figures) if loads_of(figures) else ()),
                                *prices(figures)])


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
