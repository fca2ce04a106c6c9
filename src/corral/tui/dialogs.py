"""Questions and help in a window over the lists."""

import textwrap
from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from corral.core.model.printable import printable
from corral.tui.line_widgets import Lines
from corral.tui.styled_lines import Line, cell

HELP = (
    ("Tab", "from GPUs to jobs and back"),
    ("arrows, j, k", "up and down; also PgUp, PgDn, Home, End"),
    ("Enter", "details and log of the job, or of the job on the GPU"),
    ("/", "filter: only rows that have all of these words; Esc: all"),
    ("s", "change the order"),
    ("r", "reverse the order"),
    ("e", "also list jobs that have ended"),
    ("c", "cancel the job; it asks first"),
    ("Esc, q", "back; from the first screen: quit"),
    ("in a log", "left and right show the rest of long lines; End follows"),
)
"""Keys and their effects."""


class Dialog(ModalScreen[bool]):
    """Some words in a box; True if y was pressed. Without a question any key closes it."""

    DEFAULT_CSS = """
    Dialog { align: center middle; }
    Dialog Lines { border: round; width: 100%; max-width: 90; padding: 0 1; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "yes"),
        Binding("n,escape,q,enter,question_mark", "answer(False)", "no"),
    ]

    def __init__(self, words: Sequence[str]) -> None:
        super().__init__()
        self._words = [line for text in words for line in _wrapped(printable(text))]

    def compose(self) -> ComposeResult:
        box = Lines(self._lines)
        box.styles.height = len(self._words) + 2
        yield box

    def action_answer(self, yes: bool) -> None:
        self.dismiss(yes)

    def _lines(self, columns: int) -> list[Line]:
        return [[cell(word, columns)] for word in self._words]


def question(sentence: str) -> Dialog:
    """A question: y is yes, any other key is no."""
    return Dialog([sentence, "", "y: yes    n: no"])


def help_dialog() -> Dialog:
    """All keys."""
    longest = max(len(keys) for keys, _ in HELP)
    return Dialog([f"{keys.ljust(longest)}  {what}" for keys, what in HELP])


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, 70, subsequent_indent="  ", max_lines=12, placeholder=" …") or [""]
