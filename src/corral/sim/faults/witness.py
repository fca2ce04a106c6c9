"""Records the real events on simulated nodes, independently of servers and ledgers."""

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from corral.core.model.runs.launch import Launch, member_of
from corral.core.model.units import MILLI_PER_DEVICE
from corral.core.model.view import View


@dataclass(frozen=True, slots=True)
class RunningLaunch:
    """A running launch and its node."""

    node: str
    launch: Launch


class Witness:
    """Receives every beginning and end of work, and notes forbidden events at once. Safe from any thread.

    Attributes:
        view: returns the view of the present server's ledger; None between two servers.
        running: running launches, by launch id.
        ends: the exit codes of ended launches; None for stopped or died ones.
        broken: a sentence for each promise that was broken.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begun: Counter[str] = Counter()
        self.view: Callable[[], View] | None = None
        self.running: dict[str, RunningLaunch] = {}
        self.ends: dict[str, int | None] = {}
        self.broken: list[str] = []

    @property
    def launches(self) -> int:
        """The number of launches that have begun."""
        return len(self._begun)

    def has_begun(self, launch_id: str) -> bool:
        """Whether this launch ever ran."""
        return launch_id in self._begun

    def began(self, node: str, launch: Launch, *, is_late: bool = False) -> None:
        """Record that a launch begins to run on a node; `is_late` if its node was asked before it fell silent."""
        with self._lock:
            self._begun[launch.id] += 1
            self.running[launch.id] = RunningLaunch(node, launch)
            if self._begun[launch.id] > 1:
                self.broken.append(f"launch {launch.id} ran {self._begun[launch.id]} times")
            beside = [one.launch for one in self.running.values() if one.node == node and one.launch.id != launch.id]
            self._look_at_devices(launch, beside)
            if not is_late:
                self._look_for_leftovers(node, launch, beside)

    def ended(self, launch_id: str, exit_code: int | None) -> None:
        """Record that a launch has ended."""
        with self._lock:
            self.running.pop(launch_id, None)
            self.ends[launch_id] = exit_code

    def _look_at_devices(self, launch: Launch, beside: list[Launch]) -> None:
        for use in launch.uses:
            uuid = use.device.uuid
            sharers = [(one.id, its) for one in (*beside, launch) for its in one.uses if its.device.uuid == uuid]
            used = sum(its.newcomer.grant.share_milli for _, its in sharers)
            if used > MILLI_PER_DEVICE:
                names = ", ".join(name for name, _ in sharers)
                self.broken.append(f"{used} milli of {uuid} are used at once, by {names}")

    def _look_for_leftovers(self, node: str, launch: Launch, beside: list[Launch]) -> None:
        """Check that a node runs nothing that the ledger has given up before a new launch begins there."""
        live = self.view().allocations if self.view is not None else None
        for one in beside:
            if live is not None and member_of(one.id)[0] not in live:
                self.broken.append(f"launch {launch.id} began on {node} while {one.id}, long given up, ran there")
