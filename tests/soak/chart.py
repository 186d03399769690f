"""The chart of a soak: a self-contained page, with a light and a dark theme."""

import html

from soak.judge import COUNTS, DISK, MEMORY

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 960, 210, 64, 150, 14, 26
TICKS = 4
POINTS_MAX = 1200

STYLE = """
:root { --paper: #fcfcfb; --ink: #1a1a19; --soft: #6b6a65; --grid: #e4e3de; --first: #2a78d6; --second: #d2691e; --bad: #b3261e; --good: #1b7a3d }
@media (prefers-color-scheme: dark) {
  :root { --paper: #1a1a19; --ink: #f1f0ec; --soft: #a3a29b; --grid: #3a3936; --first: #5a9df0; --second: #f0964f; --bad: #f2857c; --good: #69c78a }
}
body { background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.4rem } h2 { font-size: 1.05rem; margin: 1.6rem 0 .2rem }
svg { width: 100%; height: auto } svg text { fill: var(--soft); font: 12px system-ui, sans-serif }
.grid { stroke: var(--grid) } .end { stroke: var(--soft); stroke-dasharray: 3 3 }
.line { fill: none; stroke-width: 1.6 } .trend { fill: none; stroke-width: 1.2; stroke-dasharray: 7 4; stroke: var(--ink) }
.first { stroke: var(--first) } .second { stroke: var(--second) } text.first { fill: var(--first); stroke: none } text.second { fill: var(--second); stroke: none }
table { border-collapse: collapse; font-variant-numeric: tabular-nums } td, th { padding: .15rem .8rem .15rem 0; text-align: left }
td.number { text-align: right } .bad { color: var(--bad) } .good { color: var(--good) } .soft { color: var(--soft) }
"""


def nice(top):
    """A round number at or above `top`, of which a quarter is round as well."""
    step = 1
    while True:
        for factor in (1, 2, 4, 8):
            if step * factor * TICKS >= top:
                return step * factor * TICKS
        step *= 10


class Panel:
    """One set of axes over the time of the run."""

    def __init__(self, end_s, top):
        self.end_s, self.top, self.parts = end_s or 1, nice(top), []

    def x(self, time):
        return LEFT + (WIDTH - LEFT - RIGHT) * time / self.end_s

    def y(self, value):
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * min(value, self.top) / self.top

    def axes(self):
        for tick in range(TICKS + 1):
            value = self.top * tick / TICKS
            y = self.y(value)
            self.parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
                              f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>')
            time = self.end_s * tick / TICKS
            self.parts.append(f'<text x="{self.x(time):.1f}" y="{HEIGHT - 8}" text-anchor="middle">{time / 60:.3g} min</text>')

    def ends(self, events):
        for time, what in events:
            x = self.x(time)
            self.parts.append(f'<line class="end" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}">'
                              f"<title>{html.escape(what)} at {time:.0f} s</title></line>")

    def line(self, points, kind):
        """A line, broken where a life ends: `points` are (life, time, value)."""
        every = max(1, len(points) // POINTS_MAX)
        for life in sorted({point[0] for point in points}):
            own = [point for point in points if point[0] == life][::every]
            path = " ".join(f"{self.x(time):.1f},{self.y(value):.1f}" for _, time, value in own)
            self.parts.append(f'<polyline class="line {kind}" points="{path}"/>')

    def trend(self, finding):
        (x1, y1), (x2, y2) = finding.line
        self.parts.append(f'<line class="trend" x1="{self.x(x1):.1f}" y1="{self.y(y1):.1f}" x2="{self.x(x2):.1f}" '
                          f'y2="{self.y(y2):.1f}"><title>{html.escape(str(finding))}</title></line>')

    def label(self, text, value, kind, taken):
        y = self.y(value)
        while any(abs(y - other) < 14 for other in taken):
            y += 14
        taken.append(y)
        self.parts.append(f'<text class="{kind}" x="{WIDTH - RIGHT + 8}" y="{y + 4:.1f}">{html.escape(text)}</text>')

    def svg(self, title):
        return (f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{html.escape(title)}">'
                + "".join(self.parts) + "</svg>")


def panel(report, title, quantities, end_s):
    series = [[(s["life"], s["time"], s[q.key] * q.factor) for s in report.samples] for q in quantities]
    drawn = Panel(end_s, max(value for points in series for _, _, value in points) * 1.05)
    drawn.axes()
    drawn.ends(report.events)
    taken = []
    for points, quantity, kind in zip(series, quantities, ("first", "second")):
        drawn.line(points, kind)
        drawn.label(quantity.title, points[-1][2], kind, taken)
    keys = {quantity.key for quantity in quantities}
    for finding in report.findings:
        if finding.quantity.key in keys and "same age" not in finding.over:
            drawn.trend(finding)
    unit = f" ({quantities[0].unit})" if quantities[0].unit else ""
    return f"<h2>{html.escape(title)}{unit}</h2>{drawn.svg(title)}"


def rate_panel(report, end_s):
    """Requests a second, over spans of some samples."""
    step = max(1, len(report.samples) // 200)
    chosen = report.samples[::step]
    points = [(b["life"], b["time"], (b["requests"] - a["requests"]) / (b["time"] - a["time"]))
              for a, b in zip(chosen, chosen[1:]) if b["time"] > a["time"]]
    if not points:
        return ""
    drawn = Panel(end_s, max(value for _, _, value in points) * 1.05)
    drawn.axes()
    drawn.ends(report.events)
    drawn.line(points, "first")
    return f"<h2>Requests a second</h2>{drawn.svg('Requests a second')}"


def table(findings):
    rows = "".join(
        f'<tr><td class="{"good" if f.passed() else "bad"}">{"flat" if f.passed() else "grows"}</td>'
        f"<td>{html.escape(f.quantity.title)}</td><td>{html.escape(f.over)}</td>"
        f'<td class="number">{f.typical:.1f} {f.quantity.unit}</td><td class="number">{f.growth:+.1f}</td>'
        f'<td class="number">{f.quantity.growth_max:g}</td></tr>' for f in findings)
    return ("<table><tr><th></th><th>what</th><th>over</th><th>typical</th><th>growth by the trend</th><th>allowed</th></tr>"
            f"{rows}</table>")


def page(report):
    """The whole page as HTML."""
    end_s = report.samples[-1]["time"] if report.samples else 1
    body = [f"<h1>gnudi under {report.minutes:g} minutes of mixed load: "
            f'<span class="{"good" if report.passed() else "bad"}">{"passed" if report.passed() else "failed"}</span></h1>',
            f"<p>{report.requests:,} requests, {report.refused} refused for lack of room, {len(report.events)} ends of the server; "
            f"seed {report.seed}. Dashed lines across are trends of the floor, those upright are ends of the server.</p>"]
    body += [f'<p class="bad">{html.escape(fault)}</p>' for fault in report.faults]
    body.append(table(report.findings))
    if report.samples:
        body += [panel(report, "Memory", MEMORY, end_s), panel(report, "Handles and threads", COUNTS, end_s),
                 panel(report, "Disk", [DISK], end_s), rate_panel(report, end_s)]
    return ('<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>gnudi: soak</title>'
            f"<style>{STYLE}</style></head><body>{''.join(body)}</body></html>")
