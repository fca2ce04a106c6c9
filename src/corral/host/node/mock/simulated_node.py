"""A node on which work only seems to run, and which can fail in the ways that nodes do."""

import threading

from corral.clock import Clock
from corral.core.model.alerts.notification import Notification
from corral.core.model.answers.devices import SlicePlan
from corral.core.model.devices.device import DeviceSample, Node
from corral.core.model.errors import NodeUnreachable
from corral.core.model.jobs.input import TerminalSize
from corral.core.model.runs.launch import Launch, LaunchPhase
from corral.core.ports.host import Credentials, FileQuery
from corral.core.ports.node import (
    ExecOutput,
    FileFinding,
    InputTaken,
    LogChunk,
    News,
    ProcessFound,
    Readiness,
    Reconciled,
    Rendezvous,
    Reports,
    SliceChange,
)
from corral.core.ports.runtime import InnerCommand
from corral.core.preflight.file_facts import FileFacts
from corral.core.preflight.program_lookup import FOUND
from corral.host.node.files.file_inspector import InProcessFileInspector
from corral.host.node.news import NewsBuffer
from corral.host.runtimes.simulated import SimulatedRuntime
from corral.wire import to_plain

ANSWER_WITHIN_S = 5.0
"""The deadline of a call to a node that is silent."""

_AT_WORK = (LaunchPhase.CLAIMED, LaunchPhase.RUNNING)


