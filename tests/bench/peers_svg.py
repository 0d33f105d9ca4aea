"""Draws records of peers.py as SVG: bars and curves on logarithmic scales."""

import math
from xml.sax.saxutils import escape

WIDTH, NAMES, LEFT, ROW, SIDE = 860, 270, 60, 18, 90
OURS, OTHERS = "#009e73", "#999999"
COLOURS = ("#009e73", "#d55e00", "#0072b2", "#cc79a7", "#e69f00", "#56b4e9", "#000000")


def text(x, y, words, **options):
    more = "".join(f' {key.replace("_", "-")}="{value}"' for key, value in options.items())
    return f'<text x="{x:.0f}" y="{y:.0f}"{more}>{escape(str(words))}</text>'


def page(height, parts, width=WIDTH):
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height:.0f}" '
            'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" '
            'fill="white"/>\n' + "\n".join(parts) + "\n</svg>\n")


def shown(number):
    return f"{number:.3g}" if abs(number) < 1000 else f"{number:,.0f}"


class Log:
    """A logarithmic scale from `low` to `high`, on the pixels `begin` to `end`."""

    def __init__(self, low, high, begin, end):
        self.low, self.decades = low, math.log10(high / low) or 1
        self.begin, self.end = begin, end

    def at(self, number):
        part = math.log10(max(number, self.low) / self.low) / self.decades
        return self.begin + part * (self.end - self.begin)

    def tens(self):
        first, last = math.log10(self.low), math.log10(self.low) + self.decades
        return [10.0 ** n for n in range(math.ceil(first - 1e-9), math.floor(last + 1e-9) + 1)]


def scale(numbers, begin, end, room=0.01):
    numbers = [number for number in numbers if number > 0] or [1]
    return Log(10 ** math.floor(math.log10(min(numbers)) - room),
               10 ** math.ceil(math.log10(max(numbers)) + room), begin, end)


def bars(panels):
    """Draws bars with quartiles. panels: of titles and records. Bars of the same unit have
    the same scale."""
    parts, y, of_unit = [], 10, {}
    for _, records in panels:
        of_unit.setdefault(records[0]["unit"], []).extend(each["median"] for each in records)
    for title, records in panels:
        axis = scale(of_unit[records[0]["unit"]], NAMES, WIDTH - SIDE)
        parts.append(text(10, y + 14, title, font_weight="bold"))
        y += 24
        for ten in axis.tens():
            parts.append(f'<path d="M{axis.at(ten):.0f} {y}v{ROW * len(records)}" '
                         'stroke="#ddd"/>')
            parts.append(text(axis.at(ten), y + ROW * len(records) + 12, f"{ten:g}",
                              text_anchor="middle", fill="#666"))
        for record in records:
            colour = OURS if record["who"].startswith(("percore", "here")) else OTHERS
            end = axis.at(record["median"])
            parts.append(text(NAMES - 6, y + 13, record["who"], text_anchor="end"))
            parts.append(f'<rect x="{NAMES}" y="{y + 3}" width="{max(1, end - NAMES):.1f}" '
                         f'height="{ROW - 5}" fill="{colour}"/>')
            low, high = axis.at(record["low"]), axis.at(record["high"])
            parts.append(f'<path d="M{low:.1f} {y + ROW / 2}H{high:.1f}" stroke="black"/>')
            parts.append(text(max(end, high) + 5, y + 13, shown(record["median"])))
            y += ROW
        y += 28
    return page(y, parts)


def curves(title, lines, high=420):
    """Draws, for each name, a curve through its points."""
    points = [point for line in lines.values() for point in line]
    across = scale([x for x, _ in points], LEFT, WIDTH - SIDE, 0)
    up = scale([cost for _, cost in points], high, 34, 0)
    parts = [text(10, 20, title, font_weight="bold")]
    for ten in across.tens():
        parts.append(f'<path d="M{across.at(ten):.0f} 34V{high}" stroke="#ddd"/>')
        parts.append(text(across.at(ten), high + 16, f"{ten:,.0f}", text_anchor="middle",
                          fill="#666"))
    for ten in up.tens():
        parts.append(f'<path d="M{LEFT} {up.at(ten):.0f}H{WIDTH - SIDE}" stroke="#ddd"/>')
        parts.append(text(LEFT - 5, up.at(ten) + 4, f"{ten:g}", text_anchor="end",
                          fill="#666"))
    for (name, line), colour in zip(lines.items(), COLOURS):
        way = " ".join(f"{across.at(x):.1f},{up.at(cost):.1f}" for x, cost in line)
        parts.append(f'<polyline points="{way}" fill="none" stroke="{colour}" '
                     'stroke-width="2"/>')
        parts += [f'<circle cx="{across.at(x):.1f}" cy="{up.at(cost):.1f}" r="3" '
                  f'fill="{colour}"/>' for x, cost in line]
        parts.append(text(across.at(line[-1][0]) + 7, up.at(line[-1][1]) + 4, name,
                          fill=colour))
    return page(high + 26, parts)
