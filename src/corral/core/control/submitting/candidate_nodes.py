"""The nodes on which a submission could run, and the selection of nodes whose files are inspected for it."""

from collections.abc import Mapping

from corral.core.control.nodes.node_registry import Nodes
from corral.core.control.submitting.device_request import RequestRules, with_whole_node
from corral.core.control.submitting.submission_checks import check
from corral.core.model.devices.device import Node
from corral.core.model.errors import Refused
from corral.core.model.jobs.job import Request
from corral.core.model.jobs.submission import Submission
from corral.core.model.queues.queue import Pool
from corral.core.model.view import View
from corral.core.ports.ledger import Ledger
from corral.core.scheduling.placing.eligible_nodes import eligible_nodes, soonest_nodes
from corral.core.scheduling.queueing.barred_nodes import barred_to, kept_off
from corral.core.scheduling.queueing.pools import closed_pools_of
from corral.core.scheduling.state.draft import PlacementRequest

MOST_CANDIDATES = 4
"""The most nodes on which the files of a submission are inspected.

Nodes of a cluster mostly share their file systems, so more nodes seldom show more. Each node costs the submission a
call and waits for the slowest. One node would be too few: the node that is free now may be taken before the job starts,
and a missing directory might be missing on that node only.
"""

_MOST_WISHES = 1000
_Wish = tuple[Request, tuple[tuple[str, float], ...], tuple[str, ...]]
_Inventory = tuple[Mapping[str, Node], Mapping[str, Pool]]


class EligibleNodes:
    """Finds the nodes that could serve a submission, by `eligible_nodes`. Results are cached while nodes and pools stay
    the same.
    """

    def __init__(self) -> None:
        self._known: tuple[_Inventory | None, dict[_Wish, tuple[str, ...]]] = (None, {})

    def __call__(self, view: View, submission: Submission, user: str) -> tuple[str, ...]:
        """Return the names of these nodes. The request must be complete.

        A server's only node is returned without a check.
        """
        if len(view.nodes) == 1:
            return tuple(view.nodes)
        inventory, known = self._known
        stale = inventory is None or inventory[0] is not view.nodes or inventory[1] is not view.pools
        if stale or len(known) >= _MOST_WISHES:
            _, known = self._known = (view.nodes, view.pools), {}
        wanted = _wanted(view, submission, user)
        wish = wanted.request, wanted.speeds, wanted.closed_pools
        if wish not in known:
            known[wish] = eligible_nodes(view, wanted)
        return known[wish]


class CandidateNodes:
    """Chooses the nodes on which the files of a submission are inspected. Safe from any thread."""

    def __init__(self, ledger: Ledger, nodes: Nodes, rules: RequestRules, eligible: EligibleNodes) -> None:
        self._ledger = ledger
        self._nodes = nodes
        self._rules = rules
        self._eligible = eligible

    def only(self) -> tuple[str, ...] | None:
        """Return the server's only node, which is the candidate of every submission; None if it has several."""
        return tuple(self._nodes) if len(self._nodes) == 1 else None

    def of(self, submission: Submission, user: str) -> tuple[str, ...]:
        """Return at most MOST_CANDIDATES nodes that answer and where the job could start soonest; () if there are none.

        Also return () for a submission that will be refused, whatever its files are.
        """
        view = self._ledger.view()
        try:
            nodes = view.nodes.values()
            complete, _ = self._rules.settle(with_whole_node(submission, nodes), user, nodes)
            check(complete)
        except Refused:
            return ()
        eligible = self._eligible(view, complete, user)
        return soonest_nodes(view, _wanted(view, complete, user), eligible, MOST_CANDIDATES)


def _wanted(view: View, submission: Submission, user: str) -> PlacementRequest:
    closed_pools = closed_pools_of(view, user, submission.project)
    barred = barred_to(view, user, submission.container)
    return PlacementRequest(kept_off(submission.request, barred), speeds=submission.speeds, closed_pools=closed_pools)
