"""Applies the rules of jobs about each other: whether a job may run on a node, by what runs there and elsewhere."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from corral.core.model.devices.device import Node
from corral.core.model.jobs.job import Job, Request
from corral.core.model.placing.fit import Cause, Misfit
from corral.core.model.placing.placement_rules import (
    NAME_TAG,
    LabelExpression,
    Labels,
    Operator,
    PlacementRules,
    Resident,
    Selector,
    Spread,
    allows,
    labels_of,
    meets,
)
from corral.core.model.view import View


def resident_of(job: Job) -> Resident:
    """The properties of a job that the rules of other jobs see."""
    rules = job.spec.request.rules
    named = ((NAME_TAG, job.spec.name),)
    return Resident(named) if rules is None else Resident((*named, *rules.tags), rules.apart)


def keeps_apart(request: Request, job: Job) -> bool:
    """Whether the request may not be on a node with this job, by the rules of either."""
    there = (resident_of(job),)
    return bool(_names_met(request, there) or _repelled(request.rules, there))


def member_resident(request: Request) -> Resident | None:
    """The properties of one member of a gang that rules of the other members see; None if there are none."""
    rules = request.rules
    return None if rules is None or not (rules.tags or rules.apart) else Resident(rules.tags, rules.apart)


def residents_on(view: View, name: str) -> tuple[Resident, ...]:
    """The residents of the node of that name: jobs, and others that Corral did not start."""
    held = (view.jobs.get(view.allocations[one].job_id) for one in view.residents.get(name, ()))
    return (*view.nodes[name].others, *(resident_of(job) for job in held if job is not None))


def anything_repels(view: View, name: str) -> bool:
    """Whether something that runs on the node keeps others off it. A request without rules needs no other check."""
    for other in view.nodes[name].others:
        if other.apart:
            return True
    for allocation_id in view.residents.get(name, ()):
        job = view.jobs.get(view.allocations[allocation_id].job_id)
        if job is not None and job.spec.request.rules is not None and job.spec.request.rules.apart:
            return True
    return False


@dataclass(slots=True)
class Neighbours:
    """The residents of each node, for requests and residents with rules. Decision and commit use the same test.

    `residents` returns what runs on a node, without later arrivals. `nodes` returns the nodes of the cluster.
    `repels` says whether anything that has arrived keeps others off its node.
    """

    nodes: Callable[[], Iterable[Node]]
    residents: Callable[[str], Sequence[Resident]]
    repels: bool = False
    _arrived: dict[str, tuple[Resident, ...]] = field(default_factory=dict)
    _counts: dict[tuple[Selector, ...], dict[str, int]] = field(default_factory=dict)
    _fewest: dict[tuple[PlacementRules | None, Labels, Spread], int] = field(default_factory=dict)

    def branch(self) -> "Neighbours":
        """A copy for trials."""
        counts = {selectors: dict(count) for selectors, count in self._counts.items()}
        return Neighbours(self.nodes, self.residents, self.repels, dict(self._arrived), counts, dict(self._fewest))

    def arrive(self, name: str, resident: Resident) -> None:
        """Record that the resident runs on the node from now on."""
        self._arrived[name] = (*self._arrived.get(name, ()), resident)
        if resident.apart:
            self.repels = True
        if self._counts:
            self._count_in(name, labels_of(resident.tags))

    def _count_in(self, name: str, tags: Mapping[str, str]) -> None:
        for selectors, count in self._counts.items():
            if all(meets(one, tags) for one in selectors):
                count[name] = count.get(name, 0) + 1
        self._fewest.clear()  # it is computed only from counts

    def misfit(self, request: Request, name: str) -> Misfit | None:
        """The reason why one member of the request may not join what runs on the node; None if it may."""
        here = (*self.residents(name), *self._arrived.get(name, ()))
        avoided = [*_names_met(request, here), *_repelled(request.rules, here)]
        if avoided:
            lasts = any(one.foreign for one in avoided)
            return Misfit(Cause.ANTI_AFFINITY, 0, len(avoided), eviction_helps=not lasts)
        rules = request.rules
        if rules is None:
            return None
        if rules.near and not self._near(rules, name):
            return Misfit(Cause.AFFINITY, 1, 0)
        for spread in rules.spread:
            if spread.required:
                skew = self._skew(request, spread, name)
                if skew > spread.max_skew:
                    return Misfit(Cause.SPREAD, spread.max_skew, skew)
        return None

    def preference(self, request: Request, name: str) -> int:
        """The preference of the request for the node by what runs there, in the weights of its rules."""
        rules = request.rules
        if rules is None:
            return 0
        liked = sum(one.weight * self._count((one.selector,)).get(name, 0) for one in rules.preferred_neighbours)
        return liked - sum(self._count((one.selector,)).get(name, 0) for one in rules.spread if not one.required)

    def _near(self, rules: PlacementRules, name: str) -> bool:
        count = self._count(rules.near)
        if count.get(name, 0):
            return True
        own = labels_of(rules.tags)
        return not any(count.values()) and all(meets(one, own) for one in rules.near)

    def _skew(self, request: Request, spread: Spread, name: str) -> int:
        """The selected jobs on the node, with the request there, minus those on the node with the fewest."""
        own = request.rules is not None and meets(spread.selector, labels_of(request.rules.tags))
        key = (request.rules, request.labels, spread)
        if key not in self._fewest:
            self._fewest[key] = self._fewest_of(request, spread)
        return self._count((spread.selector,)).get(name, 0) + own - self._fewest[key]

    def _fewest_of(self, request: Request, spread: Spread) -> int:
        count = self._count((spread.selector,))
        able = [count.get(node.name, 0) for node in self.nodes() if _could_serve(request, node)]
        return min(able) if len(able) >= max(1, spread.min_nodes) else 0

    def _count(self, selectors: tuple[Selector, ...]) -> dict[str, int]:
        """The number of residents on each node that meet all the selectors. Nodes with none may be missing."""
        found = self._counts.get(selectors)
        if found is None:
            found = self._counts[selectors] = {}
            for node in self.nodes():
                here = (*self.residents(node.name), *self._arrived.get(node.name, ()))
                met = sum(all(meets(one, labels_of(each.tags)) for one in selectors) for each in here)
                if met:
                    found[node.name] = met
        return found


def neighbours_in(view: View) -> Neighbours:
    """The residents of each node in a view."""
    return Neighbours(view.nodes.values, lambda name: residents_on(view, name))


def _could_serve(request: Request, node: Node) -> bool:
    """Whether a node counts when jobs are spread: decided by its labels alone, as in Kubernetes."""
    if not set(request.labels) <= set(node.labels) or not request.allows_node(node.name):
        return False
    return request.rules is None or allows(request.rules, node.labels, node.name)


def _names_met(request: Request, here: Iterable[Resident]) -> list[Resident]:
    if not request.avoid_jobs:
        return []
    avoided = (LabelExpression(NAME_TAG, Operator.IN, request.avoid_jobs),)
    return [one for one in here if meets(avoided, labels_of(one.tags))]


def _repelled(rules: PlacementRules | None, here: Iterable[Resident]) -> list[Resident]:
    """The residents that these rules keep away from, or that keep a request with these rules off the node."""
    own, apart = ({}, ()) if rules is None else (labels_of(rules.tags), rules.apart)
    return [
        each
        for each in here
        if any(meets(one, own) for one in each.apart)
        or (apart and any(meets(one, labels_of(each.tags)) for one in apart))
    ]
