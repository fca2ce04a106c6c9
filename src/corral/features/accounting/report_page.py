"""A report as a single page of HTML that loads nothing: no script, no font, no picture."""

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from time import localtime, strftime

from corral.client import Report, ReportRow
from corral.core.model.printable import printable
from corral.core.model.units import WEEKDAYS
from corral.features.accounting.report_table import GRID, percent

_STYLE = """
:root{color-scheme:light dark;--ink:#1b2430;--dim:#667180;--line:#e3e7ec;--page:#f6f7f9;--card:#fff;
--used:#2a7f62;--idle:#e0a030;--unmetered:#c3cad3;--heat:42,127,98}
@media(prefers-color-scheme:dark){:root{--ink:#e6e9ee;--dim:#97a1af;--line:#2b333e;--page:#12161b;--card:#1a2027;
--used:#48a886;--idle:#d69a35;--unmetered:#4a5563;--heat:72,168,134}}
*{box-sizing:border-box}
body{margin:0;padding:2.5rem 1.5rem;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
main{max-width:80rem;margin:auto}
h1{font-size:1.6rem;font-weight:650;margin:0}
.when{color:var(--dim);margin:.2rem 0 1.6rem}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(9rem,1fr));gap:.8rem;margin-bottom:1.6rem}
.card{background:var(--card);border:1px solid var(--line);border-radius:.6rem;padding:.8rem 1rem}
.card b{display:block;font-size:1.35rem;font-weight:650;font-variant-numeric:tabular-nums}
.card span{color:var(--dim);font-size:.85rem}
.sheet{background:var(--card);border:1px solid var(--line);border-radius:.6rem;overflow-x:auto}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{padding:.5rem .65rem;text-align:right;white-space:nowrap;border-bottom:1px solid var(--line)}
th{color:var(--dim);font-weight:550;font-size:.82rem}
.name{text-align:left;max-width:13rem;overflow:hidden;text-overflow:ellipsis}
tbody tr:last-child td,tfoot tr:last-child td{border-bottom:0}
tfoot td{font-weight:650;border-top:1px solid var(--line)}
.bar{display:flex;width:7rem;height:.65rem;border-radius:.35rem;overflow:hidden;background:var(--line)}
.bar i{display:block;height:100%}
.used{background:var(--used)}.idle{background:var(--idle)}.unmetered{background:var(--unmetered)}
.key{color:var(--dim);font-size:.85rem;margin:1rem 0 0;display:flex;gap:1.2rem;flex-wrap:wrap}
.key i{display:inline-block;width:.7rem;height:.7rem;border-radius:.2rem;margin-right:.35rem}
.grid th,.grid td{text-align:center}.grid .name{text-align:left}
@media(max-width:64rem){th,td{padding:.5rem .4rem}.bar{width:4rem}}
@media print{body{padding:0;background:none;font-size:11px;print-color-adjust:exact;-webkit-print-color-adjust:exact}
.card,tr{break-inside:avoid}.sheet{overflow:visible}tfoot{display:table-row-group}.bar{width:3rem}
th,td{padding:.25rem .3rem}th{font-size:1em;white-space:normal}.name{max-width:7rem}}
"""
_KEYS = (
    ("used", "used: utilization of 5 % or more"),
    ("idle", "idle: less"),
    ("unmetered", "unmetered: not measured"),
)


def page_of(found: Report) -> str:
    """The page. All texts of users are escaped. The page loads and runs nothing."""
    return "".join(f"{line}\n" for line in _lines(found))


def _lines(found: Report) -> Iterator[str]:
    title = f"GPU report by {' and '.join(found.by)}" if found.by else "GPU report"
    yield "<!doctype html>"
    yield '<html lang="en"><head><meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
    yield f"<title>{_text(title)}</title><style>{_STYLE}</style></head><body><main>"
    yield f"<h1>{_text(title)}</h1>"
    yield f'<p class="when">{_moment(found.since)} to {_moment(found.until)}</p>'
    yield from _cards(found)
    yield from _grid(found) if set(found.by) == GRID else _table(found)
    marks = "".join(f'<span><i class="{name}"></i>{_text(said)}</span>' for name, said in _KEYS)
    yield f'<p class="key">{marks}</p>'
    yield (
        '<p class="key">Half a GPU for two hours is one GPU-hour. Wasted: attempts that failed or were lost, and '
        "work lost by jobs that had to make room.</p>"
    )
    yield "</main></body></html>"


