"""Text of the parameters of a sweep's job. It is apart from sweeps, which take longer to import."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.core.model.jobs.sweep import Params


def named_values(params: Params) -> str:
    """The parameters for a person: lr=0.01 seed=1. A value with spaces is in quotes."""
    return " ".join(f"{name}={_quoted(value) if ' ' in value else value}" for name, value in params)


def _quoted(value: str) -> str:
    import shlex

    return shlex.quote(value)
