"""Adopts a running process as a job, on the whole devices that it uses."""

from collections.abc import Callable, Sequence
from concurrent.futures import wait
from dataclasses import replace
from functools import partial

from corral.clock import Clock
from corral.core.access.caller import Caller
from corral.core.control.nodes.node_registry import Nodes
from corral.core.control.submitting import new_jobs
from corral.core.control.submitting.priorities import refuse_priority
from corral.core.lifecycle import starting
from corral.core.model.devices.means import Enforcement, Level
from corral.core.model.errors import Conflict, Forbidden, Refused
from corral.core.model.fact import AllocationMade, JobSubmitted
from corral.core.model.jobs.job import Job, ProcessIdentity, Request
from corral.core.model.jobs.submission import Submission
from corral.core.model.placing.allocation import Grant, Member, Placement
from corral.core.model.placing.plan import Start
from corral.core.model.units import MILLI_PER_DEVICE
from corral.core.model.view import View
from corral.core.ports.ledger import Decided, Ledger
from corral.core.ports.node import ProcessFound
from corral.core.ports.telemetry import Samples
from corral.core.scheduling.placing.gpu_info import gpu_info

NOT_LIMITED = Enforcement(Level.ADVISORY, Level.ADVISORY, reason="no fence: its processes are not started by Corral")
"""The enforcement of an adopted job. Corral did not start its process, so the process is not limited to its devices."""

FOUND_WITHIN_S = 3.0
"""The longest wait for a node's answer. An agent finds a process far sooner; a hanging node must not delay an
adoption.
"""


class Adoption:
    """Adopts processes. Nothing is launched for an adopted process: `watch` receives its allocation and watches the
    process.
    """

    def __init__(
        self,
        ledger: Ledger,
        nodes: Nodes,
        telemetry: Samples,
        clock: Clock,
        *,
        server: ProcessIdentity | None,
        watch: Callable[[str], None],
    ) -> None:
        """`server` is this server's own process, which cannot be adopted."""
        self._ledger = ledger
        self._nodes = nodes
        self._telemetry = telemetry
        self._clock = clock
        self._server = server
        self._watch = watch

    def adopt(self, pid: int, caller: Caller, submission: Submission) -> str:
        """Allocate the devices of a process to a new job, and return the job's id. The job runs once it is watched.

        Raises Refused if the process does not exist, uses no device, or is this server or one of its parents. Raises
        Forbidden if it is not the caller's, and Conflict if it is a job already, or another job holds a device that it
        uses.
        """
        refuse_priority(self._ledger.view().limits, submission.priority, caller)
        process, placement = self._at_work(self._found(pid, caller))
        identity = process.identity
        found = replace(submission, request=Request(devices=len(placement.uuids)))
        spec = new_jobs.spec_of(found, caller, self._ledger.view().limits, identity)
        job_id = self._ledger.next_ids(1)[0]
        now = self._clock.now()

        def decide(view: View) -> Decided[str]:
            _refuse_allocated(view, placement, identity)
            job = Job(job_id, int(job_id), spec, now)
            info = gpu_info(view, Start("", placement, "adopted"))
            first, made = starting.start(job, placement, by=caller.user, at=now, gpu_info=info, enforcement=NOT_LIMITED)
            assert isinstance(made, AllocationMade)
            return Decided((JobSubmitted(job, at=now, by=caller.user), first, made), made.allocation.id)

        self._watch(self._ledger.commit(decide, user=caller.user).result())
        return job_id

    def _found(self, pid: int, caller: Caller) -> list[ProcessFound]:
        """Return the processes with this pid that the caller may adopt, at most one per node."""
        found = find_process(self._ledger.view(), self._nodes, pid)
        if not found:
            raise Refused(no_process(self._nodes, pid), field="pid")
        own = [process for process in found if caller.admin or is_of(process, caller)]
        if not own:
            raise Forbidden(
                f"process {pid} runs as user id {found[0].uid}; only that user or an administrator may adopt it"
            )
        return own

    def _at_work(self, processes: Sequence[ProcessFound]) -> tuple[ProcessFound, Placement]:
        """Return the first process that uses devices, and a placement with these whole devices."""
        for process in processes:
            if self._server is not None and _is_in(self._server, process):
                raise Refused(
                    f"process {process.identity.pid} is this Corral server or a parent of it, and cancelling the "
                    "job would end the server; adopt the process that uses the GPU",
                    field="pid",
                )
            member = self._member(process)
            if member is not None:
                return process, Placement((member,))
        pid = processes[0].identity.pid
        raise Refused(f"process {pid} uses no GPU that this server can see; start its GPU work first", field="pid")

    def _member(self, process: ProcessFound) -> Member | None:
        """Return the whole devices of its node that a process uses by the last samples, None if it uses none."""
        node = self._ledger.view().nodes.get(process.identity.node)
        latest = self._telemetry.latest()
        used = {
            uuid
            for uuid, sample in latest.items()
            if any(user.pid in process.family for user in sample.processes or ())
        }
        devices = () if node is None else node.devices
        grants = tuple(Grant(device.uuid, MILLI_PER_DEVICE) for device in devices if device.uuid in used)
        return Member(process.identity.node, grants) if grants else None


def find_process(view: View, nodes: Nodes, pid: int) -> list[ProcessFound]:
    """Return the running processes with this pid, at most one per node, in the order of the nodes.

    All nodes are asked at once. A node that is silent, or does not answer within FOUND_WITHIN_S, is left out.
    """
    asked = {
        name: nodes.worker(name).ask(partial(agent.host.process, pid))
        for name, agent in nodes.items()
        if agent.host is not None and view.unanswering(name) is None
    }
    wait(asked.values(), timeout=FOUND_WITHIN_S)
    answers = {name: answer.result() for name, answer in asked.items() if answer.done() and answer.exception() is None}
    return [
        replace(process, identity=replace(process.identity, node=name))
        for name, process in answers.items()
        if process is not None
    ]


def no_process(nodes: Nodes, pid: int) -> str:
    """Return the message for a user when `find_process` has found nothing."""
    where = "this machine" if len(nodes) == 1 else "any node that answers"
    return f"there is no process {pid} on {where}"


def _is_in(server: ProcessIdentity, process: ProcessFound) -> bool:
    return process.identity.boot_id == server.boot_id and server.pid in process.family


def is_of(process: ProcessFound, caller: Caller) -> bool:
    """Return whether a process is the caller's."""
    return process.uid == caller.uid if process.user is None else process.user == caller.user


def _refuse_allocated(view: View, placement: Placement, process: ProcessIdentity) -> None:
    """Raise Conflict if a job holds a device that the process uses."""
    for uuid in placement.uuids:
        name = view.device_names().get(uuid, f"GPU {uuid}")
        for allocation_id in view.holders.get(uuid, ()):
            holder = view.jobs[view.allocations[allocation_id].job_id]
            if holder.spec.owner == process:
                raise Conflict(f"process {process.pid} is job {holder.id} already")
            raise Conflict(
                f"process {process.pid} uses {name}, which job {holder.id} holds; "
                "if the process belongs to that job there is nothing to adopt, else end one of the two first"
            )
