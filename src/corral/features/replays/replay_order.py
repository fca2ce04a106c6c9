"""The request for a replay of past jobs, and its execution away from the server's own threads."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from corral.core.model.devices.device import Node
from corral.core.model.errors import CorralError
from corral.core.model.fact import SiteArranged
from corral.features.replays.answers import ReplayResult

CONFIGURED = "configured"
"""Stands for a policy: each queue has its own, as in the settings."""


class ReplayStopped(CorralError):
    """The replay was ended before its result."""


@dataclass(frozen=True, slots=True)
class ReplayOrder:
    """The jobs to run again, and the site.

    Attributes:
        policies: POLICY, POLICY/BACKFILL or `CONFIGURED`.
        since, until: selects the jobs that were there in this time (Unix seconds, by the ledger's clock).
        now: the end of the run time of jobs that still run.
        nodes, site: the present nodes and site.
        placement: the site's weights for ranking nodes.
        usage_half_life_s, availability_memory_weight: as `corral.core.model.view.View` has them.
    """

    policies: tuple[str, ...]
    since: float
    until: float
    now: float
    nodes: tuple[Node, ...]
    site: SiteArranged
    placement: tuple[tuple[str, float], ...]
    usage_half_life_s: float
    availability_memory_weight: float


class ReplayRunner(Protocol):
    """Runs one replay at a time."""

    def run(self, order: ReplayOrder, progress: Callable[[int, int], None], wanted: Callable[[], bool]) -> ReplayResult:
        """Return the result. `progress` is called with the number of finished jobs and of all jobs.

        Returns soon after `wanted` becomes false, or `stop` is called. Raises ReplayStopped then, Refused for an order
        that cannot be replayed, and BackendFailed if it takes too much time or memory, or breaks.
        """
        ...

    def stop(self) -> None:
        """End the running replay, and run no other. Safe from any thread."""
        ...
