"""A node with simulated work, which can fail in the ways that real nodes fail."""

import threading
from dataclasses import replace
from typing import Any

from corral.clock import Clock
from corral.core.model.answers.devices import SlicePlan
from corral.core.model.devices.device import DeviceSample, Node
from corral.core.model.errors import NodeUnreachable
from corral.core.model.jobs.input import TerminalSize
from corral.core.model.jobs.notification import Notification
from corral.core.model.runs.launch import Launch, LaunchPhase
from corral.core.ports.host import Credentials, FileQuery
from corral.core.ports.images import ImageFacts
from corral.core.ports.node import (
    DeviceTest,
    DeviceTestReport,
    ExecOutput,
    FileFinding,
    InputTaken,
    Keep,
    LogChunk,
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
from corral.host.node.agent_calls import CarriedAgent, Method
from corral.host.node.files.file_inspector import InProcessFileInspector
from corral.host.node.news import NewsBuffer
from corral.host.runtimes.simulated import SimulatedRuntime
from corral.wire import to_plain

ANSWER_WITHIN_S = 5.0
"""The time after which a call to a silent node fails."""

_AT_WORK = (LaunchPhase.CLAIMED, LaunchPhase.RUNNING)


class _Part:
    def __init__(self, node: "SimulatedNode") -> None:
        self._node = node


class SimulatedLaunches(_Part):
    """Implements `corral.core.ports.node.Launches` over the runtime of a simulated node."""

    def ready(self, uuids: tuple[str, ...]) -> Readiness:
        samples = self._node.samples
        return Readiness(tuple(samples[uuid] for uuid in uuids if uuid in samples), self._node.obstacle)

    def reconcile(self, allocated: tuple[Launch, ...], waiting: tuple[str, ...]) -> Reconciled:
        known, runtime = {launch.id for launch in allocated}, self._node.runtime
        unknown = [launch_id for launch_id in runtime.launches() if launch_id not in known]
        running = tuple(one for one in unknown if runtime.report(one).phase in _AT_WORK)
        for launch_id in unknown:
            runtime.stop(launch_id)
            runtime.forget(launch_id)
        for launch in allocated:
            if runtime.report(launch.id).phase is LaunchPhase.UNKNOWN:
                runtime.declare_lost(launch.id, ran=launch.job.started_at is not None)
            if launch.job.spec.time_limit_s is not None:
                runtime.set_time_limit(launch.id, launch.job.spec.time_limit_s)
        return Reconciled((), running)

    def rendezvous(self, launch_id: str) -> Rendezvous:
        return Rendezvous("127.0.0.1", 29_500, 29_501, "secret")

    def launch(self, launch: Launch) -> None:
        self._node.runtime.launch(launch)

    def stop(self, launch_id: str) -> None:
        self._node.runtime.stop(launch_id)

    def signal(self, launch_id: str, name: str) -> None:
        self._node.signals.append((launch_id, name))

    def tell_to_save(self, launch_id: str, name: str, stops_in_s: float | None) -> None:
        self._node.signals.append((launch_id, name))

    def set_time_limit(self, launch_id: str, time_limit_s: float) -> None:
        self._node.runtime.set_time_limit(launch_id, time_limit_s)

    def reports(self, launch_ids: tuple[str, ...]) -> Reports:
        reports = (self._node.runtime.report(launch_id) for launch_id in launch_ids)
        saved_at = self._node.saved_at
        return Reports(
            self._node.clock.now(), tuple(replace(one, saved_at=saved_at.get(one.launch_id)) for one in reports)
        )

    def declare_lost(self, launch_id: str, *, ran: bool) -> bool:
        return self._node.runtime.declare_lost(launch_id, ran=ran)

    def forget(self, launch_id: str, *, keep: Keep) -> None:
        self._node.runtime.forget(launch_id)


class SimulatedLogs(_Part):
    """Implements `corral.core.ports.node.Logs`. The logs contain only notes."""

    def read(self, job_id: str, rank: int, offset: int, max_bytes: int, mark: str) -> LogChunk:
        return LogChunk("", None)

    def written_since(self, job_id: str, rank: int, ago_s: float, mark: str) -> int | None:
        return None

    def note(self, job_id: str, rank: int, line: str) -> None:
        self._node.notes.append((job_id, rank, line))


class SimulatedInputs:
    """Implements `corral.core.ports.node.Inputs`. No launch takes input."""

    def write(self, launch_id: str, offset: int, data: str, *, end: bool) -> InputTaken | None:
        return None

    def resize(self, launch_id: str, size: TerminalSize) -> None:
        """Do nothing: no launch has a terminal."""


class SimulatedExecutions(_Part):
    """Implements `corral.core.ports.node.InnerCommands`: commands that run until they are ended, and print nothing."""

    def begin(self, exec_id: str, launch_id: str, command: InnerCommand) -> None:
        self._node.commands[exec_id] = (launch_id, command)

    def write(self, exec_id: str, offset: int, data: str, *, end: bool) -> InputTaken | None:
        return InputTaken(offset, True) if exec_id in self._node.commands else None

    def resize(self, exec_id: str, size: TerminalSize) -> None:
        """Do nothing: no command has a terminal."""

    def read(self, exec_id: str, after: int) -> ExecOutput | None:
        return ExecOutput(after) if exec_id in self._node.commands else None

    def end(self, exec_id: str) -> None:
        self._node.commands.pop(exec_id, None)


class SimulatedHost(_Part):
    """Implements `corral.core.ports.node.HostAccess` with values that a test sets."""

    def process(self, pid: int) -> ProcessFound | None:
        return self._node.processes.get(pid)

    def fence(self, pid: int, uid: int, boot_id: str, uuids: tuple[str, ...]) -> str | None:
        self._node.fenced[pid] = uuids
        return None

    def inspect(self, queries: tuple[FileQuery, ...], who: Credentials | None) -> tuple[FileFinding, ...]:
        found = InProcessFileInspector().inspect(queries, who)
        # The programs of jobs are simulated and need not exist.
        found |= {query: FileFacts(start=FOUND) for query in queries if query.start is not None}
        return tuple(FileFinding(query, to_plain(facts)) for query, facts in found.items())

    def image(self, name: str) -> ImageFacts | None:
        return self._node.images.get(name)

    def rescan(self, allocated: tuple[Launch, ...]) -> tuple[str, ...]:
        return ()

    def notify(self, notification: Notification) -> bool:
        of_user = [one for one in self._node.notifications.values() if one.user == notification.user]
        if notification.id not in self._node.notifications and len(of_user) >= self._node.most_notifications:
            return False
        self._node.notifications.setdefault(notification.id, notification)
        return True

    def change_slices(self, uuid: str, change: SliceChange) -> SlicePlan:
        return SlicePlan(uuid)

    def driver_log(self, uuid: str) -> tuple[str, ...] | None:
        return None

    def reaches(self, meeting: Rendezvous) -> str | None:
        return self._node.unreached

    def test_device(self, test: DeviceTest) -> DeviceTestReport | None:
        return DeviceTestReport()


class SimulatedNode(CarriedAgent):
    """Implements `corral.core.ports.node.NodeAgent` over a simulated runtime, which outlives it.

    Attributes:
        obstacle: why nothing can be started, such as a full disk.
        unreached: why it reaches no meeting place of a gang on another node.
        delay_s: the time that each call takes.
        notes: lines that were written into logs, with their job and rank.
        notifications: requested notifications, by id; of each user at most `most_notifications`.
        signals: the signals sent, with their launches.
        saved_at: when the last whole checkpoints were named, by launch.
        commands: commands inside launches, by their ids.
        processes: the process table, as far as it is used.
        fenced: the devices that processes of no launch are kept to, by pid.
        images: the images of containers that it has, by name.
        samples: the samples of devices, by UUID, that are read before a start.
        parts: the objects that answer calls, by the names of the parts of an agent.
    """

    def __init__(self, runtime: SimulatedRuntime, clock: Clock, *, answer_within_s: float = ANSWER_WITHIN_S) -> None:
        super().__init__(self._carry)
        self.accounts = None
        self.runtime = runtime
        self.obstacle: str | None = None
        self.unreached: str | None = None
        self.delay_s = 0.0
        self.notes: list[tuple[str, int, str]] = []
        self.notifications: dict[str, Notification] = {}
        self.most_notifications = 1000
        self.signals: list[tuple[str, str]] = []
        self.saved_at: dict[str, float] = {}
        self.commands: dict[str, tuple[str, InnerCommand]] = {}
        self.processes: dict[int, ProcessFound] = {}
        self.fenced: dict[int, tuple[str, ...]] = {}
        self.samples: dict[str, DeviceSample] = {}
        self.images: dict[str, ImageFacts] = {}
        self.clock = clock
        self._answer_within_s = answer_within_s
        self._answers = threading.Event()
        self._answers.set()
        self.parts: dict[str, Any] = {
            "news": NewsBuffer(clock),
            "launches": SimulatedLaunches(self),
            "logs": SimulatedLogs(self),
            "inputs": SimulatedInputs(),
            "executions": SimulatedExecutions(self),
            "host": SimulatedHost(self),
        }

    def fall_silent(self) -> None:
        """Stop answering calls; running work goes on."""
        self._answers.clear()

    def answer_again(self) -> None:
        """Answer calls again, including those that wait."""
        self._answers.set()

    def restart(self) -> None:
        """Replace the agent by a new one, which has no memory of the old one."""
        self.parts["news"] = NewsBuffer(self.clock)
        self._answers.set()

    def show(self, node: Node, samples: tuple[DeviceSample, ...]) -> None:
        """Set the inventory and the samples of the devices."""
        self.parts["news"].sampled(node, samples)

    def launch_changed(self, launch_id: str) -> None:
        """Report that a launch has a new report."""
        self.parts["news"].launch_changed(launch_id)

    def close(self) -> None:
        self.parts["news"].close()

    def _carry(self, method: Method, *arguments: Any, **named: Any) -> Any:
        if self.delay_s:
            threading.Event().wait(self.delay_s)
        if not self._answers.wait(self._answer_within_s):
            raise NodeUnreachable(f"the node did not answer within {self._answer_within_s:g} s")
        return getattr(self.parts[method.part], method.name)(*arguments, **named)
