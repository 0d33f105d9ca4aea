#!/usr/bin/python3
"""Draws the table that tests/bench/choice prints: choice | choice.py >choice.svg"""

import csv
import math
import sys

COLOURS = {"random": "#999999", "round robin": "#0072b2", "least loaded": "#d55e00",
           "two choices": "#e69f00", "percore": "#009e73"}
FIGURES = {"slowdown mean": "mean slowdown of jobs",
           "slowdown 99 %": "99 % of jobs are slowed down by less than",
           "busiest mean": "jobs on the busiest core, mean",
           "busiest 99 %": "jobs on the busiest core, 99 %"}
WIDTH, HEIGHT, LEFT, TOP, BAR, LOG_MAX = 940, 170, 60, 40, 9, 2.8


def panel(rows, figure, title, top):
    """Yields one diagram: a group of bars for each age and number of schedulers."""
    yield f'<text x="{LEFT}" y="{top - 8}" font-weight="bold">{title}</text>'
    for value in (1, 3, 10, 30, 100, 300):
        y = top + HEIGHT * (1 - math.log10(value) / LOG_MAX)
        yield (f'<path d="M{LEFT} {y:.1f}H{WIDTH - 10}" stroke="#ddd"/>'
               f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value}</text>')
    groups = list(dict.fromkeys((row["age"], row["schedulers"]) for row in rows))
    step = (WIDTH - LEFT - 10) / len(groups)
    for number, group in enumerate(groups):
        begin = LEFT + number * step + (step - BAR * len(COLOURS)) / 2
        for row in rows:
            if (row["age"], row["schedulers"]) != group:
                continue
            bar = list(COLOURS).index(row["rule"])
            height = HEIGHT * math.log10(max(1.02, float(row[figure]))) / LOG_MAX
            yield (f'<rect x="{begin + bar * BAR:.1f}" y="{top + HEIGHT - height:.1f}" '
                   f'width="{BAR - 1}" height="{height:.1f}" '
                   f'fill="{COLOURS[row["rule"]]}"/>')
        yield (f'<text x="{begin + BAR * 2.5:.0f}" y="{top + HEIGHT + 14}" '
               f'text-anchor="middle">{group[0]} s, {group[1]}</text>')


def main():
    table = list(csv.DictReader(sys.stdin, delimiter="\t"))
    parts, top = [], TOP + 40
    for jobs in dict.fromkeys(row["jobs"] for row in table):
        rows = [row for row in table if row["jobs"] == jobs]
        for figure, title in FIGURES.items():
            parts.extend(panel(rows, figure, f"{title}; {jobs} lengths", top))
            top += HEIGHT + 60
    print(f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{top - 20}" '
          'font-family="sans-serif" font-size="11"><rect width="100%" height="100%" '
          'fill="white"/>')
    print(f'<text x="{LEFT}" y="20">64 cores at 60 % load. Under each group: age of the '
          'loads, number of independent schedulers.</text>')
    for number, (rule, colour) in enumerate(COLOURS.items()):
        x = LEFT + 130 * number
        print(f'<rect x="{x}" y="32" width="10" height="10" fill="{colour}"/>'
              f'<text x="{x + 15}" y="41">{rule}</text>')
    print("\n".join(parts), "</svg>", sep="\n")


if __name__ == "__main__":
    main()
