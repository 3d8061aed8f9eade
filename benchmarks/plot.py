"""Time against size as an SVG, out of what `sluice bench COLLECTIVE --json` wrote.

usage: plot.py OUT.svg TITLE FILE.json...
"""
import json
import math
import sys

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 440, 70, 210, 40, 50
COLOURS = ("#444444", "#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b")


def series(files):
    """Name -> [(bytes, seconds)], in the order of the files."""
    found = {}
    for name in files:
        with open(name, encoding="utf-8") as f:
            for row in json.load(f)["rows"]:
                found.setdefault(row["name"], []).append(
                    (row["bytes"], row["out_of_place"]["seconds"]))
    return {name: sorted(points) for name, points in found.items()}


def size_text(n):
    for unit in ("B", "KiB", "MiB", "GiB"):
        if n < 1024 or unit == "GiB":
            return f"{n:g} {unit}"
        n /= 1024


def time_text(seconds):
    return f"{seconds * 1e3:g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:g} us"


class Axes:
    """Both logarithmic."""

    def __init__(self, curves):
        points = [p for curve in curves.values() for p in curve]
        self.x = (min(p[0] for p in points), max(p[0] for p in points))
        low, high = (f(p[1] for p in points) for f in (min, max))
        self.y = (10 ** math.floor(math.log10(low)), 10 ** math.ceil(math.log10(high)))

    def at(self, point):
        def share(value, ends):
            span = math.log(ends[1] / ends[0]) or 1
            return math.log(value / ends[0]) / span
        return (LEFT + share(point[0], self.x) * (WIDTH - LEFT - RIGHT),
                HEIGHT - BOTTOM - share(point[1], self.y) * (HEIGHT - TOP - BOTTOM))

    def grid(self):
        size = self.x[0]
        while size <= self.x[1]:
            x, _ = self.at((size, self.y[0]))
            yield (f'<path d="M{x:.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#ddd"/>'
                   f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">'
                   f'{size_text(size)}</text>')
            size *= 4
        decade = self.y[0]
        while decade <= self.y[1] * 1.01:
            _, y = self.at((self.x[0], decade))
            yield (f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>'
                   f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">'
                   f'{time_text(decade)}</text>')
            decade *= 10


def curve(axes, number, name, points):
    colour = COLOURS[number % len(COLOURS)]
    places = [axes.at(p) for p in points]
    line = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
    dash = ' stroke-dasharray="6 4"' if name == "NCCL" else ""
    yield f'<path d="M{line}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>'
    for x, y in places:
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>'
    y = TOP + 18 * number
    x = WIDTH - RIGHT + 12
    yield (f'<path d="M{x} {y}h20" stroke="{colour}" stroke-width="2"{dash}/>'
           f'<text x="{x + 26}" y="{y + 4}">{name.replace("&", "&amp;").replace("<", "&lt;")}</text>')


def main(out, title, files):
    curves = series(files)
    axes = Axes(curves)
    with open(out, "w", encoding="utf-8") as f:
        f.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
                f'font-family="sans-serif" font-size="12">\n'
                f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>\n'
                f'<text x="{LEFT}" y="22" font-size="15">{title}</text>\n')
        for part in axes.grid():
            f.write(part + "\n")
        for number, (name, points) in enumerate(curves.items()):
            for part in curve(axes, number, name, points):
                f.write(part + "\n")
        f.write("</svg>\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
