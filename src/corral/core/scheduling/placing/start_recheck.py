"""Finds what a job could use, and tests again whether a planned start still fits."""

from dataclasses import replace

from corral.core.model.jobs.job import Request
from corral.core.model.placing.fit import Cause, Misfit, could_use, name_misfit, still_fits
from corral.core.model.placing.plan import Start
from corral.core.model.placing.state import NodeState, node_state
from corral.core.model.view import View
from corral.core.scheduling.state.neighbours import anything_repels, member_resident, neighbours_in
from corral.core.scheduling.state.packed_request import request_of
from corral.core.scheduling.state.timeline import changed


def useful_devices(view: View, request: Request) -> frozenset[str]:
    """The UUIDs of all devices that the request could use if they were free."""
    return frozenset(
        device.uuid
        for name, node in view.nodes.items()
        if request.allows_node(name)
        for device, slot in zip(node.devices, node_state(view, name).slots, strict=True)
        if could_use(request, slot, usable=request.may_use(device))
    )


def verify(view: View, start: Start) -> Misfit | None:
    """The reason why a planned start no longer fits in the view, by the test that planned it; None if it still fits."""
    request = request_of(view, view.jobs[start.job_id])
    chosen = frozenset(start.placement.uuids)
    states: dict[str, NodeState] = {}
    neighbours = neighbours_in(view) if request.by_neighbours else None
    resident = member_resident(request)
    for member in start.placement.members:
        if member.node not in view.nodes:
            return Misfit(Cause.NO_NODE, 1, 0, node=member.node)
        state = states.get(member.node) or node_state(view, member.node, only=chosen)
        devices = [device for device in view.nodes[member.node].devices if device.uuid in chosen]
        uuids = [device.uuid for device in devices]
        if any(grant.uuid not in uuids for grant in member.grants):
            return Misfit(Cause.NO_NODE, len(member.grants), 0, node=member.node)
        if any(request.avoids(device) for device in devices):
            return Misfit(Cause.AVOIDED, len(member.grants), 0, node=member.node)
        slots = tuple(uuids.index(grant.uuid) for grant in member.grants)
        misfit = still_fits(request, state, slots, member.grants)
        misfit = misfit or name_misfit(request, member.node, state.labels)
        if misfit is None and (neighbours is not None or anything_repels(view, member.node)):
            misfit = (neighbours or neighbours_in(view)).misfit(request, member.node)
        if misfit is not None:
            return replace(misfit, node=member.node)
        if neighbours is not None and resident is not None:
            neighbours.arrive(member.node, resident)
        states[member.node] = changed(state, member, slots, -1)
    return None
