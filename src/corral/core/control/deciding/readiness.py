"""Asks nodes whether a planned start is possible now: the chosen devices are sampled again, and disks are checked.

All nodes are asked at once. A slow node delays the starts on other nodes by at most `QUICK_S`. Its own starts are
committed when its answer comes, and given up after `REFRESH_TIMEOUT_S`.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass

from corral.clock import Clock
from corral.core.control.nodes.node_registry import Nodes
from corral.core.model.devices.device import DeviceSample
from corral.core.model.errors import CorralError
from corral.core.model.fact import Observation
from corral.core.model.placing.plan import Start
from corral.core.model.view import View
from corral.core.ports.node import Readiness
from corral.core.ports.telemetry import NodeTelemetry

REFRESH_TIMEOUT_S = 2.0
"""The longest wait for the answer of a node. After that its jobs look for other devices."""

QUICK_S = 0.03
"""Starts on nodes that have answered wait at most this long for the other nodes."""

FRESH_S = 0.5
"""A late answer is valid for a start for this long."""


@dataclass(slots=True)
class _Question:
    """A question to a node. `asked_at` is monotonic seconds."""

    uuids: tuple[str, ...]
    asked_at: float
    view: View
    answer: "Future[tuple[Readiness, float]]"
    used: bool = False


@dataclass(frozen=True, slots=True)
class Checked:
    """The results of the questions.

    Attributes:
        starts: the starts that are possible now.
        observations: the observed conditions of devices, for the ledger.
        obstacles: the reasons that keep jobs from starting, by node.
        awaited: nodes that have not answered yet.
    """

    starts: tuple[Start, ...]
    observations: tuple[Observation, ...]
    obstacles: dict[str, str]
    awaited: frozenset[str] = frozenset()


class ReadinessChecks:
    """The questions of one controller, for its thread only. A late answer calls `wake`."""

    def __init__(self, nodes: Nodes, telemetry: NodeTelemetry, clock: Clock, wake: Callable[[], None]) -> None:
        self._nodes = nodes
        self._telemetry = telemetry
        self._clock = clock
        self._wake = wake
        self._open: dict[str, _Question] = {}

    def check(self, starts: Sequence[Start], view: View, obstructed: Iterable[str] = ()) -> Checked:
        """Ask the nodes of these starts and the `obstructed` nodes, and wait at most QUICK_S for their answers."""
        wanted = _uuids_by_node(starts)
        for node in obstructed:
            wanted.setdefault(node, ())
        for node, uuids in wanted.items():
            if node in self._nodes and node not in view.silences and not self._is_asked(node, uuids):
                self._ask(node, uuids, view)
        concerned = {node: self._open[node] for node in wanted if node in self._open and node not in view.silences}
        wait([question.answer for question in concerned.values()], timeout=QUICK_S)
        return self._checked(starts, concerned)

    def _checked(self, starts: Sequence[Start], concerned: dict[str, _Question]) -> Checked:
        ready: dict[str, set[str]] = {}
        samples: list[DeviceSample] = []
        obstacles: dict[str, str] = {}
        awaited = frozenset(node for node, question in concerned.items() if self._may_yet_answer(question))
        kept = _waiting_with(awaited, starts)
        for node, question in concerned.items():
            if node in awaited:
                question.answer.add_done_callback(lambda _: self._wake())
                continue
            answer = self._answer(question)
            question.used = True
            if isinstance(answer, str):
                samples += self._unreadable(question, answer)
            elif answer.obstacle is None:
                samples += answer.samples
                ready[node] = set(question.uuids)
                question.used = node not in kept
            else:
                obstacles[node] = answer.obstacle
                # If there are other nodes, jobs look for devices there.
                samples += self._unreadable(question, answer.obstacle) if len(self._nodes) > 1 else ()
        startable = tuple(start for start in starts if _is_ready(start, ready))
        before = min((question.view for question in concerned.values()), key=lambda view: view.version, default=None)
        observations = self._telemetry.judged(samples, before) if samples and before is not None else ()
        return Checked(startable, observations, obstacles, awaited)

    def _may_yet_answer(self, question: _Question) -> bool:
        age_s = self._clock.monotonic() - question.asked_at
        return not question.answer.done() and age_s < REFRESH_TIMEOUT_S

    def _unreadable(self, question: _Question, why: str) -> list[DeviceSample]:
        at = self._clock.now()
        return [DeviceSample(uuid, at, fault=why) for uuid in question.uuids]

    def _is_asked(self, node: str, uuids: tuple[str, ...]) -> bool:
        """Return whether a valid, unused answer to this question exists, or one may still come."""
        question = self._open.get(node)
        if question is None:
            return False
        if not question.answer.done():
            return True
        if question.used or question.answer.exception() is not None or not set(uuids) <= set(question.uuids):
            return False
        return self._clock.monotonic() - question.answer.result()[1] < FRESH_S

    def _ask(self, node: str, uuids: tuple[str, ...], view: View) -> None:
        def ready() -> tuple[Readiness, float]:
            return self._nodes.agent(node).launches.ready(uuids), self._clock.monotonic()

        self._open[node] = _Question(uuids, self._clock.monotonic(), view, self._nodes.worker(node).ask(ready))

    @staticmethod
    def _answer(question: _Question) -> Readiness | str:
        """Return the node's answer, or a sentence why there is none."""
        if not question.answer.done():
            return f"it did not answer within {REFRESH_TIMEOUT_S:g} s"
        error = question.answer.exception()
        if error is None:
            return question.answer.result()[0]
        if not isinstance(error, CorralError):
            raise error
        return str(error)


def _uuids_by_node(starts: Sequence[Start]) -> dict[str, tuple[str, ...]]:
    """Return the devices of these starts by node, each once and in order; () for a node whose starts use no device."""
    found: dict[str, dict[str, None]] = {}
    for start in starts:
        for member in start.placement.members:
            found.setdefault(member.node, {}).update((grant.uuid, None) for grant in member.grants)
    return {node: tuple(uuids) for node, uuids in found.items()}


def _waiting_with(awaited: Collection[str], starts: Sequence[Start]) -> frozenset[str]:
    """Return the nodes of gangs that wait for one of `awaited`.

    Their own answers stay valid. Otherwise a gang would start only if all its nodes answered at the same moment.
    """
    nodes_of = [{member.node for member in start.placement.members} for start in starts]
    return frozenset(node for nodes in nodes_of if not nodes.isdisjoint(awaited) for node in nodes)


def _is_ready(start: Start, ready: Mapping[str, Collection[str]]) -> bool:
    """Return whether every node of the start has confirmed the devices chosen there."""
    return all(
        member.node in ready and all(grant.uuid in ready[member.node] for grant in member.grants)
        for member in start.placement.members
    )
