"""The fit test with a memory."""

from collections.abc import Callable
from functools import lru_cache

from corral.core.model.jobs.job import Request
from corral.core.model.placing.fit import Fit, Misfit, fit
from corral.core.model.placing.state import NodeState

FitMemo = Callable[[Request, NodeState, tuple[int, ...] | None], Fit | Misfit]
"""`corral.core.model.placing.fit.fit`, with the slots that the request names as its last argument."""


def fit_memo() -> FitMemo:
    """A fit test that remembers its answers from cycle to cycle; nodes in equal states share an answer."""
    return lru_cache(maxsize=50_000)(lambda request, state, named: fit(request, state, named=named))
