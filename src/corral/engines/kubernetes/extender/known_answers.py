"""The answers of the fit test for every node, kept from call to call: only changed nodes are tested again."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

from corral.core.model.jobs.job import Request
from corral.core.model.placing.fit import Misfit
from corral.core.model.view import View
from corral.core.scheduling.explaining.node_shortage import node_shortage, pods_in_the_way
from corral.core.scheduling.placing.opening import Opening
from corral.core.scheduling.state.draft import PlacementRequest

REQUESTS_KEPT = 64
"""The most requests whose answers are kept; the one that was asked longest ago is dropped first."""


@dataclass(frozen=True, slots=True)
class NodeRefusal:
    """Why a node does not serve a request, and whether it might if pods on it were evicted."""

    words: str
    evicting_helps: bool


Answer = NodeRefusal | None
"""Why a node does not serve a request; None if it does."""


@dataclass(slots=True)
class _Known:
    """The answers for one request, and of which state of the cluster they are."""

    names: tuple[str, ...]
    apart: object
    place: int
    answers: dict[str, Answer] = field(default_factory=dict)


class KnownAnswers:
    """Keeps answers for the requests that are asked about. Not thread-safe."""

    def __init__(self) -> None:
        self._known: dict[PlacementRequest, _Known] = {}

    def of(self, opening: Opening, view: View) -> Mapping[str, Answer]:
        """Return the answer for each node. It is valid until the next call."""
        names = opening.names
        if not opening.stands_alone:
            return {name: self._answer(opening, name) for name in names}
        known = self._known.pop(opening.wanted, None)
        changed = None if known is None else opening.changes.since(known.place)
        if known is None or changed is None or known.names is not names or known.apart is not view.set_apart:
            known, changed = _Known(names, view.set_apart, 0), list(names)
        known.place = opening.changes.place
        for name in dict.fromkeys(changed):
            known.answers[name] = self._answer(opening, name)
        while len(self._known) >= REQUESTS_KEPT:
            del self._known[next(iter(self._known))]
        self._known[opening.wanted] = known
        return known.answers

    def _answer(self, opening: Opening, name: str) -> Answer:
        found = opening.misfit(name)
        if isinstance(found, Misfit):
            return _refusal(opening.wanted.request, found if found.node is None else replace(found, node=None))
        return None if found is None else NodeRefusal(found.detail, evicting_helps=False)


@lru_cache(maxsize=4096)
def _refusal(request: Request, misfit: Misfit) -> NodeRefusal:
    """The refusal of a node. Nodes in equal states share it."""
    return NodeRefusal(node_shortage(request, misfit), pods_in_the_way(misfit))
