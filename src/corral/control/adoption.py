"""Making a job of a process that runs already, on the whole devices that it uses."""

import os
from collections.abc import Callable, Collection
from dataclasses import replace

from corral.access.caller import Caller
from corral.clock import Clock
from corral.control.submitting import new_jobs
from corral.control.submitting.priorities import refuse_priority
from corral.lifecycle import starting
from corral.model.allocation import Grant, Member, Placement
from corral.model.errors import Conflict, Forbidden, Refused
from corral.model.fact import AllocationMade, JobSubmitted
from corral.model.job import Job, ProcessIdentity, Request
from corral.model.means import Enforcement, Level
from corral.model.plan import Start
from corral.model.submission import Submission
from corral.model.units import MILLI_PER_DEVICE
from corral.model.view import View
from corral.ports.host import Processes
from corral.ports.ledger import Decided, Ledger
from corral.ports.telemetry import Telemetry
from corral.scheduling.placing.gpu_info import gpu_info

UNHELD = Enforcement(Level.ADVISORY, Level.ADVISORY)
"""Nobody else is put on its devices, and nothing keeps to them a process that was started without Corral."""


class Adoption:
    """Nothing is launched for such a job: `watch` is told its allocation, and looks after the process."""

    def __init__(
        self, ledger: Ledger, telemetry: Telemetry, processes: Processes, clock: Clock, *, watch: Callable[[str], None]
    ) -> None:
        self._ledger = ledger
        self._telemetry = telemetry
        self._processes = processes
        self._clock = clock
        self._watch = watch

    def adopt(self, pid: int, caller: Caller, submission: Submission) -> str:
        """Make an allocation of a process and the devices it uses; the id of its job, which runs once it is watched.

        Raises Refused when the process does not exist, uses no device, or would take this server with it at its end;
        Forbidden when it is not the caller's; Conflict when it is a job already, or another job holds a device that
        it uses.
        """
        refuse_priority(self._ledger.view().limits, submission.priority, caller)
        identity = self._identity(pid, caller)
        family = self._processes.family(pid)
        if os.getpid() in family:
            raise Refused(
                f"process {pid} is this Corral server or one that it came from, and cancelling the job would end "
                "them all; adopt the process that works on the GPU",
                field="pid",
            )
        placement = self._placement_of(family)
        if placement is None:
            raise Refused(f"process {pid} uses no GPU that this server can see; start its GPU work first", field="pid")
        found = replace(submission, request=Request(devices=len(placement.uuids)))
        spec = new_jobs.spec_of(found, caller, self._ledger.view().limits, identity)
        job_id = self._ledger.next_ids(1)[0]
        now = self._clock.now()

        def decide(view: View) -> Decided[str]:
            _refuse_held(view, placement, identity)
            job = Job(job_id, int(job_id), spec, now)
            info = gpu_info(view, Start("", placement, "adopted"))
            first, made = starting.start(job, placement, by=caller.user, at=now, gpu_info=info, enforcement=UNHELD)
            assert isinstance(made, AllocationMade)
            return Decided((JobSubmitted(job, at=now, by=caller.user), first, made), made.allocation.id)

        self._watch(self._ledger.commit(decide).result())
        return job_id

    def _identity(self, pid: int, caller: Caller) -> ProcessIdentity:
        identity = self._processes.identify(pid)
        if identity is None:
            raise Refused(f"there is no process {pid} on this machine", field="pid")
        owner_uid = self._processes.uid(identity)
        if not caller.admin and owner_uid != caller.uid:
            raise Forbidden(
                f"process {pid} runs as user id {owner_uid}; only that user or an administrator may adopt it"
            )
        return identity

    def _placement_of(self, pids: Collection[int]) -> Placement | None:
        """The whole devices that these processes use, by the last samples; None when they use none."""
        used = {
            uuid
            for uuid, sample in self._telemetry.latest().items()
            if any(process.pid in pids for process in sample.processes or ())
        }
        members = []
        for name, node in sorted(self._ledger.view().nodes.items()):
            grants = tuple(Grant(d.uuid, MILLI_PER_DEVICE) for d in node.devices if d.uuid in used)
            if grants:
                members.append(Member(name, grants))
        return Placement(tuple(members)) if members else None


def _refuse_held(view: View, placement: Placement, process: ProcessIdentity) -> None:
    """Raise Conflict when a job holds a device that the process uses."""
    for uuid in placement.uuids:
        found = view.device(uuid)
        for allocation_id in view.holders.get(uuid, ()):
            holder = view.jobs[view.allocations[allocation_id].job_id]
            if holder.spec.owner == process:
                raise Conflict(f"process {process.pid} is job {holder.id} already")
            raise Conflict(
                f"process {process.pid} uses GPU {found[1].index if found else uuid}, which job {holder.id} holds; "
                "if the process belongs to that job there is nothing to adopt, else end one of the two first"
            )