class SimulatedNode:
    """Implements `corral.core.ports.node.NodeAgent` over a simulated runtime, which outlives it.

    Attributes:
        obstacle: why nothing can be started, such as a full disk.
        delay_s: the time that each call takes.
        notes: lines that were written into logs, with their job and rank.
        notifications: requested notifications, by id; of each user at most `most_notifications`.
        signals: the signals sent, with their launches.
        commands: commands inside launches, by their ids.
        processes: the process table, as far as it is used.
        samples: the samples of devices, by UUID, that are read before a start.
    """

    def __init__(self, runtime: SimulatedRuntime, clock: Clock, *, answer_within_s: float = ANSWER_WITHIN_S) -> None:
        self.runtime = runtime
        self.obstacle: str | None = None
        self.delay_s = 0.0
        self.notes: list[tuple[str, int, str]] = []
        self.notifications: dict[str, Notification] = {}
        self.most_notifications = 1000
        self.signals: list[tuple[str, str]] = []
        self.commands: dict[str, tuple[str, InnerCommand]] = {}
        self.processes: dict[int, ProcessFound] = {}
        self.samples: dict[str, DeviceSample] = {}
        self._clock = clock
        self._answer_within_s = answer_within_s
        self._answers = threading.Event()
        self._answers.set()
        self._news = NewsBuffer(clock)

    def fall_silent(self) -> None:
        """Answer no call any more; running work goes on."""
        self._answers.clear()

    def answer_again(self) -> None:
        """Answer again, waiting callers too."""
        self._answers.set()

    def restart(self) -> None:
        """End the agent and start another: its memory is lost."""
        self._news = NewsBuffer(self._clock)
        self._answers.set()

    def show(self, node: Node, samples: tuple[DeviceSample, ...]) -> None:
        """Its inventory and its devices are like this from now on."""
        self._news.sampled(node, samples)

    def launch_changed(self, launch_id: str) -> None:
        """The report of a launch is new."""
        self._news.launch_changed(launch_id)

    def news(self, after: int, timeout_s: float) -> News:
        self._called()
        return self._news.since(after, timeout_s)

    def ready(self, uuids: tuple[str, ...]) -> Readiness:
        self._called()
        return Readiness(tuple(self.samples[uuid] for uuid in uuids if uuid in self.samples), self.obstacle)

    def reconcile(self, allocated: tuple[Launch, ...], waiting: tuple[str, ...]) -> Reconciled:
        self._called()
        known = {launch.id for launch in allocated}
        unknown = [launch_id for launch_id in self.runtime.launches() if launch_id not in known]
        running = tuple(one for one in unknown if self.runtime.report(one).phase in _AT_WORK)
        for launch_id in unknown:
            self.runtime.stop(launch_id)
            self.runtime.forget(launch_id)
        for launch in allocated:
            if self.runtime.report(launch.id).phase is LaunchPhase.UNKNOWN:
                self.runtime.declare_lost(launch.id, ran=launch.job.started_at is not None)
            if launch.job.spec.time_limit_s is not None:
                self.runtime.set_time_limit(launch.id, launch.job.spec.time_limit_s)
        return Reconciled((), running)

    def rendezvous(self, launch_id: str) -> Rendezvous:
        self._called()
        return Rendezvous("127.0.0.1", 29_500, 29_501, "secret")

    def launch(self, launch: Launch) -> None:
        self._called()
        self.runtime.launch(launch)

    def stop(self, launch_id: str) -> None:
        self._called()
        self.runtime.stop(launch_id)

    def signal(self, launch_id: str, name: str) -> None:
        self._called()
        self.signals.append((launch_id, name))

    def set_time_limit(self, launch_id: str, time_limit_s: float) -> None:
        self._called()
        self.runtime.set_time_limit(launch_id, time_limit_s)

    def reports(self, launch_ids: tuple[str, ...]) -> Reports:
        self._called()
        return Reports(self._clock.now(), tuple(self.runtime.report(launch_id) for launch_id in launch_ids))

    def declare_lost(self, launch_id: str, ran: bool) -> bool:
        self._called()
        return self.runtime.declare_lost(launch_id, ran=ran)

    def forget(self, launch_id: str, keep_scratch: bool) -> None:
        self._called()
        self.runtime.forget(launch_id)

    def rescan(self, allocated: tuple[Launch, ...]) -> tuple[str, ...]:
        self._called()
        return ()

    def process(self, pid: int) -> ProcessFound | None:
        self._called()
        return self.processes.get(pid)

    def read_log(self, job_id: str, rank: int, offset: int, max_bytes: int, mark: str) -> LogChunk:
        self._called()
        return LogChunk("", None)

    def log_written_since(self, job_id: str, rank: int, ago_s: float, mark: str) -> int | None:
        self._called()
        return None

    def write_input(self, launch_id: str, offset: int, data: str, end: bool) -> InputTaken | None:
        self._called()
        return None

    def resize_terminal(self, launch_id: str, size: TerminalSize) -> None:
        self._called()

    def begin_exec(self, exec_id: str, launch_id: str, command: InnerCommand) -> None:
        self._called()
        self.commands[exec_id] = (launch_id, command)

    def write_exec(self, exec_id: str, offset: int, data: str, end: bool) -> InputTaken | None:
        self._called()
        return InputTaken(offset, True) if exec_id in self.commands else None

    def resize_exec(self, exec_id: str, size: TerminalSize) -> None:
        self._called()

    def read_exec(self, exec_id: str, after: int) -> ExecOutput | None:
        self._called()
        return ExecOutput(after) if exec_id in self.commands else None

    def end_exec(self, exec_id: str) -> None:
        self._called()
        self.commands.pop(exec_id, None)

    def note(self, job_id: str, rank: int, line: str) -> None:
        self._called()
        self.notes.append((job_id, rank, line))

    def notify(self, notification: Notification) -> bool:
        self._called()
        of_user = [one for one in self.notifications.values() if one.user == notification.user]
        if notification.id not in self.notifications and len(of_user) >= self.most_notifications:
            return False
        self.notifications.setdefault(notification.id, notification)
        return True

    def inspect(self, queries: tuple[FileQuery, ...], who: Credentials | None) -> tuple[FileFinding, ...]:
        self._called()
        found = InProcessFileInspector().inspect(queries, who)
        # Its programs are simulated, too: none of them need exist.
        found |= {query: FileFacts(start=FOUND) for query in queries if query.start is not None}
        return tuple(FileFinding(query, to_plain(facts)) for query, facts in found.items())

    def change_slices(self, uuid: str, change: SliceChange) -> SlicePlan:
        self._called()
        return SlicePlan(uuid)

    def close(self) -> None:
        self._news.close()

    def _called(self) -> None:
        if self.delay_s:
            threading.Event().wait(self.delay_s)
        if not self._answers.wait(self._answer_within_s):
            raise NodeUnreachable(f"the node did not answer within {self._answer_within_s:g} s")
