"""Textual widgets that draw lines as they are: no markup is read, and only visible lines are made."""

from collections.abc import Callable, Sequence
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.events import Click, Key
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from corral.tui.styled_lines import Line, clipped_to

_STYLES = {
    "bold": Style(bold=True),
    "dim": Style(dim=True),
    **{name: Style(color=name) for name in ("red", "green", "yellow", "blue", "magenta", "cyan")},
}
_PLAIN = Style()
_SELECTED = Style(reverse=True)


def strip_of(line: Line, columns: int, style: Style = _PLAIN) -> Strip:
    """Return the line padded to this many columns, with this style where its spans have no other."""
    segments = [Segment(text, style if name is None else _STYLES[name] + style) for text, name in line if text]
    used = sum(cell_len(segment.text) for segment in segments)
    if used < columns:
        segments.append(Segment(" " * (columns - used), style))
    return Strip(segments, max(used, columns)).crop(0, columns)


class Lines(Widget):
    """Some lines that are always all visible."""

    DEFAULT_CSS = "Lines { height: 1; width: 1fr; }"

    def __init__(self, make: Callable[[int], Sequence[Line]], id: str | None = None) -> None:
        super().__init__()
        self._make = make

    def render_line(self, y: int) -> Strip:
        lines = self._make(self.size.width)
        return strip_of(lines[y] if y < len(lines) else [], self.size.width)


class LineList(ScrollView, can_focus=True):
    """A list of any length with one selected line, which stays selected when the list changes around it.

    Attributes:
        keys: the keys of the lines, in order.
        at: the index of the selected line.
    """

    DEFAULT_CSS = "LineList { height: 1fr; width: 1fr; scrollbar-size: 0 0; overflow-x: hidden; }"

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "up", show=False),
        Binding("down,j", "move(1)", "down", show=False),
        Binding("pageup,ctrl+b", "page(-1)", "page up", show=False),
        Binding("pagedown,ctrl+f,space", "page(1)", "page down", show=False),
        Binding("home,g", "move(-10000000)", "first", show=False),
        Binding("end,G", "move(10000000)", "last", show=False),
        Binding("enter", "open", "open", show=False),
    ]

    class Moved(Message):
        """Another line is selected."""

    class Opened(Message):
        """Enter was pressed on the selected line."""

    def __init__(self, line: Callable[[int, int], Line]) -> None:
        super().__init__()
        self._line = line
        self.keys: Sequence[str] = ()
        self.at = 0

    @property
    def selected(self) -> str | None:
        """The key of the selected line; None in an empty list."""
        return self.keys[self.at] if self.at < len(self.keys) else None

    def show(self, keys: Sequence[str]) -> None:
        """Show these lines. The selected line stays selected, or the line in its place if it is gone."""
        before = self.selected
        if before is not None and not (self.at < len(keys) and keys[self.at] == before):
            self.at = keys.index(before) if before in keys else self.at
        self.keys = keys
        self.at = max(0, min(self.at, len(keys) - 1))
        if self.virtual_size.height != len(keys):
            self.virtual_size = Size(self.size.width, len(keys))
        self._keep_visible()
        self.refresh()

    def render_line(self, y: int) -> Strip:
        index, columns = y + int(self.scroll_offset.y), self.size.width
        if index >= len(self.keys):
            return Strip.blank(columns)
        chosen = index == self.at
        mark = " " if not chosen else ">" if self.has_focus else "·"
        style = _SELECTED if chosen and self.has_focus else _PLAIN
        return strip_of([(mark, None), *self._line(index, columns - 1)], columns, style)

    def action_move(self, by: int) -> None:
        self._go_to(self.at + by)

    def action_page(self, by: int) -> None:
        self._go_to(self.at + by * max(1, self.size.height - 1))

    def action_open(self) -> None:
        if self.selected is not None:
            self.post_message(self.Opened())

    def on_click(self, event: Click) -> None:
        self._go_to(event.y + int(self.scroll_offset.y))

    def on_resize(self) -> None:
        self._keep_visible()

    def _go_to(self, index: int) -> None:
        self.at = max(0, min(index, len(self.keys) - 1))
        self._keep_visible()
        self.refresh()
        self.post_message(self.Moved())

    def _keep_visible(self) -> None:
        top, rows = int(self.scroll_offset.y), max(1, self.size.height)
        wanted = min(max(top, self.at - rows + 1), self.at)
        wanted = max(0, min(wanted, max(0, len(self.keys) - rows)))
        if wanted != top:
            self.scroll_to(y=wanted, animate=False, force=True, immediate=True)


_MOST_CHARACTERS = 200


class FilterLine(Widget, can_focus=True):
    """Takes every key while it has the focus. `text` is the typed text."""

    DEFAULT_CSS = "FilterLine { height: 1; width: 1fr; display: none; }"
    SAYS: ClassVar[str] = "filter: "

    class Typed(Message):
        """The text is another; `done` if it is not typed at any more."""

        def __init__(self, text: str, done: bool) -> None:
            super().__init__()
            self.text = text
            self.done = done

    text = ""

    def render_line(self, y: int) -> Strip:
        shown = clipped_to(self.text, self.size.width - len(self.SAYS) - 2)
        return strip_of([(f"{self.SAYS}{shown}", None), ("_", "bold")], self.size.width, Style(bold=True))

    def on_key(self, event: Key) -> None:
        event.stop()
        event.prevent_default()
        if event.key == "escape":
            self.text = ""
        elif event.key in ("backspace", "ctrl+h"):
            self.text = self.text[:-1]
        elif event.key == "ctrl+u":
            self.text = ""
        elif event.is_printable and event.character and len(self.text) < _MOST_CHARACTERS:
            self.text += event.character
        self.post_message(self.Typed(self.text, event.key in ("escape", "enter", "tab", "up", "down")))
        self.refresh()
