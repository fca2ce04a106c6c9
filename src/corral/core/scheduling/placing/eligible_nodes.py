"""Finds the nodes that could serve a job at all, and those on which it could start soonest."""

from collections.abc import Sequence
from dataclasses import replace

from corral.core.model.devices.device import NOTHING_TAKEN, DeviceCondition, Node, NodeStatus
from corral.core.model.fact import ConditionObserved
from corral.core.model.placing.fit import preference
from corral.core.model.view import View
from corral.core.scheduling.placing.node_by_node import fits
from corral.core.scheduling.state.draft import Draft, PlacementRequest, draft_of

_ANSWERING = (NodeStatus.READY, NodeStatus.DRAINING, NodeStatus.CORDONED)


def emptied(view: View) -> Draft:
    """The free capacity if nothing were running, every device were healthy, and every node took all jobs."""
    nodes = {name: _alone(node) for name, node in view.nodes.items()}
    bare = replace(
        view,
        nodes=nodes,
        allocations={},
        holders={},
        residents={},
        cordons={},
        health={},
        node_cordons={},
        conditions={},
        silences={},
    )
    healthy = bare.advance(
        ConditionObserved(DeviceCondition(device.uuid)) for node in view.nodes.values() for device in node.devices
    )
    return draft_of(healthy)


def _alone(node: Node) -> Node:
    """The node as if it took all jobs, and no other software used any of it."""
    if not node.taints and not node.others and node.cordoned is None and not any(node.taken):
        return node
    return replace(node, taints=(), others=(), taken=NOTHING_TAKEN, cordoned=None)


def eligible_nodes(view: View, wanted: PlacementRequest) -> tuple[str, ...]:
    """The names of the nodes that could serve a member of the request, regardless of their current use.

    If all members must be on one node, the node must be able to serve all of them.
    """
    empty, member = emptied(view), _member_of(wanted)
    return tuple(name for name in empty.capacity.names if _fits(empty, member, name))


def soonest_nodes(view: View, wanted: PlacementRequest, eligible: Sequence[str], most: int) -> tuple[str, ...]:
    """At most `most` of the eligible nodes that answer, starting with those on which the job could start soonest.

    Nodes on which a member fits now come first, then nodes where it must wait, then nodes that take no jobs. Among
    equals, nodes that the request prefers come first, then the first by name.
    """
    draft, member = draft_of(view), _member_of(wanted)

    def rank(name: str) -> tuple[bool, bool, int, str]:
        busy = not _fits(draft, member, name)
        liked = preference(member.request, draft.capacity.state(name), name)
        return view.status(name) is not NodeStatus.READY, busy, -liked, name

    answering = [name for name in eligible if view.status(name) in _ANSWERING]
    return tuple(sorted(answering, key=rank)[:most])


def _member_of(wanted: PlacementRequest) -> PlacementRequest:
    """The request that must fit on one node: one member, or the whole gang if it must be together."""
    if wanted.request.one_node:
        return wanted
    return replace(wanted, request=replace(wanted.request, gang_size=1, spread=False))


def _fits(draft: Draft, member: PlacementRequest, name: str) -> bool:
    return fits(draft, member, among=(name,))
