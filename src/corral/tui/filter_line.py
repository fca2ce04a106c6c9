"""The line in which a filter is typed."""

from typing import ClassVar

from rich.style import Style
from textual.events import Key
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from corral.tui.line_widgets import strip_of
from corral.tui.styled_lines import clipped_to

MOST_CHARACTERS = 200


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
        elif event.is_printable and event.character and len(self.text) < MOST_CHARACTERS:
            self.text += event.character
        self.post_message(self.Typed(self.text, event.key in ("escape", "enter", "tab", "up", "down")))
        self.refresh()
