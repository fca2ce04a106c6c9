"""A report as one self-contained HTML page: figures, and plots drawn as SVG. No script, nothing is fetched."""

from collections.abc import Mapping, Sequence
from html import escape
from math import floor, log10
from typing import Any, NamedTuple

from corral.sim.reports.figures import rows

WIDTH, HEIGHT, LEFT, BOTTOM = 860, 250, 64, 38
"""The size of a plot in pixels; LEFT and BOTTOM are margins for the axes."""

CAPTION_HEIGHT = 10

POINTS = 1_500
"""The most points of a line."""

COLOURS = ("#2563eb", "#d97706", "#059669", "#dc2626", "#7c3aed", "#0891b2", "#be185d", "#4d7c0f")

_STYLE = """
:root { color-scheme: light dark }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 920px; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.5rem } h2 { font-size: 1.1rem; margin-top: 2rem }
table { border-collapse: collapse } th, td { text-align: left; padding-right: 2rem; vertical-align: top }
th { font-weight: 600 }
td { font-variant-numeric: tabular-nums; overflow-wrap: anywhere }
svg { width: 100%; height: auto } text { font-size: 11px; fill: currentColor }
.grid { stroke: currentColor; opacity: .15 }
"""


class Series(NamedTuple):
    """One line of a plot."""

    name: str
    x: Sequence[float]
    y: Sequence[float]


class Bar(NamedTuple):
    """One bar of a Gantt chart: a row, its begin and end, and its label. Without a caption the row shows its name."""

    row: str
    start: float
    end: float
    label: str
    caption: str | None = None


def page(title: str, figures: Mapping[str, Any], plots: Sequence[str]) -> str:
    """The page: the figures as a table, then the plots."""
    table = "".join(
        f"<tr><th>{escape(name)}</th>{''.join(f'<td>{escape(value)}</td>' for value in values)}</tr>"
        for name, *values in rows(figures)
    )
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title><style>{_STYLE}</style>'
        f"<h1>{escape(title)}</h1><table>{table}</table>{''.join(plots)}</html>\n"
    )


def lines(title: str, series: Sequence[Series], *, x_label: str, steps: bool = False) -> str:
    """A plot of lines over a common axis; `steps` holds a value until the next point."""
    drawn = [one for one in series if len(one.x)]
    if not drawn:
        return ""
    low, high = min(min(one.x) for one in drawn), max(max(one.x) for one in drawn)
    top = max(max(one.y) for one in drawn) or 1.0
    body = _axes(low, high, top, x_label)
    pitch = min(150, (WIDTH - LEFT - 8) // len(drawn))
    for index, one in enumerate(drawn):
        colour = COLOURS[index % len(COLOURS)]
        points = _points(one, low, high, top, steps=steps)
        body += f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
        body += f'<text x="{LEFT + 8 + pitch * index}" y="12" style="fill:{colour}">{escape(one.name)}</text>'
    return _figure(title, body, HEIGHT)


def gantt(title: str, bars: Sequence[Bar], *, x_label: str, span: tuple[float, float] | None = None) -> str:
    """Return a chart with a row for each device (or node) and a bar for each job on it, over a `span` that other charts
    share.

    If rows are narrower than their captions, some captions are left out.
    """
    rows = list(dict.fromkeys(bar.row for bar in bars))
    if not rows:
        return ""
    low, high = span or (min(bar.start for bar in bars), max(bar.end for bar in bars))
    pitch = max(6, min(18, 480 // len(rows)))
    height = pitch * len(rows) + BOTTOM + 16
    body = _time_axis(low, high, height, x_label)
    names = sorted({bar.label for bar in bars})
    for bar in bars:
        x, right = _across(bar.start, low, high), _across(bar.end, low, high)
        y = 16 + pitch * rows.index(bar.row)
        colour = COLOURS[names.index(bar.label) % len(COLOURS)]
        body += (
            f'<rect x="{x:.1f}" y="{y}" width="{max(0.5, right - x):.1f}" height="{pitch - 1}" fill="{colour}">'
            f"<title>{escape(bar.label)}</title></rect>"
        )
    captions = {bar.row: bar.row if bar.caption is None else bar.caption for bar in bars}
    return _figure(title, body + _captions([captions[row] for row in rows], pitch), height)


def _captions(captions: Sequence[str], pitch: int) -> str:
    body, free_from = "", 0
    for index, caption in enumerate(captions):
        y = 16 + pitch * index + pitch - 1
        if caption and y >= free_from:
            body += f'<text x="0" y="{y}">{escape(caption)}</text>'
            free_from = y + CAPTION_HEIGHT
    return body


def _figure(title: str, body: str, height: int) -> str:
    return f'<h2>{escape(title)}</h2><svg viewBox="0 0 {WIDTH} {height}" role="img">{body}</svg>'


def _axes(low: float, high: float, top: float, x_label: str) -> str:
    body = _time_axis(low, high, HEIGHT, x_label)
    for value in _ticks(top):
        y = _up(value, top)
        body += f'<line class="grid" x1="{LEFT}" x2="{WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>'
        body += f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>'
    return body


def _time_axis(low: float, high: float, height: int, x_label: str) -> str:
    body = ""
    for value in _ticks(high - low):
        x = _across(low + value, low, high)
        anchor = "end" if x > WIDTH - 12 else "middle"
        body += f'<text x="{x:.1f}" y="{height - 22}" text-anchor="{anchor}">{value:g}</text>'
    return body + f'<text x="{LEFT}" y="{height - 6}">{escape(x_label)}</text>'


def _ticks(top: float) -> list[float]:
    """Return ticks from 0 to `top` in four to eight steps of 1, 2 or 5 times a power of ten."""
    if top <= 0:
        return [0.0]
    rough = top / 8
    power = 10.0 ** floor(log10(rough))
    step = next(size * power for size in (1, 2, 5, 10) if size * power >= rough)
    return [round(step * index, 12) for index in range(int(top / step * (1 + 1e-9)) + 1)]


def _points(one: Series, low: float, high: float, top: float, *, steps: bool) -> str:
    stride = max(1, len(one.x) // POINTS)
    words: list[str] = []
    before: float | None = None
    for index in range(0, len(one.x), stride):
        x, y = _across(one.x[index], low, high), _up(one.y[index], top)
        if steps and before is not None:
            words.append(f"{x:.1f},{before:.1f}")
        words.append(f"{x:.1f},{y:.1f}")
        before = y
    return " ".join(words)


def _across(x: float, low: float, high: float) -> float:
    return LEFT + (WIDTH - LEFT) * (x - low) / ((high - low) or 1.0)


def _up(y: float, top: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - 20) * y / top