def _cards(found: Report) -> Iterator[str]:
    total = found.total
    cards = [
        (f"{total.gpu_hours:,.1f}", "GPU-hours"),
        (percent(total.used_hours, total.gpu_hours), "used"),
        (percent(total.idle_hours, total.gpu_hours), "idle"),
        (percent(total.wasted_hours, total.gpu_hours), "wasted"),
        ("–" if total.energy_kwh is None else f"{total.energy_kwh:,.1f}", "kWh measured"),
    ]
    if total.cost is not None:
        cards.append((f"{total.cost:,.2f}", f"{found.currency or ''} cost".strip()))
    yield '<section class="cards">'
    for value, said in cards:
        yield f'<div class="card"><b>{_text(value)}</b><span>{_text(said)}</span></div>'
    yield "</section>"


def _table(found: Report) -> Iterator[str]:
    names = list(found.rows[0].names) if found.rows else list(found.by)
    cost = found.total.cost is not None
    figures = ["GPU-hours", "used", "idle", "unmetered", "", "wasted", "reserved", "kWh"]
    figures += [f"cost {found.currency or ''}".strip()] if cost else []
    yield '<div class="sheet"><table><thead><tr>'
    yield _cells([*names], tag="th", kind=' class="name"') + _cells(figures, tag="th") + "</tr></thead><tbody>"
    for row in found.rows:
        yield _row([row.names[name] for name in names], row, cost=cost)
    if found.others is not None:
        yield _row([f"{found.left_out} others", *[""] * (len(names) - 1)], found.others, cost=cost)
    yield "</tbody><tfoot>"
    yield _row(["total", *[""] * (len(names) - 1)], found.total, cost=cost)
    yield "</tfoot></table></div>"


def _row(names: Sequence[str], row: ReportRow, *, cost: bool) -> str:
    parts = {"used": row.used_hours, "idle": row.idle_hours, "unmetered": row.unmetered_hours}
    shares = {name: 100 * part / row.gpu_hours if row.gpu_hours else 0.0 for name, part in parts.items()}
    bar = "".join(f'<i class="{name}" style="width:{share:.2f}%"></i>' for name, share in shares.items())
    figures = [f"{hours:,.2f}" for hours in (row.gpu_hours, *parts.values())]
    marks = [
        f"{row.wasted_hours:,.2f}",
        f"{row.reserved_hours:,.2f}",
        "–" if row.energy_kwh is None else f"{row.energy_kwh:,.2f}",
        *(["–" if row.cost is None else f"{row.cost:,.2f}"] if cost else []),
    ]
    named = "".join(f'<td class="name" title="{_text(name)}">{_text(name)}</td>' for name in names)
    return f'<tr>{named}{_cells(figures)}<td><div class="bar">{bar}</div></td>{_cells(marks)}</tr>'


def _grid(found: Report) -> Iterator[str]:
    cells = {(row.names["hour"], row.names["weekday"]): row for row in found.rows}
    most = max((row.gpu_hours for row in found.rows), default=0.0)
    yield '<div class="sheet"><table class="grid"><thead><tr>'
    yield f'<th class="name">hour</th>{_cells(WEEKDAYS, tag="th")}</tr></thead><tbody>'
    for hour in sorted({hour for hour, _ in cells}):
        heat = "".join(_heat(cells.get((hour, day)), most) for day in WEEKDAYS)
        yield f'<tr><td class="name">{_text(hour)}</td>{heat}</tr>'
    yield "</tbody></table></div>"
    yield '<p class="key">GPU-hours granted, and how much of them was used.</p>'


def _heat(row: ReportRow | None, most: float) -> str:
    if row is None:
        return "<td>–</td>"
    depth = 0.7 * row.gpu_hours / most if most else 0.0
    said = f"{row.gpu_hours:,.1f} · {percent(row.used_hours, row.gpu_hours)}"
    return f'<td style="background:rgba(var(--heat),{depth:.2f})">{_text(said)}</td>'


def _cells(texts: Iterable[str], *, tag: str = "td", kind: str = "") -> str:
    return "".join(f"<{tag}{kind}>{_text(text)}</{tag}>" for text in texts)


def _text(text: str) -> str:
    return escape(printable(text))


def _moment(at: float) -> str:
    return _text(strftime("%Y-%m-%d %H:%M", localtime(at)))
