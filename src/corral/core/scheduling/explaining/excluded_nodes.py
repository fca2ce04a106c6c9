"""Counts the nodes that are ruled out by a job, its rules or the rules of jobs that run there, by reason."""

from collections import Counter

from corral.core.model.jobs.job import Request
from corral.core.model.placing.fit import NEIGHBOUR_CAUSES, Cause, Misfit
from corral.core.model.placing.placement_rules import allows, untolerated
from corral.core.model.placing.state import members_on
from corral.core.model.units import count_of
from corral.core.model.view import View
from corral.core.scheduling.explaining.phrases import nodes_called
from corral.core.scheduling.state.neighbours import Neighbours, neighbours_in

_MOST_CLAUSES = 4


def excluded_nodes(view: View, request: Request) -> str | None:
    """A clause for each reason that rules nodes out, starting with the most frequent one; None if no rule excludes any.

    "3 nodes have a taint that it does not tolerate: dedicated=infra:NoSchedule; its node affinity rules out 1 node".
    """
    neighbours = neighbours_in(view)
    reasons = Counter(
        reason for name in sorted(view.nodes) if (reason := _reason(view, request, name, neighbours)) is not None
    )
    if not reasons:
        return None
    clauses = [
        text.replace("{nodes}", count_of(count, "node")).replace("{have}", "has" if count == 1 else "have")
        for text, count in sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    ]
    more = len(clauses) - _MOST_CLAUSES
    return "; ".join(clauses[:_MOST_CLAUSES]) + (f"; and {more} more reasons" if more > 0 else "")


def _reason(view: View, request: Request, name: str, neighbours: Neighbours) -> str | None:
    node = view.nodes[name]
    rules = request.rules
    if request.named_nodes and name not in request.named_nodes:
        return None
    if name in request.excluded_nodes:
        return f"it excludes {nodes_called(_excluded_here(view, request))}"
    if rules is not None and not allows(rules, node.labels, name):
        return "its node affinity rules out {nodes}"
    taint = untolerated(node.taints, rules)
    if taint is not None:
        return f"{{nodes}} {{have}} a taint that it does not tolerate: {taint}"
    if node.most_members is not None and len(members_on(view, name)) >= node.most_members:
        return "{nodes} {have} no room for another pod"
    misfit = neighbours.misfit(request, name)
    return None if misfit is None else neighbour_clause(request, misfit)


def _excluded_here(view: View, request: Request) -> list[str]:
    return sorted(name for name in set(request.excluded_nodes) if name in view.nodes)


def neighbour_clause(request: Request, misfit: Misfit) -> str:
    """A clause on the running jobs that rule out a node, with the placeholders {nodes} and {have}."""
    assert misfit.cause in NEIGHBOUR_CAUSES, "only these are about neighbours"
    if misfit.cause is Cause.AFFINITY:
        return "{nodes} {have} no running job that it must be with"
    if misfit.cause is Cause.SPREAD:
        return f"{{nodes}} {{have}} already more of its kind than others, by more than {misfit.wanted}"
    if request.avoid_jobs:
        return f"{{nodes}} {{have}} {', '.join(request.avoid_jobs)} running, which must not share a node with it"
    return "{nodes} {have} a running job that must not share a node with it"
