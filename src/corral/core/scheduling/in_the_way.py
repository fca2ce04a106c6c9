"""Finds the running jobs that keep a waiting job from its nodes. Only those are named as what its start depends on."""

from collections.abc import Iterator, Sequence

from corral.core.model.jobs.job import Job, Request
from corral.core.model.placing.fit import HOST_CAUSES, Cause, Misfit, could_use, fit, name_misfit
from corral.core.model.placing.state import NodeState, node_state
from corral.core.model.view import View
from corral.core.scheduling.state.neighbours import keeps_apart, neighbours_in


def jobs_in_the_way(view: View, request: Request, closed_pools: Sequence[str] = ()) -> list[Job]:
    """The jobs that must end before a node can take the request, the oldest first; empty if no end of a job helps.

    Nodes that could never serve the request do not count. Devices of `closed_pools` do not count either.
    """
    found = {job.id: job for name in view.nodes for job in _on_node(view, request, name, closed_pools)}
    return sorted(found.values(), key=lambda job: job.sequence)


def _on_node(view: View, request: Request, name: str, closed_pools: Sequence[str]) -> list[Job]:
    """The blocking jobs on one node; empty if the node could serve the request now, or never."""
    state = node_state(view, name)
    if name_misfit(request, name, state.labels) is not None:
        return []
    held = [view.allocations[one] for one in view.residents.get(name, ())]
    jobs = [(one, view.jobs[one.job_id]) for one in held if one.job_id in view.jobs]
    apart = [job for _, job in jobs if keeps_apart(request, job)]
    barred = neighbours_in(view).misfit(request, name)
    if barred is not None and not (barred.cause is Cause.ANTI_AFFINITY and barred.eviction_helps):
        return []
    useful = _useful(view, request, name, state, closed_pools)
    lacks = fit(request, state, named=useful)
    if not isinstance(lacks, Misfit):
        if request.gang_size == 1:
            return apart
    elif lacks.never or not lacks.eviction_helps:
        return []
    elif lacks.cause in HOST_CAUSES:
        return [job for _, job in jobs]
    # A gang may need room for more members although one member fits.
    uuids = {view.nodes[name].devices[index].uuid for index in useful}
    return [job for one, job in jobs if job in apart or not uuids.isdisjoint(one.placement.uuids)]


def _useful(view: View, request: Request, name: str, state: NodeState, closed_pools: Sequence[str]) -> list[int]:
    """The node's devices that the request could have if they were free."""
    closed = {uuid for pool in closed_pools for uuid in view.set_apart.get(pool, {}).get(name, ())}
    return [index for index in _named(view, request, name, closed) if could_use(request, state.slots[index])]


def _named(view: View, request: Request, name: str, closed: set[str]) -> Iterator[int]:
    for index, device in enumerate(view.nodes[name].devices):
        if device.uuid not in closed and (not request.device_uuids or device.uuid in request.device_uuids):
            yield index
