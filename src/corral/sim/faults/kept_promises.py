"""Compares the promises of a server with the real events on its nodes."""

from collections.abc import Iterable, Mapping, Sequence

from corral.clock import Clock
from corral.config import Settings
from corral.core.control.launching.dispatcher import HALF_BEGUN_S, RECHECK_INTERVAL_S
from corral.core.model.jobs.job import Job
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.allocation import Allocation
from corral.core.model.runs.launch import launch_id, member_of
from corral.core.model.units import MILLI_PER_DEVICE
from corral.core.model.view import View
from corral.core.ports.telemetry import Contact
from corral.sim.faults.faulty_node import FaultyNode
from corral.sim.faults.faulty_server import FaultyServer
from corral.sim.faults.witness import Witness


class KeptPromises:
    """Checks the promises after each event, once the server has nothing more to do, and at the end.

    Attributes:
        broken: a sentence for each promise that was broken.
    """

    def __init__(self, witness: Witness, nodes: Mapping[str, FaultyNode], clock: Clock, settings: Settings) -> None:
        self._witness = witness
        self._nodes = nodes
        self._clock = clock
        # The next recheck notices that the time is over, and the stop may take the whole grace period.
        self._patience_s = max(HALF_BEGUN_S, settings.kill_grace_s) + RECHECK_INTERVAL_S + settings.kill_grace_s
        self._half_since: dict[str, float] = {}
        self._gone_since: dict[str, float] = {}
        self._given_up: set[str] = set()

    @property
    def broken(self) -> list[str]:
        """A sentence for each broken promise, including those that the witness saw."""
        return self._witness.broken

    def look(self, server: FaultyServer) -> None:
        """Check all promises that must hold at any moment."""
        view = server.ledger.view()
        contacts = {each.node: each.contact for each in server.hub.contacts()}
        reached = {
            name for name, node in self._nodes.items() if contacts.get(name) is Contact.READY and not node.silent
        }
        gone = {name for name in self._nodes if contacts.get(name, Contact.GONE) is Contact.GONE}
        self._look_at_devices(view)
        self._look_for_unknown(view, reached)
        self._given_up |= {
            one.id for one in view.allocations.values() if {m.node for m in one.placement.members} & gone
        }
        self._look_at_running(view)
        if server.disk_full:
            # Nothing can be given up before it can be written.
            self._half_since.clear()
            self._gone_since.clear()
            return
        half = {one.id for one in view.allocations.values() if self._runs_half(one, view, reached)}
        self._half_since = self._for_too_long(half, self._half_since, "runs half")
        lost = {one.id for one in view.allocations.values() if self._has_lost_a_node(one, reached, gone)}
        self._gone_since = self._for_too_long(lost, self._gone_since, "is not given up, and its node is gone,")

    def look_at_ends(self, ended: Sequence[Job], acknowledged: Iterable[str]) -> None:
        """Check the end of every job, after all have ended."""
        jobs = {job.id: job for job in ended}
        for job_id in acknowledged:
            if job_id not in jobs:
                self.broken.append(f"job {job_id} was acknowledged and is not there")
        for job in jobs.values():
            self._look_at_end(job)

    def _look_at_devices(self, view: View) -> None:
        for uuid in view.holders:
            if view.allocated_milli(uuid) > MILLI_PER_DEVICE:
                self.broken.append(f"{uuid} is allocated more than once: {view.allocated_milli(uuid)} milli")

    def _look_for_unknown(self, view: View, reached: set[str]) -> None:
        """Check that on a reconciled node nothing runs that the ledger has given up."""
        for name, one in list(self._witness.running.items()):
            if one.node in reached and member_of(name)[0] not in view.allocations:
                self.broken.append(f"{name} runs on {one.node}, and the ledger has given it up")

    def _for_too_long(self, allocations: set[str], since: Mapping[str, float], what: str) -> dict[str, float]:
        """Return since when these states last. Each state that lasts too long breaks a promise."""
        now = self._clock.now()
        found = {one: since.get(one, now) for one in sorted(allocations)}
        for one, at in found.items():
            if now - at > self._patience_s:
                self.broken.append(f"allocation {one} {what} for {now - at:g} s")
        return found

    def _look_at_running(self, view: View) -> None:
        """Check that each job with phase RUNNING has begun, in this attempt and with all of its members.

        The state of a member on a node that was given up is unknown. It counts as having run.
        """
        for allocation in view.allocations.values():
            if view.jobs[allocation.job_id].phase is Phase.RUNNING and allocation.id not in self._given_up:
                for rank in range(len(allocation.placement.members)):
                    name = launch_id(allocation.id, rank)
                    if not self._witness.has_begun(name):
                        self.broken.append(f"job {allocation.job_id} is said to run, and {name} has never begun")

    def _runs_half(self, allocation: Allocation, view: View, reached: set[str]) -> bool:
        """Return whether a reachable member runs while another does not, as far as the server can know."""
        members = {launch_id(allocation.id, rank): one.node for rank, one in enumerate(allocation.placement.members)}
        if not any(name in self._witness.running and node in reached for name, node in members.items()):
            return False
        was_running = view.jobs[allocation.job_id].started_at is not None
        return any(
            name not in self._witness.running
            and self._witness.ends.get(name) != 0
            and (node in reached or not was_running)
            for name, node in members.items()
        )

    def _has_lost_a_node(self, allocation: Allocation, reached: set[str], gone: set[str]) -> bool:
        """Return whether a node is gone before its member ended well, while each other node is reached or gone, too."""
        nodes = {member.node for member in allocation.placement.members}
        lost = any(
            one.node in gone and self._witness.ends.get(launch_id(allocation.id, rank)) != 0
            for rank, one in enumerate(allocation.placement.members)
        )
        return lost and nodes <= reached | gone

    def _look_at_end(self, job: Job) -> None:
        members = range(job.spec.request.gang_size)
        last = [launch_id(f"{job.id}.{job.launches}", rank) for rank in members]
        codes = [self._witness.ends.get(name) for name in last]
        match job.phase:
            case Phase.SUCCEEDED if any(code != 0 for code in codes):
                self.broken.append(f"job {job.id} has SUCCEEDED, and its members ended with {codes}")
            case Phase.FAILED if job.exit_code and job.exit_code not in codes and job.signal is None:
                self.broken.append(f"job {job.id} FAILED with {job.exit_code}, and its members ended with {codes}")
            case Phase.FAILED if not job.exit_code and not job.reason:
                self.broken.append(f"job {job.id} FAILED without a reason")
            case Phase.LOST | Phase.CANCELLED | Phase.TIMED_OUT if not job.reason:
                self.broken.append(f"job {job.id} is {job.phase} without a reason")
            case phase if not phase.terminal:
                self.broken.append(f"job {job.id} never ended: it is {phase}")
