"""The watch over shared devices: the memory of jobs against their grants, and the daemons that they meet in.

Both tell the job in its log what they found and have it stopped: as FAILED for what it did itself, as LOST for what
became of its device. Either follows its retry policy.
"""

import logging
import threading
from collections.abc import Callable, Mapping

from corral.clock import Clock
from corral.lifecycle import stopping
from corral.model.device import Device
from corral.model.errors import CorralError
from corral.model.eviction import EvictionRule
from corral.model.fact import Fact, ServerPart
from corral.model.job import Job, Phase
from corral.model.means import Level, Means
from corral.model.units import MILLI_PER_DEVICE
from corral.model.view import View
from corral.ports.ledger import Decided, Ledger
from corral.ports.telemetry import Telemetry
from corral.sharing.guard import Action, Bound, GuardPolicy, GuardState, judge
from corral.sharing.mps import Mps
from corral.sharing.mps_daemon import MpsState

log = logging.getLogger(__name__)

Tell = Callable[[str, str], None]
"""Writes a line into a job's log."""


class Stopper:
    """Ends jobs that broke their bounds, or whose device broke under them."""

    def __init__(self, ledger: Ledger, clock: Clock, stop: Callable[[str], None]) -> None:
        self._ledger = ledger
        self._clock = clock
        self._stop = stop

    def end(
        self,
        job_id: str,
        ending: Phase,
        reason: str,
        by: ServerPart,
        *,
        rule: EvictionRule | None = None,
        for_job_id: str | None = None,
    ) -> None:
        """Have a live job stopped, to end in `ending`; FAILED and LOST follow its retries. Nothing if not live.

        `rule` says by which rule that is for the sake of others, and `for_job_id` of whom.
        """

        def decide(view: View) -> Decided[str | None]:
            job = view.jobs.get(job_id)
            facts: list[Fact] = []
            if job is not None:
                at = self._clock.now()
                facts = stopping.stop(job, ending, reason, by=by, at=at, rule=rule, for_job_id=for_job_id)
            return Decided(tuple(facts), job.allocation_id if job is not None and facts else None)

        allocation_id = self._ledger.commit(decide).result()
        if allocation_id is not None:
            self._stop(allocation_id)


class MemoryGuard:
    """Judges every new sample of the devices on which memory is guarded."""

    def __init__(
        self,
        ledger: Ledger,
        telemetry: Telemetry,
        clock: Clock,
        *,
        policy: GuardPolicy,
        tell: Tell,
        stopper: Stopper,
    ) -> None:
        self._ledger = ledger
        self._telemetry = telemetry
        self._clock = clock
        self._policy = policy
        self._tell = tell
        self._stopper = stopper
        self._state = GuardState()

    def look(self) -> None:
        """One round: warn those that are over their grant, stop those whose grace is up."""
        bounds = guarded(self._ledger.view())
        if not bounds and not self._state.watched:
            return
        verdicts, self._state = judge(
            bounds, self._telemetry.latest(), self._state, self._clock.monotonic(), self._policy
        )
        for verdict in verdicts:
            log.warning("%s", verdict.message)
            self._tell(verdict.job_id, verdict.message)
            if verdict.action is Action.STOP:
                self._stopper.end(
                    verdict.job_id, Phase.FAILED, verdict.why, ServerPart.MEMORY_GUARD, rule=EvictionRule.MEMORY
                )


def guarded(view: View) -> list[Bound]:
    """The memory that live jobs were granted where nothing but the guard holds them to it."""
    held = [
        allocation
        for allocation in view.allocations.values()
        if allocation.enforcement is not None and allocation.enforcement.memory is Level.GUARDED
    ]
    names: dict[str, str] = {}
    if held:
        names = {device.uuid: f"GPU {device.index}" for node in view.nodes.values() for device in node.devices}
    return [
        Bound(allocation.job_id, grant.uuid, grant.memory_mib, allocation.id, names.get(grant.uuid))
        for allocation in held
        for grant in allocation.placement.grants
        if grant.memory_mib is not None
    ]


class DaemonWatch:
    """Looks after the MPS daemons of devices that have tenants. One that went down took its clients with it."""

    def __init__(self, ledger: Ledger, mps: Mps, tell: Tell, stopper: Stopper) -> None:
        self._ledger = ledger
        self._mps = mps
        self._tell = tell
        self._stopper = stopper
        self._pids: dict[str, int] = {}

    def look(self) -> None:
        """One round: a daemon that is down, hung or at fault is started afresh, after its jobs were told and ended."""
        view = self._ledger.view()
        tenants = _mps_tenants(view)
        self._pids = {uuid: pid for uuid, pid in self._pids.items() if uuid in tenants}
        for uuid in tenants:
            found = view.device(uuid)
            if found is not None:
                self._look_at(found[1])

    def _look_at(self, device: Device) -> None:
        health = self._mps.health(device)
        before = self._pids.get(device.uuid)
        if health.state is MpsState.RUNNING and before in (None, health.pid):
            self._pids[device.uuid] = health.pid or 0
            return
        # Asked again: when the last tenant has just gone, its daemon was stopped on purpose.
        jobs = _mps_tenants(self._ledger.view()).get(device.uuid, [])
        if not jobs:
            return
        what = health.detail or ("another daemon is in its place" if health.pid else "it is gone")
        reason = f"the MPS daemon of {device.uuid} failed: {what}; every job that was a client of it is lost"
        log.error("%s", reason)
        for job in jobs:
            self._tell(job.id, reason)
            self._stopper.end(job.id, Phase.LOST, reason, ServerPart.MPS_WATCH)
        self._pids.pop(device.uuid, None)
        if health.state is not MpsState.RUNNING:
            self._mps.prepare(device)


def _mps_tenants(view: View) -> Mapping[str, list[Job]]:
    """Jobs that run as clients of MPS, by device."""
    tenants: dict[str, list[Job]] = {}
    for job in stopping.live(view):
        for grant in view.allocations[job.allocation_id or ""].placement.grants:
            if job.phase is Phase.RUNNING and _is_mps_client(view, grant.uuid, grant.share_milli):
                tenants.setdefault(grant.uuid, []).append(job)
    return tenants


def _is_mps_client(view: View, uuid: str, share_milli: int) -> bool:
    """Whether who has so much of the device is a client of its MPS daemon."""
    found = view.device(uuid)
    return found is not None and found[1].means is Means.MPS and share_milli < MILLI_PER_DEVICE


class Patrol:
    """Calls `look` again and again on a thread of its own; a round that fails is logged and the next one goes on."""

    def __init__(self, name: str, look: Callable[[], None], interval_s: float) -> None:
        self._look = look
        self._interval_s = interval_s
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def close(self) -> None:
        """End after the round in hand."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)

    def _run(self) -> None:
        while not self._closing.wait(self._interval_s):
            try:
                self._look()
            except CorralError as error:
                log.error("%s: %s", self._thread.name, error)
