"""All details of one job above, and its log below, which opens at its end and goes on."""

import textwrap
import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen

from corral.client import Client
from corral.core.model.answers.job_details import Explanation, JobDetail
from corral.core.model.printable import printable
from corral.tui.board import Board
from corral.tui.feed import Answered, Asker, Connect
from corral.tui.job_lines import detail_lines
from corral.tui.line_widgets import LineList, Lines
from corral.tui.log_feed import LogFeed
from corral.tui.styled_lines import Line, cell

if TYPE_CHECKING:
    from corral.tui.cancelling import Cancelling

_TICK_S = 0.2
_EVERY_S = 3.0
_MOST_ROWS_OF_A_FIELD = 5
_SIDEWAYS = 20
_KEYS = "arrows PgUp PgDn move  left right sideways  End follow  c cancel  Esc back"


class JobScreen(Screen[None]):
    """A job and its log."""

    DEFAULT_CSS = "JobScreen { layout: vertical; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "back", "back", show=False),
        Binding("c", "cancel", "cancel", show=False),
        Binding("left,h", "sideways(-1)", "left", show=False, priority=True),
        Binding("right,l", "sideways(1)", "right", show=False, priority=True),
    ]

    def __init__(self, connect: Connect, asker: Asker, board: Board, job_id: str, cancelling: "Cancelling") -> None:
        super().__init__()
        self._asker, self._board, self._cancelling = asker, board, cancelling
        self._job_id = job_id
        self._feed = LogFeed(connect().address, job_id)
        self._told: list[Line] = [[(f"job {job_id}", "bold")]]
        self._detail, self._head = Lines(self._told_lines), Lines(self._head_lines)
        self._foot = Lines(self._foot_lines)
        self._list = LineList(self._log_line)
        self._shown: Sequence[str] = ()
        self._said = ""
        self._from_column = 0
        self._asked_at = float("-inf")

    def compose(self) -> ComposeResult:
        yield from (self._detail, self._head, self._list, self._foot)

    def on_mount(self) -> None:
        self._list.focus()
        self.set_interval(_TICK_S, self._tick)
        self._tick()

    def on_unmount(self) -> None:
        self._feed.close()

    def say(self, message: str) -> None:
        """Show a message in place of the keys."""
        self._said = message
        self._foot.refresh()

    def action_back(self) -> None:
        self.dismiss()

    def action_cancel(self) -> None:
        self._cancelling.begin(self._job_id, self.say)

    def action_sideways(self, by: int) -> None:
        longest = max(map(len, self._shown), default=0)
        self._from_column = max(0, min(self._from_column + by * _SIDEWAYS, longest - 1))
        self._list.refresh()

    def _tick(self) -> None:
        if self._feed.take():
            self._show_log()
        if time.monotonic() - self._asked_at > _EVERY_S:
            self._asked_at = time.monotonic()
            self._asker.ask(partial(_all_of, self._job_id), self._hear)
        self._head.refresh()

    def _show_log(self) -> None:
        follows = self._list.at >= len(self._shown) - 1
        log = self._feed.lines
        self._shown = tuple(log.lines)
        if follows:
            self._list.at = max(0, len(self._shown) - 1)
        # A line is known by how many came before it, also when the first are kept no more.
        self._list.show([str(log.removed + number) for number in range(len(self._shown))])

    def _hear(self, answered: Answered) -> None:
        if answered.value is None:
            self._told = [[cell(f"job {self._job_id}: {answered.error}", self.size.width, "red")]]
        else:
            job, explanation = answered.value
            now = time.time() + self._board.ahead_s
            fields = detail_lines(job, explanation, self._board.places, now)
            self._told = [line for title, text in fields for line in _field(title, text, max(40, self.size.width))]
        room = max(3, self.size.height // 2)
        self._told = self._told[:room]
        self._detail.styles.height = len(self._told)
        self._detail.refresh()

    def _told_lines(self, columns: int) -> Sequence[Line]:
        return self._told

    def _head_lines(self, columns: int) -> Sequence[Line]:
        where = f"line {self._feed.lines.removed + self._list.at + 1}" if self._shown else "nothing yet"
        if self._from_column:
            where += f", from column {self._from_column + 1}"
        told = f"; {self._feed.told}" if self._feed.told else ""
        return [[cell(f"LOG  {where}{told}", columns, "bold")]]

    def _log_line(self, index: int, columns: int) -> Line:
        shown = self._shown[index]
        end = self._from_column + columns - 1
        return [cell(shown[self._from_column : end], columns - 1), ("…" if len(shown) > end else " ", "dim")]

    def _foot_lines(self, columns: int) -> Sequence[Line]:
        return [[cell(self._said or _KEYS, columns, "yellow" if self._said else "dim")]]


def _field(title: str, text: str, columns: int) -> list[Line]:
    """A field in some lines, its title before the first."""
    lines = textwrap.wrap(
        printable(text)[: columns * _MOST_ROWS_OF_A_FIELD],
        columns - 11,
        max_lines=_MOST_ROWS_OF_A_FIELD,
        placeholder=" …",
    )
    return [
        [(f"{title if number == 0 else '':<10} ", "bold"), cell(line, columns - 11)]
        for number, line in enumerate(lines)
    ]


def _all_of(job_id: str, client: Client) -> tuple[JobDetail, Explanation | None]:
    job = client.jobs.get(job_id)
    return job, client.jobs.why(job_id) if job.phase == "PENDING" or job.ended else None
