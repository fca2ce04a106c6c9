"""Tables for the terminal."""

from __future__ import annotations

from corral.cli import screen
from corral.cli.screen import painted
from corral.core.model.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_LEAST = 4
"""The least width of a cell, however narrow the terminal is."""


class TextTable:
    """A table for the terminal. Columns are as wide as their text; the last one gets the rest of the line.

    `limits` are the greatest widths of columns if the line is too short for all. If the output is not a terminal,
    nothing is cut. `numeric` columns are aligned to the right, and cut only after all others.
    """

    def __init__(
        self, titles: Sequence[str], *, limits: dict[str, int] | None = None, numeric: Iterable[str] = ()
    ) -> None:
        self._titles = list(titles)
        self._limits = limits or {}
        self._numeric = frozenset(numeric)
        self._rows: list[tuple[list[str], str | None]] = []

    def add(self, *cells: str, style: str | None = None, indent: int = 0) -> None:
        """Add a row. Its first cell is indented by `indent` blanks.

        `style` colours its cell in the column that `lines(paint=...)` names.
        """
        first, *others = [printable(" ".join(cell.split())) for cell in cells]
        self._rows.append(([" " * indent + first, *others], style))

    def lines(self, *, paint: str | None = None, indent: int = 0) -> list[str]:
        """The lines of the table, titles first. Cells in the column `paint` get their row's style.

        `indent` is the number of columns before the lines in the output.
        """
        columns = screen.room()
        widths = self._widths(None if columns is None else columns - indent)
        painted_column = self._titles.index(paint) if paint else -1
        lines = [painted(self._line(self._titles, widths, -1, None), "bold")]
        lines += [self._line(cells, widths, painted_column, style) for cells, style in self._rows]
        return lines

    def _widths(self, columns: int | None) -> list[int]:
        """The width of each column; 0 for a column without room."""
        natural = [max(map(len, each)) for each in zip(self._titles, *(cells for cells, _ in self._rows), strict=True)]
        if columns is None:
            return natural
        left = columns - 2 * (len(natural) - 1)
        widths = [
            min(widest, self._limits.get(title, widest)) for title, widest in zip(self._titles, natural, strict=True)
        ]
        if self._titles[-1] not in self._numeric:
            widths[-1] = min(natural[-1], max(len(self._titles[-1]), left - sum(widths[:-1])))
        for shrinks in (set(self._titles) - self._numeric, self._numeric):
            which = [number for number, title in enumerate(self._titles) if title in shrinks]
            while which and sum(widths) > left and max(widths[number] for number in which) > _LEAST:
                widths[max(which, key=lambda number: widths[number])] -= 1
        for number, widest in enumerate(natural):
            widths[number] += max(0, min(widest - widths[number], left - sum(widths)))
        used = 0
        for number, wide in enumerate(widths):
            used += wide + 2
            widths[number] = wide if used - 2 <= columns else 0
        return widths

    def _line(self, cells: Sequence[str], widths: Sequence[int], painted_column: int, style: str | None) -> str:
        words = []
        for column, (cell, columns) in enumerate(zip(cells, widths, strict=True)):
            if not columns:
                break
            shown = cell if len(cell) <= columns else cell[: columns - 1] + "…"
            shown = shown.rjust(columns) if self._titles[column] in self._numeric else shown.ljust(columns)
            words.append(painted(shown, style) if style and column == painted_column else shown)
        return "  ".join(words).rstrip()
