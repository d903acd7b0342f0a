"""Line plots as SVG, with both axes logarithmic, in panels side by side."""

import html
import math

WIDTH, HEIGHT = 300, 240  # of a panel
LEFT, TOP, RIGHT, BOTTOM = 48, 26, 10, 34
COLOURS = ["#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b", "#17becf", "#7f7f7f"]


def _powers(low, high, base):
    first, last = math.floor(math.log(low, base)), math.ceil(math.log(high, base))
    return [base**power for power in range(first, last + 1)]


def _name(value, base):
    if base == 2:
        return f"2<tspan dy='-4' font-size='7'>{round(math.log2(value))}</tspan>"
    return f"{value:g}"


class _Panel:
    def __init__(self, series, across, up):
        points = [p for line in series for p in line["points"] if p[1] > 0]
        self.x = _powers(min(p[0] for p in points), max(p[0] for p in points), across)
        self.y = _powers(min(p[1] for p in points), max(p[1] for p in points), up)
        if len(self.y) == 1:
            self.y.append(self.y[0] * up)
        if len(self.x) == 1:
            self.x.append(self.x[0] * across)

    def place(self, point):
        def share(value, ticks):
            return math.log(value / ticks[0]) / math.log(ticks[-1] / ticks[0])

        width, height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
        return (
            LEFT + share(point[0], self.x) * width,
            TOP + (1 - share(point[1], self.y)) * height,
        )


def _axes(panel, title, across, up, x_label):
    out = [f"<text x='{WIDTH / 2}' y='14' text-anchor='middle' font-weight='bold'>{html.escape(title)}</text>"]
    for value in panel.y:
        _, y = panel.place((panel.x[0], value))
        out.append(f"<line x1='{LEFT}' x2='{WIDTH - RIGHT}' y1='{y:.1f}' y2='{y:.1f}' stroke='#ddd'/>")
        out.append(f"<text x='{LEFT - 4}' y='{y + 3:.1f}' text-anchor='end'>{_name(value, up)}</text>")
    for value in panel.x[:: max(1, len(panel.x) // 6)]:
        x, _ = panel.place((value, panel.y[0]))
        out.append(f"<line x1='{x:.1f}' x2='{x:.1f}' y1='{TOP}' y2='{HEIGHT - BOTTOM}' stroke='#eee'/>")
        out.append(f"<text x='{x:.1f}' y='{HEIGHT - BOTTOM + 13}' text-anchor='middle'>{_name(value, across)}</text>")
    out.append(f"<text x='{WIDTH / 2}' y='{HEIGHT - 5}' text-anchor='middle'>{html.escape(x_label)}</text>")
    return out


def plot(path, panels, x_label, y_label, across=2, up=10):
    """`panels`: (title, [{"name", "points": [(x, y)], "dots": bool}]). Dots are measured, lines are
    formulas or join measured points. The same name has the same colour everywhere."""
    names = []
    for _, series in panels:
        names += [line["name"] for line in series if line["name"] not in names]
    colour = {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(names)}
    total = WIDTH * len(panels)
    out = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {total} {HEIGHT + 40}' "
        "font-family='sans-serif' font-size='9'>",
        f"<rect width='{total}' height='{HEIGHT + 40}' fill='white'/>",
    ]
    for number, (title, series) in enumerate(panels):
        series = [line for line in series if any(p[1] > 0 for p in line["points"])]
        if not series:
            continue
        panel = _Panel(series, across, up)
        out.append(f"<g transform='translate({number * WIDTH} 0)'>")
        out += _axes(panel, title, across, up, x_label)
        for line in series:
            places = [panel.place(p) for p in sorted(line["points"]) if p[1] > 0]
            stroke = colour[line["name"]]
            if line.get("dots"):
                out += [f"<circle cx='{x:.1f}' cy='{y:.1f}' r='2.2' fill='{stroke}'/>" for x, y in places]
            else:
                points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
                out.append(f"<polyline points='{points}' fill='none' stroke='{stroke}' stroke-width='1.2'/>")
        out.append("</g>")
    for i, name in enumerate(names):
        x = LEFT + i * 110
        out.append(f"<rect x='{x}' y='{HEIGHT + 18}' width='10' height='10' fill='{colour[name]}'/>")
        out.append(f"<text x='{x + 14}' y='{HEIGHT + 27}'>{html.escape(name)}</text>")
    out.append(f"<text x='{LEFT}' y='{HEIGHT + 12}'>{html.escape(y_label)}</text></svg>")
    path.write_text("\n".join(out) + "\n")
