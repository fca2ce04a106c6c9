"""Setting nodes apart: cordon, drain, and giving them back. What these mean for a job is the scheduler's to say."""

import logging
from collections.abc import Callable, Sequence

from corral.access.caller import Caller
from corral.access.permissions import must_be_admin
from corral.clock import Clock
from corral.control.querying.nodes import node_rows
from corral.control.querying.wall_times import in_wall_time
from corral.model.answers import NodeRow
from corral.model.errors import NotFound, Refused, nearest
from corral.model.fact import Fact, NodeCordoned, NodeDraining, NodeUncordoned
from corral.model.units import format_duration
from corral.model.view import View
from corral.ports.ledger import Decided, Ledger
from corral.ports.telemetry import NodeContact

log = logging.getLogger(__name__)

LONGEST_DEADLINE_S = 30 * 86400.0


class NodeCordons:
    """Which nodes take jobs. Every change is for administrators and returns the node as it then is."""

    def __init__(self, ledger: Ledger, clock: Clock, contacts: Callable[[], Sequence[NodeContact]]) -> None:
        self._ledger = ledger
        self._clock = clock
        self._contacts = contacts

    def nodes(self) -> list[NodeRow]:
        """Every node, by name."""
        return in_wall_time(node_rows(self._ledger.view(), self._contacts()), self._clock)

    def unheard(self) -> frozenset[str]:
        """The nodes that do not answer, or are not yet taken back since."""
        return frozenset(self._ledger.view().silences)

    def cordon(self, node: str, reason: str, caller: Caller) -> NodeRow:
        """Nothing new starts on the node; what runs there goes on. Also ends a drain without giving the node back.

        One that is set apart already keeps its reason where none is given.
        """
        must_be_admin(caller, "setting a node apart")
        return self._commit(
            node,
            lambda view, at: NodeCordoned(node, reason or _reason_before(view, node), by=caller.user, at=at),
            f"cordoned by {_said(caller, reason)}",
        )

    def drain(self, node: str, reason: str, deadline_s: float | None, caller: Caller) -> NodeRow:
        """Nothing new starts on the node, and what still runs `deadline_s` from now is stopped and requeued."""
        must_be_admin(caller, "draining a node")
        if deadline_s is not None and not 0 <= deadline_s <= LONGEST_DEADLINE_S:
            most = format_duration(LONGEST_DEADLINE_S)
            raise Refused(f"deadline_s must be from 0 to {LONGEST_DEADLINE_S:g} ({most})", field="deadline_s")

        def draining(view: View, at: float) -> Fact:
            deadline = None if deadline_s is None else at + deadline_s
            return NodeDraining(node, reason or _reason_before(view, node), deadline, by=caller.user, at=at)

        return self._commit(node, draining, f"drained by {_said(caller, reason)}")

    def uncordon(self, node: str, caller: Caller) -> NodeRow:
        """Jobs may start on the node again."""
        must_be_admin(caller, "giving a node back")
        return self._commit(
            node, lambda _, at: NodeUncordoned(node, by=caller.user, at=at), f"given back by {_said(caller)}"
        )

    def _commit(self, node: str, fact: Callable[[View, float], Fact], done: str) -> NodeRow:
        known = {row.name for row in self.nodes()}
        if node not in known:
            raise NotFound(f"there is no node {node}; {nearest(node, known)} (`corral nodes` lists them)", field="node")
        at = self._clock.now()
        self._ledger.commit(lambda view: Decided((fact(view, at),), None)).result()
        log.info("node %s: %s", node, done)
        return next(row for row in self.nodes() if row.name == node)


def _said(caller: Caller, reason: str = "") -> str:
    return f"{caller.user}: {reason}" if reason else caller.user


def _reason_before(view: View, node: str) -> str:
    cordon = view.node_cordons.get(node)
    return "" if cordon is None else cordon.reason
