"""Lines of coloured text, independent of the code that draws them."""

from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size

from corral.core.model.printable import printable

Span = tuple[str, str | None]
"""Text that is safe to show, and the name of its style: of a colour, "bold" or "dim"."""

Line = Sequence[Span]

_CHARACTERS_A_COLUMN = 4
"""Characters may take no column of their own: at most this many are looked at per column."""


def cell(text: str, columns: int, style: str | None = None, *, right: bool = False) -> Span:
    """Return `text`, which is untrusted, printable and exactly `columns` wide, with "…" where it was cut."""
    fitted = clipped_to(text, columns)
    blanks = " " * (columns - cell_len(fitted))
    return (blanks + fitted if right else fitted + blanks, style)


def clipped_to(text: str, columns: int) -> str:
    """Return `text`, printable and at most `columns` wide: some characters take two columns, some none."""
    head = text[: columns * _CHARACTERS_A_COLUMN + 1]
    shown = printable(head)
    if cell_len(shown) <= columns and len(shown) <= columns * _CHARACTERS_A_COLUMN:
        return shown
    if columns <= 1:
        return "…"[:columns]
    return set_cell_size(shown[: columns * _CHARACTERS_A_COLUMN], columns - 1).rstrip() + "…"


def line_of(*spans: Span, columns: int) -> Line:
    """The spans with a blank between them, as far as there is room."""
    line: list[Span] = []
    left = columns
    for text, style in spans:
        if left <= 0:
            break
        shown = text if cell_len(text) <= left else set_cell_size(text, left)
        line += [(shown, style), (" ", None)]
        left -= cell_len(shown) + 1
    return line[:-1]
