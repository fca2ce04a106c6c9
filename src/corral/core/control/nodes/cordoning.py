"""Cordons of nodes and devices, and drains of nodes. The scheduler decides how these affect jobs."""

import logging
from collections.abc import Callable, Sequence

from corral.clock import Clock
from corral.core.access.caller import Caller
from corral.core.access.permissions import must_be_admin
from corral.core.control.querying.listing_rows import node_rows
from corral.core.control.querying.queries import Queries
from corral.core.control.querying.wall_times import in_wall_time
from corral.core.model.answers.devices import DeviceRow
from corral.core.model.answers.site import NodeRow
from corral.core.model.errors import NotFound, Refused, nearest
from corral.core.model.fact import DeviceCordoned, DeviceUncordoned, Fact, NodeCordoned, NodeDraining, NodeUncordoned
from corral.core.model.units import format_duration
from corral.core.model.view import View
from corral.core.ports.ledger import Decided, Ledger
from corral.core.ports.telemetry import NodeContact

log = logging.getLogger(__name__)

LONGEST_DEADLINE_S = 30 * 86400.0


class NodeCordons:
    """Cordons, drains and uncordons nodes. Each change requires an administrator and returns the changed node."""

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        contacts: Callable[[], Sequence[NodeContact]],
        via: Callable[[str], str | None] = lambda node: None,
    ) -> None:
        """`via` tells how a node is reached."""
        self._via = via
        self._ledger = ledger
        self._clock = clock
        self._contacts = contacts

    def nodes(self) -> list[NodeRow]:
        """Return every node, by name."""
        return in_wall_time(node_rows(self._ledger.view(), self._contacts(), self._via), self._clock)

    def unheard(self) -> frozenset[str]:
        """Return the nodes that do not answer or are not reconciled yet."""
        return frozenset(self._ledger.view().silences)

    def cordon(self, node: str, reason: str, caller: Caller) -> NodeRow:
        """Let no new job start on the node; running jobs go on. A drain ends: the node stays cordoned.

        A cordoned node keeps its reason if none is given.
        """
        must_be_admin(caller, "cordoning a node")
        return self._commit(
            node,
            lambda view, at: NodeCordoned(node, reason or _reason_before(view, node), by=caller.user, at=at),
            f"cordoned by {_said(caller, reason)}",
        )

    def drain(self, node: str, reason: str, deadline_s: float | None, caller: Caller) -> NodeRow:
        """Let no new job start on the node. Jobs that still run `deadline_s` from now are stopped and requeued."""
        must_be_admin(caller, "draining a node")
        if deadline_s is not None and not 0 <= deadline_s <= LONGEST_DEADLINE_S:
            most = format_duration(LONGEST_DEADLINE_S)
            raise Refused(f"deadline_s must be from 0 to {LONGEST_DEADLINE_S:g} ({most})", field="deadline_s")

        def draining(view: View, at: float) -> Fact:
            deadline = None if deadline_s is None else at + deadline_s
            return NodeDraining(node, reason or _reason_before(view, node), deadline, by=caller.user, at=at)

        return self._commit(node, draining, f"drained by {_said(caller, reason)}")

    def uncordon(self, node: str, caller: Caller) -> NodeRow:
        """Let jobs start on the node again."""
        must_be_admin(caller, "uncordoning a node")
        return self._commit(
            node, lambda _, at: NodeUncordoned(node, by=caller.user, at=at), f"uncordoned by {_said(caller)}"
        )

    def _commit(self, node: str, fact: Callable[[View, float], Fact], done: str) -> NodeRow:
        known = {row.name for row in self.nodes()}
        if node not in known:
            raise NotFound(f"there is no node {node}; {nearest(node, known)} (`corral nodes` lists them)", field="node")
        at = self._clock.now()
        self._ledger.commit(lambda view: Decided((fact(view, at),), None)).result()
        log.info("node %s: %s", node, done)
        return next(row for row in self.nodes() if row.name == node)


class DeviceCordons:
    """Cordons and uncordons devices. Each change requires an administrator and returns the changed device.

    `Queries.uuid_of` resolves the name of a device.
    """

    def __init__(self, ledger: Ledger, clock: Clock, queries: Queries) -> None:
        self._ledger = ledger
        self._clock = clock
        self._queries = queries

    def cordon(self, device: str, reason: str, caller: Caller) -> tuple[DeviceRow, ...]:
        """Let no new job start on the device; running jobs go on.

        A cordoned device keeps its reason if none is given.
        """
        must_be_admin(caller, "cordoning a device")
        uuid = self._queries.uuid_of(device)

        def cordoned(view: View, at: float) -> Fact:
            return DeviceCordoned(uuid, reason or view.cordons.get(uuid, ""), by=caller.user, at=at)

        return self._commit(uuid, cordoned, f"cordoned by {_said(caller, reason)}")

    def uncordon(self, device: str, caller: Caller) -> tuple[DeviceRow, ...]:
        """Let jobs start on the device again."""
        must_be_admin(caller, "uncordoning a device")
        uuid = self._queries.uuid_of(device)
        return self._commit(
            uuid, lambda _, at: DeviceUncordoned(uuid, by=caller.user, at=at), f"uncordoned by {_said(caller)}"
        )

    def _commit(self, uuid: str, fact: Callable[[View, float], Fact], done: str) -> tuple[DeviceRow, ...]:
        at = self._clock.now()
        self._ledger.commit(lambda view: Decided((fact(view, at),), None)).result()
        log.info("GPU %s: %s", uuid, done)
        return tuple(row for row in self._queries.devices() if row.uuid == uuid)


def _said(caller: Caller, reason: str = "") -> str:
    return f"{caller.user}: {reason}" if reason else caller.user


def _reason_before(view: View, node: str) -> str:
    cordon = view.node_cordons.get(node)
    return "" if cordon is None else cordon.reason
