"""A cache of the fit test."""

from corral.model.fit import Fit, Misfit, fit
from corral.model.job import Request
from corral.model.state import NodeState


class FitMemo:
    """A cache of `fit` by request and node state, kept from cycle to cycle; nodes in equal states share an answer."""

    LIMIT = 50_000

    def __init__(self) -> None:
        self._known: dict[tuple[Request, NodeState, tuple[int, ...] | None], Fit | Misfit] = {}

    def fit(self, request: Request, state: NodeState, named: tuple[int, ...] | None) -> Fit | Misfit:
        """The answer of `corral.model.fit.fit`."""
        key = (request, state, named)
        answer = self._known.get(key)
        if answer is None:
            if len(self._known) >= self.LIMIT:
                self._known.clear()
            answer = self._known[key] = fit(request, state, named=named)
        return answer
