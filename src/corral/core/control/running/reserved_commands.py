"""Commands in reservations: a process that is to become one is kept from the GPUs of others."""

from corral.core.access.caller import Caller
from corral.core.access.permissions import may_change
from corral.core.control.nodes.node_registry import Nodes
from corral.core.control.querying.queries import Queries
from corral.core.model.errors import Conflict
from corral.core.model.jobs.job import Job, JobKind, ProcessIdentity
from corral.core.model.jobs.phase import Phase
from corral.core.ports.ledger import Ledger
from corral.core.sharing.enforcement import AS_ROOT


class ReservedCommands:
    """Fences the processes that ask for it, each by the reservation that it names."""

    def __init__(self, ledger: Ledger, queries: Queries, nodes: Nodes, server: ProcessIdentity | None) -> None:
        self._ledger = ledger
        self._queries = queries
        self._nodes = nodes
        self._boot_id = "" if server is None else server.boot_id

    def fence(self, job_id: str, pid: int, caller: Caller) -> str | None:
        """Keep process `pid`, and all that it will start, from GPUs outside of this reservation. Return why they are
        not kept from them, or only by accident; None if they are.

        The kernel has named the process as the caller's; 0 if it has not. Raises Conflict if the reservation does not
        hold its GPUs, Forbidden if it is another user's, and BackendFailed if its node cannot fence this process.
        """
        job = self._queries.find(job_id)
        may_change(caller, job)
        view = self._ledger.view()
        allocation = view.allocations.get(job.allocation_id or "")
        if not _holds(job) or allocation is None:
            raise Conflict(f"job {job.id} is not a reservation that holds GPUs now")
        if pid == 0 or caller.uid is None:
            return "the server cannot see which process asks"
        if len(allocation.placement.members) > 1:
            return "its GPUs are on several nodes"
        (member,) = allocation.placement.members
        node, host = view.nodes.get(member.node), self._nodes.agent(member.node).host
        if host is None or node is None:
            return "its GPUs are on another machine"
        if node.host_means.unfenced is not None:
            return node.host_means.unfenced
        uuids = tuple(grant.uuid for grant in member.grants)
        return host.fence(pid, caller.uid, self._boot_id, uuids) or (AS_ROOT if caller.uid == 0 else None)


def _holds(job: Job) -> bool:
    return job.spec.kind is JobKind.RESERVE and job.phase is Phase.RUNNING
