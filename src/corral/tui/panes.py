"""The two lists: each with its title, its order, and its part of the board."""

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widget import Widget

from corral.core.model.answers.devices import DeviceRow
from corral.core.model.answers.jobs import JobRow
from corral.formatting.device_names import several_nodes
from corral.tui.board import Board
from corral.tui.device_lines import about_device, device_layout, device_line, device_title
from corral.tui.frame import device_rows
from corral.tui.job_lines import about_job, job_layout, job_line, job_title
from corral.tui.line_widgets import LineList, Lines
from corral.tui.ordering import DEVICE_ORDERS, JOB_ORDERS, RowChoice, chosen_devices, chosen_jobs
from corral.tui.styled_lines import Line, cell, clipped_to


class Pane(Widget):
    """A list below its title. A subclass gives the lines."""

    DEFAULT_CSS = "Pane { layout: vertical; height: auto; width: 1fr; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "sort", "sort", show=False),
        Binding("r", "turn_round", "reverse", show=False),
    ]
    ORDERS: ClassVar[tuple[str, ...]] = ("",)

    def __init__(self, board: Board, id: str | None = None) -> None:
        super().__init__(id=id)
        self.board = board
        self.choice = RowChoice(order=self.ORDERS[0])
        self.now = 0.0
        self.list = LineList(self._line)
        self._title_line = Lines(self._title_lines)

    def compose(self) -> ComposeResult:
        yield self._title_line
        yield self.list

    def choose(self, choice: RowChoice) -> None:
        """Show other rows, or another order."""
        self.choice = choice
        self.show(self.now)

    def show(self, now: float) -> None:
        """Show the board as it is at a moment of the server."""
        self.now = now
        self._look()
        self._title_line.refresh()

    def action_sort(self) -> None:
        order = self.ORDERS[(self.ORDERS.index(self.choice.order) + 1) % len(self.ORDERS)]
        self.choose(replace(self.choice, order=order))

    def action_turn_round(self) -> None:
        self.choose(replace(self.choice, backwards=not self.choice.backwards))

    def _look(self) -> None:
        raise NotImplementedError

    def _line(self, index: int, columns: int) -> Line:
        raise NotImplementedError

    def _titles(self) -> str:
        raise NotImplementedError

    def _title_lines(self, columns: int) -> Sequence[Line]:
        choice = self.choice
        chosen = [] if choice.order == self.ORDERS[0] and not choice.backwards else [f"by {choice.order}"]
        chosen += ["reversed"] if choice.backwards else []
        chosen += [f"filter {' '.join(choice.words)}"] if choice.words else []
        told = clipped_to(f" [{', '.join(chosen)}]", columns // 2) if chosen else ""
        return [[cell(f" {self._titles()}", columns - len(told), "bold"), (told, "yellow")]]


class DevicePane(Pane):
    """Devices with bars."""

    ORDERS = DEVICE_ORDERS

    def _look(self) -> None:
        everything = list(self.board.devices.values())
        self._several = several_nodes(everything)
        self._columns_of = device_layout(max(40, self.app.size.width - 1), everything, self._several)
        shown = chosen_devices(everything, self.choice, self._several)
        height = device_rows(self.app.size.height, len(shown))
        if self.list.size.height != height:
            self.list.styles.height = height
        self.list.show([device.uuid for device in shown])

    @property
    def selected(self) -> DeviceRow | None:
        """The device on the selected line."""
        return self.board.devices.get(self.list.selected or "")

    def about(self) -> str:
        """Return the text about the selected device."""
        device = self.selected
        if device is not None:
            return about_device(device, self._several)
        return "no GPU has all of these words; Esc shows all" if self.choice.words else "no GPU"

    def on_screen(self) -> Sequence[str]:
        """The UUIDs of the devices that are on the screen."""
        top = int(self.list.scroll_offset.y)
        return self.list.keys[top : top + self.list.size.height]

    def _line(self, index: int, columns: int) -> Line:
        device = self.board.devices[self.list.keys[index]]
        return device_line(device, self._columns_of, self.board.sparks, self._several, self.now)

    def _titles(self) -> str:
        return device_title(self._columns_of)


class JobPane(Pane):
    """Jobs, with why they wait and when they are expected to start."""

    DEFAULT_CSS = "JobPane { height: 1fr; }"
    ORDERS = JOB_ORDERS

    _jobs: Sequence[JobRow] = ()
    _stand: tuple[int, RowChoice, int] | None = None

    def _look(self) -> None:
        """Sorts only if something changed: of very many jobs that takes its time."""
        stand = (self.board.jobs_version, self.choice, self.app.size.width)
        if stand == self._stand and self.choice.order != "time":
            self.list.refresh()
            return
        self._stand = stand
        self._jobs = chosen_jobs(self.board.jobs.values(), self.choice, self.now)
        self._columns_of = job_layout(max(40, self.app.size.width - 1), self._jobs)
        self.list.show([job.id for job in self._jobs])

    @property
    def selected(self) -> JobRow | None:
        """The job on the selected line."""
        return self.board.jobs.get(self.list.selected or "")

    def about(self) -> str:
        """Return the text about the selected job."""
        job = self.selected
        if job is not None:
            return about_job(job, self.board.places)
        return "no job has all of these words; Esc shows all" if self.choice.words else "no job waits or runs"

    def _line(self, index: int, columns: int) -> Line:
        return job_line(self._jobs[index], self._columns_of, self.board.places, self.now)

    def _titles(self) -> str:
        return job_title(self._columns_of)
