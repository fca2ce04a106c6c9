"""The fit test with a cache."""

from collections.abc import Callable
from functools import lru_cache

from corral.core.model.jobs.job import Request
from corral.core.model.placing.fit import Fit, Misfit, fit
from corral.core.model.placing.state import NodeState

FitMemo = Callable[[Request, NodeState, tuple[int, ...] | None], Fit | Misfit]
"""`corral.core.model.placing.fit.fit`; the last argument holds the slots that the request names."""


def fit_memo() -> FitMemo:
    """A fit test that caches its answers from cycle to cycle. Nodes in equal states share an answer."""
    return lru_cache(maxsize=50_000)(lambda request, state, named: fit(request, state, named=named))
