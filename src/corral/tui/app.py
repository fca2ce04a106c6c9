"""The screen of `corral top`: devices above, jobs below. It draws the `Board`; `Feed` and `Asker` bring changes."""

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType

from corral.client import Client
from corral.tui.board import MOST_ENDED, Board
from corral.tui.cancelling import Cancelling
from corral.tui.feed import Answered, Asker, Connect, Feed, read_ended
from corral.tui.frame import head_line
from corral.tui.line_widgets import FilterLine, Lines
from corral.tui.panes import DevicePane, JobPane, Pane
from corral.tui.polling import LookingAgain
from corral.tui.styled_lines import Line, cell, clipped_to

TICK_S = 0.2
"""The interval at which changes are looked for; the display changes no more often."""

_KEYS = "Enter log  c cancel  / filter  s sort  e ended  Tab GPUs, jobs  ? help  q quit"
_ABOUT_ROWS = 2


class TopApp(App[None]):
    """Devices and jobs, live."""

    CSS = f"#about {{ height: {_ABOUT_ROWS}; }}"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,escape", "leave", "quit", show=False),
        Binding("ctrl+c", "quit", "quit", show=False, priority=True),
        Binding("tab,shift+tab", "other_pane", "pane", show=False, priority=True),
        Binding("slash", "filter", "filter", show=False),
        Binding("e", "ended", "ended", show=False),
        Binding("c", "cancel", "cancel", show=False),
        Binding("question_mark", "help", "help", show=False),
    ]

    def __init__(self, connect: Connect = Client) -> None:
        super().__init__(ansi_color=True)
        self.connect = connect
        self.board = Board()
        self.asker = Asker(connect)
        self.devices, self.jobs = DevicePane(self.board), JobPane(self.board)
        self._feed = Feed(connect)
        self._looking = LookingAgain(self.board, self.asker)
        self._cancelling = Cancelling(self)
        self._head, self._foot = Lines(self._head_lines), Lines(self._foot_lines)
        self._about, self._filter = Lines(self._about_lines, id="about"), FilterLine()
        self._filtered: Pane = self.jobs
        self._said = self._away = ""
        self._drawn_at = 0

    def compose(self) -> ComposeResult:
        yield from (self._head, self.devices, self.jobs, self._about, self._filter, self._foot)

    def on_mount(self) -> None:
        self.jobs.list.focus()
        self.set_interval(TICK_S, self._tick)
        self._tick()

    @property
    def now(self) -> float:
        """The server's present time."""
        return time.time() + self.board.ahead_s

    def say(self, message: str) -> None:
        """Show a message in place of the keys, until another line is selected."""
        self._said = message
        self._foot.refresh()

    def _tick(self) -> None:
        answers, news = self.asker.drain(), self._feed.drain()
        for answered in answers:
            answered.then(answered)
        self.board.apply(news)
        away, second = self._feed.away(time.time()), int(time.time())
        if self._away and not away:
            # State without events may have changed meanwhile.
            self.board.look_again |= {"devices", "server"}
            self.board.sparks.forget_past()
        if news or answers or away != self._away or second != self._drawn_at:
            self._away, self._drawn_at = away, second
            self._draw()
        if not away:
            self._looking.ask(time.monotonic(), self.now, self.devices.on_screen())

    def _draw(self) -> None:
        """Redraw all parts that may have changed; Textual sends only real changes to the terminal."""
        self.devices.show(self.now)
        self.jobs.show(self.now)
        job = None if self.devices.list.has_focus else self.jobs.selected
        self._looking.look_at(job.id if job is not None and job.phase == "PENDING" else None)
        for lines in (self._head, self._about, self._foot):
            lines.refresh()

    def _head_lines(self, columns: int) -> Sequence[Line]:
        return [head_line(self.board, columns, self.now, self._away)]

    def _about_lines(self, columns: int) -> Sequence[Line]:
        """The words of the selected line, broken where the line ends."""
        words = self.devices.about() if self.devices.list.has_focus else self._looking.why or self.jobs.about()
        left, lines = clipped_to(words, (columns - 1) * _ABOUT_ROWS), []
        for _ in range(_ABOUT_ROWS):
            head = left if len(left) <= columns else left[:columns].rpartition(" ")[0] or left[:columns]
            lines.append([cell(head, columns)])
            left = left[len(head) :].lstrip()
        return lines

    def _foot_lines(self, columns: int) -> Sequence[Line]:
        return [[cell(self._said or _KEYS, columns, "yellow" if self._said else "dim")]]

    def on_line_list_moved(self) -> None:
        self._said = ""
        self._draw()

    def on_descendant_focus(self) -> None:
        self._draw()

    def on_resize(self) -> None:
        self._draw()

    def on_line_list_opened(self) -> None:
        if (job_id := self._job_at_hand()) is not None:
            from corral.tui.job_screen import JobScreen

            self.push_screen(JobScreen(self.connect, self.asker, self.board, job_id, self._cancelling))

    def on_filter_line_typed(self, typed: FilterLine.Typed) -> None:
        pane = self._filtered
        pane.choose(replace(pane.choice, words=tuple(typed.text.lower().split())))
        if typed.done:
            self._filter.styles.display, self._foot.styles.display = "none", "block"
            self._filtered.list.focus()

    def action_filter(self) -> None:
        self._filtered = self._pane()
        self._filter.text = " ".join(self._filtered.choice.words)
        self._filter.styles.display, self._foot.styles.display = "block", "none"
        self._filter.focus()

    def action_leave(self) -> None:
        """Drop a filter first; without one, end the program."""
        filtered = [pane for pane in (self.devices, self.jobs) if pane.choice.words]
        for pane in filtered:
            pane.choose(replace(pane.choice, words=()))
        if not filtered:
            self.exit()

    def action_other_pane(self) -> None:
        if len(self.screen_stack) == 1 and not self._filter.has_focus:
            (self.jobs if self.devices.list.has_focus else self.devices).list.focus()

    def action_ended(self) -> None:
        self.jobs.choose(replace(self.jobs.choice, ended=not self.jobs.choice.ended))
        if self.jobs.choice.ended:
            self.asker.ask(partial(read_ended, most=MOST_ENDED), self._hear_ended)

    def action_cancel(self) -> None:
        if (job_id := self._job_at_hand()) is not None:
            self._cancelling.begin(job_id, self.say)

    def action_help(self) -> None:
        from corral.tui.dialogs import help_dialog

        self.push_screen(help_dialog())

    def _hear_ended(self, answered: Answered) -> None:
        if answered.value is not None:
            self.board.apply([answered.value])

    def _pane(self) -> Pane:
        """The pane whose list has the keys."""
        return self.devices if self.devices.list.has_focus else self.jobs

    def _job_at_hand(self) -> str | None:
        """The id of the selected job, or of the only job on the selected device."""
        if not self.devices.list.has_focus:
            return self.jobs.list.selected
        device = self.devices.selected
        holders = () if device is None else device.holders
        if len(holders) == 1:
            return holders[0].job
        self.say("several jobs are on this GPU; choose one in the list" if holders else "no job is on this GPU")
        return None
